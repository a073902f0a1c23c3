package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/bundled"
	"ravenbot/internal/config"
	"ravenbot/internal/egress"
	"ravenbot/internal/feed"
	"ravenbot/internal/mcp"
	"ravenbot/internal/schema"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
	"ravenbot/internal/tool"
	"ravenbot/internal/tool/channel"
	"ravenbot/internal/tool/feeds"
	"ravenbot/internal/tool/web"
	"ravenbot/internal/toolsearch"
)

const userAgent = "ravenbot (+https://github.com/ravenbot/ravenbot)"

// buildEgress makes the two guarded ways out: for feeds, and for pages.
func (a *App) buildEgress() (*feed.Fetcher, *egress.Client, error) {
	c := a.conf()
	pages, err := egress.New(egress.Options{AllowPrivateHosts: c.Egress.AllowPrivateHosts, UserAgent: userAgent})
	if err != nil {
		return nil, nil, fmt.Errorf("egress.allowPrivateHosts: %w", err)
	}
	wider, err := pages.WithAllowed(c.Feeds.AllowPrivateHosts...)
	if err != nil {
		return nil, nil, fmt.Errorf("feeds.allowPrivateHosts: %w", err)
	}
	return feed.NewFetcher(wider, feedStates{a.store}, feed.Options{Bundled: bundled.Feeds(), Now: a.o.Now, HostPause: 500 * time.Millisecond}), pages, nil
}

// feedStates keeps the feed room's records in the store, which does not know them.
type feedStates struct{ db *bolt.DB }

func (s feedStates) LoadFeed(ctx context.Context, url string) (feed.State, bool, error) {
	record, found, err := s.db.LoadFeed(ctx, url)
	var state feed.State
	if err != nil || !found {
		return state, false, err
	}
	if err := json.Unmarshal(record.Data, &state); err != nil {
		return state, false, fmt.Errorf("read what is kept of feed %s: %w", url, err)
	}
	return state, true, nil
}

func (s feedStates) SaveFeed(ctx context.Context, state feed.State) error {
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return s.db.SaveFeed(ctx, store.Feed{URL: state.URL, Data: data})
}

// packs is a source of native tools that change with the configuration.
type packs func() []tool.Tool

// Tools gives the tools there are now.
func (p packs) Tools() []tool.Tool { return p() }

// native is a source of tools that are always there.
type native []tool.Tool

func (n native) Tools() []tool.Tool { return n }

func (a *App) buildTools(reader *feed.Fetcher, pages *egress.Client) error {
	always := append(feeds.Tools(reader, func() []string { return a.digests.Known() }), web.Fetch(pages), channel.History(a.readBack, a.readable))
	pack := packs(func() []tool.Tool { return slices.Concat(always, a.setup.Load().packs, a.knowledgeTools()) })
	host, err := mcp.NewHost(mcp.Options{Servers: entries(a.conf()), Keep: serverKeep{a.store}, After: a.hold, Taken: taken(pack), Schemas: schema.New(), Ask: a.ask, Sample: a.sample, Roots: roots(a.conf()), Authorize: a.authorize, Waiting: a.awaited, Watch: a.o.Watch, Version: a.o.Version, Log: a.o.Log, Now: a.o.Now,
		HealthInterval: a.conf().MCP.HealthInterval.Std(), StatusTTL: a.conf().MCP.StatusTTL.Std()})
	if err != nil {
		return fmt.Errorf("mcpServers: %w", err)
	}
	a.mcp = host
	a.registry = tool.NewRegistry(pack, shelves{host}, host)
	return a.restoreServers(context.Background())
}

// shelves are the tools by which models reach what MCP servers offer beside theirs.
type shelves struct{ *mcp.Host }

func (s shelves) Tools() []tool.Tool { return s.Pack() }

// roots are the folders that MCP servers are told they may work in: those of the
// tools for files.
func roots(c *config.Config) []mcp.Root {
	var list []mcp.Root
	for _, r := range c.Tools.Files.Roots {
		list = append(list, mcp.Root{URI: (&url.URL{Scheme: "file", Path: filepath.ToSlash(r.Path)}).String(), Name: r.Name})
	}
	return list
}

// taken tells which names no MCP server's tool may have: those of the native tools
// and of the ones by which models find and read.
func taken(pack packs) func(name string) bool {
	fixed := map[string]bool{"result_read": true, "mcp_resources_list": true, "mcp_resource_read": true, "mcp_prompts_list": true, "mcp_prompt_get": true}
	for _, name := range []string{toolsearch.Discover, toolsearch.Schema, toolsearch.Execute, toolsearch.Domains, toolsearch.Browse} {
		fixed[name] = true
	}
	return func(name string) bool {
		return fixed[name] || slices.ContainsFunc(pack(), func(t tool.Tool) bool {
			spec := t.Spec()
			return cmp.Or(spec.As, tool.SafeName(spec.Server, spec.Name)) == name
		})
	}
}

// serverKeep keeps in the store what is known of MCP servers, so that their tools
// can be called from the first message after a restart.
type serverKeep struct{ db *bolt.DB }

func (k serverKeep) Load(what, server string) ([]byte, error) {
	return k.db.LoadTools(context.Background(), what+"/"+server)
}

func (k serverKeep) Save(what, server string, data []byte) error {
	return k.db.SaveTools(context.Background(), what+"/"+server, data)
}

// entries translates the entries of mcpServers.
func entries(c *config.Config) []mcp.Config {
	var list []mcp.Config
	for name, e := range c.MCPServers {
		list = append(list, serverConfig(name, e))
	}
	slices.SortFunc(list, func(x, y mcp.Config) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

func serverConfig(name string, e config.MCPServer) mcp.Config {
	return mcp.Config{Name: name, Command: e.Command, Args: e.Args.Reveal(), Env: revealed(e.Env), Dir: e.Cwd,
		URL: e.URL.Reveal(), Headers: revealed(e.Headers), Transport: e.Type, PerUser: e.OAuth.PerUser, Protocol: e.Protocol, Timeout: e.Timeout.Std(),
		Include: e.IncludeTools, Exclude: e.ExcludeTools, Eager: e.Eager, Disabled: e.Disabled, Description: e.Description}
}

func revealed[M ~map[string]config.Secret](m M) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = v.Reveal()
	}
	return out
}

func join(words []string) string {
	slices.Sort(words)
	return strings.Join(words, ",")
}
