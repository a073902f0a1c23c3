// Package policy decides who may run which tool where. It promises that the first
// rule that matches decides and that what is denied says why in words. Rules come
// from the operator alone, never from a conversation.
package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"ravenbot/internal/tool"
)

// Rule is one line of the policy. An empty Hint matches every tool.
type Rule struct {
	Tools    []string
	Hint     string
	Decision tool.Decision
}

// Policy is an ordered list of rules. It is not changed after New and may be
// used concurrently.
type Policy struct {
	rules   []Rule
	trusted func(tool.Spec) bool
}

// New returns the policy of the rules. trusted tells the tools that the operator
// exempted from being asked about.
func New(rules []Rule, trusted func(tool.Spec) bool) *Policy {
	return &Policy{rules, trusted}
}

// Decide gives the decision on a tool, and the reason where it is not allow.
func (p *Policy) Decide(n tool.Named) (tool.Decision, string) {
	at := p.RuleIndex(n)
	if at < 0 {
		return tool.Allow, ""
	}
	switch r := p.rules[at]; {
	case r.Decision == tool.Deny:
		return tool.Deny, "the operator's policy denies it" + describeHint(r)
	case r.Decision == tool.Ask && !p.trusted(n.Tool.Spec()):
		return tool.Ask, "the operator's policy wants an approval for it" + describeHint(r)
	}
	return tool.Allow, ""
}

// RuleIndex is the index of the rule that decides about a tool; -1: none does.
func (p *Policy) RuleIndex(n tool.Named) int {
	class := n.Tool.Spec().Hints.Class()
	return slices.IndexFunc(p.rules, func(r Rule) bool { return (r.Hint == "" || r.Hint == class) && MatchesAny(r.Tools, n) })
}

func describeHint(r Rule) string {
	if r.Hint == "" {
		return ""
	}
	return fmt.Sprintf(" as a tool of kind %s", r.Hint)
}

// MatchesAny reports whether one of the patterns matches a tool: its name as models see
// it, its server or pack, or both with a dot between. * stands for any run of
// characters, also an empty one.
func MatchesAny(patterns []string, n tool.Named) bool {
	spec := n.Tool.Spec()
	for _, p := range patterns {
		if Match(p, n.Name) || Match(p, spec.Server+"."+spec.Name) || Match(p, spec.Server) {
			return true
		}
	}
	return false
}

// Match reports whether a pattern matches the whole of a name.
func Match(pattern, name string) bool {
	ok, err := path.Match(pattern, strings.ReplaceAll(name, "/", "_"))
	return err == nil && ok
}
