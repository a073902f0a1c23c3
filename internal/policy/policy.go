// Package policy decides whether a tool call may be made: by the operator's rules, of which the
// first that matches counts, and where none does by safe mode (contract, section 6): tools that
// only read run, all others ask, and in a turn that has read foreign text everything asks that
// could carry data out. It promises that what a server says about its own tools counts only
// where the operator trusts the server, that a decision says why in words, and that rules come
// from the operator alone, never from a conversation.
package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"ravenbot/internal/tool"
)

// Rule is one line of tools.policy. It holds where all of its keys hold; an empty key holds
// always.
type Rule struct {
	Tools    []string
	Hint     string
	Channels []string // patterns of addresses
	Users    []string // ids or account names
	Roles    []string // ids or names
	Tainted  *bool    // whether the turn has read foreign text
	// Hosts are patterns of the hosts of addresses in the arguments. A rule that allows holds
	// where each of them matches and there is one; any other where one of them does.
	Hosts     []string
	Decision  tool.Decision
	Approvers []string // who may approve: "roles:NAME" or "users:ID"; empty: the asker or an administrator
}

// Options configure a Policy.
type Options struct {
	Rules []Rule
	Open  bool // what no rule decides is allowed
	// Trusts reports whether what a server says about its tools is believed.
	Trusts func(server string) bool
	// AlwaysAllowed reports the tools that the operator exempted from asking.
	AlwaysAllowed func(tool.Spec) bool
	// Granted reports the calls that people approved beforehand; nil: none.
	Granted func(in tool.Intent) bool
}

// Policy does not change after New and may be used concurrently.
type Policy struct{ o Options }

// New returns a policy.
func New(o Options) *Policy { return &Policy{o} }

// Decide returns the decision about a call.
func (p *Policy) Decide(in tool.Intent) tool.Verdict {
	// Before the rules, whose condition "tainted" counts descriptions of tools as well.
	in.Caller.Taint = p.taint(in.Caller)
	v := p.decide(newCall(in))
	if v.Decision == tool.Ask && in.Caller.Unattended {
		v.Decision, v.Reason = tool.Deny, v.Reason+", and a scheduled task has nobody to ask"
	}
	return v
}

// call is a call with what many rules ask of it, worked out once.
type call struct {
	tool.Intent
	names []string        // by which rules may name the tool
	texts func() []string // see textsIn
}

// newCall returns a call with what rules compare. Its arguments are searched for addresses once,
// and only if a rule asks for hosts.
func newCall(in tool.Intent) call {
	return call{in, toolNames(in.Tool), sync.OnceValue(func() []string { return textsIn(in.Args) })}
}

// decide returns what the first rule that holds says, or the mode where none does. The reason is
// for people and names the rule by its place in the configuration.
func (p *Policy) decide(in call) tool.Verdict {
	at := p.ruleIndex(in)
	if at < 0 {
		return p.decideWithoutRule(in)
	}
	r := p.o.Rules[at]
	v := tool.Verdict{Decision: r.Decision, Approvers: r.Approvers}
	switch r.Decision {
	case tool.Deny:
		v.Reason = fmt.Sprintf("the operator's policy denies it (tools.policy[%d]%s)", at, describeHint(r))
	case tool.Ask:
		v.Reason = fmt.Sprintf("the operator's policy requires an approval for it (tools.policy[%d]%s)", at, describeHint(r))
		if len(in.Caller.Taint) > 0 {
			v.Reason += "; " + describeTaint(in.Caller.Taint)
		}
	}
	return v
}

// RuleIndex returns the index of the rule that decides about a call, or -1 where none does.
func (p *Policy) RuleIndex(in tool.Intent) int { return p.ruleIndex(newCall(in)) }

// ruleIndex returns the place of the first rule that holds, or -1.
func (p *Policy) ruleIndex(in call) int {
	return slices.IndexFunc(p.o.Rules, func(r Rule) bool { return p.holds(r, in) })
}

// holds reports whether all conditions of a rule are met. A list that is empty is no condition.
func (p *Policy) holds(r Rule, in call) bool {
	c := in.Caller
	switch {
	case !matchesNames(r.Tools, in.names),
		!matchesHint(r.Hint, p.Class(in.Tool.Tool.Spec())),
		len(r.Channels) > 0 && !matchesChannel(r.Channels, c),
		len(r.Users) > 0 && !slices.Contains(r.Users, c.User.ID) && !slices.Contains(r.Users, c.User.Handle),
		len(r.Roles) > 0 && !slices.ContainsFunc(r.Roles, func(role string) bool {
			return slices.Contains(c.User.Roles, role)
		}),
		r.Tainted != nil && *r.Tainted != (len(c.Taint) > 0):
		return false
	}
	return len(r.Hosts) == 0 || matchesHosts(r, hostsIn(in.texts()))
}

// Class returns the hint of a tool: readOnly, write, destructive or unknown. That a tool only
// reads is believed of the bot's own tools, and of servers that the operator trusts.
func (p *Policy) Class(s tool.Spec) string {
	class := s.Hints.Class()
	if class == "readOnly" && !s.Native && !p.o.Trusts(s.Server) {
		return "unknown"
	}
	return class
}

// matchesHint reports whether the hint of a rule is about tools of a class. A tool that says
// nothing counts as destructive, too: that is the default of the MCP specification (2025-11-25).
func matchesHint(hint, class string) bool {
	return hint == "" || hint == class || hint == "destructive" && class == "unknown"
}

// matchesChannel reports whether a call was made in a channel that a pattern names.
func matchesChannel(patterns []string, c tool.Caller) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		// A rule for a channel is about its threads, too.
		return Match(strings.ReplaceAll(p, "/", "_"), c.Conversation.String()) ||
			Match(strings.ReplaceAll(p, "/", "_"), c.Conversation.Base().String())
	})
}

// matchesHosts reports whether the hosts in a call's arguments meet a rule: any of them where it
// refuses or asks, all of them where it allows.
func matchesHosts(r Rule, hosts []string) bool {
	matches := func(host string) bool {
		return slices.ContainsFunc(r.Hosts, func(p string) bool { return Match(strings.ToLower(p), host) })
	}
	if r.Decision != tool.Allow {
		return slices.ContainsFunc(hosts, matches)
	}
	// One address that is not named must not be let through beside one that is.
	return len(hosts) > 0 && !slices.ContainsFunc(hosts, func(host string) bool { return !matches(host) })
}

// describeHint names the hint of a rule, for the reason of a decision.
func describeHint(r Rule) string {
	if r.Hint == "" {
		return ""
	}
	return fmt.Sprintf(", as a tool of kind %s", r.Hint)
}

// MatchesAny reports whether one of the patterns matches a tool: its name as models see it, its server or pack, or
// both with a dot between. * stands for any number of characters, also none.
func MatchesAny(patterns []string, n tool.Named) bool { return matchesNames(patterns, toolNames(n)) }

// toolNames returns what a pattern may name a tool by.
func toolNames(n tool.Named) []string {
	spec := n.Tool.Spec()
	return []string{n.Name, spec.Server + "." + spec.Name, spec.Server}
}

// matchesNames reports whether a pattern matches any name of a tool.
func matchesNames(patterns, names []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return Match(p, name) })
	})
}

// Match reports whether a pattern matches the whole of a name.
func Match(pattern, name string) bool {
	// path.Match stops * at a slash, which a tool's name may hold.
	name = strings.ReplaceAll(name, "/", "_")
	// Most patterns fail by their beginning, or are plain names.
	special := strings.IndexAny(pattern, `*?[\`)
	if special < 0 {
		return pattern == name
	}
	if !strings.HasPrefix(name, pattern[:special]) {
		return false
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}
