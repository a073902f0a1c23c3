package policy_test

import (
	"strings"
	"testing"

	"ravenbot/internal/policy"
	"ravenbot/internal/tool"
)

func named(server, name string, hints tool.Hints) tool.Named {
	return tool.Named{Name: tool.SafeName(server, name), Tool: tool.Func{Described: tool.Spec{Server: server, Name: name, Hints: hints}}}
}

func TestTheFirstRuleThatMatchesDecides(t *testing.T) {
	yes, no := true, false
	read := named("files", "read", tool.Hints{ReadOnly: &yes})
	write := named("files", "write", tool.Hints{ReadOnly: &no, Destructive: &no})
	drop := named("db", "drop", tool.Hints{Destructive: &yes})
	known := named("db", "delete", tool.Hints{Destructive: &yes})
	plain := named("misc", "thing", tool.Hints{})
	p := policy.New([]policy.Rule{
		{Tools: []string{"files.read"}, Decision: tool.Allow},
		{Tools: []string{"files_*"}, Decision: tool.Deny},
		{Tools: []string{"*"}, Hint: "destructive", Decision: tool.Ask},
		{Tools: []string{"misc"}, Hint: "unknown", Decision: tool.Deny},
	}, func(s tool.Spec) bool { return s.Name == "delete" })
	cases := []struct {
		tool tool.Named
		want tool.Decision
		word string
	}{
		{read, tool.Allow, ""}, {write, tool.Deny, "denies"}, {drop, tool.Ask, "approval"},
		{known, tool.Allow, ""}, {plain, tool.Deny, "unknown"},
		{named("web", "fetch", tool.Hints{ReadOnly: &yes}), tool.Allow, ""},
	}
	for _, c := range cases {
		got, why := p.Decide(c.tool)
		if got != c.want || !strings.Contains(why, c.word) {
			t.Errorf("%s: %s (%s), want %s", c.tool.Name, got, why, c.want)
		}
	}
}
