package admin

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/ops/audit"
)

// newAudit returns an audit in memory.
func newAudit(t *testing.T) *audit.Log {
	t.Helper()
	l, err := audit.Load(t.Context(), &items{}, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAudit_ListsWhatRequestsHaveDone_NewestFirst(t *testing.T) {
	_, _, server, client := start(t, nil)
	ask := func(route string) reply {
		t.Helper()
		method, path, _ := strings.Cut(route, " ")
		return do(t, client, method, server.URL+"/api/v1"+path, strings.NewReader(""), "Authorization", bearerHeader)
	}
	ask("GET /mcp/servers")
	ask("POST /mcp/servers/files/stop")
	ask("POST /mcp/servers/nothing/restart") // fails
	ask("POST /digests/morning/preview")
	ask("POST /mcp/servers/files/restart")
	want := `"who":"web:/admin (operator)","from":"127.0.0.1","action":"MCP server restarted","target":"files","changes":[]`
	r := ask("GET /audit?limit=1")
	if r.status != 200 || !strings.Contains(r.body, want) || !strings.Contains(r.body, `"next":"000000000002"`) {
		t.Errorf("the newest change: %d %s", r.status, r.body)
	}
	r = ask("GET /audit?cursor=000000000002")
	if !strings.Contains(r.body, `"action":"MCP server stopped"`) || strings.Count(r.body, `"action"`) != 1 {
		t.Errorf("those before it: %s", r.body)
	}
	if r := ask("GET /audit?limit=no"); r.status != 400 {
		t.Errorf("a limit that is none: %d %s", r.status, r.body)
	}
}
