package app_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"ravenbot/internal/mcp"
	"ravenbot/internal/turn/roster"
)

// Each layer that may keep a tool from a user is named, the server's own, too.
func TestWhyNamesEachLayer(t *testing.T) {
	w := newWorld(t)
	settings := w.base()
	settings["mcpServers"] = map[string]any{"kit": map[string]any{"command": os.Args[0],
		"excludeTools": []string{"effect"}, "eager": true,
		"env": map[string]string{"RAVENBOT_TOOL_SERVER": w.tools, "GORACE": "atexit_sleep_ms=0"}}}
	settings["tools"] = map[string]any{"policy": []any{map[string]any{"tools": []string{"kit_look"}, "decision": "ask"}},
		"hooks": []any{map[string]any{"tools": []string{"kit_*"}, "command": []string{"true"}, "when": "after"}}}
	b := w.run(settings)
	within(t, "the server is connected", func() bool {
		var v mcp.Status
		b.call(http.MethodGet, "/api/v1/mcp/servers/kit", nil, &v)
		return v.State == "connected"
	})
	why := func(tool string) (roster.Verdict, string) {
		t.Helper()
		var v roster.Verdict
		if status := b.call(http.MethodGet, "/api/v1/tools/"+tool+
			"/why?user=U1&channel=web:/general", nil, &v); status != http.StatusOK {
			t.Fatalf("%s: status %d", tool, status)
		}
		var said []string
		for _, f := range v.Layers {
			said = append(said, f.Layer+" "+f.Decision+" "+f.Reason)
		}
		return v, strings.Join(said, "\n")
	}
	expect := func(tool, verdict string, reasons ...string) {
		t.Helper()
		v, said := why(tool)
		if v.Verdict != verdict {
			t.Errorf("%s: %s, want %s, because\n%s", tool, v.Verdict, verdict, said)
		}
		for _, want := range reasons {
			if !strings.Contains(said, want) {
				t.Errorf("%s lacks %q:\n%s", tool, want, said)
			}
		}
	}
	expect("kit_look", "ask", "server allow MCP server kit offers it, and is connected", "channel allow",
		"tools.enabled allow", "agent allow", "it may use every enabled server",
		"policy ask tools.policy[0] for kit_look", "hooks allow tools.hooks[0], after the call")
	expect("kit_effect", "deny", "server deny includeTools or excludeTools leave it out")
	b.call(http.MethodPut, "/api/v1/settings", map[string]any{"channels": map[string]any{"web:/general": map[string]any{"tools": map[string]any{"enabled": false}}}}, nil)
	expect("kit_look", "deny", "tools.enabled deny the channel's settings switch tools off")
	b.call(http.MethodPost, "/api/v1/mcp/servers/kit/stop", nil, nil)
	expect("kit_look", "deny", "MCP server kit is stopped")
}
