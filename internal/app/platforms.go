package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"ravenbot/adapters/discord"
	"ravenbot/adapters/email"
	"ravenbot/adapters/slack"
	"ravenbot/adapters/web"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/ops/admin"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/turn/roster"
)

// newPlatform returns a platform as it is configured now; nil where it is switched off.
func (a *App) newPlatform(name string) chat.Platform {
	switch name {
	case "discord":
		return a.newDiscord(a.conf())
	case "slack":
		return a.newSlack(a.conf())
	case chat.MailPlatform:
		return a.newEmail(a.conf().SMTP)
	}
	return nil
}

// newEmail returns nil where no mail server is named.
func (a *App) newEmail(c config.SMTP) chat.Platform {
	if a.o.Local || c.Host == "" {
		return nil
	}
	page := func(d chat.Draft) ([]byte, error) { return admin.DigestPage(d, web.Draft(d)) }
	return email.New(email.Options{Host: c.Host, Port: c.Port, User: c.User, Password: c.Password.Reveal(), From: c.From,
		TLS: c.TLS, Store: a.store, HTML: page, Log: a.o.Log, Now: a.o.Now})
}

// newDiscord returns nil where Discord is switched off.
func (a *App) newDiscord(c *config.Config) chat.Platform {
	if a.o.Local || !c.DiscordEnabled() {
		return nil
	}
	d := c.Platforms.Discord
	o := discord.Options{
		Token:          d.Token.Reveal(),
		APIBaseURL:     d.APIBaseURL.Reveal(),
		MessageContent: c.AnswersAll("discord"),
		CatchUp:        d.CatchUp.Std(),
		LastSeen:       a.lastSeen("discord"),
		Shards:         d.Shards,
		Commands:       CommandSpecs(), MessageCommands: MessageCommands(),
		Suggest: a.features.Complete, Former: a.openForm, Log: a.o.Log, Now: a.o.Now,
	}
	if n := a.o.Replica; n != nil {
		o.Sharing = &discord.Sharing{Shards: n.Shards(), Leads: n.Leads(), Store: a.store.ID}
	}
	return discord.New(o)
}

// newSlack returns nil where Slack is switched off.
func (a *App) newSlack(c *config.Config) chat.Platform {
	if a.o.Local || !c.SlackEnabled() {
		return nil
	}
	s := c.Platforms.Slack
	o := slack.Options{
		BotToken:      s.BotToken.Reveal(),
		AppToken:      s.AppToken.Reveal(),
		SigningSecret: s.SigningSecret.Reveal(),
		Mode:          s.Mode,
		APIBaseURL:    s.APIBaseURL.Reveal(),
		CatchUp:       s.CatchUp.Std(),
		LastSeen:      a.lastSeen("slack"),
		Commands:      CommandSpecs(), MessageCommands: MessageCommands(),
		Former:    a.openForm,
		UsesRoles: func() bool { return a.conf().UsesRoles() },
		CheckForm: a.features.CheckForm,
		Title:     func(ctx context.Context, m chat.Message) string { return a.agent.Title(ctx, m) },
		Log:       a.o.Log, Now: a.o.Now,
	}
	if a.o.Replica != nil {
		o.Replicas = a.o.Replica
	}
	return slack.New(o)
}

// reconnect replaces the platforms whose configuration has changed.
func (a *App) reconnect(old, now *config.Config) {
	if a.o.Local {
		return
	}
	if old.Platforms.Discord != now.Platforms.Discord || old.AnswersAll("discord") != now.AnswersAll("discord") {
		a.platforms.Replace("discord", a.newPlatform("discord"))
	}
	if old.Platforms.Slack != now.Platforms.Slack {
		a.platforms.Replace("slack", a.newPlatform("slack"))
	}
	if old.SMTP != now.SMTP {
		a.platforms.Replace(chat.MailPlatform, a.newPlatform(chat.MailPlatform))
	}
}

// catchUpFor is how long a conversation is caught up with after its last message.
const catchUpFor = 30 * 24 * time.Hour

// lastSeen returns the conversations of a platform that are to be read after an outage: those
// with a message not long ago, and the channels that the configuration names.
func (a *App) lastSeen(platform string) func(context.Context) ([]chat.LastSeen, error) {
	return func(ctx context.Context) ([]chat.LastSeen, error) {
		list, err := a.store.LastSeen(ctx, platform, a.o.Now().Add(-catchUpFor))
		if err != nil {
			return nil, err
		}
		for _, rule := range a.conf().Channels {
			named, err := chat.ParseAddress(rule.Match)
			if err != nil || named.Platform != platform || strings.Contains(rule.Match, "*") {
				continue // a pattern names no channel
			}
			if !slices.ContainsFunc(list, func(h chat.LastSeen) bool { return h.Conversation == named }) {
				list = append(list, chat.LastSeen{Conversation: named})
			}
		}
		return list, nil
	}
}

// roomAgents offers the agents on the chat page.
type roomAgents struct{ a *App }

func (r roomAgents) Offered(room string) web.Offer {
	names, chosen, configured := r.a.roster.Offered(room)
	return web.Offer{Names: names, Chosen: chosen, Configured: configured}
}

func (r roomAgents) Choose(ctx context.Context, room, name string) error {
	err := r.a.roster.Choose(ctx, room, name)
	if errors.Is(err, roster.ErrNotFound) {
		return &web.InputError{What: fmt.Sprintf("there is no agent %.80q any more", name)}
	}
	return err
}

// serveSlack takes what Slack sends where it sends requests instead of being listened to.
func (a *App) serveSlack(w http.ResponseWriter, r *http.Request) {
	s, ok := a.platforms.Get("slack").(*slack.Slack)
	if !ok || a.conf().Platforms.Slack.Mode != "http" {
		http.NotFound(w, r)
		return
	}
	s.Handler().ServeHTTP(w, r)
}
