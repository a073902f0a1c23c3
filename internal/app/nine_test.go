package app_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"ravenbot/internal/mcp"
	simmodel "ravenbot/internal/testing/sim/model"
)

// nineServers are published on npm and need no account to list their tools.
func nineServers(dir string) map[string]any {
	npx := func(args ...string) any {
		return map[string]any{"command": "npx", "args": append([]string{"-y"}, args...), "eager": true}
	}
	return map[string]any{
		"everything": npx("@modelcontextprotocol/server-everything"),
		"filesystem": npx("@modelcontextprotocol/server-filesystem", dir),
		"memory":     npx("@modelcontextprotocol/server-memory"),
		"thinking":   npx("@modelcontextprotocol/server-sequential-thinking"),
		"git":        npx("@cyanheads/git-mcp-server"),
		"notion":     npx("@notionhq/notion-mcp-server"),
		"mongodb":    npx("mongodb-mcp-server"),
		"playwright": npx("@playwright/mcp"),
		"context7":   npx("@upstash/context7-mcp"),
	}
}

// What a model is sent about the tools of nine published servers, in a real request,
// is at most 1.5 hundredths of what their listing would be; and the tools are found.
func TestNinePublishedServersTakeLittleOfThePrompt(t *testing.T) {
	if os.Getenv("RAVENBOT_NPM") == "" {
		t.Skip("RAVENBOT_NPM is not set: nine published servers are not fetched")
	}
	if _, err := exec.LookPath("npx"); err != nil {
		t.Skip("npx is not installed: published MCP servers are not tested")
	}
	w := newWorld(t)
	w.model.SetScript(simmodel.CallTool("discover_tools", `{"query":"commit changes to a git repository"}`))
	settings := w.base()
	settings["mcpServers"] = nineServers(w.dir)
	b := w.run(settings)
	tools, all := 0, 0
	for name := range nineServers(w.dir) {
		var v mcp.Status
		within(t, name+" is connected", func() bool {
			b.call(http.MethodGet, "/api/v1/mcp/servers/"+name, nil, &v)
			return v.State == mcp.Connected
		})
		var list struct {
			Items []struct {
				Name, Description string
				InputSchema       json.RawMessage
			}
		}
		b.call(http.MethodGet, "/api/v1/mcp/servers/"+name+"/tools", nil, &list)
		tools += len(list.Items)
		all += len(must(json.Marshal(list.Items)))
		t.Logf("%s: %d tools", name, len(list.Items))
	}
	found := answerIn(t, b.ask("general", "commit what I changed"))
	r := w.model.Asked()[0]
	sent := len(must(json.Marshal(r.Tools))) + len(strings.Replace(r.System, "You are a test.", "", 1))
	share := float64(sent) / float64(all)
	t.Logf("%d tools in %d bytes; the model is sent %d, %.2f %%", tools, all, sent, 100*share)
	if tools < 140 || share > 0.015 {
		t.Errorf("of %d tools in %d bytes the model is sent %d, %.2f %%; want 1.5 %% at most", tools, all, sent, 100*share)
	}
	if !strings.Contains(found, "git_commit") {
		t.Errorf("the search found %s", found)
	}
}
