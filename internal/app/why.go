package app

import (
	"fmt"
	"slices"
	"strings"

	"ravenbot/internal/admin"
	"ravenbot/internal/chat"
	"ravenbot/internal/config"
	"ravenbot/internal/mcp"
	"ravenbot/internal/policy"
	"ravenbot/internal/settings"
	"ravenbot/internal/tool"
	"ravenbot/internal/toolsearch"
)

// toolView shows the tools to the HTTP side and the command line.
type toolView struct{ a *App }

// Tools tells of the tools there are.
func (a *App) Tools() admin.Tools { return toolView{a} }

func toolItem(n tool.Named) admin.ToolItem {
	spec := n.Tool.Spec()
	return admin.ToolItem{Name: n.Name, Server: spec.Server, Description: spec.Description, Hint: spec.Hints.Class(), Native: spec.Native}
}

// ListTools gives all tools by name.
func (v toolView) ListTools() []admin.ToolItem {
	list := []admin.ToolItem{}
	for _, n := range v.a.registry.List() {
		list = append(list, toolItem(n))
	}
	return list
}

// SearchTools finds tools as models do. The index is made for the search: it is the
// operator who waits.
func (v toolView) SearchTools(query string, k int) []admin.ToolItem {
	all := v.a.registry.List()
	index := toolsearch.New()
	toolsearch.NewFinder(index, v.a.aboutServer).Sync(all)
	list := []admin.ToolItem{}
	for _, hit := range index.Search(query, k, nil) {
		if i := slices.IndexFunc(all, func(n tool.Named) bool { return n.Name == hit.Name }); i >= 0 {
			item := toolItem(all[i])
			item.Score = hit.Score
			list = append(list, item)
		}
	}
	return list
}

// Why asks every layer that decides whether a user may use a tool in a channel.
func (v toolView) Why(name, user string, channel chat.Address) (admin.Verdict, error) {
	all := v.a.registry.List()
	at := slices.IndexFunc(all, func(n tool.Named) bool { return n.Name == name })
	if at < 0 {
		return v.withheld(name, user, channel)
	}
	set := v.a.setup.Load()
	agent, why := set.bound(channel)
	q := question{v.a, set, set.agents[agent], all[at], user, channel}
	verdict := admin.Verdict{Tool: name, User: user, Channel: channel.String(), Agent: agent, Verdict: string(tool.Allow),
		Layers: []admin.Finding{q.byServer(), q.person(), q.enabled(), q.byAgent(agent, why), q.byPolicy(), q.byHooks()}}
	for _, f := range verdict.Layers {
		if f.Decision == string(tool.Deny) || f.Decision == string(tool.Ask) && verdict.Verdict == string(tool.Allow) {
			verdict.Verdict = f.Decision
		}
	}
	return verdict, nil
}

// withheld says why a tool that an MCP server has is offered to nobody.
func (v toolView) withheld(name, user string, channel chat.Address) (admin.Verdict, error) {
	for _, s := range v.a.mcp.Servers() {
		for _, t := range v.a.mcp.ToolsOf(s.Name) {
			if tool.SafeName(s.Name, t.Name) != name {
				continue
			}
			why := fmt.Sprintf("MCP server %s is %s", s.Name, s.State)
			switch t.State {
			case mcp.Withheld:
				why = fmt.Sprintf("it waits for an approval, because %s: ravenbot mcp approve %s", t.Why, s.Name)
			case mcp.Refused, mcp.Excluded:
				why = t.Why
			}
			agent, _ := v.a.setup.Load().bound(channel)
			return admin.Verdict{Tool: name, User: user, Channel: channel.String(), Agent: agent, Verdict: string(tool.Deny),
				Layers: []admin.Finding{finding("server", false, why)}}, nil
		}
	}
	return admin.Verdict{}, v.unknown(name)
}

// byServer says who offers the tool.
func (q question) byServer() admin.Finding {
	const layer = "server"
	spec := q.tool.Tool.Spec()
	if spec.Native {
		return finding(layer, true, fmt.Sprintf("it is the bot's own, of the pack %s", spec.Server))
	}
	s, _ := q.a.mcp.Server(spec.Server)
	reason := fmt.Sprintf("MCP server %s offers it, and is %s", spec.Server, s.State)
	if s.Error != "" {
		reason += ": " + s.Error
	}
	return finding(layer, true, reason)
}

func (v toolView) unknown(name string) error {
	var like []string
	for _, item := range v.SearchTools(name, 3) {
		like = append(like, item.Name)
	}
	if len(like) == 0 {
		return fmt.Errorf("%w: %.100q", admin.ErrNoTool, name)
	}
	return fmt.Errorf("%w: %.100q; did you mean %s?", admin.ErrNoTool, name, strings.Join(like, ", "))
}

// question is a use of a tool that the layers are asked about.
type question struct {
	a       *App
	set     *setup
	agent   member
	tool    tool.Named
	user    string
	channel chat.Address
}

func finding(layer string, ok bool, reason string) admin.Finding {
	f := admin.Finding{Layer: layer, Decision: string(tool.Allow), Reason: reason}
	if !ok {
		f.Decision = string(tool.Deny)
	}
	return f
}

// person says whether the user is answered at all.
func (q question) person() admin.Finding {
	const layer = "channel"
	if q.channel.Platform == q.a.web.Name() {
		return finding(layer, true, "whoever has logged in is answered in web rooms")
	}
	rule, ruled := q.set.config.ChannelRule(q.channel.String())
	switch {
	case !ruled:
		return finding(layer, true, "no rule of channels is about it: everybody is answered")
	case !rule.AllowsUser(q.user, ""):
		return finding(layer, false, fmt.Sprintf("allowUsers of the rule %q does not name the user's id (a user name may still be)", rule.Match))
	}
	return finding(layer, true, fmt.Sprintf("the rule %q lets the user in", rule.Match))
}

// enabled says which layer of settings switches tools on or off.
func (q question) enabled() admin.Finding {
	const layer = "tools.enabled"
	for _, s := range []struct {
		scope settings.Scope
		words string
	}{{settings.User(q.channel.Platform, q.user), "the user's settings"}, {settings.Channel(q.channel), "the channel's settings"}, {settings.Instance, "the bot's settings"}} {
		if on := q.a.settings.Layer(s.scope).Tools.Enabled; on != nil {
			return finding(layer, *on, s.words+" switch tools "+map[bool]string{true: "on", false: "off"}[*on])
		}
	}
	on := q.set.config.Tools.Enabled
	return finding(layer, on, "no settings are above the configuration, which has tools "+map[bool]string{true: "on", false: "off"}[on])
}

// byAgent says whether the agent that answers there has the tool.
func (q question) byAgent(name, why string) admin.Finding {
	const layer = "agent"
	spec := q.tool.Tool.Spec()
	about := fmt.Sprintf("agent %s answers there, because %s; ", name, why)
	if !usable(q.agent, true)(q.tool) {
		if spec.Native {
			return finding(layer, false, about+fmt.Sprintf("none of its tools (%s) is this one", strings.Join(q.agent.Tools, ", ")))
		}
		return finding(layer, false, about+"it is not linked to MCP server "+spec.Server)
	}
	switch {
	case spec.Native && policy.MatchesAny(q.agent.Tools, q.tool):
		return finding(layer, true, about+fmt.Sprintf("its tools (%s) name it", strings.Join(q.agent.Tools, ", ")))
	case spec.Native && anyMatch(q.agent.reach.fallback, spec.Server), !spec.Native && q.agent.reach.fallback != nil:
		return finding(layer, true, about+fmt.Sprintf("no server is linked, and fallbackServers (%s) name %s", strings.Join(q.agent.FallbackServers, ", "), spec.Server))
	case spec.Native:
		return finding(layer, true, about+"this tool goes with what the agent has")
	case q.agent.MCPServers == nil:
		return finding(layer, true, about+"it may use every enabled server")
	}
	return finding(layer, true, about+"it is linked to MCP server "+spec.Server)
}

// byPolicy says which line of the policy decides.
func (q question) byPolicy() admin.Finding {
	decision, _ := q.set.rules.Decide(q.tool)
	class := q.tool.Tool.Spec().Hints.Class()
	line := q.set.rules.RuleIndex(q.tool)
	if line < 0 {
		return admin.Finding{Layer: "policy", Decision: string(decision), Reason: "no line of tools.policy is about it (its hint is " + class + ")"}
	}
	r := q.set.config.Tools.Policy[line]
	reason := fmt.Sprintf("tools.policy[%d] %s decides %q (its hint is %s)", line, ruleWords(r), r.Decision, class)
	if string(decision) != r.Decision {
		reason += "; its server is trusted with it"
	}
	return admin.Finding{Layer: "policy", Decision: string(decision), Reason: reason}
}

func ruleWords(r config.Policy) string {
	words := fmt.Sprintf("for %s", strings.Join(r.Tools, ", "))
	if r.Hint != "" {
		words += " with hint " + r.Hint
	}
	return words
}

// byHooks names the hooks that are run around it; what they decide is seen only then.
func (q question) byHooks() admin.Finding {
	var names []string
	for i, h := range q.set.config.Tools.Hooks {
		if policy.MatchesAny(h.Tools, q.tool) {
			names = append(names, fmt.Sprintf("tools.hooks[%d], %s the call", i, h.When))
		}
	}
	if len(names) == 0 {
		return finding("hooks", true, "none is about it")
	}
	return finding("hooks", true, strings.Join(names, "; ")+": a hook may still deny it, or change it")
}
