// Package policy decides which tools may run.
//
// It promises that the first rule that matches decides, and that a denial says why in words. Rules come from the
// operator alone, never from a conversation.
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

// Policy is an ordered list of rules. It does not change after New and may be used concurrently.
type Policy struct {
	rules   []Rule
	trusted func(tool.Spec) bool
}

// New returns a policy with the given rules. trusted reports the tools that the operator exempted from approval.
func New(rules []Rule, trusted func(tool.Spec) bool) *Policy {
	return &Policy{rules, trusted}
}

// Decide returns the decision about a tool, and the reason unless it is allow.
func (p *Policy) Decide(n tool.Named) (tool.Decision, string) {
	at := p.RuleIndex(n)
	if at < 0 {
		return tool.Allow, ""
	}
	switch r := p.rules[at]; {
	case r.Decision == tool.Deny:
		return tool.Deny, "the operator's policy denies it" + describeHint(r)
	case r.Decision == tool.Ask && !p.trusted(n.Tool.Spec()):
		return tool.Ask, "the operator's policy requires an approval for it" + describeHint(r)
	}
	return tool.Allow, ""
}

// RuleIndex returns the index of the rule that decides about a tool, or -1 where none does.
func (p *Policy) RuleIndex(n tool.Named) int {
	class := n.Tool.Spec().Hints.Class()
	// An empty hint matches every tool.
	return slices.IndexFunc(
		p.rules,
		func(r Rule) bool { return (r.Hint == "" || r.Hint == class) && MatchesAny(r.Tools, n) },
	)
}

// describeHint names the hint of a rule, for the reason of a decision.
func describeHint(r Rule) string {
	if r.Hint == "" {
		return ""
	}
	return fmt.Sprintf(" as a tool of kind %s", r.Hint)
}

// MatchesAny reports whether one of the patterns matches a tool: its name as models see it, its server or pack, or
// both with a dot between. * stands for any number of characters, also none.
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
	// path.Match stops * at a slash, which a tool's name may hold.
	ok, err := path.Match(pattern, strings.ReplaceAll(name, "/", "_"))
	return err == nil && ok
}
