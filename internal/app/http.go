package app

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"ravenbot/adapters/slack"
	"ravenbot/adapters/web"
	"ravenbot/internal/admin"
	"ravenbot/internal/chat"
	"ravenbot/internal/metrics"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

func (a *App) buildAdmin() error {
	c := a.conf()
	loggedOut, err := logouts{a.store}.last(context.Background())
	if err != nil {
		return err
	}
	o := admin.Options{Token: a.o.Token, Listen: c.HTTP.Listen, PublicURL: c.HTTP.PublicURL.Reveal(), Render: web.Draft, Static: a.web.Static(),
		Ask: a.askAPI, Platforms: a.platformHealth, Servers: servers{a}, Agents: agents{a}, Files: agentFiles{a}, Tools: toolView{a}, Digests: digestView{a.digests, a}, Conversations: conversations{a.store, a.agent.Forget},
		Status: a.status, Undelivered: a.store.GivenUp, Feedback: a.store.Feedback, Usage: a.Usage, Settings: a.settings, ToolsOn: func() bool { return a.conf().Tools.Enabled }, Calls: callView{a}, Approvals: a.approvals, Audit: a.audit, Tokens: a.tokens, Logouts: logouts{a.store}, LoggedOut: loggedOut, MCP: a.mcpHandler, Backup: a.copyStore, Metrics: metrics.Handler(a.samples), Mounts: map[string]http.Handler{}, Log: a.o.Log, Now: a.o.Now}
	o.Mounts[callbackPath], o.Mounts[clientPath] = a.signIn.Callback(), a.signIn
	if c.Platforms.Web.Enabled {
		o.Chat = a.web.Handler()
	}
	for _, path := range []string{"/slack/events", "/slack/commands", "/slack/interactive"} {
		o.Mounts[path] = http.HandlerFunc(a.fromSlack)
	}
	a.admin = admin.New(o)
	return nil
}

func (a *App) askAPI(ctx context.Context, room string, user chat.User, text string) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		for e, err := range a.web.Ask(ctx, room, user, text) {
			if !yield(admin.Event{Entry: e.Entry, Progress: e.Progress}, err) {
				return
			}
		}
	}
}

func (a *App) platformHealth() []admin.PlatformHealth {
	var list []admin.PlatformHealth
	for name, h := range a.health() {
		list = append(list, admin.PlatformHealth{Name: name, Health: h})
	}
	slices.SortFunc(list, func(x, y admin.PlatformHealth) int { return strings.Compare(x.Name, y.Name) })
	return list
}

// conversations is the store's view, with what the agent has in memory dropped
// when a conversation is deleted.
type conversations struct {
	*bolt.DB
	forget func(chat.Address)
}

func (c conversations) DeleteConversation(ctx context.Context, address chat.Address) error {
	err := c.DB.DeleteConversation(ctx, address)
	c.forget(address)
	if address.Platform == "web" && (err == nil || errors.Is(err, store.ErrNotFound)) {
		err = c.DB.DeleteRoom(ctx, address.Channel)
	}
	return err
}

// fromSlack takes what Slack sends where it is to send and not to be listened to.
func (a *App) fromSlack(w http.ResponseWriter, r *http.Request) {
	s, ok := a.platform("slack").(*slack.Slack)
	if !ok || a.conf().Platforms.Slack.Mode != "http" {
		http.NotFound(w, r)
		return
	}
	s.Handler().ServeHTTP(w, r)
}

// callView shows tool calls to the HTTP side.
type callView struct{ a *App }

func (v callView) ToolCalls(ctx context.Context, before uint64, n int, match func(store.ToolCall) bool) ([]store.ToolCall, error) {
	return v.a.store.ToolCalls(ctx, before, n, match)
}

func (v callView) ToolResult(ctx context.Context, id string) (store.ToolResult, error) {
	r, err := v.a.store.ToolResult(ctx, id)
	r.Text = v.a.setup.Load().mask(r.Text)
	return r, err
}

// status is what /api/v1/status tells.
func (a *App) status() any {
	given, err := a.store.GivenUp(context.Background())
	posts := []string{}
	for _, p := range given {
		posts = append(posts, p.To.String()+": "+p.Error)
	}
	if err != nil {
		posts = append(posts, "the store could not be read")
	}
	models := []string{}
	for name := range a.setup.Load().models {
		models = append(models, name)
	}
	slices.Sort(models)
	return map[string]any{"version": a.o.Version, "started": a.started, "uptimeSeconds": int(a.o.Now().Sub(a.started) / time.Second),
		"platforms": a.platformHealth(), "load": a.delivery.Load(), "counts": a.delivery.Counts(), "models": models,
		"tools": len(a.registry.List()), "store": a.storeStatus(), "postsGivenUp": posts}
}
