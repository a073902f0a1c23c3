package admin

import (
	"net/http"
	"net/http/httptest"
	"net/url"
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
		{"/digests/morning/explain", 200, "too old", false}, {"/digests/made/explain", 200, "It has not run yet", false},
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

func TestDigestForm_ChangesWhatItShows(t *testing.T) {
	b, _, server, client := start(t, nil)
	send := func(method, path string, form url.Values) reply {
		return do(t, client, method, server.URL+path, strings.NewReader(form.Encode()), "Authorization", bearerHeader,
			"Content-Type", "application/x-www-form-urlencoded")
	}
	page := send("GET", "/digests/made/edit", nil)
	for _, want := range []string{`value="every day at 6"`, "https://example.org/a", `<option value="topics" selected>`, `value="7"`,
		`name="version" value="0001-01-01T00:00:00Z"`, `hx-post="/digests/made"`, `hx-post="/digests/made/try"`} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the form lacks %s:\n%s", want, page.body)
		}
	}
	if r := send("GET", "/digests/morning/edit", nil); r.status != 404 {
		t.Errorf("the form of a digest of config.json: %d", r.status)
	}
	if r := send("GET", "/digests/nosuch/edit", nil); r.status != 404 || !strings.Contains(r.body, "This digest does not exist.") {
		t.Errorf("the form of no digest: %d %s", r.status, r.body)
	}
	if r := send("POST", "/digests/nosuch/try", nil); r.status != 422 || !strings.Contains(r.body, "no such digest") {
		t.Errorf("a preview of no digest: %d %s", r.status, r.body)
	}
	form := url.Values{"schedule": {"every day at 7"}, "feeds": {"https://example.org/a https://example.org/b"}, "post": {"web:/general"},
		"style": {"titles"}, "items": {"5"}}
	if r := send("POST", "/digests/made", form); r.status != 422 || !strings.Contains(r.body, "changed after this page was loaded") || len(b.did) > 0 {
		t.Errorf("saving an old form: %d %s, %s", r.status, r.body, b.did)
	}
	form.Set("version", "0001-01-01T00:00:00Z")
	want := "made: titles 5 no [{URL:https://example.org/a Shown: NoMerge:false Weight:3 Pin:false Mute:false} " +
		"{URL:https://example.org/b Shown: NoMerge:false Weight:0 Pin:false Mute:false}]"
	r := send("POST", "/digests/made", form)
	if r.status != 200 || r.header.Get("HX-Redirect") != "/digests" || b.did[0] != want {
		t.Errorf("saving: %d %s, %s, want %s", r.status, r.body, b.did, want)
	}
	if r := send("POST", "/digests/made/try", form); r.status != 200 || !strings.Contains(r.body, "a try") {
		t.Errorf("a preview: %d %s", r.status, r.body)
	}
	form.Set("items", "many")
	if r := send("POST", "/digests/made", form); r.status != 422 || !strings.Contains(r.body, "many") {
		t.Errorf("a wrong number: %d %s", r.status, r.body)
	}
	form.Set("style", "loud")
	if r := send("POST", "/digests", form); r.status != 422 || !strings.Contains(r.body, "loud") {
		t.Errorf("a wrong style: %d %s", r.status, r.body)
	}
}

// A digest or agent may have any name: no fixed route is in the place of one.
func TestDashboard_NamesThatAreWords_LeadToTheirForms(t *testing.T) {
	_, s, _, _ := start(t, nil)
	mux := s.dashboard()
	for path, want := range map[string]string{"/digests/try": "POST /digests/{name}", "/agents/rooms": "POST /agents/{name}",
		"/digests-try": "POST /digests-try", "/agent-rooms": "POST /agent-rooms"} {
		if _, got := mux.Handler(httptest.NewRequest("POST", path, nil)); got != want {
			t.Errorf("POST %s leads to %q, want %q", path, got, want)
		}
	}
}
