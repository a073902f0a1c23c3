package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"ravenbot/internal/policy"
	"ravenbot/internal/tool"
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
