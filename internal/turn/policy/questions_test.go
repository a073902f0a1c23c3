package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/turn/policy"
)

// What could be an address and is no web address of a named host fails a rule that allows.
func TestDecide_ARuleThatAllowsHosts_LetsNothingElseThrough(t *testing.T) {
	rule := policy.Rule{Tools: []string{"*"}, Tainted: &yes, Hosts: []string{"*.example.com"}, Decision: tool.Allow}
	p := policy.New(options(rule))
	for _, c := range []struct {
		url  string
		want tool.Decision
	}{
		{"https://a.example.com/x?q=1", tool.Allow},
		{"see https://a.example.com/x, please", tool.Allow},
		{"https://evil.test", tool.Ask},
		{"evil.test/?q=SECRET", tool.Ask},
		{"//evil.test", tool.Ask},
		{"ftp://evil.test", tool.Ask},
		{"ftp://a.example.com", tool.Ask},
		{"ws://evil.test", tool.Ask},
		{"mailto:eve@evil.test", tool.Ask},
		{"(https://evil.test/)", tool.Ask},
		{`https://a.example.com\\@evil.test/`, tool.Ask},
		{"https://a.example.com@evil.test/", tool.Ask},
		{"a.example.com", tool.Ask},
		{"nothing", tool.Ask},
	} {
		args := `{"url":"` + c.url + `"`
		if c.want == tool.Ask {
			args += `,"ref":"https://a.example.com"`
		}
		if c.url == "nothing" {
			args = `{"url":"nothing"`
		}
		in := tool.Intent{Tool: named("evil", "go", write), Args: json.RawMessage(args + "}"),
			Caller: tool.Caller{Conversation: here, Taint: []string{"a page"}}}
		if v := p.Decide(in); v.Decision != c.want {
			t.Errorf("%s: %s, want %s", c.url, v.Decision, c.want)
		}
	}
	deny := policy.New(options(policy.Rule{Tools: []string{"*"}, Hosts: []string{"evil.test"}, Decision: tool.Deny}))
	for _, url := range []string{"https://evil.test/", "evil.test", "eve@evil.test", "ftp://evil.test/x"} {
		in := tool.Intent{Tool: named("good", "y", readOnly), Args: json.RawMessage(`{"to":"` + url + `"}`)}
		if v := deny.Decide(in); v.Decision != tool.Deny {
			t.Errorf("%s: %s by a rule that denies its host", url, v.Decision)
		}
	}
}

// Each question names the narrowest line of config.json that ends such questions, and offers what would hold.
func TestDecide_AQuestionSaysHowItCanBeEnded(t *testing.T) {
	fetch := native("web", "fetch", tool.Hints{ReadOnly: &yes, OpenWorld: &yes})
	taint := []string{"a page"}
	args := json.RawMessage(`{"q":"https://evil.test/x"}`)
	for name, c := range map[string]struct {
		tool      tool.Named
		args      json.RawMessage
		taint     []string
		line      string
		grantable bool
		reading   bool
	}{
		"not annotated":      {named("x", "y", tool.Hints{}), nil, nil, `"mcpServers": {"x": {"reads": ["y"]}}`, true, true},
		"the same, tainted":  {named("x", "y", tool.Hints{}), nil, taint, `"mcpServers": {"x": {"reads": ["y"], "trust": true}}`, false, true},
		"says that it reads": {named("x", "y", readOnly), nil, nil, `"mcpServers": {"x": {"trust": true}}`, true, true},
		"reads, by the operator, tainted": {named("told", "get_it", tool.Hints{}), nil, taint,
			`"mcpServers": {"told": {"trust": true}}`, false, true},
		"writes": {named("x", "y", write), nil, nil, `"mcpServers": {"x": {"alwaysAllow": ["y"]}}`, true, false},
		"writes, tainted": {named("x", "y", write), nil, taint,
			`"tools": {"policy": [{"tools": ["x_y"], "channels": ["slack:T1/C9"], "tainted": true, "decision": "allow"}]}`, false, false},
		"unknown server": {named("added", "y", write), nil, nil,
			`"tools": {"policy": [{"tools": ["added_y"], "channels": ["slack:T1/C9"], "tainted": false, "decision": "allow"}]}`, true, false},
		"the bot's own": {native("memory", "save", write), nil, nil,
			`"tools": {"policy": [{"tools": ["memory_save"], "channels": ["slack:T1/C9"], "tainted": false, "decision": "allow"}]}`, true, false},
		"an address": {fetch, args, taint,
			`"tools": {"policy": [{"tools": ["web_fetch"], "channels": ["slack:T1/C9"], "hosts": ["evil.test"], "tainted": true, "decision": "allow"}]}`, false, false},
		"words for a search": {fetch, json.RawMessage(`{"q":"ravens"}`), taint,
			`"tools": {"policy": [{"tools": ["web_fetch"], "channels": ["slack:T1/C9"], "tainted": true, "decision": "allow"}]}`, false, true},
		"a mailbox for a trusted reader": {named("good", "y", readOnly), json.RawMessage(`{"of":"eve@evil.test"}`), taint,
			`"mcpServers": {"good": {"egress": "none"}}`, false, false},
		"an address for an untrusted reader": {named("x", "y", readOnly), args, taint,
			`"tools": {"policy": [{"tools": ["x_y"], "channels": ["slack:T1/C9"], "tainted": true, "decision": "allow"}]}`, false, false},
	} {
		v := policy.New(options()).Decide(tool.Intent{Tool: c.tool, Args: c.args,
			Caller: tool.Caller{Conversation: here, Taint: c.taint}})
		if v.Decision != tool.Ask || v.Line != c.line || v.Grantable != c.grantable || v.ReadingGrantable != c.reading {
			t.Errorf("%s: %+v", name, v)
		}
	}
	rules := policy.New(options(policy.Rule{Tools: []string{"*"}, Decision: tool.Ask}))
	if v := rules.Decide(tool.Intent{Tool: fetch}); v.Line != `"decision": "allow" in tools.policy[0]` || v.Grantable || v.ReadingGrantable {
		t.Errorf("a rule: %+v", v)
	}
}

// The approval of a server's reading tools counts for them as the word trust would, and never for what writes or for an
// address that nobody named.
func TestDecide_ReadingToolsThatWereApproved(t *testing.T) {
	o := options()
	o.Grants = grants{reading: "x"}
	p := policy.New(o)
	for name, c := range map[string]struct {
		in   tool.Intent
		want tool.Decision
	}{
		"words":                  {tool.Intent{Tool: named("x", "y", readOnly), Args: json.RawMessage(`{"q":"ravens"}`)}, tool.Allow},
		"an address":             {tool.Intent{Tool: named("x", "y", readOnly), Args: json.RawMessage(`{"q":"evil.test"}`)}, tool.Ask},
		"its word on reach":      {tool.Intent{Tool: named("x", "y", tool.Hints{ReadOnly: &yes, OpenWorld: &no}), Args: json.RawMessage(`{"q":"evil.test"}`)}, tool.Ask},
		"another server":         {tool.Intent{Tool: named("z", "y", readOnly)}, tool.Ask},
		"a search of the web":    {tool.Intent{Tool: native("x", "search", tool.Hints{ReadOnly: &yes, OpenWorld: &yes}), Args: json.RawMessage(`{"q":"ravens"}`)}, tool.Allow},
		"a search for a host":    {tool.Intent{Tool: native("x", "search", tool.Hints{ReadOnly: &yes, OpenWorld: &yes}), Args: json.RawMessage(`{"q":"secret.evil.test"}`)}, tool.Ask},
		"another, in a task":     {tool.Intent{Tool: named("x", "y", readOnly), Caller: tool.Caller{Unattended: true}}, tool.Deny},
		"the bot's own to write": {tool.Intent{Tool: native("memory", "save", write)}, tool.Ask},
	} {
		c.in.Caller.Conversation, c.in.Caller.Taint = here, []string{"a page"}
		if v := p.Decide(c.in); v.Decision != c.want {
			t.Errorf("%s: %s, want %s", name, v.Decision, c.want)
		}
	}
}

// delegate is a tool of the bot that asks the MCP server good or x, as its arguments say.
type delegate struct{ tool.Func }

func (d delegate) DecidedAs(args json.RawMessage) tool.Named {
	for _, server := range []string{"good", "x"} {
		if strings.Contains(string(args), `"server":"`+server+`"`) {
			return named(server, "resource_read", readOnly)
		}
	}
	return tool.Named{Name: "mcp_resource_read", Tool: d.Func}
}

// What the bot asks of a server counts as a call of the server's, under both names.
func TestDecide_ADelegateIsDecidedUnderTheServersName(t *testing.T) {
	read := tool.Named{Name: "mcp_resource_read", Tool: delegate{tool.Func{Described: tool.Spec{Server: "mcp",
		Name: "resource_read", Native: true, Hints: readOnly}}}}
	in := func(server string, taint ...string) tool.Intent {
		return tool.Intent{Tool: read, Args: json.RawMessage(`{"server":"` + server + `","uri":"note://1"}`),
			Caller: tool.Caller{Conversation: here, Taint: taint}}
	}
	p := policy.New(options())
	for name, c := range map[string]struct {
		in   tool.Intent
		want tool.Decision
	}{
		"trusted":          {in("good"), tool.Allow},
		"trusted, tainted": {in("good", "a page"), tool.Ask}, // nobody named the URI
		"not trusted":      {in("x"), tool.Ask},
	} {
		if v := p.Decide(c.in); v.Decision != c.want {
			t.Errorf("%s: %s, want %s", name, v.Decision, c.want)
		}
	}
	for _, pattern := range []string{"mcp_*", "x_*", "x", "mcp.resource_read"} {
		p := policy.New(options(policy.Rule{Tools: []string{pattern}, Decision: tool.Deny}))
		if v := p.Decide(in("x")); v.Decision != tool.Deny {
			t.Errorf("%s: %s", pattern, v.Decision)
		}
	}
}

// personal are grants of one person.
type personal struct{ id string }

func (g personal) Allow(in tool.Intent) bool { return in.Caller.User.ID == g.id }

func (personal) AllowReading(tool.Intent) bool { return false }

// A call has the rights of the least of all whose words were read before; who has them is asked.
func TestDecide_WordsOfOthers_HaveTheRightsOfTheirAuthors(t *testing.T) {
	berit := chat.User{ID: "U2", Handle: "berit", Roles: []string{"R1"}}
	drop := named("db", "drop", destroy)
	foreign := tool.Caller{Taint: []string{"a page"}}
	by := func(ids ...string) tool.Caller {
		var c tool.Caller
		for _, id := range ids {
			c.Authors = append(c.Authors, "slack/"+id)
		}
		return c
	}
	allow := func(r policy.Rule) []policy.Rule {
		r.Tools, r.Decision = []string{"db_*"}, tool.Allow
		return []policy.Rule{r}
	}
	deny := func(r policy.Rule) []policy.Rule {
		r.Tools, r.Decision = []string{"db_*"}, tool.Deny
		return append([]policy.Rule{r}, allow(policy.Rule{})...)
	}
	for name, c := range map[string]struct {
		rules  []policy.Rule
		grants policy.Grants
		caller tool.Caller
		want   tool.Decision
	}{
		"her own":                        {allow(policy.Rule{Users: []string{"U2"}}), nil, by(), tool.Allow},
		"another's":                      {allow(policy.Rule{Users: []string{"U2"}}), nil, by("U3"), tool.Ask},
		"of somebody else whom it names": {allow(policy.Rule{Users: []string{"U2", "U3"}}), nil, by("U3"), tool.Allow},
		"of two, of whom it names one":   {allow(policy.Rule{Users: []string{"U2", "U3"}}), nil, by("U3", "U4"), tool.Ask},
		"of somebody unknown":            {allow(policy.Rule{Users: []string{"U2"}}), nil, by(""), tool.Ask},
		"her account's, another's words": {allow(policy.Rule{Users: []string{"berit"}}), nil, by("U3"), tool.Ask},
		"her role's":                     {allow(policy.Rule{Roles: []string{"R1"}}), nil, by(), tool.Allow},
		"her role's, another's words":    {allow(policy.Rule{Roles: []string{"R1"}}), nil, by("U3"), tool.Ask},
		"a stranger's":                   {allow(policy.Rule{Users: []string{"U2"}}), nil, foreign, tool.Ask},
		"a stranger's, as the rule says": {allow(policy.Rule{Users: []string{"U2"}, Tainted: &yes}), nil, foreign, tool.Allow},
		"everybody's":                    {allow(policy.Rule{}), nil, by("U3"), tool.Allow},
		"everybody's and a stranger's":   {allow(policy.Rule{}), nil, foreign, tool.Allow},
		"denied to the other":            {deny(policy.Rule{Users: []string{"U3"}}), nil, by("U3"), tool.Ask},
		"denied to a third":              {deny(policy.Rule{Users: []string{"U4"}}), nil, by("U3"), tool.Allow},
		"denied to a role":               {deny(policy.Rule{Roles: []string{"R9"}}), nil, by("U3"), tool.Ask},
		"denied to a role, a stranger's": {deny(policy.Rule{Roles: []string{"R9"}}), nil, foreign, tool.Allow},
		"denied to her":                  {deny(policy.Rule{Users: []string{"U2"}}), nil, by("U3"), tool.Deny},
		"her approval":                   {nil, personal{"U2"}, by(), tool.Allow},
		"her approval, another's words":  {nil, personal{"U2"}, by("U3"), tool.Ask},
	} {
		o := options(c.rules...)
		o.Grants = c.grants
		c.caller.Conversation, c.caller.User = here, berit
		v := policy.New(o).Decide(tool.Intent{Tool: drop, Caller: c.caller})
		if v.Decision != c.want || (v.Reason == "") != (c.want == tool.Allow) {
			t.Errorf("%s: %s (%s), want %s", name, v.Decision, v.Reason, c.want)
		}
		c.caller.Unattended = true
		v = policy.New(o).Decide(tool.Intent{Tool: drop, Caller: c.caller})
		if c.want == tool.Ask && v.Decision != tool.Deny {
			t.Errorf("%s: a task may: %s", name, v.Decision)
		}
	}
	// What ends such questions for one person would not count, and so is not offered.
	v := policy.New(options()).Decide(tool.Intent{Tool: drop, Caller: tool.Caller{Conversation: here, User: berit,
		Authors: []string{"slack/U3"}}})
	if !v.Shared || !v.Grantable {
		t.Errorf("a question after words of others: %+v", v)
	}
}
