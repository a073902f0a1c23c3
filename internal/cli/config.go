package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ravenbot/internal/news/schedule"
	"ravenbot/internal/ops/config"
)

// printSchema prints the JSON Schema of config.json.
func printSchema(_ context.Context, c *invocation) error {
	_, err := c.Out.Write(config.Schema())
	return err
}

// printConfig prints the configuration with its defaults. Secrets are masked.
func printConfig(_ context.Context, c *invocation) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	return config.Print(c.Out, cfg)
}

// checkConfig prints every fault of the configuration.
func checkConfig(_ context.Context, c *invocation) error {
	cfg, err := c.loadConfig()
	if c.json {
		// An empty list, not null, when nothing is wrong.
		faults := &config.Faults{List: []config.Fault{}}
		if err != nil && !errors.As(err, &faults) {
			return err
		}
		return errors.Join(err, writeItems(c.Out, faults.List))
	}
	if err == nil {
		fmt.Fprintf(c.Out, "%s is valid. Digests: %d. Enabled MCP servers: %d.\n", c.config, len(cfg.Digests),
			len(cfg.EnabledServers()))
		for _, name := range slices.Sorted(maps.Keys(cfg.Digests)) {
			fmt.Fprintf(c.Out, "Digest %s: %s.\n", name, describeDue(cfg.Digests[name]))
		}
	}
	return err
}

// describeDue returns when a digest is due, in words, and the next instant. The configuration was checked.
func describeDue(d config.Digest) string {
	zone, err := schedule.LoadZone(d.Timezone)
	if err != nil {
		return err.Error()
	}
	s, err := schedule.Parse(d.Schedule, zone)
	if err != nil {
		return "posts items as they come"
	}
	next, isDue := s.Next(time.Now())
	if !isDue {
		return s.Describe() + ", has ended"
	}
	return s.Describe() + " (" + s.Zone().String() + "), next " + next.Format("Mon 2 Jan 2006 15:04 MST")
}
