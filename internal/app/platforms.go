package app

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/adapters/discord"
	"ravenbot/adapters/slack"
	"ravenbot/adapters/web"
	"ravenbot/internal/chat"
	"ravenbot/internal/config"
	"ravenbot/internal/egress"
)

// buildPlatforms makes the platforms that are switched on. The web rooms are
// always there for the command line and the API; the page is served only where
// it is switched on.
func (a *App) buildPlatforms(pages *egress.Client) {
	c := a.conf()
	a.web = web.New(web.Options{Log: a.store, Now: a.o.Now, Logger: a.o.Log, Rooms: webRooms(c), Commands: commandSpecs(), Former: a.form, Agents: roomAgents{agents{a}}, Picture: pictures{pages}.fetch})
	a.platforms = map[string]chat.Platform{a.web.Name(): a.web}
	for name, p := range map[string]chat.Platform{"discord": a.newDiscord(c), "slack": a.newSlack(c)} {
		if p != nil {
			a.platforms[name] = p
		}
	}
}

// pictures fetches what posts name.
type pictures struct{ get *egress.Client }

func (p pictures) fetch(ctx context.Context, address string, limit int64) ([]byte, error) {
	res, err := p.get.Get(ctx, address, egress.GetOptions{MaxBytes: limit, Accept: "image/webp, image/png, image/jpeg, image/gif"})
	if err != nil {
		return nil, err
	}
	if res.Status != http.StatusOK {
		return nil, fmt.Errorf("fetch %s: status %d", res.URL, res.Status)
	}
	return res.Body, nil
}

// newDiscord gives nil where Discord is switched off.
func (a *App) newDiscord(c *config.Config) chat.Platform {
	if a.o.Local || !c.DiscordEnabled() {
		return nil
	}
	d := c.Platforms.Discord
	return discord.New(discord.Options{Token: d.Token.Reveal(), APIBaseURL: d.APIBaseURL.Reveal(),
		MessageContent: overhears(c, "discord"), CatchUp: d.CatchUp.Std(), Heard: a.heard("discord"),
		Shards: d.Shards, Commands: commandSpecs(), Suggest: a.suggest, Former: a.form, Log: a.o.Log, Now: a.o.Now})
}

// newSlack gives nil where Slack is switched off.
func (a *App) newSlack(c *config.Config) chat.Platform {
	if a.o.Local || !c.SlackEnabled() {
		return nil
	}
	s := c.Platforms.Slack
	return slack.New(slack.Options{BotToken: s.BotToken.Reveal(), AppToken: s.AppToken.Reveal(),
		SigningSecret: s.SigningSecret.Reveal(), Mode: s.Mode, APIBaseURL: s.APIBaseURL.Reveal(),
		CatchUp: s.CatchUp.Std(), Heard: a.heard("slack"), Commands: commandSpecs(), Former: a.form, Title: a.title, Log: a.o.Log, Now: a.o.Now})
}

// platform gives a platform as it is now; nil: it is switched off.
func (a *App) platform(name string) chat.Platform {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.platforms[name]
}

// connected is a platform that runs.
type connected struct {
	stop context.CancelFunc
	done chan struct{}
}

// connectAll runs the platforms, and lets Reload replace them while ctx lasts.
func (a *App) connectAll(ctx context.Context, wg *sync.WaitGroup) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs = map[string]*connected{}
	a.connects = func(name string, p chat.Platform) {
		own, stop := context.WithCancel(ctx)
		run := &connected{stop, make(chan struct{})}
		a.runs[name] = run
		delete(a.refused, name)
		wg.Go(func() {
			defer close(run.done)
			defer stop()
			a.connect(own, name, p)
		})
	}
	for name, p := range a.platforms {
		a.connects(name, p)
	}
}

// reconnect puts platforms whose configuration has changed in the place of those
// that run.
func (a *App) reconnect(old, now *config.Config) {
	if a.o.Local {
		return
	}
	if old.Platforms.Discord != now.Platforms.Discord || overhears(old, "discord") != overhears(now, "discord") {
		a.swap("discord", a.newDiscord(now))
	}
	if old.Platforms.Slack != now.Platforms.Slack {
		a.swap("slack", a.newSlack(now))
	}
}

// swap ends a platform and runs another in its place; nil: none.
func (a *App) swap(name string, p chat.Platform) {
	a.mu.Lock()
	run := a.runs[name]
	a.mu.Unlock()
	if run != nil {
		run.stop()
		<-run.done
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.platforms, name)
	delete(a.runs, name)
	delete(a.refused, name)
	if p == nil {
		return
	}
	a.platforms[name] = p
	if a.connects != nil {
		a.connects(name, p)
	}
}

// heardFor is how long a conversation counts as one to be caught up with.
const heardFor = 30 * 24 * time.Hour

// heard gives the conversations of a platform that are to be read after an outage:
// those heard not long ago, and the channels that the configuration names.
func (a *App) heard(platform string) func(context.Context) ([]chat.Heard, error) {
	return func(ctx context.Context) ([]chat.Heard, error) {
		list, err := a.store.Heard(ctx, platform, a.o.Now().Add(-heardFor))
		if err != nil {
			return nil, err
		}
		for _, rule := range a.conf().Channels {
			named, err := chat.ParseAddress(rule.Match)
			if err != nil || named.Platform != platform || strings.Contains(rule.Match, "*") {
				continue // a pattern names no channel
			}
			if !slices.ContainsFunc(list, func(h chat.Heard) bool { return h.Conversation == named }) {
				list = append(list, chat.Heard{Conversation: named})
			}
		}
		return list, nil
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
