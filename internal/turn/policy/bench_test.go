package policy_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/turn/policy"
)

// BenchmarkDecide measures what a call costs in a tainted turn behind 30 rules that do not hold, with 2 KB of
// arguments.
func BenchmarkDecide(b *testing.B) {
	o := options()
	for n := range 30 {
		o.Rules = append(o.Rules, policy.Rule{Tools: []string{fmt.Sprintf("other%d_*", n)}, Hint: "write",
			Hosts:    []string{"*.example.org"},
			Channels: []string{"slack:T1/C1"}, Decision: tool.Deny})
	}
	texts := map[string]string{"url": "https://named.example/a?b=c"}
	for n := range 20 {
		texts[fmt.Sprint("k", n)] = "a hundred characters of an argument that is no address, as tools for files or mail " +
			"have them all day."
	}
	args, err := json.Marshal(texts)
	if err != nil {
		b.Fatal(err)
	}
	in := tool.Intent{Tool: native("web", "fetch", tool.Hints{ReadOnly: &yes, OpenWorld: &yes}), Args: args,
		Caller: tool.Caller{Conversation: here, Taint: []string{"a page"}, IsNamed: func(string) bool { return false }}}
	p := policy.New(o)
	b.ReportAllocs()
	for b.Loop() {
		if v := p.Decide(in); v.Decision != tool.Ask {
			b.Fatal(v)
		}
	}
}
