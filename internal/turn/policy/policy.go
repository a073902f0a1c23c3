// Package policy decides whether a tool call is allowed. The first matching rule of the operator counts. If no rule
// matches, safe mode decides (docs/safety.md): tools that only read run, and all others ask. In a turn that has read
// foreign text, calls also ask if they change something or could send data to an address that nobody gave. It promises
// that a server's claims about its own tools count only if the operator trusts the server or an administrator approved
// its reading tools, that a decision states its reason and how to avoid such questions, and that rules come from the
// operator only, never from a conversation.
package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"ravenbot/internal/core/address"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
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
	// Hosts are patterns of the hosts of addresses in the arguments. A rule that allows holds if there is a web
	// address of such a host and no other address; any other rule if one of the hosts matches.
	Hosts     []string
	Decision  tool.Decision
	Approvers []string // who may approve: "roles:NAME" or "users:ID"; empty: the asker or an administrator
}

// Server holds the operator's settings of an MCP server.
type Server struct {
	Known       bool // it has an entry in config.json
	Trust       bool // its claims about its tools count
	Closed      bool // it reaches nothing outside of itself
	Reads       []string
	AlwaysAllow []string
}

// Options configure a Policy.
type Options struct {
	Rules []Rule
	Open  bool // the decision if no rule matches
	// Server returns the operator's settings of an MCP server.
	Server func(name string) Server
	Grants Grants // nil: none
}

// Policy does not change after New and may be used concurrently.
type Policy struct{ o Options }

// New returns a policy.
func New(o Options) *Policy { return &Policy{o} }

// Decide returns the decision about a call.
func (p *Policy) Decide(in tool.Intent) tool.Verdict {
	v := p.decideForAll(newCall(in))
	if v.Decision == tool.Ask && in.Caller.Unattended {
		v.Decision, v.Reason = tool.Deny, v.Reason+", and a scheduled task has nobody to ask"
	}
	return v
}

// decideForAll returns the decision about a call, which asks if the caller may make it unasked, but not everybody whose
// words may have caused it: the caller then confirms that the call is meant. Whose foreign text is, nobody knows: it has
// the rights of nobody, but for rules that say "tainted": true.
func (p *Policy) decideForAll(in call) tool.Verdict {
	v, c := p.decide(in), in.Caller
	v.Shared = len(c.Authors) > 0
	authors := c.Authors
	if len(c.Taint) > 0 {
		authors = append(slices.Clip(authors), "")
	}
	if v.Decision != tool.Allow {
		return v
	}
	for _, who := range authors {
		_, id, _ := strings.Cut(who, "/")
		in.author = &chat.User{ID: id}
		if other := p.decide(in); other.Decision == tool.Allow {
			continue
		}
		reason := "the conversation contains words of somebody who cannot run it without a question"
		if id != "" {
			reason = "words of " + id + " were read before, who may not run it unasked"
		}
		asked := p.ask(in, p.read(in), reason)
		asked.Shared = true
		return asked
	}
	return v
}

// call is a call with what many rules ask of it, worked out once.
type call struct {
	tool.Intent
	// author is whose rights are asked for, of whose roles and account name nothing is known; nil: the caller's.
	author *chat.User
	names  []string        // by which rules may name the tool
	texts  func() []string // see address.Texts
	// addresses are those in the arguments.
	addresses func() []string
}

// newCall returns a call with what rules compare. Its arguments are searched for addresses once,
// and only if a rule asks for hosts.
func newCall(in tool.Intent) call {
	names := toolNames(in.Tool)
	if in = in.Decided(); in.Tool.Name != names[0] {
		names = append(names, toolNames(in.Tool)...)
	}
	texts := sync.OnceValue(func() []string { return address.Texts(in.Args) })
	return call{in, nil, names, texts, sync.OnceValue(func() []string {
		var list []string
		for _, s := range texts() {
			list = append(list, address.In(s)...)
		}
		return list
	})}
}

// decide returns the decision of the first matching rule, or of the mode if none matches. The reason is for people and
// names the rule by its place in the configuration.
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
		v.Line = fmt.Sprintf(`"decision": "allow" in tools.policy[%d]`, at)
		if len(in.Caller.Taint) > 0 {
			v.Reason += readBefore + in.Caller.Origin().Sources()
		}
	}
	return v
}

// RuleIndex returns the index of the rule that decides on a call, or -1.
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
		len(r.Users)+len(r.Roles) > 0 && !r.namesPerson(in),
		r.Tainted != nil && *r.Tainted != (len(c.Taint) > 0):
		return false
	}
	return len(r.Hosts) == 0 || matchesHosts(r, in.addresses())
}

// namesPerson reports whether the users and roles of a rule are about the person whose rights are asked for. Somebody whose
// roles are not known may have any that forbid something, and none that allow it.
func (r Rule) namesPerson(in call) bool {
	who, mayHaveRole := in.Caller.User, false
	if in.author != nil && (in.author.ID != "" || r.Tainted == nil || !*r.Tainted) {
		who, mayHaveRole = *in.author, in.author.ID != "" && r.Decision != tool.Allow
	}
	return (len(r.Users) == 0 || slices.Contains(r.Users, who.ID) || slices.Contains(r.Users, who.Handle)) &&
		(len(r.Roles) == 0 || mayHaveRole || slices.ContainsFunc(r.Roles, func(role string) bool {
			return slices.Contains(who.Roles, role)
		}))
}

// Class returns the hint of a tool: readOnly, write, destructive or unknown. That a tool only
// reads is believed of the bot's own tools, of servers that the operator trusts, and of tools that he says it of.
func (p *Policy) Class(s tool.Spec) string {
	class := s.Hints.Class()
	if s.Native {
		return class
	}
	switch about := p.o.Server(s.Server); {
	case slices.ContainsFunc(about.Reads, func(pattern string) bool { return Match(pattern, s.Name) }):
		return readOnly
	case class == readOnly && !about.Trust:
		return unknown
	}
	return class
}

// Classes of tools.
const (
	readOnly = "readOnly"
	unknown  = "unknown"
)

// matchesHint reports whether the hint of a rule is about tools of a class. A tool that says
// nothing counts as destructive, too: that is the default of the MCP specification (2025-11-25).
func matchesHint(hint, class string) bool {
	return hint == "" || hint == class || hint == "destructive" && class == unknown
}

// matchesChannel reports whether a call was made in a channel that a pattern names.
func matchesChannel(patterns []string, c tool.Caller) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		// A rule for a channel is about its threads, too.
		return Match(strings.ReplaceAll(p, "/", "_"), c.Conversation.String()) ||
			Match(strings.ReplaceAll(p, "/", "_"), c.Conversation.Base().String())
	})
}

// matchesHosts reports whether the addresses in a call's arguments match a rule. For a rule that refuses or asks, one
// address is enough. A rule that allows requires that every possible address is a web address of its hosts.
func matchesHosts(r Rule, addresses []string) bool {
	matches := func(host string) bool {
		return slices.ContainsFunc(r.Hosts, func(p string) bool { return Match(strings.ToLower(p), host) })
	}
	if r.Decision != tool.Allow {
		return slices.ContainsFunc(addresses, func(a string) bool {
			return slices.ContainsFunc(address.Hosts(a), matches)
		})
	}
	return len(addresses) > 0 && !slices.ContainsFunc(addresses, func(a string) bool {
		u := address.Web(a)
		return u == nil || u.User != nil || !matches(strings.ToLower(u.Hostname()))
	})
}

// describeHint names the hint of a rule, for the reason of a decision.
func describeHint(r Rule) string {
	if r.Hint == "" {
		return ""
	}
	return fmt.Sprintf(", as a tool of kind %s", r.Hint)
}

// MatchesAny reports whether one of the patterns matches a tool: its name for models, its server or pack, or both
// joined by a dot. * matches any number of characters, including none.
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
