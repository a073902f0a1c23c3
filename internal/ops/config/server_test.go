package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// seen is what matters of a server, in plain types.
type seen struct {
	Type, Command, URL string
	Args               []string
	Env, Headers       map[string]string
	Timeout            time.Duration
}

func look(s MCPServer) seen {
	out := seen{Type: s.Type, Command: s.Command, URL: s.URL.Reveal(), Timeout: s.Timeout.Std()}
	if len(s.Args) > 0 {
		out.Args = s.Args.Reveal()
	}
	for name, value := range s.Env {
		if out.Env == nil {
			out.Env = make(map[string]string)
		}
		out.Env[name] = value.Reveal()
	}
	for name, value := range s.Headers {
		if out.Headers == nil {
			out.Headers = make(map[string]string)
		}
		out.Headers[name] = value.Reveal()
	}
	return out
}

func TestPastedServers(t *testing.T) {
	env := map[string]string{"TOKEN": "t", "HOME": "/home/me"}
	const std = 30 * time.Second
	tests := []struct {
		name, entry string
		want        seen
	}{
		{"Claude Desktop", `{"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}}`,
			seen{Command: "npx", Args: []string{"-y", "x"}, Env: map[string]string{"A": "b"}, Timeout: std}},
		{"VS Code", `{"type": "stdio", "command": "x", "args": ["${userHome}", "${workspaceFolderBasename}${/}x"], ` +
			`"gallery": true}`,
			seen{Type: "stdio", Command: "x", Args: []string{"/home/me", "DIR/x"}, Timeout: std}},
		{"Cursor", `{"url": "https://x/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}}`,
			seen{URL: "https://x/mcp", Headers: map[string]string{"Authorization": "Bearer t"}, Timeout: std}},
		{"Gemini CLI over HTTP", `{"httpUrl": "https://x/mcp", "url": "https://x/sse", "timeout": 5000, "trust": true}`,
			seen{Type: "http", URL: "https://x/mcp", Timeout: 5 * time.Second}},
		{"Gemini CLI variables", `{"command": "x", "env": {"A": "$TOKEN", "B": "x-$TOKEN-y", "C": "100$"}}`,
			seen{Command: "x", Env: map[string]string{"A": "t", "B": "x-t-y", "C": "100$"}, Timeout: std}},
		{"Windsurf", `{"serverUrl": "https://x/sse"}`, seen{URL: "https://x/sse", Timeout: std}},
		{"alias of a type", `{"type": "streamableHttp", "url": "https://x/"}`, seen{Type: "http", URL: "https://x/", Timeout: std}},
		{"transport as an object", `{"transport": {"type": "streamable-http", "url": "https://x/", "headers": {"A": "b"}}}`,
			seen{Type: "http", URL: "https://x/", Headers: map[string]string{"A": "b"}, Timeout: std}},
		{"transport as a word", `{"transport": "sse", "url": "https://x/"}`, seen{Type: "sse", URL: "https://x/", Timeout: std}},
		{"headers as a list", `{"url": "https://x/", "headers": ["Authorization: Bearer ${TOKEN}"]}`,
			seen{URL: "https://x/", Headers: map[string]string{"Authorization": "Bearer t"}, Timeout: std}},
		{"numbers in env", `{"command": "x", "env": {"PORT": 3000, "ON": true, "OFF": null}, "args": null}`,
			seen{Command: "x", Env: map[string]string{"PORT": "3000", "ON": "true"}, Timeout: std}},
		{"envFile under env", `{"command": "x", "env": {"A": "1"}, "envFile": "x.env", "timeout": "2m"}`,
			seen{Command: "x", Env: map[string]string{"A": "1", "B": "$2"}, Timeout: 2 * time.Minute}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := mustLoad(t, `{"mcpServers": {"s": `+tt.entry+`}}`, env, map[string]string{"x.env": "A=2\nB=$2\n"})
			for i, arg := range tt.want.Args {
				tt.want.Args[i] = strings.Replace(arg, "DIR", c.Dir[strings.LastIndexByte(c.Dir, '/')+1:], 1)
			}
			if diff := cmp.Diff(tt.want, look(c.MCPServers["s"])); diff != "" {
				t.Errorf("server (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForeignKeysWarnOnce(t *testing.T) {
	c := mustLoad(t, `{
		"inputs": [{"id": "key"}],
		"servers": {
			"a": {"command": "x", "gallery": true, "oauth": {"clientId": "c", "callbackPort": 1}},
			"b": {"url": "https://x/", "cwdd": "y"}
		}
	}`, nil, nil)
	if len(c.Warnings) != 1 {
		t.Fatalf("got %d warnings: %v", len(c.Warnings), c.Warnings)
	}
	for _, key := range []string{"inputs", "mcpServers.a.gallery", "mcpServers.a.oauth.callbackPort",
		"mcpServers.b.cwdd"} {
		if said := c.Warnings[0].String(); !strings.Contains(strings.ReplaceAll(said, "servers.", "mcpServers."), key) {
			t.Errorf("%q does not name %s", said, key)
		}
	}
	if diff := cmp.Diff([]string{"a", "b"}, c.EnabledServers()); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

func TestDisabledServersNeedNothing(t *testing.T) {
	for _, off := range []string{`"disabled": true`, `"enabled": false`} {
		c := mustLoad(t, `{"mcpServers": {"a": {`+off+
			`, "command": "${CMD}", "args": ["${input:x}"], "env": {"K": "${KEY}", "L": "$L"},
			"envFile": "none.env", "url": "${URL}", "headers": {"A": "Bearer ${file:none}"}, "timeout": "${T}"}}}`, nil, nil)
		if len(c.EnabledServers()) != 0 || len(c.Warnings) != 0 {
			t.Errorf("%s: enabled %v, warnings %v", off, c.EnabledServers(), c.Warnings)
		}
	}
}

func TestApprovalsComeOnlyFromTheFile(t *testing.T) {
	c := mustLoad(t, `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x", "autoApprove": ["read"], `+
		`"disabledTools": ["rm"], "trust": true}}}`, nil, nil)
	if a := c.MCPServers["a"]; a.Trust || a.AlwaysAllow != nil {
		t.Errorf("a server is trusted by default: %+v", a)
	}
	if b := c.MCPServers["b"]; !b.Trust || b.AlwaysAllow[0] != "read" || b.ExcludeTools[0] != "rm" {
		t.Errorf("names of other hosts are lost: %+v", b)
	}
}
