// Package roster chooses the agent of each place, with its models, tools and limits. Agents come from the
// configuration, the API and the dashboard. It promises that the agent "default" always exists, that only the
// configuration changes its own agents, and that a change takes effect with the next message.
//
// Route is called for each message. It chooses the agent of the channel or the room, or the default agent, and applies
// the layers of settings. It returns a Profile, which does not change during a turn. Apply replaces the configured
// agents for later turns.
package roster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature"
	"ravenbot/internal/feature/settings"
	"ravenbot/internal/mcp"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/recall/knowledge"
	"ravenbot/internal/recall/skill"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/agent"
	"ravenbot/internal/turn/policy"
)

// Sources of agents.
const (
	FromConfig = "config"
	FromAPI    = "api"
)

// Kinds of the store's items.
const (
	agentKind = "agent"
	roomKind  = "agent of web room" // web room → name of the agent chosen for it
)

// What may be wrong with a request about an agent or a tool.
var (
	ErrNotFound   = errors.New("there is no such agent")
	ErrExists     = errors.New("there is an agent of that name")
	ErrConfigured = errors.New("the agent belongs to config.json and is changed there")
	ErrNoTool     = errors.New("there is no such tool")
)

// InputError is a mistake of the sender of a request.
type InputError struct{ Err error }

func (e InputError) Error() string { return e.Err.Error() }
func (e InputError) Unwrap() error { return e.Err }

// BadInput marks the error as the sender's to correct.
func (InputError) BadInput() bool { return true }

// Toolbox lists the tools that there are now.
type Toolbox interface {
	List() []tool.Named
}

// Tasks tells for which digest a conversation is held in which no person takes part.
type Tasks interface {
	// Task returns the agent of the digest, its target channel, and its token limit. It returns false if the
	// conversation belongs to no digest.
	Task(at chat.Address) (t Task, ok bool)
}

// Task is work of an agent that is done on a schedule.
type Task struct {
	Agent     string       // empty for the agent of Channel
	Channel   chat.Address // whose settings count
	MaxTokens int          // 0 for no limit
	Tools     []string     // that it may use without an approval
}

// Options are what a Roster needs.
type Options struct {
	Store     store.Items
	Knowledge *knowledge.Repository
	Settings  *settings.Repository
	Servers   *mcp.Host
	Tools     Toolbox
	Tasks     Tasks
	Rules     func() *policy.Policy // as configured now
	// RoomPlatform is the platform of the web rooms, for which people choose agents. CheckRoom validates a room's
	// name.
	RoomPlatform string
	CheckRoom    func(room string) error
	Log          *slog.Logger
}

// Roster is all agents. It is safe for concurrent use.
type Roster struct {
	o       Options
	changes sync.Mutex // one change at a time
	state   atomic.Pointer[state]
}

// state is the agents as they are. It is replaced as a whole.
type state struct {
	config   *config.Config
	models   map[string]agent.Model
	members  map[string]member
	rooms    map[string]string // web room → agent that was chosen for it
	profiles map[string]agent.Profile
	// missing holds the missing models and agents that were already logged.
	missing *sync.Map
}

// isFirst reports whether a missing model or agent was not logged before.
func (s *state) isFirst(missing string) bool {
	_, known := s.missing.LoadOrStore(missing, true)
	return !known
}

// member is an agent with where it comes from.
type member struct {
	config.Agent
	source string
	access toolAccess
	knows  func() bool // there are files that it knows
	skills []skill.Skill
}

// New returns a Roster without agents; Apply brings them.
func New(o Options) *Roster {
	r := &Roster{o: o}
	r.state.Store(&state{config: &config.Config{}, missing: &sync.Map{}})
	return r
}

// Apply takes up a configuration with its models, and the agents kept next to it. With an error, which is the store's,
// nothing has changed. Turns under way keep the profile that they began with.
func (r *Roster) Apply(c *config.Config, models map[string]agent.Model) error {
	r.changes.Lock()
	defer r.changes.Unlock()
	return r.apply(c, models)
}

// apply is Apply; r.changes is held.
func (r *Roster) apply(c *config.Config, models map[string]agent.Model) error {
	members, err := r.members(c)
	if err != nil {
		return err
	}
	rooms, err := r.chosenRooms()
	if err != nil {
		return err
	}
	// Replaced as a whole, so that a turn that is under way keeps the agents it began with.
	r.state.Store(&state{config: c, models: models, members: members, rooms: rooms, profiles: r.profiles(c, members),
		missing: &sync.Map{}})
	return nil
}

// refresh reloads the stored data after a change. r.changes must be held.
func (r *Roster) refresh() error {
	now := r.state.Load()
	return r.apply(now.config, now.models)
}

// Module returns the agents, which people choose by settings.
func (r *Roster) Module() feature.Module {
	return feature.Module{
		Shared: []store.Shared{r, Files{r}},
		Checks: map[string]feature.Check{"agent": r.CheckEntry},
	}
}

// SharedKinds returns the kinds whose changes Reload takes up.
func (*Roster) SharedKinds() []string { return []string{agentKind, roomKind} }

// Reload takes up the agents, and the agents of web rooms, that other processes have changed.
func (r *Roster) Reload(context.Context) error {
	r.changes.Lock()
	defer r.changes.Unlock()
	return r.refresh()
}

// members returns the agents of a configuration and those made through the API. One that
// cannot be used any more, because a variable is gone or its name is taken, is logged and
// left out.
func (r *Roster) members(c *config.Config) (map[string]member, error) {
	all := map[string]member{}
	for name, a := range c.Agents {
		all[name] = r.member(c, name, a, FromConfig)
	}
	kept, err := r.o.Store.Items(context.Background(), agentKind)
	if err != nil {
		return nil, fmt.Errorf("read the agents made through the API: %w", err)
	}
	for name, raw := range kept {
		var a config.Agent
		_, err := c.ParseEntry(raw, &a)
		// The configuration has priority: the page must not replace an agent of the file.
		if _, taken := all[name]; taken {
			err = errTaken
		}
		if err != nil {
			r.o.Log.Error("skipped an agent that was made through the API", "agent", name, "error", err)
			continue
		}
		if _, known := c.Models[a.Model]; !known && a.Model != "" {
			r.o.Log.Warn("model of an agent made through the API is not in config.json; using the default one",
				"agent", name, "model", a.Model)
		}
		all[name] = r.member(c, name, a, FromAPI)
	}
	return all, nil
}

// member returns an agent ready for work. Skills that cannot be loaded are logged and left out.
func (r *Roster) member(c *config.Config, name string, a config.Agent, source string) member {
	skills, err := skill.Load(a.Skills)
	if err != nil { // those of config.json were checked, but files change
		r.o.Log.Warn("failed to load skills", "agent", name, "error", err)
	}
	return member{
		Agent:  a,
		skills: skills,
		source: source,
		access: r.toolAccess(c, a),
		knows:  func() bool { return r.o.Knowledge.HasFiles(name, a.Knowledge) },
	}
}

// chosenRooms returns the agents that were chosen for web rooms, whether they still exist or not.
func (r *Roster) chosenRooms() (map[string]string, error) {
	kept, err := r.o.Store.Items(context.Background(), roomKind)
	if err != nil {
		return nil, fmt.Errorf("read the agents of web rooms: %w", err)
	}
	rooms := map[string]string{}
	for room, raw := range kept {
		var name string
		// An unreadable agent must not prevent the start of the bot, or changes of other agents.
		if err := json.Unmarshal(raw, &name); err != nil {
			r.o.Log.Error("failed to read the agent of a web room; using the configured one", "room", room, "error", err)
			continue
		}
		rooms[room] = name
	}
	return rooms, nil
}

// agentAt returns the agent that answers somebody with some roles in a conversation, and why it does.
func (r *Roster) agentAt(s *state, at chat.Address, roles []string) (name, why string) {
	if at.Platform == r.o.RoomPlatform {
		// The agent that was chosen may have been removed since; the room then falls back to the configuration.
		if _, ok := s.members[s.rooms[at.Channel]]; ok {
			return s.rooms[at.Channel], "it was chosen for this web room"
		}
	}
	return s.configuredAt(at, roles)
}

// configuredAt returns the agent of a conversation without a chosen one. Agents named by rules of channels come first,
// then agents that name the channel themselves, by name. The first one for a role of the asker answers, otherwise the
// first one for everybody, otherwise the default one.
func (s *state) configuredAt(at chat.Address, roles []string) (name, why string) {
	var names, whys []string
	address := at.String()
	for _, rule := range s.config.Channels {
		if rule.Agent != "" && config.Covers(rule.Match, address) {
			names, whys = append(names, rule.Agent), append(whys, fmt.Sprintf("the rule %q of channels names it", rule.Match))
		}
	}
	// Sorted: of two agents that name the same channel always the same one answers.
	for _, n := range slices.Sorted(maps.Keys(s.members)) {
		if slices.ContainsFunc(s.members[n].Channels, func(p string) bool { return config.Covers(p, address) }) {
			names, whys = append(names, n), append(whys, "it names this channel")
		}
	}
	name, why = "default", "nothing names another"
	for i := len(names) - 1; i >= 0; i-- {
		if m, exists := s.members[names[i]]; exists && len(m.Roles) == 0 {
			name, why = names[i], whys[i]
		}
	}
	for i, n := range names {
		if config.HasRole(roles, s.members[n].Roles) {
			return n, whys[i] + ", and the asker has one of its roles"
		}
	}
	return name, why
}

// Exists reports whether there is an agent of a name.
func (r *Roster) Exists(name string) bool {
	_, ok := r.state.Load().members[name]
	return ok
}

// SkillTools returns the tool that reads skills; none if no agent has any.
func (r *Roster) SkillTools() []tool.Tool {
	for _, m := range r.state.Load().members {
		if len(m.skills) > 0 {
			// Read from the present state at each call: agents and their skills may change while the tool stays.
			skillsOf := func(agent string) []skill.Skill { return r.state.Load().members[agent].skills }
			return []tool.Tool{skill.ReadTool(skillsOf)}
		}
	}
	return nil
}

// KnowsFiles reports whether any agent has files that it knows.
func (r *Roster) KnowsFiles() bool {
	for _, m := range r.state.Load().members {
		if m.knows() {
			return true
		}
	}
	return false
}

// Knowledge returns the files that an agent's entry names.
func (r *Roster) Knowledge(name string) []string { return r.state.Load().members[name].Knowledge }

// Link is an MCP server that an agent may use.
type Link struct {
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
}

// Limits are an agent's own limits; 0: those of tools in config.json.
type Limits struct {
	MaxSteps       int `json:"maxSteps"`
	MaxResultBytes int `json:"maxResultBytes"`
}

// Agent is an agent as the API and the dashboard show it.
type Agent struct {
	Name            string   `json:"name"`
	Source          string   `json:"source"` // FromConfig or FromAPI
	Model           string   `json:"model"`
	UtilityModel    string   `json:"utilityModel,omitempty"`
	SystemPrompt    string   `json:"systemPrompt"`
	MCPServers      []Link   `json:"mcpServers"` // null: every enabled server
	FallbackServers []string `json:"fallbackServers,omitempty"`
	Tools           []string `json:"tools"`
	Knowledge       []string `json:"knowledge,omitempty"`
	Skills          []string `json:"skills,omitempty"`   // folders, or patterns of them
	Channels        []string `json:"channels,omitempty"` // patterns of its places, in addition to config.json's rules
	Limits          Limits   `json:"limits"`
	Context         Context  `json:"context"`
}

// Context limits the part of a conversation that an agent's model gets.
type Context struct {
	Messages int `json:"messages"` // recent ones that a mention brings along
	Turns    int `json:"turns"`
	Tokens   int `json:"tokens"`
}

// Linked says in words which MCP servers an agent may use.
func (a Agent) Linked() string {
	var names []string
	for _, l := range a.MCPServers {
		if l.Enabled {
			names = append(names, l.Name)
		}
	}
	switch {
	case a.MCPServers == nil:
		return "every enabled one"
	case len(names) > 0:
		return strings.Join(names, ", ")
	case len(a.FallbackServers) > 0:
		return "none; in their place " + strings.Join(a.FallbackServers, ", ")
	}
	return "none"
}

// describe returns an agent as the API shows it.
func describe(name string, m member) Agent {
	a := Agent{
		Name:            name,
		Source:          m.source,
		Model:           m.Model,
		UtilityModel:    m.UtilityModel,
		SystemPrompt:    m.SystemPrompt,
		FallbackServers: m.FallbackServers,
		Tools:           m.Tools,
		Knowledge:       m.Agent.Knowledge,
		Skills:          m.Agent.Skills,
		Channels:        m.Channels,
		Limits:          Limits{MaxSteps: m.Limits.MaxSteps, MaxResultBytes: m.Limits.MaxResultBytes},
		Context:         Context(m.Agent.Context),
	}
	// An empty list means "no server" and must not become null, which means "every one".
	if m.MCPServers != nil {
		a.MCPServers = []Link{}
	}
	for _, l := range m.MCPServers {
		a.MCPServers = append(a.MCPServers, Link{Name: l.Name, Enabled: l.Enabled})
	}
	return a
}

// List returns the agents, sorted by name.
func (r *Roster) List() []Agent {
	list := []Agent{}
	for name, m := range r.state.Load().members {
		list = append(list, describe(name, m))
	}
	slices.SortFunc(list, func(x, y Agent) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

// Get returns one agent, or ErrNotFound.
func (r *Roster) Get(name string) (Agent, error) {
	m, ok := r.state.Load().members[name]
	if !ok {
		return Agent{}, ErrNotFound
	}
	return describe(name, m), nil
}

// agentName is what an agent may be called.
var agentName = text.Pattern(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)

// Add makes an agent of an entry as config.json has it. The error is ErrExists or an
// InputError.
func (r *Roster) Add(ctx context.Context, name string, entry json.RawMessage) (Agent, error) {
	if err := checkName(name); err != nil {
		return Agent{}, InputError{err}
	}
	r.changes.Lock()
	defer r.changes.Unlock()
	// Under the lock: of two requests for one name the second is refused.
	if r.Exists(name) {
		return Agent{}, ErrExists
	}
	return r.save(ctx, name, entry, false)
}

func checkName(name string) error {
	if !agentName().MatchString(name) {
		return fmt.Errorf("the name %.80q is not allowed: use a letter, digit or _, then up to 63 of them, dots and hyphens",
			name)
	}
	return nil
}

// CheckEntry returns why an agent of a name and an entry would not be read from the store, or nil.
func (r *Roster) CheckEntry(name string, entry json.RawMessage) error {
	if err := checkName(name); err != nil {
		return err
	}
	c := r.state.Load().config
	if _, taken := c.Agents[name]; taken {
		return errTaken
	}
	var a config.Agent
	_, err := c.ParseEntry(entry, &a)
	return err
}

// errTaken is why an agent that was made through the API is not used.
var errTaken = errors.New("the configuration has an agent of that name")

// Replace changes an agent that was made through the API. The error is ErrNotFound,
// ErrConfigured or an InputError.
func (r *Roster) Replace(ctx context.Context, name string, entry json.RawMessage) (Agent, error) {
	r.changes.Lock()
	defer r.changes.Unlock()
	if err := r.checkChangeable(name); err != nil {
		return Agent{}, err
	}
	return r.save(ctx, name, entry, true)
}

// checkChangeable returns ErrConfigured for an agent of config.json, which the API cannot change, and the error of Get
// for an unknown agent.
func (r *Roster) checkChangeable(name string) error {
	a, err := r.Get(name)
	if err == nil && a.Source != FromAPI {
		err = ErrConfigured
	}
	return err
}

// save checks and stores an agent; r.changes is held.
func (r *Roster) save(ctx context.Context, name string, entry json.RawMessage, overwrite bool) (Agent, error) {
	var servers []string
	for _, s := range r.o.Servers.Servers() {
		servers = append(servers, s.Name)
	}
	// Servers from the API count too: the entry may name one that config.json does not have.
	if _, _, err := r.state.Load().config.ParseAgentEntry(entry, servers); err != nil {
		return Agent{}, InputError{err}
	}
	err := r.o.Store.SaveItem(ctx, agentKind, name, entry, overwrite)
	if errors.Is(err, store.ErrExists) { // it is kept, and could not be used
		err = ErrExists
	}
	if err == nil {
		err = r.refresh()
	}
	if err != nil {
		return Agent{}, err
	}
	return r.Get(name)
}

// Remove deletes an agent that was made through the API, with its files. Where it answered,
// the default one does. The error is ErrNotFound or ErrConfigured.
func (r *Roster) Remove(ctx context.Context, name string) error {
	r.changes.Lock()
	defer r.changes.Unlock()
	if err := r.checkChangeable(name); err != nil {
		return err
	}
	// The files first: after a crash in between the agent is still there to be removed again. The other way round a later
	// agent of its name would know them.
	if err := r.o.Knowledge.DeleteAll(ctx, name); err != nil {
		return err
	}
	if err := r.o.Store.DeleteItem(ctx, agentKind, name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return r.refresh()
}

// Rooms returns the web rooms for which an agent was chosen.
func (r *Roster) Rooms() map[string]string { return maps.Clone(r.state.Load().rooms) }

// Choose sets the agent of a web room. An empty name means the configured one. It returns ErrNotFound, or an error
// about the room's name.
func (r *Roster) Choose(ctx context.Context, room, name string) error {
	r.changes.Lock()
	defer r.changes.Unlock()
	if err := r.o.CheckRoom(room); err != nil {
		return err
	}
	if name == "" {
		if err := r.o.Store.DeleteItem(ctx, roomKind, room); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return r.refresh()
	}
	if !r.Exists(name) {
		return ErrNotFound
	}
	raw, err := json.Marshal(name)
	if err == nil {
		err = r.o.Store.SaveItem(ctx, roomKind, room, raw, true)
	}
	if err != nil {
		return err
	}
	return r.refresh()
}

// Offered returns the agents for a web room: all names, the chosen one, if any, and the default one.
func (r *Roster) Offered(room string) (names []string, chosen, configured string) {
	s := r.state.Load()
	configured, _ = s.configuredAt(chat.Address{Platform: r.o.RoomPlatform, Channel: room}, nil)
	// A chosen agent that no longer exists is not shown, and agentAt ignores it, too.
	if chosen = s.rooms[room]; !r.Exists(chosen) {
		chosen = ""
	}
	return slices.Sorted(maps.Keys(s.members)), chosen, configured
}
