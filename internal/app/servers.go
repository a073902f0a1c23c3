package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"

	"ravenbot/internal/admin"
	"ravenbot/internal/config"
	"ravenbot/internal/mcp"
	"ravenbot/internal/store"
)

// The kinds of items that are made through the API or in chat.
const serverItems = "mcp server"

// fromAPI is the source of servers that were added through the API.
const fromAPI = "api"

// servers shows the MCP servers to the HTTP side, and keeps those that it adds.
type servers struct{ a *App }

// restoreServers adds the servers that were added through the API before.
func (a *App) restoreServers(ctx context.Context) error {
	items, err := a.store.Items(ctx, serverItems)
	if err != nil {
		return err
	}
	for name, raw := range items {
		c, err := a.serverEntry(name, raw)
		if err == nil {
			err = a.mcp.Add(c, fromAPI)
		}
		if err != nil { // the configuration has taken its name since, say
			a.o.Log.Error("mcp server that was added through the API left out", "server", name, "error", err)
		}
	}
	return nil
}

// bringBack adds those whose names the configuration has given back.
func (a *App) bringBack(ctx context.Context) {
	items, err := a.store.Items(ctx, serverItems)
	if err != nil {
		a.o.Log.Error("mcp servers that were added through the API not looked up", "error", err)
	}
	for name, raw := range items {
		if _, taken := a.mcp.Server(name); taken {
			continue
		}
		c, err := a.serverEntry(name, raw)
		if err == nil {
			err = a.mcp.Add(c, fromAPI)
		}
		if err != nil {
			a.o.Log.Error("mcp server that was added through the API left out", "server", name, "error", err)
		}
	}
}

// serverEntry reads the body of a server.
func (a *App) serverEntry(name string, raw []byte) (mcp.Config, error) {
	var e config.MCPServer
	if _, err := a.conf().ParseEntry(raw, &e); err != nil {
		return mcp.Config{}, err
	}
	a.added.Store(name, e)
	return serverConfig(name, e), nil
}

// serverName is what a server may be called: its tools are named after it.
var serverName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)

func (s servers) List() []admin.ServerView {
	list := []admin.ServerView{}
	for _, v := range s.a.mcp.Servers() {
		list = append(list, serverView(v))
	}
	return list
}

// ConfiguredServers lists the servers of a configuration that is not at work.
func ConfiguredServers(c *config.Config) []admin.ServerView {
	list := []admin.ServerView{}
	for _, s := range entries(c) {
		state := mcp.Uninitialized
		if s.Disabled {
			state = mcp.Disabled
		}
		list = append(list, admin.ServerView{Name: s.Name, State: string(state), Description: s.Description, Source: mcp.FromConfig, Tools: []admin.ToolView{}})
	}
	return list
}

// ServerTools starts or reaches one server, and gives its tools.
func ServerTools(ctx context.Context, name string, e config.MCPServer, version string) ([]admin.ToolView, error) {
	host, err := mcp.NewHost(mcp.Options{Servers: []mcp.Config{serverConfig(name, e)}, Version: version, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { _ = host.Run(ctx); close(ended) }()
	defer func() { stop(); <-ended }()
	if err := host.Wait(ctx, name); err != nil {
		return nil, err
	}
	if v, _ := host.Server(name); v.Error != "" {
		return nil, fmt.Errorf("MCP server %s: %s", name, v.Error)
	}
	return toolViews(host.ToolsOf(name)), nil
}

func toolViews(tools []mcp.ToolInfo) []admin.ToolView {
	list := []admin.ToolView{}
	for _, t := range tools {
		list = append(list, admin.ToolView{Name: t.Name, Description: t.Description, Schema: t.Schema, State: string(t.State), Why: t.Why, Flags: t.Flags})
	}
	return list
}

func serverView(v mcp.Status) admin.ServerView {
	view := admin.ServerView{Name: v.Name, State: string(v.State), Error: v.Error, Description: v.Description, Transport: v.Transport, Protocol: v.Protocol,
		Version: v.Version, Source: v.Source, Since: v.Since, Checked: v.Checked, Pending: v.Pending, Warnings: v.Warnings, Tools: []admin.ToolView{}}
	if v.NeedsConsent != nil {
		view.ConsentURL = v.NeedsConsent.URL
	}
	for _, t := range v.Tools {
		view.Tools = append(view.Tools, admin.ToolView{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	return view
}

func (s servers) Get(name string) (admin.ServerView, error) {
	v, ok := s.a.mcp.Server(name)
	if !ok {
		return admin.ServerView{}, admin.ErrNoServer
	}
	return serverView(v), nil
}

func (s servers) Tools(name string) ([]admin.ToolView, error) {
	if _, err := s.Get(name); err != nil {
		return nil, err
	}
	return toolViews(s.a.mcp.ToolsOf(name)), nil
}

func (s servers) Logs(name string) ([]admin.LogLine, error) {
	if _, err := s.Get(name); err != nil {
		return nil, err
	}
	list := []admin.LogLine{}
	for _, l := range s.a.mcp.Logs(name) {
		list = append(list, admin.LogLine{Time: l.Time, Stream: l.Stream, Text: l.Text})
	}
	return list, nil
}

func (s servers) Pending(name string) []admin.ToolChange {
	var list []admin.ToolChange
	for _, c := range s.a.mcp.Pending(name) {
		list = append(list, admin.ToolChange{Tool: c.Tool, Kind: c.Kind, Diff: c.Diff, Flags: c.Flags})
	}
	return list
}

// Add keeps a server and starts it.
func (s servers) Add(ctx context.Context, name string, body json.RawMessage) (admin.ServerView, error) {
	if !serverName.MatchString(name) {
		return admin.ServerView{}, badInput{fmt.Errorf("the name %.80q will not do: want a letter, digit or _, then up to 63 of them, dots and hyphens", name)}
	}
	c, err := s.a.serverEntry(name, body)
	if err != nil {
		return admin.ServerView{}, badInput{err}
	}
	if _, taken := s.a.mcp.Server(name); taken {
		return admin.ServerView{}, admin.ErrServerExists
	}
	if err := s.a.store.SaveItem(ctx, serverItems, name, body, false); errors.Is(err, store.ErrExists) {
		return admin.ServerView{}, admin.ErrServerExists
	} else if err != nil {
		return admin.ServerView{}, err
	}
	if err := s.a.mcp.Add(c, fromAPI); err != nil {
		err = errors.Join(serverFault(err), s.a.store.DeleteItem(ctx, serverItems, name))
		return admin.ServerView{}, err
	}
	return s.Get(name)
}

// Replace changes a server that was added.
func (s servers) Replace(ctx context.Context, name string, body json.RawMessage) (admin.ServerView, error) {
	v, err := s.Get(name)
	if err != nil {
		return v, err
	}
	if v.Source != fromAPI {
		return v, admin.ErrServerConfigured
	}
	c, err := s.a.serverEntry(name, body)
	if err != nil {
		return v, badInput{err}
	}
	if err := s.a.mcp.Put(c, fromAPI); err != nil {
		return v, serverFault(err)
	}
	if err := s.a.store.SaveItem(ctx, serverItems, name, body, true); err != nil {
		return v, err
	}
	return s.Get(name)
}

// Remove ends a server that was added, and forgets it.
func (s servers) Remove(ctx context.Context, name string) error {
	if err := s.a.mcp.Remove(name); err != nil {
		return serverFault(err)
	}
	if err := s.a.store.DeleteItem(ctx, serverItems, name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// Control starts, stops or restarts a server.
func (s servers) Control(name, verb string) (admin.ServerView, error) {
	do := map[string]func(string) error{"start": s.a.mcp.Start, "stop": s.a.mcp.Stop, "restart": s.a.mcp.Restart}[verb]
	if err := do(name); err != nil {
		return admin.ServerView{}, serverFault(err)
	}
	return s.Get(name)
}

// Approve offers the tools that were withheld.
func (s servers) Approve(ctx context.Context, name string) ([]admin.ToolChange, error) {
	changes, err := s.a.mcp.Approve(ctx, name)
	if err != nil {
		return nil, serverFault(err)
	}
	list := []admin.ToolChange{}
	for _, c := range changes {
		list = append(list, admin.ToolChange{Tool: c.Tool, Kind: c.Kind, Diff: c.Diff, Flags: c.Flags})
	}
	return list, nil
}

// badInput is what its sender has to mend.
type badInput struct{ error }

func (badInput) BadInput() bool  { return true }
func (b badInput) Unwrap() error { return b.error }

func serverFault(err error) error {
	switch {
	case errors.Is(err, mcp.ErrNotFound):
		return admin.ErrNoServer
	case errors.Is(err, mcp.ErrExists):
		return admin.ErrServerExists
	case errors.Is(err, mcp.ErrConfigured):
		return admin.ErrServerConfigured
	case errors.Is(err, mcp.ErrDisabled):
		return admin.ErrServerDisabled
	}
	return err
}
