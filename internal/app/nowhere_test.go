package app_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	simfeeds "ravenbot/internal/testing/sim/feeds"
)

// overMCP calls a tool at the bot's own MCP endpoint and gives what it said.
func (b *bot) overMCP(token, name string, args map[string]any) (text string, failed bool) {
	b.t.Helper()
	session := ""
	var answer struct {
		Result struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	for n, call := range []map[string]any{
		{"id": 1, "method": "initialize", "params": map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"}}},
		{"method": "notifications/initialized"},
		{"id": 2, "method": "tools/call", "params": map[string]any{"name": name, "arguments": args}},
	} {
		call["jsonrpc"] = "2.0"
		req := must(http.NewRequestWithContext(deadline(b.t), http.MethodPost, "http://"+b.Addr()+"/mcp",
			strings.NewReader(string(must(json.Marshal(call))))))
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Mcp-Session-Id", session)
		res := must(http.DefaultClient.Do(req))
		if res.StatusCode >= 300 {
			b.t.Fatalf("request %d over MCP: status %d", n, res.StatusCode)
		}
		session = res.Header.Get("Mcp-Session-Id")
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			line := strings.TrimPrefix(lines.Text(), "data: ")
			if n == 2 && strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &answer) == nil &&
				len(answer.Result.Content) > 0 {
				break
			}
		}
		res.Body.Close()
	}
	if len(answer.Result.Content) == 0 {
		b.t.Fatalf("%s said nothing over MCP", name)
	}
	return answer.Result.Content[0].Text, answer.Result.IsError
}

// Who calls over MCP is in no channel, so nothing can be posted there: neither a
// subscription nor a digest is made for nobody to see.
func TestNothingIsSubscribedToNowhere(t *testing.T) {
	w := newWorld(t)
	w.feeds.AddFeed("/own.xml", "Our own", simfeeds.RSS)
	b := w.run(w.base())
	var made struct{ Token string }
	if status := b.call(http.MethodPost, "/api/v1/auth/mcp-tokens",
		map[string]any{"name": "laptop", "tools": []string{"*"}}, &made); status != http.StatusCreated {
		t.Fatalf("the token: status %d", status)
	}
	url := w.feeds.URL() + "/own.xml"
	for _, c := range []struct {
		name string
		args map[string]any
		want string
	}{
		{"feeds_subscribe", map[string]any{"url": url}, "no channel"},
		{"digest_create", map[string]any{"feeds": []string{url}, "schedule": "weekdays at 9:00"}, "ask the bot in the chat of the channel"},
	} {
		if text, failed := b.overMCP(made.Token, c.name, c.args); !failed || !strings.Contains(text, c.want) {
			t.Errorf("%s said %q, failed %v, want %q", c.name, text, failed, c.want)
		}
	}
	var list string
	if b.call(http.MethodGet, "/api/v1/digests", nil, &list); strings.Contains(list, "own.xml") {
		t.Errorf("digests: %s", list)
	}
}

// A call from outside of a chat runs once it is approved, over MCP and over the API.
func TestApproval_OfCallsFromOutsideOfChats_Runs(t *testing.T) {
	w := newWorld(t)
	settings := w.asking()
	settings["mcpServers"] = map[string]any{"kit": map[string]any{
		"command": os.Args[0],
		"env":     map[string]string{"RAVENBOT_TOOL_SERVER": w.tools, "GORACE": "atexit_sleep_ms=0"},
		"eager":   true,
	}}
	b := w.run(settings)
	within(t, "the tool server is connected", func() bool {
		var v struct{ State string }
		b.call(http.MethodGet, "/api/v1/mcp/servers/kit", nil, &v)
		return v.State == "connected"
	})
	var made struct{ Token string }
	b.call(http.MethodPost, "/api/v1/auth/mcp-tokens", map[string]any{"name": "laptop", "tools": []string{"*"}}, &made)
	for name, call := range map[string]func() string{
		"mcp": func() string {
			text, _ := b.overMCP(made.Token, "execute_tool", map[string]any{"name": "kit_effect",
				"arguments": toolArgs{Question: "mcp"}})
			return text
		},
		"api": func() string {
			var got string
			b.call(http.MethodPost, "/api/v1/mcp/servers/kit/call",
				map[string]any{"tool": "effect", "arguments": toolArgs{Question: "api"}}, &got)
			return got
		},
	} {
		t.Run(name, func(t *testing.T) {
			answered := make(chan string, 1)
			go func() { answered <- call() }()
			var open struct{ Items []struct{ ID string } }
			within(t, "the question is open", func() bool {
				b.call(http.MethodGet, "/api/v1/approvals", nil, &open)
				return len(open.Items) == 1
			})
			if status := b.call(http.MethodPost, "/api/v1/approvals/"+open.Items[0].ID,
				map[string]string{"decision": "approve"}, nil); status != http.StatusOK {
				t.Fatalf("approving gave status %d", status)
			}
			if got := <-answered; !strings.Contains(got, "effect done for "+name) {
				t.Errorf("the approved call gave %q", got)
			}
			if n := ran(w.tools, "effect")[name]; n != 1 {
				t.Errorf("the tool ran %d times", n)
			}
		})
	}
}
