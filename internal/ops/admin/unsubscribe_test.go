package admin

import (
	"net/http"
	"strings"
	"testing"
)

// The link in a mail asks first, takes one click of a mail program without a login, and can be taken back.
func TestUnsubscribe_AsksAndTakesOneClick(t *testing.T) {
	b, _, server, client := start(t, nil)
	const form, parts = "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"
	oneClick := "--x\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--x--\r\n"
	for _, c := range []struct {
		name, method, token, kind, body, want string
		status                                int
		stopped                               bool // after it
	}{
		{"a scanner opens it", "GET", "known", "", "", "Get no more of these mails?", 200, false},
		{"a scanner looks at it", "HEAD", "known", "", "", "", 200, false},
		{"an empty request", "POST", "known", form, "", "names no action", 400, false},
		{"another form", "POST", "known", form, "List-Unsubscribe=Never", "names no action", 400, false},
		{"one click of a mail program", "POST", "known", form, "List-Unsubscribe=One-Click", "You are unsubscribed", 200, true},
		{"the same again", "POST", "known", form, "List-Unsubscribe=One-Click", "You are unsubscribed", 200, true},
		{"the page afterwards", "GET", "known", "", "", "Undo", 200, true},
		{"nothing asked for", "POST", "known", form, "", "names no action", 400, true},
		{"undone", "POST", "known", form, "action=resume", "You get these mails again", 200, false},
		{"undone twice", "POST", "known", form, "action=resume", "You get these mails again", 200, false},
		{"one click in parts", "POST", "known", parts, oneClick, "You are unsubscribed", 200, true},
		{"undone again", "POST", "known", form, "action=resume", "morning", 200, false},
		{"the button of the page", "POST", "known", form, "action=stop", "Undo: send it again", 200, true},
		{"another token", "GET", "guessed", "", "", "This link does not work", 404, true},
		{"another token that acts", "POST", "guessed", form, "action=resume", "This link does not work", 404, true},
		{"another method", "DELETE", "known", "", "", "takes GET and POST", 405, true},
		{"a store that fails", "GET", "broken", "", "", "(reference ", 500, true},
	} {
		r := do(t, client, c.method, server.URL+"/unsubscribe/"+c.token, strings.NewReader(c.body), "Content-Type", c.kind)
		if r.status != c.status || !strings.Contains(r.body, c.want) || strings.Contains(r.body, "secret detail") {
			t.Errorf("%s: %d %s", c.name, r.status, r.body)
		}
		if b.stopped["anna@example.org"] != c.stopped {
			t.Errorf("%s: stopped is %t", c.name, !c.stopped)
		}
		if policy := r.header.Get("Content-Security-Policy"); r.status == 200 &&
			(!strings.Contains(policy, "form-action 'self'") || strings.Contains(policy, "script")) {
			t.Errorf("%s: its policy is %s", c.name, policy)
		}
	}
	// A form on a page of somebody else cannot unsubscribe whoever looks at it.
	r := do(t, client, http.MethodPost, server.URL+"/unsubscribe/known", strings.NewReader("action=resume"),
		"Content-Type", form, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example")
	if r.status != http.StatusForbidden || !b.stopped["anna@example.org"] {
		t.Errorf("another site: %d %s", r.status, r.body)
	}
	// The operator takes it back.
	address := server.URL + "/api/v1/digests/morning/unsubscribed/anna@example.org"
	for _, want := range []int{204, 404} {
		if r := do(t, client, http.MethodDelete, address, nil, "Authorization", bearerHeader); r.status != want {
			t.Errorf("taken back: %d %s, want %d", r.status, r.body, want)
		}
	}
	page := server.URL + "/digests/morning/unsubscribed/anna@example.org/remove"
	if r := do(t, client, http.MethodPost, page, nil, "Authorization", bearerHeader); r.status != 200 ||
		r.header.Get("HX-Refresh") != "true" {
		t.Errorf("on the page: %d %s", r.status, r.body)
	}
	for n := range 101 {
		r = do(t, client, http.MethodGet, server.URL+"/unsubscribe/guessed", nil)
		if n == 0 && r.status != http.StatusNotFound {
			t.Errorf("the first guess of these: %d", r.status)
		}
	}
	if r.status != http.StatusTooManyRequests {
		t.Errorf("after 100 guesses: %d", r.status)
	}
}
