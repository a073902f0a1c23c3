package admin

import (
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
)

func TestHealth(t *testing.T) {
	b, _, server, client := start(t, nil)
	if r := do(t, client, "GET", server.URL+"/healthz", nil); r.status != 200 || r.body != `{"status":"ok"}`+"\n" {
		t.Errorf("healthz: %d %s", r.status, r.body)
	}
	if r := do(t, client, "GET", server.URL+"/readyz", nil, "Host", "ravenbot.internal"); r.status != 200 ||
		!strings.Contains(r.body, `"status":"ready"`) {
		t.Errorf("readyz: %d %s", r.status, r.body)
	}
	b.clock = "the clock of this machine is 300 s behind"
	if r := do(t, client, "GET", server.URL+"/readyz", nil); r.status != 200 || !strings.Contains(r.body, b.clock) {
		t.Errorf("readyz with a wrong clock: %d %s", r.status, r.body)
	}
	b.problem = "the store cannot be written: there is no space left on its disk"
	if r := do(t, client, "GET", server.URL+"/readyz", nil); r.status != 503 ||
		!strings.Contains(r.body, `"store":"the store cannot be written: there is no space`) {
		t.Errorf("readyz with a full disk: %d %s", r.status, r.body)
	}
	b.problem = ""
	b.slack = chat.Health{Detail: "the token was refused"}
	if r := do(t, client, "GET", server.URL+"/readyz", nil); r.status != 503 ||
		!strings.Contains(r.body, `{"name":"slack","connected":false,"detail":"the token was refused"}`) {
		t.Errorf("readyz: %d %s", r.status, r.body)
	}
}

// Slack over HTTP must not end with a load balancer that takes a replica for dead because Discord is.
func TestHealth_PlatformsOnce_ALaterFailureOfOneDoesNotCount(t *testing.T) {
	b, _, server, client := start(t, nil)
	ready := func(want int) {
		t.Helper()
		if r := do(t, client, "GET", server.URL+"/readyz?platforms=once", nil); r.status != want {
			t.Errorf("readyz: %d, want %d: %s", r.status, want, r.body)
		}
	}
	connected := b.slack
	b.slack = chat.Health{Detail: "the token was refused"}
	ready(503)
	b.slack = connected
	ready(200)
	b.slack = chat.Health{Detail: "no connection"}
	ready(200)
	b.problem = "the store cannot be written"
	ready(503)
}
