// Package sandbox is a simulated environment for trying the bot: a Discord, a Slack, a language model and a few feeds
// on loopback, and a view of them in the terminal.
//
// It promises that nothing leaves the machine, that no token is needed, and that the model's answers are labelled as
// simulated. The bot knows nothing of this package: only its configuration names these addresses.
package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simfeeds "ravenbot/internal/testing/sim/feeds"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// The credentials that the simulated services accept. They are worth nothing anywhere else.
const (
	token    = "simulated-token"
	botToken = "xoxb-simulated"
	appToken = "xapp-simulated"
	key      = "simulated-key"
	model    = "simulated-model"
)

// World is the simulated world. It listens from New until Close.
type World struct {
	discord *simdiscord.Server
	slack   *simslack.Server
	model   *simmodel.Server
	feeds   *simfeeds.Server

	guild          simdiscord.Guild
	discordChannel simdiscord.Channel
	discordUser    simdiscord.User
	slackChannel   simslack.Channel
	slackUser      simslack.User
	sources        []string
}

// New starts a world: on Discord and on Slack a channel named general, with one person in it who is an administrator.
func New() (*World, error) {
	w := &World{}
	var errs [4]error
	w.discord, errs[0] = simdiscord.New(simdiscord.Options{Token: token, Privileged: simdiscord.IntentMessageContent})
	w.slack, errs[1] = simslack.New(simslack.Options{BotToken: botToken, AppToken: appToken})
	w.model, errs[2] = simmodel.New(simmodel.Options{APIKey: key, Models: []string{model}, Script: script})
	w.feeds, errs[3] = simfeeds.New()
	// Close stops those that did start.
	if err := errors.Join(errs[:]...); err != nil {
		w.Close()
		return nil, fmt.Errorf("open the simulated world: %w", err)
	}
	w.guild = w.discord.AddGuild("Sandbox")
	w.discordChannel, w.discordUser = w.discord.AddChannel(w.guild, "general"), w.discord.AddManager("you")
	w.slackChannel, w.slackUser = w.slack.AddChannel("general"), w.slack.AddAdmin("you")
	w.publishFeeds()
	return w, nil
}

// Close stops all services.
func (w *World) Close() {
	if w.discord != nil {
		w.discord.Close()
	}
	if w.slack != nil {
		w.slack.Close()
	}
	if w.model != nil {
		w.model.Close()
	}
	if w.feeds != nil {
		w.feeds.Close()
	}
}

// WaitReady waits until the bot is connected to both platforms and has registered its commands.
func (w *World) WaitReady(ctx context.Context) error {
	if err := w.discord.WaitSessions(ctx, 1); err != nil {
		return err
	}
	// Discord refuses a command that is not registered yet.
	if err := w.discord.WaitCommand(ctx, "raven"); err != nil {
		return err
	}
	return w.slack.WaitConnections(ctx, 1)
}

// Config returns the configuration of a bot in this world that listens on an address and keeps its store in a file.
func (w *World) Config(listen, store string) ([]byte, error) {
	type object = map[string]any
	news, err := url.Parse(w.feeds.URL())
	if err != nil {
		return nil, err
	}
	// Feeds are guarded against private addresses, and loopback is one.
	here := []string{news.Host}
	discord, slack := "discord:"+w.guild.ID+"/"+w.discordChannel.ID, "slack:"+simslack.TeamID+"/"+w.slackChannel.ID
	return json.MarshalIndent(object{
		"store": store,
		"http":  object{"listen": listen, "adminToken": ""},
		"platforms": object{
			"discord": object{"token": token, "apiBaseURL": w.discord.URL()},
			"slack":   object{"botToken": botToken, "appToken": appToken, "apiBaseURL": w.slack.APIURL()},
		},
		"models": object{
			"default": object{
				"provider": "gemini",
				"model":    model,
				"apiKey":   key,
				"baseURL":  w.model.GeminiURL(),
				"fallback": []string{"offline"},
			},
		},
		"agents": object{"default": object{"model": "default", "systemPrompt": "You are ravenbot in a simulated world."}},
		"channels": []object{
			{
				"match":     discord,
				"respondTo": "all",
			}, {"match": slack, "respondTo": "all"}, {"match": "web:/*", "respondTo": "all"},
		},
		"feeds":  object{"allowPrivateHosts": here},
		"egress": object{"allowPrivateHosts": here},
		"digests": object{
			"morning": object{"schedule": "30 8 * * 1-5", "timezone": "UTC", "feeds": append(w.sources, "bundled:feeds-primer"),
				"post": []string{discord, slack, "web:/general"}, "maxItems": 6},
		},
		"log": object{"level": "warn"},
	}, "", "  ")
}
