package cli

import (
	"context"
	"errors"
	"fmt"

	"ravenbot/internal/config"
)

func configure(_ context.Context, c *call) error {
	if len(c.args) != 1 {
		return misuse("say check, print or schema")
	}
	switch c.args[0] {
	case "schema":
		_, err := c.Out.Write(config.Schema())
		return err
	case "check":
		return check(c)
	case "print":
		cfg, err := c.load()
		if err != nil {
			return err
		}
		return config.Print(c.Out, cfg)
	}
	return misuse("there is no %q; say check, print or schema", c.args[0])
}

func check(c *call) error {
	cfg, err := c.load()
	if c.json {
		faults := &config.Faults{List: []config.Fault{}}
		if err != nil && !errors.As(err, &faults) {
			return err
		}
		return errors.Join(err, writeItems(c.Out, faults.List))
	}
	if err == nil {
		fmt.Fprintf(c.Out, "%s is in order. Digests: %d. MCP servers switched on: %d.\n", c.config, len(cfg.Digests), len(cfg.EnabledServers()))
	}
	return err
}
