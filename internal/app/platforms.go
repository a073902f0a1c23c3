package app

import (
	"strings"

	"ravenbot/adapters/discord"
	"ravenbot/adapters/slack"
	"ravenbot/adapters/web"
	"ravenbot/internal/chat"
	"ravenbot/internal/config"
)

// buildPlatforms makes the platforms that are switched on. The web rooms are
// always there for the command line and the API; the page is served only where
// it is switched on.
func (a *App) buildPlatforms() {
	c := a.o.Config
	a.web = web.New(web.Options{Log: a.store, Now: a.o.Now, Logger: a.o.Log, Rooms: webRooms(c)})
	a.platforms = map[string]chat.Platform{a.web.Name(): a.web}
	if a.o.Local {
		return
	}
	if c.DiscordEnabled() {
		d := c.Platforms.Discord
		p := discord.New(discord.Options{Token: d.Token.Reveal(), APIBaseURL: d.APIBaseURL.Reveal(),
			MessageContent: overhears(c, "discord"), Log: a.o.Log, Now: a.o.Now})
		a.platforms[p.Name()] = p
	}
	if c.SlackEnabled() {
		s := c.Platforms.Slack
		p := slack.New(slack.Options{BotToken: s.BotToken.Reveal(), AppToken: s.AppToken.Reveal(),
			SigningSecret: s.SigningSecret.Reveal(), Mode: s.Mode, APIBaseURL: s.APIBaseURL.Reveal(), Log: a.o.Log, Now: a.o.Now})
		a.platforms[p.Name()] = p
	}
}

// overhears reports that some channel of a platform is to be answered without a
// mention.
func overhears(c *config.Config, platform string) bool {
	for _, rule := range c.Channels {
		name, _, _ := strings.Cut(rule.Match, ":")
		if rule.RespondTo == "all" && (name == platform || name == "*") {
			return true
		}
	}
	return false
}

// webRooms are the rooms that the page always shows: general, and those that
// digests are posted to.
func webRooms(c *config.Config) []string {
	rooms := []string{"general"}
	for _, d := range c.Digests {
		for _, to := range d.Post {
			if room, ok := strings.CutPrefix(to, "web:/"); ok && room != "general" {
				rooms = append(rooms, room)
			}
		}
	}
	return rooms
}
