package cli

import (
	"context"
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
		cfg, err := c.load()
		if err == nil {
			fmt.Fprintf(c.Out, "%s is in order: %d digests, %d MCP servers switched on.\n", c.config, len(cfg.Digests), len(cfg.EnabledServers()))
		}
		return err
	case "print":
		cfg, err := c.load()
		if err != nil {
			return err
		}
		return config.Print(c.Out, cfg)
	}
	return misuse("there is no %q; say check, print or schema", c.args[0])
}
