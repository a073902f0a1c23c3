package admin

import (
	"net/http"
	"strings"
	"testing"
)

// What was shown is what is approved: a server may send other tools in between.
func TestApproval_OfToolsThatHaveChangedSince_IsRefused(t *testing.T) {
	_, _, server, client := start(t, nil)
	at := server.URL + "/api/v1/mcp/servers/files/"
	tag := do(t, client, http.MethodGet, at+"pending", nil, "Authorization", bearerHeader).header.Get("ETag")
	for match, want := range map[string]int{tag: 200, "*": 200, `"another"`: 412} {
		r := do(t, client, http.MethodPost, at+"approve", nil, "Authorization", bearerHeader, "If-Match", match)
		if r.status != want || want == 412 && !strings.Contains(r.body, `"code":"changed"`) {
			t.Errorf("with If-Match %s: %d %s, want %d", match, r.status, r.body, want)
		}
	}
	page := do(t, client, http.MethodGet, server.URL+"/servers", nil, "Authorization", bearerHeader).body
	if shown := `hx-vals='{"seen":"` + strings.Trim(tag, `"`) + `"}'`; tag == "" || !strings.Contains(page, shown) {
		t.Errorf("the page does not send back what it shows, want %s in\n%s", shown, page)
	}
	for seen, want := range map[string]string{strings.Trim(tag, `"`): "Approved the tools",
		"another": "look at it again"} {
		r := do(t, client, http.MethodPost, server.URL+"/servers/files/approve", strings.NewReader("seen="+seen),
			"Authorization", bearerHeader, "Content-Type", "application/x-www-form-urlencoded")
		if !strings.Contains(r.body, want) {
			t.Errorf("approved on the page having seen %s: %d %s, want %q", seen, r.status, r.body, want)
		}
	}
}
