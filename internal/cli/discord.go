package cli

import (
	"context"
	"fmt"
	"log/slog"

	"ravenbot/adapters/discord"
	"ravenbot/internal/ops/config"
)

// inviteToDiscord prints the address at which the bot is added to a server.
func inviteToDiscord(ctx context.Context, c *invocation) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	d := cfg.Platforms.Discord
	if d.Token.Reveal() == "" {
		return &config.Faults{List: []config.Fault{{
			File:   cfg.Path,
			Key:    "platforms.discord.token",
			Reason: "there is no token, which names the application to invite",
			Remedy: "set DISCORD_TOKEN; the token is at https://discord.com/developers/applications " +
				"→ your application → Bot",
		}}}
	}
	id, err := discord.New(discord.Options{
		Token:      d.Token.Reveal(),
		APIBaseURL: d.APIBaseURL.Reveal(),
		Log:        slog.New(slog.NewTextHandler(c.Err, nil)),
	}).Application(ctx)
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out,
			invitation{URL: discord.Invite(id), ClientID: id, Scopes: discord.Scopes(), Permissions: discord.Permissions()})
	}
	_, err = fmt.Fprintln(c.Out, discord.Invite(id))
	return err
}

// invitation is what discord invite --json prints.
type invitation struct {
	URL         string               `json:"url"`
	ClientID    string               `json:"clientId"`
	Scopes      []string             `json:"scopes"`
	Permissions []discord.Permission `json:"permissions"`
}
