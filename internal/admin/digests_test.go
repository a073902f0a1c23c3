package admin

import (
	"net/http"
	"strings"
	"testing"
)

func TestDigestsAreChangedOnTheirPage(t *testing.T) {
	b, _, server, client := start(t, nil)
	post := func(path string) reply {
		return do(t, client, http.MethodPost, server.URL+path, nil, "Authorization", bearerHeader)
	}
	for _, c := range []struct {
		path    string
		status  int
		want    string
		refresh bool
	}{
		{"/digests/morning/pause", 200, "Done.", true}, {"/digests/morning/remove", 422, "belongs to config.json", false}, {"/digests/made/remove", 200, "Done.", true},
		{"/digests/none/resume", 422, "no such digest", false}, {"/digests/morning/dance", 404, "", false},
		{"/digests/morning/explain", 200, "too old", false}, {"/digests/made/explain", 200, "No run of it", false},
	} {
		r := post(c.path)
		if r.status != c.status || !strings.Contains(r.body, c.want) || (r.header.Get("HX-Refresh") == "true") != c.refresh {
			t.Errorf("%s: %d %s, refreshed %q", c.path, r.status, r.body, r.header.Get("HX-Refresh"))
		}
	}
	if !b.paused["morning"] {
		t.Error("the digest does not pause")
	}
	if page := do(t, client, http.MethodGet, server.URL+"/digests", nil, "Authorization",
		bearerHeader).body; !strings.Contains(page, `hx-post="/digests/morning/pause"`) {
		t.Errorf("the page offers no pause:\n%s", page)
	}
}
