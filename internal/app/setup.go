package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"ravenbot/internal/agent"
	"ravenbot/internal/audit"
	"ravenbot/internal/config"
	"ravenbot/internal/policy"
	"ravenbot/internal/tool"
)

// setup is what is made of the configuration in effect. It is not changed, but
// replaced as a whole when the configuration is read again.
type setup struct {
	config   *config.Config
	models   map[string]agent.Model
	agents   map[string]member
	rooms    map[string]string // web room → agent that was chosen for it
	profiles map[string]agent.Profile
	rules    *policy.Policy
	hooks    []tool.Hook
	mask     func(string) string
	packs    []tool.Tool
}

// conf is the configuration in effect.
func (a *App) conf() *config.Config { return a.setup.Load().config }

// prepare makes a setup; what old has already, and has not changed, is used again.
func (a *App) prepare(c *config.Config, old *setup) (*setup, error) {
	models, err := buildModels(c, old)
	if err != nil {
		return nil, err
	}
	packs, err := a.packs(c)
	if err != nil {
		return nil, err
	}
	agents, rooms, err := a.roster(c)
	if err != nil {
		return nil, err
	}
	return &setup{config: c, models: models, agents: agents, rooms: rooms, profiles: a.profiles(c, agents), rules: policies(c), hooks: hooks(c, a.o.Log), mask: c.Masker(), packs: packs}, nil
}

// Reload takes up a configuration that was read again. What has not changed goes on
// untouched; where anything is wrong, everything does. Settings of which the change
// waits for the next start are named in the log.
func (a *App) Reload(c *config.Config) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	old := a.setup.Load()
	next, err := a.prepare(c, old)
	if err != nil {
		return err
	}
	if err := a.mcp.Apply(entries(c)); err != nil {
		return fmt.Errorf("mcpServers: %w", err)
	}
	a.setup.Store(next)
	if err := a.digests.Configure(plans(c)); err != nil {
		a.setup.Store(old)
		return errors.Join(err, a.mcp.Apply(entries(old.config)))
	}
	a.bringBack(context.Background())
	a.reconnect(old.config, c)
	changed, waits := changes(old.config, c)
	a.o.Log.Info("configuration taken up", "changed", strings.Join(changed, ","))
	a.audit.Record(context.Background(), audit.Entry{Who: "operator", From: filepath.Base(c.Path), Action: "configuration", Target: strings.Join(changed, ",")})
	if len(waits) > 0 {
		a.o.Log.Warn("some changes of the configuration wait for the next start", "keys", strings.Join(waits, ","))
	}
	return nil
}

// atStart are the parts of the configuration that are read at start alone.
func atStart() []string { return []string{"backup", "egress", "feeds", "http", "log", "mcp", "store"} }

// changes names the parts of the configuration that differ, and those of them that
// wait for the next start.
func changes(old, now *config.Config) (changed, waits []string) {
	before, after := reflect.ValueOf(*old), reflect.ValueOf(*now)
	for i := range before.NumField() {
		key := before.Type().Field(i).Tag.Get("json")
		if !before.Type().Field(i).IsExported() || key == "-" || reflect.DeepEqual(before.Field(i).Interface(), after.Field(i).Interface()) {
			continue
		}
		if changed = append(changed, key); slices.Contains(atStart(), key) {
			waits = append(waits, key)
		}
	}
	return changed, waits
}
