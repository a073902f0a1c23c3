package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/mcp"
	"ravenbot/internal/model/provider"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/ops/audit"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/turn/agent"
	"ravenbot/internal/turn/hook"
	"ravenbot/internal/turn/policy"
)

// setup is what is made of the configuration in effect. It is not changed, but replaced as a
// whole when the configuration is read again.
type setup struct {
	config *config.Config
	models map[string]agent.Model
	rules  *policy.Policy
	hooks  []tool.Hook
	mask   func(string) string
	packs  []tool.Tool
}

// conf returns the configuration in effect.
func (a *App) conf() *config.Config { return a.setup.Load().config }

// prepare makes a setup. Models that old has, and that have not changed, are used again.
func (a *App) prepare(c *config.Config, old *setup) (*setup, error) {
	var oldConfig *config.Config
	var oldModels map[string]agent.Model
	if old != nil {
		oldConfig, oldModels = old.config, old.models
	}
	models, err := provider.Models(c, oldConfig, oldModels, a.o.Log)
	if err != nil {
		return nil, err
	}
	packs, err := a.configuredPacks(c)
	if err != nil {
		return nil, err
	}
	return &setup{
		config: c,
		models: models,
		rules:  policy.FromConfig(c, a.grants),
		hooks:  hook.FromConfig(c, a.o.Log),
		mask:   c.Masker(),
		packs:  packs,
	}, nil
}

// Reload takes up a configuration that was read again. What has not changed goes on
// untouched; where anything is wrong, everything does. Settings whose change waits for the
// next start are named in the log.
func (a *App) Reload(c *config.Config) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	old := a.setup.Load()
	next, err := a.prepare(c, old)
	if err != nil {
		return err
	}
	if err := a.apply(next); err != nil {
		return errors.Join(err, a.apply(old))
	}
	ctx := context.Background()
	// A server or agent made through the API may get back a name that the file has given up.
	if err := a.catalog.Restore(ctx); err != nil {
		a.o.Log.Error("failed to restore MCP servers that were added through the API", "error", err)
	}
	a.reconnect(old.config, c)
	changed, waiting := c.ChangedKeys(old.config)
	a.keepChanged.Send(changed)
	a.o.Log.Info("configuration reloaded", "changed", strings.Join(changed, ","))
	a.audit.Record(ctx, audit.Entry{Who: audit.Operator, From: filepath.Base(c.Path), Action: "configuration reloaded",
		Target: strings.Join(changed, ","), Changes: configChanges(old.config, c, changed)})
	if len(waiting) > 0 {
		a.o.Log.Warn("some changes of the configuration need a restart", "keys", strings.Join(waiting, ","))
	}
	return nil
}

// configChanges returns what has changed between two configurations. Of a key of which only secrets have changed it
// says that.
func configChanges(was, now *config.Config, changed []string) []audit.Change {
	before, err := json.Marshal(was)
	after, err2 := json.Marshal(now)
	if err = errors.Join(err, err2); err != nil {
		return []audit.Change{{Field: "(not shown)", New: err.Error()}}
	}
	changes := audit.Diff(before, after)
	for _, key := range changed {
		isShown := func(c audit.Change) bool { return c.Field == key || strings.HasPrefix(c.Field, key+".") }
		if !slices.ContainsFunc(changes, isShown) {
			changes = append(changes, audit.Change{Field: key, Old: "***", New: "***"})
		}
	}
	return changes
}

// apply puts a setup into effect. With an error a part of it may be in effect.
func (a *App) apply(s *setup) error {
	if err := a.mcp.Apply(mcp.ConfiguredServers(s.config)); err != nil {
		return fmt.Errorf("mcpServers: %w", err)
	}
	a.setup.Store(s)
	if err := a.roster.Apply(s.config, s.models); err != nil {
		return fmt.Errorf("agents: %w", err)
	}
	return a.digests.Configure(digest.Plans(s.config))
}
