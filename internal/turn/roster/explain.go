package roster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature/settings"
	"ravenbot/internal/mcp"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/recall/toolsearch"
	"ravenbot/internal/turn/policy"
)

// ToolItem is a tool under the name by which models call it.
type ToolItem struct {
	Name        string  `json:"name"`
	Server      string  `json:"server"` // or native pack
	Description string  `json:"description"`
	Hint        string  `json:"hint"` // readOnly, write, destructive, unknown
	Native      bool    `json:"native"`
	Score       float64 `json:"score,omitempty"` // of a search
}

// Verdict says whether a tool may be used, with the reason.
type Verdict struct {
	Tool    string `json:"tool"`
	User    string `json:"user"`
	Channel string `json:"channel"`
	Agent   string `json:"agent"`
	Verdict string `json:"verdict"` // allow, ask, deny
	// Approvers are the people who can approve an ask, in words.
	Approvers string    `json:"approvers,omitempty"`
	Layers    []Finding `json:"layers"` // in the order in which they are asked
}

// Simulation is a call that is not made.
type Simulation struct {
	Tool    string
	User    string // id on the channel's platform
	Roles   []string
	Channel chat.Address
	Others  []string        // ids of other users whose words the turn has read
	Tainted bool            // the turn has read foreign text
	Args    json.RawMessage // may be nil
}

// Finding is what one layer says.
type Finding struct {
	Layer    string `json:"layer"`
	Decision string `json:"decision"` // allow, ask, deny
	Reason   string `json:"reason"`
}

// describeTool returns a tool as the API and the page show it.
func describeTool(n tool.Named) ToolItem {
	spec := n.Tool.Spec()
	return ToolItem{Name: n.Name, Server: spec.Server, Description: spec.Description, Hint: spec.Hints.Class(),
		Native: spec.Native}
}

// ListTools returns all tools, sorted by name.
func (r *Roster) ListTools() []ToolItem {
	list := []ToolItem{}
	for _, n := range r.o.Tools.List() {
		list = append(list, describeTool(n))
	}
	return list
}

// SearchTools returns up to k tools that fit a request best, as models find them. The index is made for the search: the
// operator waits for it, and nobody else.
func (r *Roster) SearchTools(query string, k int) []ToolItem {
	all := r.o.Tools.List()
	index := toolsearch.New()
	toolsearch.NewFinder(index, r.AboutServer).Sync(all)
	list := []ToolItem{}
	for _, hit := range index.Search(query, k, nil) {
		if i := slices.IndexFunc(all, func(n tool.Named) bool { return n.Name == hit.Name }); i >= 0 {
			item := describeTool(all[i])
			item.Score = hit.Score
			list = append(list, item)
		}
	}
	return list
}

// AboutServer returns the operator's description of an MCP server, or "".
func (r *Roster) AboutServer(name string) string {
	e, _ := r.o.Servers.Config(name)
	return e.Description
}

// Why asks every layer that decides whether a user may make a call in a channel, and makes no call. The error wraps
// ErrNoTool and names tools that may be meant. The user's name is not known here, so that a rule that names it counts
// as not met.
func (r *Roster) Why(sim Simulation) (Verdict, error) {
	all := r.o.Tools.List()
	at := slices.IndexFunc(all, func(n tool.Named) bool { return n.Name == sim.Tool })
	if at < 0 {
		return r.explainWithheld(sim.Tool, sim.User, sim.Channel)
	}
	s := r.state.Load()
	agent, why := r.agentAt(s, sim.Channel, sim.Roles)
	q := inquiry{r: r, state: s, member: s.members[agent], tool: all[at], user: sim.User, channel: sim.Channel, sim: sim}
	verdict := Verdict{
		Tool:    sim.Tool,
		User:    sim.User,
		Channel: sim.Channel.String(),
		Agent:   agent,
		Verdict: string(tool.Allow),
		Layers: []Finding{q.askServer(), q.askChannel(), q.askSettings(), q.askAgent(agent, why),
			q.askPolicy(), q.askHooks()},
	}
	for _, f := range verdict.Layers {
		// The strictest layer decides, in whatever order they are asked: a denial stands, and a question only replaces
		// an allowance.
		if f.Decision == string(tool.Deny) || f.Decision == string(tool.Ask) && verdict.Verdict == string(tool.Allow) {
			verdict.Verdict = f.Decision
		}
	}
	if verdict.Verdict == string(tool.Ask) {
		verdict.Approvers = "the asker or an administrator"
		if named := q.r.o.Rules().Decide(q.intent()).Approvers; len(named) > 0 {
			verdict.Approvers = strings.Join(named, ", ")
		}
	}
	return verdict, nil
}

// explainWithheld returns the reason why an MCP server's tool is withheld.
func (r *Roster) explainWithheld(name, user string, channel chat.Address) (Verdict, error) {
	for _, s := range r.o.Servers.Servers() {
		for _, t := range r.o.Servers.ToolsOf(s.Name) {
			// A withheld tool has no registered name, so compare the name that it would get.
			if tool.SafeName(s.Name, t.Name) != name {
				continue
			}
			why := fmt.Sprintf("MCP server %s is %s", s.Name, s.State)
			switch t.State {
			case mcp.ToolQuarantined:
				why = fmt.Sprintf("it waits for an approval, because %s: ravenbot mcp approve %s", t.Why, s.Name)
			case mcp.ToolRefused, mcp.ToolExcluded:
				why = t.Why
			}
			agent, _ := r.agentAt(r.state.Load(), channel, nil)
			return Verdict{Tool: name, User: user, Channel: channel.String(), Agent: agent, Verdict: string(tool.Deny),
				Layers: []Finding{finding("server", false, why)}}, nil
		}
	}
	return Verdict{}, r.unknownTool(name)
}

// unknownTool returns an error that wraps ErrNoTool and names tools that may be meant.
func (r *Roster) unknownTool(name string) error {
	var similar []string
	for _, item := range r.SearchTools(name, 3) {
		similar = append(similar, item.Name)
	}
	if len(similar) == 0 {
		return fmt.Errorf("%w: %.100q", ErrNoTool, name)
	}
	return fmt.Errorf("%w: %.100q; did you mean %s?", ErrNoTool, name, strings.Join(similar, ", "))
}

// inquiry is a use of a tool that the layers are asked about.
type inquiry struct {
	r       *Roster
	state   *state
	member  member
	tool    tool.Named
	user    string
	channel chat.Address
	sim     Simulation
}

// intent returns the call that is asked about.
func (q inquiry) intent() tool.Intent {
	in := tool.Intent{Tool: q.tool, Args: q.sim.Args, Caller: tool.Caller{
		Conversation: q.channel,
		User:         chat.User{ID: q.user, Roles: q.sim.Roles},
	}}
	for _, who := range q.sim.Others {
		in.Caller.Authors = append(in.Caller.Authors, q.channel.Platform+"/"+who)
	}
	if q.sim.Tainted {
		// The policy checks only whether there is any taint, not its text.
		in.Caller.Taint = []string{"text of others, as was assumed"}
	}
	return in
}

// finding returns what a layer says that can only allow or deny.
func finding(layer string, ok bool, reason string) Finding {
	f := Finding{Layer: layer, Decision: string(tool.Allow), Reason: reason}
	if !ok {
		f.Decision = string(tool.Deny)
	}
	return f
}

// askServer says who offers the tool.
func (q inquiry) askServer() Finding {
	const layer = "server"
	spec := q.tool.Tool.Spec()
	if spec.Native {
		return finding(layer, true, fmt.Sprintf("it is the bot's own, of the pack %s", spec.Server))
	}
	s, _ := q.r.o.Servers.Get(spec.Server)
	reason := fmt.Sprintf("MCP server %s offers it, and is %s", spec.Server, s.State)
	if s.Error != "" {
		reason += ": " + s.Error
	}
	return finding(layer, true, reason)
}

// askChannel explains whether the user gets answers at all.
func (q inquiry) askChannel() Finding {
	const layer = "channel"
	if q.channel.Platform == q.r.o.RoomPlatform {
		return finding(layer, true, "everybody who has logged in is answered in web rooms")
	}
	rule, ok := q.state.config.ChannelRule(q.channel.String())
	switch {
	case !ok:
		return finding(layer, true, "no rule of channels is about it: everybody is answered")
	case !rule.AllowsUser(q.user, "", q.sim.Roles):
		return finding(
			layer,
			false,
			fmt.Sprintf("allowUsers and allowRoles of the rule %q name neither the user's id (a user name may still be named) "+
				"nor a role", rule.Match),
		)
	}
	return finding(layer, true, fmt.Sprintf("the rule %q lets the user in", rule.Match))
}

// askSettings names the layer of settings that switches tools on or off.
func (q inquiry) askSettings() Finding {
	const layer = "tools.enabled"
	for _, s := range []struct {
		scope settings.Scope
		whose string
	}{
		// The same order in which settings.Effective has one layer cover another.
		{settings.User(q.channel.Platform, q.user), "the user's settings"},
		{settings.Channel(q.channel), "the channel's settings"},
		{settings.Instance, "the bot's settings"},
	} {
		if on := q.r.o.Settings.Layer(s.scope).Tools.Enabled; on != nil {
			return finding(layer, *on, s.whose+" switch tools "+onOff(*on))
		}
	}
	on := q.state.config.Tools.Enabled
	return finding(layer, on, "no settings are above the configuration, which has tools "+onOff(on))
}

// onOff returns a switch in words.
func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// askAgent reports whether the answering agent has the tool.
func (q inquiry) askAgent(name, why string) Finding {
	const layer = "agent"
	spec := q.tool.Tool.Spec()
	about := fmt.Sprintf("agent %s answers there, because %s; ", name, why)
	if !toolFilter(q.member, true)(q.tool) {
		if spec.Native {
			return finding(layer, false, about+fmt.Sprintf("none of its tools (%s) is this one",
				strings.Join(q.member.Tools, ", ")))
		}
		return finding(layer, false, about+"it is not linked to MCP server "+spec.Server)
	}
	switch {
	case spec.Native && policy.MatchesAny(q.member.Tools, q.tool):
		return finding(layer, true, about+fmt.Sprintf("its tools (%s) name it", strings.Join(q.member.Tools, ", ")))
	case spec.Native && matchAny(q.member.access.fallback, spec.Server), !spec.Native && q.member.access.fallback != nil:
		return finding(layer, true, about+fmt.Sprintf("no server is linked, and fallbackServers (%s) name %s",
			strings.Join(q.member.FallbackServers, ", "), spec.Server))
	case spec.Native:
		return finding(layer, true, about+"this tool goes with what the agent has")
	case q.member.MCPServers == nil:
		return finding(layer, true, about+"it may use every enabled server")
	}
	return finding(layer, true, about+"it is linked to MCP server "+spec.Server)
}

// askPolicy names the deciding rule of the policy, or the decision of safe mode if no rule matches.
func (q inquiry) askPolicy() Finding {
	rules, in := q.r.o.Rules(), q.intent()
	v := rules.Decide(in)
	f := Finding{Layer: "policy", Decision: string(v.Decision), Reason: v.Reason}
	hint := " (its hint is " + rules.Class(in.Decided().Tool.Tool.Spec()) + ")"
	line := rules.RuleIndex(in)
	switch {
	case line >= 0:
		rule := q.state.config.Tools.Policy[line]
		f.Reason = fmt.Sprintf("tools.policy[%d] %s decides %q", line, describeRule(rule), rule.Decision)
		if string(v.Decision) != rule.Decision {
			f.Reason += ", but " + v.Reason
		}
	case q.state.config.Tools.Mode == "open":
		f.Reason = "no line of tools.policy is about it, and tools.mode is open"
	case v.Reason == "":
		f.Reason = "no line of tools.policy is about it, and safe mode lets it run"
	default:
		f.Reason = "no line of tools.policy is about it: " + v.Reason
	}
	f.Reason += hint
	return f
}

// describeRule returns the keys of a rule in words.
func describeRule(r config.Policy) string {
	words := "for " + strings.Join(r.Tools, ", ")
	if r.Hint != "" {
		words += " with hint " + r.Hint
	}
	for _, key := range []struct {
		name   string
		values []string
	}{{"channels", r.Channels}, {"users", r.Users}, {"roles", r.Roles}, {"hosts", r.Hosts}} {
		if len(key.values) > 0 {
			words += fmt.Sprintf(", %s %s", key.name, strings.Join(key.values, ", "))
		}
	}
	if r.Tainted != nil {
		words += fmt.Sprintf(", tainted %v", *r.Tainted)
	}
	return words
}

// askHooks names the hooks around a call. Their decisions are known only during a call.
func (q inquiry) askHooks() Finding {
	var names []string
	for i, h := range q.state.config.Tools.Hooks {
		if policy.MatchesAny(h.Tools, q.tool) {
			names = append(names, fmt.Sprintf("tools.hooks[%d], %s the call", i, h.When))
		}
	}
	if len(names) == 0 {
		return finding("hooks", true, "none is about it")
	}
	return finding("hooks", true, strings.Join(names, "; ")+": a hook may still deny it, or change it")
}
