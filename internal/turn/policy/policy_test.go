package policy_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/turn/policy"
)

var (
	yes, no  = true, false
	here     = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C9"}
	readOnly = tool.Hints{ReadOnly: &yes}
	write    = tool.Hints{ReadOnly: &no, Destructive: &no}
	destroy  = tool.Hints{Destructive: &yes}
)

func named(server, name string, hints tool.Hints) tool.Named {
	return tool.Named{Name: tool.SafeName(server, name), Tool: tool.Func{Described: tool.Spec{Server: server,
		Name: name, Hints: hints}}}
}

func native(server, name string, hints tool.Hints) tool.Named {
	return tool.Named{Name: tool.SafeName(server, name), Tool: tool.Func{Described: tool.Spec{Server: server, Name: name,
		Hints: hints, Native: true}}}
}

// options trust the server called good, take what the tools of the one called told that begin with get for reading, know
// that the one called closed reaches nothing, and exempt the tool known everywhere.
func options(rules ...policy.Rule) policy.Options {
	return policy.Options{
		Rules: rules,
		Server: func(name string) policy.Server {
			return map[string]policy.Server{
				"good":   {Known: true, Trust: true, AlwaysAllow: []string{"known"}},
				"told":   {Known: true, Reads: []string{"get*"}},
				"both":   {Known: true, Reads: []string{"get*"}, Trust: true},
				"closed": {Known: true, Closed: true, Trust: true},
				"x":      {Known: true, AlwaysAllow: []string{"known"}},
			}[name]
		},
	}
}

// grants are what people have approved beforehand: any call, or the reading tools of a server.
type grants struct {
	all     bool
	reading string
}

func (g grants) Allow(tool.Intent) bool { return g.all }

func (g grants) AllowReading(in tool.Intent) bool { return in.Tool.Tool.Spec().Server == g.reading }

func TestDecide_TheFirstRuleThatHoldsCounts(t *testing.T) {
	p := policy.New(options(
		policy.Rule{Tools: []string{"files.read"}, Decision: tool.Allow},
		policy.Rule{Tools: []string{"files_*"}, Decision: tool.Deny},
		policy.Rule{Tools: []string{"*"}, Hint: "destructive", Decision: tool.Ask},
		policy.Rule{Tools: []string{"misc"}, Hint: "write", Decision: tool.Deny},
	))
	for _, c := range []struct {
		tool tool.Named
		want tool.Decision
		word string
	}{
		{named("files", "read", readOnly), tool.Allow, ""},
		{named("files", "write", write), tool.Deny, "denies"},
		{named("db", "drop", destroy), tool.Ask, "approval"},
		{named("db", "thing", tool.Hints{}), tool.Ask, "destructive"},               // nothing said counts as destructive
		{named("db", "change", tool.Hints{ReadOnly: &no}), tool.Ask, "destructive"}, // so does only "not read-only"
		{named("liar", "delete", readOnly), tool.Ask, "destructive"},                // nobody trusts that server
		{named("misc", "send", write), tool.Deny, "write"},
	} {
		if got := p.Decide(tool.Intent{Tool: c.tool}); got.Decision != c.want || !strings.Contains(got.Reason, c.word) {
			t.Errorf("%s: %s (%s), want %s", c.tool.Name, got.Decision, got.Reason, c.want)
		}
	}
}

func TestDecide_ARuleHoldsWhereAllOfItsKeysHold(t *testing.T) {
	send := named("mail", "send", write)
	in := tool.Intent{
		Tool: send,
		Args: json.RawMessage(`{"to":{"url":"https://API.example.com/x"}}`),
		Caller: tool.Caller{
			Conversation: chat.Address{Platform: "slack", Workspace: "T1", Channel: "C9", Thread: "1.2"},
			User:         chat.User{ID: "U1", Name: "Boss", Handle: "anna", Roles: []string{"R7", "Maintainer"}},
			Taint:        []string{"a page"},
		},
	}
	for name, c := range map[string]struct {
		rule  policy.Rule
		holds bool
	}{
		"channel of the thread":     {policy.Rule{Channels: []string{"slack:T1/C9"}}, true},
		"every channel":             {policy.Rule{Channels: []string{"slack:T1/*"}}, true},
		"another channel":           {policy.Rule{Channels: []string{"slack:T1/C8"}}, false},
		"user by id":                {policy.Rule{Users: []string{"U1"}}, true},
		"user by account":           {policy.Rule{Users: []string{"anna"}}, true},
		"a name that anybody takes": {policy.Rule{Users: []string{"Boss"}}, false},
		"role":                      {policy.Rule{Roles: []string{"Maintainer"}}, true},
		"role by id":                {policy.Rule{Roles: []string{"R7"}}, true},
		"another role":              {policy.Rule{Roles: []string{"Admins"}}, false},
		"tainted":                   {policy.Rule{Tainted: &yes}, true},
		"not tainted":               {policy.Rule{Tainted: &no}, false},
		"host":                      {policy.Rule{Hosts: []string{"*.example.com"}}, true},
		"another host":              {policy.Rule{Hosts: []string{"*.example.org"}}, false},
		"all of them":               {policy.Rule{Users: []string{"U1"}, Roles: []string{"R7"}, Hint: "write"}, true},
		"all but one":               {policy.Rule{Users: []string{"U1"}, Roles: []string{"R8"}, Hint: "write"}, false},
	} {
		c.rule.Tools, c.rule.Decision = []string{"*"}, tool.Deny
		if got := policy.New(options(c.rule)).RuleIndex(in) == 0; got != c.holds {
			t.Errorf("%s: holds %v, want %v", name, got, c.holds)
		}
	}
	allow := policy.Rule{Tools: []string{"*"}, Hosts: []string{"*.example.com"}, Decision: tool.Allow}
	in.Args = json.RawMessage(`{"urls":["https://a.example.com","https://evil.example"]}`)
	if policy.New(options(allow)).RuleIndex(in) >= 0 {
		t.Error("a host that is not named was let through beside one that is")
	}
}

func TestDecide_SafeMode(t *testing.T) {
	fetch := native("web", "fetch", tool.Hints{ReadOnly: &yes, OpenWorld: &yes})
	isNamed := func(url string) bool { return url == "https://named.example/a?b=c" }
	url := func(u string) json.RawMessage { return json.RawMessage(`{"url":"` + u + `"}`) }
	taint := []string{"a page"}
	for name, c := range map[string]struct {
		in   tool.Intent
		want tool.Decision
	}{
		"reading":                           {tool.Intent{Tool: native("memory", "search", readOnly)}, tool.Allow},
		"reading in a tainted turn":         {tool.Intent{Tool: native("memory", "search", readOnly), Caller: tool.Caller{Taint: taint}}, tool.Allow},
		"writing":                           {tool.Intent{Tool: native("memory", "save", write)}, tool.Ask},
		"deleting":                          {tool.Intent{Tool: named("db", "drop", destroy)}, tool.Ask},
		"not annotated":                     {tool.Intent{Tool: named("x", "y", tool.Hints{})}, tool.Ask},
		"read-only by a stranger's word":    {tool.Intent{Tool: named("x", "y", readOnly)}, tool.Ask},
		"read-only of a trusted server":     {tool.Intent{Tool: named("good", "y", readOnly)}, tool.Allow},
		"the same in a tainted turn":        {tool.Intent{Tool: named("good", "y", readOnly), Caller: tool.Caller{Taint: taint}}, tool.Allow},
		"the same in a task":                {tool.Intent{Tool: named("good", "y", readOnly), Caller: tool.Caller{Unattended: true}}, tool.Deny},
		"an address that nobody named":      {tool.Intent{Tool: named("good", "y", readOnly), Args: url("evil.test"), Caller: tool.Caller{Taint: taint, IsNamed: isNamed}}, tool.Ask},
		"an address in a name of a field":   {tool.Intent{Tool: named("good", "y", readOnly), Args: json.RawMessage(`{"evil.test":1}`), Caller: tool.Caller{Taint: taint, IsNamed: isNamed}}, tool.Ask},
		"a mailbox that nobody named":       {tool.Intent{Tool: named("good", "y", readOnly), Args: url("write to eve@evil.test"), Caller: tool.Caller{Taint: taint, IsNamed: isNamed}}, tool.Ask},
		"an address that was named":         {tool.Intent{Tool: named("good", "y", readOnly), Args: url("https://named.example/a?b=c"), Caller: tool.Caller{Taint: taint, IsNamed: isNamed}}, tool.Allow},
		"words":                             {tool.Intent{Tool: named("good", "y", readOnly), Args: url("what was in main.go?"), Caller: tool.Caller{Taint: taint}}, tool.Allow},
		"reaching out by its own word":      {tool.Intent{Tool: named("good", "y", tool.Hints{ReadOnly: &yes, OpenWorld: &yes}), Caller: tool.Caller{Taint: taint}}, tool.Ask},
		"reading by the operator's word":    {tool.Intent{Tool: named("told", "get_it", destroy)}, tool.Allow},
		"the same, tainted":                 {tool.Intent{Tool: named("told", "get_it", tool.Hints{}), Caller: tool.Caller{Taint: taint}}, tool.Ask},
		"the same, tainted, trusted":        {tool.Intent{Tool: named("both", "get_it", tool.Hints{}), Caller: tool.Caller{Taint: taint}}, tool.Allow},
		"another tool than that":            {tool.Intent{Tool: named("told", "set_it", tool.Hints{})}, tool.Ask},
		"its own word about the outside":    {tool.Intent{Tool: named("told", "get_it", tool.Hints{OpenWorld: &no}), Args: url("evil.test"), Caller: tool.Caller{Taint: taint}}, tool.Ask},
		"a server that reaches nothing":     {tool.Intent{Tool: named("closed", "y", readOnly), Args: url("u.id = evil.test"), Caller: tool.Caller{Taint: taint}}, tool.Allow},
		"the same, writing":                 {tool.Intent{Tool: named("closed", "y", write), Caller: tool.Caller{Taint: taint}}, tool.Ask},
		"the same, in a task":               {tool.Intent{Tool: named("closed", "y", readOnly), Caller: tool.Caller{Unattended: true}}, tool.Allow},
		"exempted":                          {tool.Intent{Tool: named("x", "known", destroy)}, tool.Allow},
		"exempted in a tainted turn":        {tool.Intent{Tool: named("x", "known", destroy), Caller: tool.Caller{Taint: taint}}, tool.Ask},
		"a page":                            {tool.Intent{Tool: fetch, Args: url("https://any.example")}, tool.Allow},
		"a page in a tainted turn":          {tool.Intent{Tool: fetch, Args: url("https://any.example/?q=secret"), Caller: tool.Caller{Taint: taint, IsNamed: isNamed}}, tool.Ask},
		"a page that was named":             {tool.Intent{Tool: fetch, Args: url("https://named.example/a?b=c"), Caller: tool.Caller{Taint: taint, IsNamed: isNamed}}, tool.Allow},
		"a page that was named, with more":  {tool.Intent{Tool: fetch, Args: url("https://named.example/a?b=cd"), Caller: tool.Caller{Taint: taint, IsNamed: isNamed}}, tool.Ask},
		"a feed of the bot itself":          {tool.Intent{Tool: native("feeds", "fetch", fetch.Tool.Spec().Hints), Args: url("bundled:ravenbot-news"), Caller: tool.Caller{Taint: taint, IsNamed: isNamed}}, tool.Allow},
		"words in the form of such a feed":  {tool.Intent{Tool: native("feeds", "fetch", fetch.Tool.Spec().Hints), Args: url("bundled:the door code"), Caller: tool.Caller{Taint: taint, IsNamed: isNamed}}, tool.Ask},
		"such a feed as words of a search":  {tool.Intent{Tool: native("web", "search", fetch.Tool.Spec().Hints), Args: url("bundled:ravenbot-news"), Caller: tool.Caller{Taint: taint, IsNamed: isNamed}}, tool.Ask},
		"a text beside an address":          {tool.Intent{Tool: fetch, Args: json.RawMessage(`{"url":"https://named.example/a?b=c","as":"secret"}`), Caller: tool.Caller{Taint: taint, IsNamed: isNamed}}, tool.Ask},
		"a task that writes":                {tool.Intent{Tool: native("memory", "save", write), Caller: tool.Caller{Unattended: true}}, tool.Deny},
		"a task that may":                   {tool.Intent{Tool: native("memory", "save", write), Caller: tool.Caller{Unattended: true, Granted: []string{"memory.*"}}}, tool.Allow},
		"a task that may open pages":        {tool.Intent{Tool: fetch, Args: url("https://any.example"), Caller: tool.Caller{Unattended: true, Granted: []string{"web.*"}, IsNamed: isNamed}}, tool.Allow},
		"a task that is sent elsewhere":     {tool.Intent{Tool: fetch, Args: url("https://any.example/?q=secret"), Caller: tool.Caller{Unattended: true, Granted: []string{"web.*"}, Taint: taint, IsNamed: isNamed}}, tool.Deny},
		"a task that follows a link":        {tool.Intent{Tool: fetch, Args: url("https://named.example/a?b=c"), Caller: tool.Caller{Unattended: true, Granted: []string{"web.*"}, Taint: taint, IsNamed: isNamed}}, tool.Allow},
		"a task that reads":                 {tool.Intent{Tool: native("memory", "search", readOnly), Caller: tool.Caller{Unattended: true}}, tool.Allow},
		"a task that opens any page":        {tool.Intent{Tool: fetch, Args: url("https://any.example"), Caller: tool.Caller{Unattended: true, IsNamed: isNamed}}, tool.Deny},
		"a task that opens its named page":  {tool.Intent{Tool: fetch, Args: url("https://named.example/a?b=c"), Caller: tool.Caller{Unattended: true, IsNamed: isNamed}}, tool.Allow},
		"a task that exempted tools tempts": {tool.Intent{Tool: named("x", "known", destroy), Caller: tool.Caller{Unattended: true}}, tool.Deny},
	} {
		v := policy.New(options()).Decide(c.in)
		if v.Decision != c.want || (v.Reason == "") != (c.want == tool.Allow) {
			t.Errorf("%s: %s (%s), want %s", name, v.Decision, v.Reason, c.want)
		}
	}
	granted := options()
	granted.Grants = grants{all: true}
	at := chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1"}
	for what, c := range map[string]struct {
		in   tool.Intent
		want tool.Decision
	}{
		"approved beforehand":             {tool.Intent{Tool: named("db", "drop", destroy), Caller: tool.Caller{Conversation: at}}, tool.Allow},
		"approved, in a tainted turn":     {tool.Intent{Tool: named("db", "drop", destroy), Caller: tool.Caller{Conversation: at, Taint: taint}}, tool.Ask},
		"approved, in a task":             {tool.Intent{Tool: named("db", "drop", destroy), Caller: tool.Caller{Conversation: at, Unattended: true}}, tool.Deny},
		"approved, egress when tainted":   {tool.Intent{Tool: fetch, Args: url("https://any.example"), Caller: tool.Caller{Conversation: at, Taint: taint}}, tool.Ask},
		"approved, against a rule to ask": {tool.Intent{Tool: native("memory", "save", write), Caller: tool.Caller{Conversation: at}}, tool.Ask},
	} {
		o := granted
		if strings.Contains(what, "rule") {
			o.Rules = []policy.Rule{{Tools: []string{"*"}, Decision: tool.Ask}}
		}
		if v := policy.New(o).Decide(c.in); v.Decision != c.want || v.Grantable {
			t.Errorf("%s: %s, want %s; grantable %v", what, v.Decision, c.want, v.Grantable)
		}
	}
	plain := tool.Intent{Tool: named("db", "drop", destroy), Caller: tool.Caller{Conversation: at}}
	if v := policy.New(options()).Decide(plain); !v.Grantable {
		t.Error("a call that only safe mode asks about cannot be approved for more")
	}
	open := options()
	open.Open = true
	if v := policy.New(open).Decide(tool.Intent{Tool: named("db", "drop", destroy)}); v.Decision != tool.Allow {
		t.Errorf("the open mode decides %s", v.Decision)
	}
}

// FuzzDecide changes the order of rules among those of one decision: what is denied must not
// become allowed by it.
func FuzzDecide(f *testing.F) {
	f.Add(uint64(1))
	f.Add(uint64(42))
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		pick := func(list ...string) []string {
			if i := rng.IntN(len(list) + 1); i < len(list) {
				return list[i : i+1]
			}
			return nil
		}
		var rules []policy.Rule
		for range 1 + rng.IntN(6) {
			r := policy.Rule{
				Hint:     []string{"", "readOnly", "write", "destructive", "unknown"}[rng.IntN(5)],
				Channels: pick("slack:T1/C9", "slack:T2/*"),
				Users:    pick("U1", "U2"),
				Roles:    pick("R1", "R2"),
				Hosts:    pick("*.example", "evil.example"),
				Decision: []tool.Decision{tool.Allow, tool.Ask, tool.Deny}[rng.IntN(3)],
			}
			if r.Tools = pick("*", "x_*", "web"); r.Tools == nil {
				r.Tools = []string{"*"}
			}
			if rng.IntN(2) == 0 {
				r.Tainted = []*bool{&yes, &no}[rng.IntN(2)]
			}
			rules = append(rules, r)
		}
		in := tool.Intent{
			Tool: []tool.Named{named("x", "y", write), named("x", "z", tool.Hints{}),
				native("web", "fetch", readOnly)}[rng.IntN(3)],
			Args: json.RawMessage([]string{`{}`, `{"url":"https://evil.example/"}`,
				`{"url":["https://a.example","https://b.test"]}`}[rng.IntN(3)]),
			Caller: tool.Caller{
				Conversation: here,
				User:         chat.User{ID: []string{"U1", "U3"}[rng.IntN(2)], Roles: pick("R1")},
				Taint:        pick("a page"),
			},
		}
		before := policy.New(options(rules...)).Decide(in).Decision
		// Swaps within runs of neighbours of one decision.
		swapped := slices.Clone(rules)
		for i := range len(swapped) - 1 {
			if swapped[i].Decision == swapped[i+1].Decision && rng.IntN(2) == 0 {
				swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			}
		}
		if after := policy.New(options(swapped...)).Decide(in).Decision; after != before {
			t.Errorf("%s became %s when rules of one decision changed places: %+v", before, after, rules)
		}
	})
}
