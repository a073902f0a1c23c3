package admin

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/audit"
)

// changes keeps what was noted, the newest first.
type changes struct{ list []audit.Entry }

func (c *changes) Record(_ context.Context, e audit.Entry) {
	e.ID = string(rune('1' + len(c.list)))
	c.list = slices.Insert(c.list, 0, e)
}

func (*changes) Verify(context.Context, audit.Link) (audit.Report, error) { return audit.Report{}, nil }

func (*changes) Export(context.Context, io.Writer, audit.Entry) error { return nil }

func (c *changes) Entries(before string, n int) []audit.Entry {
	list := slices.DeleteFunc(slices.Clone(c.list), func(e audit.Entry) bool { return before != "" && e.ID >= before })
	return list[:min(n, len(list))]
}

func TestChangesAreKept(t *testing.T) {
	_, _, server, client := start(t, nil)
	ask := func(route, body string) reply {
		t.Helper()
		method, path, _ := strings.Cut(route, " ")
		return do(t, client, method, server.URL+"/api/v1"+path, strings.NewReader(body), "Authorization", bearerHeader)
	}
	ask("POST /mcp/servers", `{"name":"new","command":"x","env":{"TOKEN":"secret-value"}}`)
	ask("POST /mcp/servers", `{"name":"files","command":"x"}`) // is there already
	ask("GET /mcp/servers", "")
	ask("POST /digests/morning/preview", "")
	ask("POST /mcp/servers/files/restart", "")
	r := ask("GET /audit?limit=1", "")
	if r.status != 200 || !strings.Contains(r.body, `"action":"POST /api/v1/mcp/servers/files/restart"`) ||
		!strings.Contains(r.body, `"who":"admin token"`) ||
		!strings.Contains(r.body, `"from":"127.0.0.1"`) || !strings.Contains(r.body, `"next":"2"`) {
		t.Errorf("the newest change: %d %s", r.status, r.body)
	}
	r = ask("GET /audit?next=2", "")
	if !strings.Contains(r.body, `"target":"/mcp/servers/new"`) || strings.Count(r.body, `"action"`) != 1 ||
		strings.Contains(r.body, "secret-value") {
		t.Errorf("those before it: %s", r.body)
	}
	if r := ask("GET /audit?limit=no", ""); r.status != 400 {
		t.Errorf("a limit that is none: %d %s", r.status, r.body)
	}
}
