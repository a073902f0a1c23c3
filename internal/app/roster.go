package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"ravenbot/adapters/web"
	"ravenbot/internal/admin"
	"ravenbot/internal/chat"
	"ravenbot/internal/config"
	"ravenbot/internal/mcp"
	"ravenbot/internal/store"
)

// The kinds of items that tell of agents.
const (
	agentItems = "agent"
	roomItems  = "agent of web room"
)

// member is an agent with where it comes from.
type member struct {
	config.Agent
	source string // as that of an MCP server
	reach  reach
	knows  func() bool // there are files that it knows
}

func (a *App) member(c *config.Config, name string, ag config.Agent, source string) member {
	return member{ag, source, a.reachOf(c, ag), func() bool { return a.knowledge.HasFiles(name, ag.Knowledge) }}
}

// roster gives the agents of a configuration with those that were made through the
// API, and who was chosen for web rooms.
func (a *App) roster(c *config.Config) (map[string]member, map[string]string, error) {
	agents, rooms := map[string]member{}, map[string]string{}
	for name, ag := range c.Agents {
		agents[name] = a.member(c, name, ag, mcp.FromConfig)
	}
	made, err := a.store.Items(context.Background(), agentItems)
	if err != nil {
		return nil, nil, err
	}
	for name, raw := range made {
		var ag config.Agent
		_, err := c.Entry(raw, &ag)
		if _, taken := agents[name]; taken {
			err = errors.New("the configuration has an agent of that name")
		}
		if err != nil { // a variable that it needs has gone, say
			a.o.Log.Error("agent that was made through the API left out", "agent", name, "error", err)
			continue
		}
		agents[name] = a.member(c, name, ag, fromAPI)
	}
	chosen, err := a.store.Items(context.Background(), roomItems)
	if err != nil {
		return nil, nil, err
	}
	for room, raw := range chosen {
		var name string
		if err := json.Unmarshal(raw, &name); err != nil {
			return nil, nil, fmt.Errorf("read the agent of web room %s: %w", room, err)
		}
		rooms[room] = name
	}
	return agents, rooms, nil
}

// agentAt names the agent that answers in a conversation.
func (s *setup) agentAt(at chat.Address) string {
	name, _ := s.bound(at)
	return name
}

// bound names the agent that answers in a conversation, and says why it does: it was
// chosen for the web room, or it is as the configuration says. One that is there no
// more is the default one.
func (s *setup) bound(at chat.Address) (name, why string) {
	if at.Platform == "web" {
		if _, ok := s.agents[s.rooms[at.Channel]]; ok {
			return s.rooms[at.Channel], "it was chosen for this web room"
		}
	}
	return s.unchosen(at)
}

// unchosen names the agent of a conversation for which none was chosen: the first rule
// of channels that fits names it, or it is, by name, the first that names the channel
// itself; else it is the default one.
func (s *setup) unchosen(at chat.Address) (name, why string) {
	address := at.String()
	if rule, ok := s.config.ChannelRule(address); ok {
		if _, there := s.agents[rule.Agent]; there {
			return rule.Agent, fmt.Sprintf("the rule %q of channels names it", rule.Match)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(s.agents)) {
		if slices.ContainsFunc(s.agents[n].Channels, func(p string) bool { return config.Covers(p, address) }) {
			return n, "it names this channel"
		}
	}
	return "default", "nothing names another"
}

// roomAgents offers the agents on the chat page.
type roomAgents struct{ agents }

// Offered gives who may answer in a web room.
func (g roomAgents) Offered(room string) web.Offer {
	set := g.a.setup.Load()
	o := web.Offer{Names: slices.Sorted(maps.Keys(set.agents)), Chosen: set.rooms[room]}
	o.Configured, _ = set.unchosen(chat.Address{Platform: "web", Channel: room})
	if _, there := set.agents[o.Chosen]; !there {
		o.Chosen = ""
	}
	return o
}

// Choose has an agent answer in a web room.
func (g roomAgents) Choose(ctx context.Context, room, name string) error {
	err := g.agents.Choose(ctx, room, name)
	if errors.Is(err, admin.ErrNoAgent) {
		return &web.InputError{What: fmt.Sprintf("there is no agent %.80q any more", name)}
	}
	return err
}

// agents shows the agents to the HTTP side, and keeps those that it makes.
type agents struct{ a *App }

func agentView(name string, m member) admin.AgentView {
	v := admin.AgentView{Name: name, Source: m.source, Model: m.Model, UtilityModel: m.UtilityModel, SystemPrompt: m.SystemPrompt,
		FallbackServers: m.FallbackServers, Tools: m.Tools, Knowledge: m.Knowledge, Channels: m.Channels,
		Limits: admin.AgentLimits{MaxSteps: m.Limits.MaxSteps, MaxResultBytes: m.Limits.MaxResultBytes}}
	if m.MCPServers != nil {
		v.MCPServers = []admin.AgentLink{}
	}
	for _, l := range m.MCPServers {
		v.MCPServers = append(v.MCPServers, admin.AgentLink{Name: l.Name, Enabled: l.Enabled})
	}
	return v
}

// List gives the agents by name.
func (g agents) List() []admin.AgentView {
	list := []admin.AgentView{}
	for name, m := range g.a.setup.Load().agents {
		list = append(list, agentView(name, m))
	}
	slices.SortFunc(list, func(x, y admin.AgentView) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

// Agents lists the agents there are.
func (a *App) Agents() []admin.AgentView { return agents{a}.List() }

// Get gives one agent.
func (g agents) Get(name string) (admin.AgentView, error) {
	m, ok := g.a.setup.Load().agents[name]
	if !ok {
		return admin.AgentView{}, admin.ErrNoAgent
	}
	return agentView(name, m), nil
}

// Add makes an agent.
func (g agents) Add(ctx context.Context, name string, body json.RawMessage) (admin.AgentView, error) {
	if !serverName.MatchString(name) {
		return admin.AgentView{}, badInput{fmt.Errorf("the name %.80q will not do: want a letter, digit or _, then up to 63 of them, dots and hyphens", name)}
	}
	g.a.reloading.Lock()
	defer g.a.reloading.Unlock()
	if _, err := g.Get(name); err == nil {
		return admin.AgentView{}, admin.ErrAgentExists
	}
	return g.keep(ctx, name, body, false)
}

// Replace changes an agent that was made through the API.
func (g agents) Replace(ctx context.Context, name string, body json.RawMessage) (admin.AgentView, error) {
	g.a.reloading.Lock()
	defer g.a.reloading.Unlock()
	if err := g.changeable(name); err != nil {
		return admin.AgentView{}, err
	}
	return g.keep(ctx, name, body, true)
}

func (g agents) changeable(name string) error {
	switch v, err := g.Get(name); {
	case err != nil:
		return err
	case v.Source != fromAPI:
		return admin.ErrAgentConfigured
	}
	return nil
}

// keep checks and stores an agent. a.reloading is held.
func (g agents) keep(ctx context.Context, name string, body json.RawMessage, overwrite bool) (admin.AgentView, error) {
	var servers []string
	for _, s := range g.a.mcp.Servers() {
		servers = append(servers, s.Name)
	}
	if _, _, err := g.a.conf().AgentEntry(body, servers); err != nil {
		return admin.AgentView{}, badInput{err}
	}
	err := g.a.store.SaveItem(ctx, agentItems, name, body, overwrite)
	if errors.Is(err, store.ErrExists) { // one that was left out
		err = admin.ErrAgentExists
	}
	if err == nil {
		err = g.a.regroup()
	}
	if err != nil {
		return admin.AgentView{}, err
	}
	return g.Get(name)
}

// Remove forgets an agent that was made through the API. Where it answered, the
// default one does.
func (g agents) Remove(ctx context.Context, name string) error {
	g.a.reloading.Lock()
	defer g.a.reloading.Unlock()
	if err := g.changeable(name); err != nil {
		return err
	}
	if err := g.a.store.DeleteItem(ctx, agentItems, name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return errors.Join(g.a.regroup(), g.a.knowledge.DeleteAll(name))
}

// Rooms gives the web rooms for which an agent was chosen.
func (g agents) Rooms() map[string]string { return maps.Clone(g.a.setup.Load().rooms) }

// Choose has an agent answer in a web room; none: as the configuration says.
func (g agents) Choose(ctx context.Context, room, name string) error {
	g.a.reloading.Lock()
	defer g.a.reloading.Unlock()
	if err := web.CheckRoom(room); err != nil {
		return err
	}
	if name == "" {
		if err := g.a.store.DeleteItem(ctx, roomItems, room); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return g.a.regroup()
	}
	if _, err := g.Get(name); err != nil {
		return err
	}
	raw, err := json.Marshal(name)
	if err == nil {
		err = g.a.store.SaveItem(ctx, roomItems, room, raw, true)
	}
	if err != nil {
		return err
	}
	return g.a.regroup()
}

// regroup takes up the agents as they are kept now. a.reloading is held.
func (a *App) regroup() error {
	next := *a.setup.Load()
	var err error
	if next.agents, next.rooms, err = a.roster(next.config); err != nil {
		return err
	}
	next.profiles = a.profiles(next.config, next.agents)
	a.setup.Store(&next)
	return nil
}
