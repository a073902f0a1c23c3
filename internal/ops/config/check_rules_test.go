package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// rulesOf loads a configuration with rules about tools and two MCP servers.
func rulesOf(rules string) (*Config, error) {
	text := fmt.Sprintf(`{"mcpServers": {"git hub": {"command": "x"}, "db": {"command": "y"}}, %s}`, rules)
	known := []string{"feeds", "feeds.fetch", "feeds_fetch", "web", "web.fetch", "web_fetch", "remind"}
	return Parse([]byte(text), "config.json", Options{
		Env:    func(string) (string, bool) { return "", false },
		Checks: Checks{Tools: func() []string { return known }},
	})
}

// A name that matches nothing is warned of with the nearest one; one that may be a tool of a server is not.
func TestRules_NamesThatMatchNothing_AreWarnedOf(t *testing.T) {
	for name, c := range map[string]struct{ rules, want string }{
		"a name":               {`"tools": {"policy": [{"tools": ["webfetch"], "decision": "deny"}]}`, `did you mean "web_fetch"?`},
		"a pattern":            {`"agents": {"default": {"tools": ["feed.*"]}}`, `did you mean "feeds.*"?`},
		"a hook":               {`"tools": {"hooks": [{"tools": ["web_fetsch"], "command": ["x"]}]}`, `did you mean "web_fetch"?`},
		"a server":             {`"tools": {"policy": [{"tools": ["dbx_*"], "decision": "deny"}]}`, `did you mean "db_*"?`},
		"a server's, natively": {`"agents": {"default": {"tools": ["db_query"]}}`, "matches no tool of the bot"},
		"nothing near":         {`"tools": {"policy": [{"tools": ["qqqqqqqq"], "decision": "deny"}]}`, "ravenbot tools list lists them"},
		"out of reach": {`"tools": {"policy": [{"tools": ["*"], "decision": "ask"}, {"tools": ["web_fetch"], "decision": "deny"}]}`,
			"never counts: tools.policy[0] holds for every call"},
		"all known": {`"tools": {"policy": [{"tools": ["web_fetch", "web.*", "web", "feeds_*", "*_fetch", "remind"], "decision": "deny"},
			{"tools": ["db_query", "db.query", "db", "git_hub_*", "git hub", "g*", "*"], "hint": "write", "decision": "ask"},
			{"tools": ["*"], "decision": "ask"}]}`, ""},
	} {
		conf, err := rulesOf(c.rules)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, w := range conf.Warnings {
			if strings.HasPrefix(w.Key, "tools") || strings.HasPrefix(w.Key, "agents") {
				got = append(got, w.String())
			}
		}
		if all := strings.Join(got, "\n"); c.want == "" && all != "" || !strings.Contains(all, c.want) {
			t.Errorf("%s: warned %q, want %q", name, all, c.want)
		}
	}
}

// What cannot hold for anybody or anything is an error.
func TestRules_ThatAreMalformed_AreErrors(t *testing.T) {
	rule := func(keys string) string {
		return `"tools": {"policy": [{"tools": ["web_fetch"], "decision": "ask", ` + keys + `}]}`
	}
	for keys, want := range map[string]string{
		`"approvers": ["role:Admin"]`:                    "write roles:NAME or users:ID",
		`"approvers": ["Admin"]`:                         "write roles:NAME or users:ID",
		`"approvers": ["roles:"]`:                        "an empty role",
		`"channels": ["#ops"]`:                           "no platform before a colon",
		`"channels": ["slack:T1"]`:                       "no channel after a slash",
		`"hosts": ["https://example.com"]`:               "write the host alone",
		`"hosts": ["example.com:8080"]`:                  "write the host alone",
		`"hosts": [""]`:                                  "is not a host",
		`"roles": ["@Maintainer"]`:                       "write the name or the id alone",
		`"roles": ["roles:Maintainer"]`:                  "write the name or the id alone",
		`"roles": [" "]`:                                 "an empty role",
		`"users": ["<@U1>"]`:                             "write the name or the id alone",
		`"channels": ["slack:T1/C9", "slack:*"]`:         "",
		`"channels": ["*", "discord:1/2/3"]`:             "",
		`"hosts": ["*.example.com", "10.0.0.1"]`:         "",
		`"hosts": ["::1", "*"]`:                          "",
		`"roles": ["On call: night", "R7", "@everyone"]`: "",
		`"approvers": ["roles:On call", "users:U1"]`:     "",
	} {
		_, err := rulesOf(rule(keys))
		var faults *Faults
		if want == "" && err != nil || want != "" && (!errors.As(err, &faults) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", keys, err, want)
		}
	}
}
