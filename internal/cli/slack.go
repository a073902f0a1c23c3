package cli

import (
	"context"
	"fmt"
	"strings"

	"ravenbot/adapters/slack"
	"ravenbot/internal/app"
	"ravenbot/internal/ops/config"
)

func slackFlags(c *invocation) {
	c.flags.Bool("url", false, "print the page of Slack that makes the app, to be opened in a browser")
}

// printManifest prints the manifest of the Slack app, or the link that creates the app from it.
func printManifest(_ context.Context, c *invocation) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	address := ""
	// In socket mode the bot connects to Slack, and no address is needed.
	if cfg.Platforms.Slack.Mode == "http" {
		if address = strings.TrimRight(cfg.HTTP.PublicURL.Reveal(), "/"); address == "" {
			return &config.Faults{List: []config.Fault{{
				File:   cfg.Path,
				Key:    "http.publicURL",
				Reason: "Slack in HTTP mode has to know where it reaches the bot",
				Remedy: `name the public address, such as "https://raven.example.org"`,
			}}}
		}
	}
	if c.flagOn("url") {
		link, err := slack.ManifestLink(address, app.CommandSpecs(), app.MessageCommands())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.Out, link)
		return err
	}
	manifest, err := slack.Manifest(address, app.CommandSpecs(), app.MessageCommands())
	if err != nil {
		return err
	}
	_, err = c.Out.Write(manifest)
	return err
}
