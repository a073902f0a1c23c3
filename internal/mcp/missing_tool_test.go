package mcp

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// The caller of a missing tool reads the reason and a remedy.
func TestWhyMissing_NamesTheReasonAndTheRemedy(t *testing.T) {
	const pay = `{"name":"pay","description":"Pays a bill."}`
	keep := &memoryStore{}
	changed, write := shaped(t, "changed", pay)
	first, end := hosted(t, Options{Servers: []Config{changed}, Store: keep})
	settled(t, first, "changed")
	end()
	write(strings.Replace(pay, "a bill", "me", 1))
	h := running(t, Options{Store: keep, Servers: []Config{changed, fakeServer("plain", "plain"),
		fakeServer("plain_two", "plain"),
		{Name: "down", Command: "/no/such/program"}, {Name: "off", Command: "x", Disabled: true}}})
	for _, name := range []string{"changed", "plain", "plain_two", "down"} {
		settled(t, h, name)
	}
	wantFailure(t, call(t, find1(t, h, "changed", "pay"), `{}`), "waits until an administrator approves it")
	until(t, h, "changed", Quarantined)
	if err := h.Stop("plain_two"); err != nil {
		t.Fatal(err)
	}
	until(t, h, "plain_two", Stopped)
	for tool, want := range map[string]struct{ server, why string }{
		"changed_pay":     {"changed", "has changed, and waits until an administrator approves it on the page Servers or with: ravenbot mcp approve changed"},
		"changed_other":   {"changed", ""},
		"down_anything":   {"down", "cannot be reached just now; it is tried again"},
		"plain_two_do":    {"plain_two", "was stopped. An administrator can start it on the page Servers."},
		"plain_nonesuch":  {"plain", ""},
		"off_do":          {"off", "is switched off in the configuration"},
		"nobody_nonesuch": {"", ""},
	} {
		server, why := h.WhyMissing(tool)
		if server != want.server || !strings.Contains(why, want.why) || (why == "") != (want.why == "") {
			t.Errorf("%s: %q, %q", tool, server, why)
		}
	}
}

// In each state the operator reads what happens next, and with what delay.
func TestWhyMissing_InEachState(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		state   State
		retryAt time.Time
		want    string
	}{
		{Connecting, now, `is being started. Try again in a moment.`},
		{Uninitialized, now, `is being started. Try again in a moment.`},
		{Connected, now, ""},
		{NoToolsFound, now, ""},
		{Failed, time.Time{}, "cannot be reached just now; it is tried again by itself. "},
		{Failed, now, "cannot be reached just now; it is tried again by itself. "},
		{Failed, now.Add(200 * time.Millisecond), "it is tried again in 1 s. "},
		{Failed, now.Add(90 * time.Second), "it is tried again in 90 s. "},
	} {
		h := must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}}, Now: func() time.Time { return now }}))
		s := must(h.server("a"))
		s.state, s.retryAt = tt.state, tt.retryAt
		if _, why := h.WhyMissing("a_x"); !strings.Contains(why, tt.want) || (why == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q", tt.state, why, tt.want)
		}
	}
	h := must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}}, SignIns: consentAt("https://sign.in")}))
	if _, why := h.WhyMissing("a_x"); !strings.Contains(why, "needs a sign-in") {
		t.Errorf("where a person has to consent: %q", why)
	}
	if st, _ := h.Get("a"); st.ConsentURL != "https://sign.in" {
		t.Errorf("its status is %+v", st)
	}
}

// consentAt is a SignIns for which the operator has to consent at an address.
type consentAt string

func (consentAt) Authorize(_ Config, next http.RoundTripper) http.RoundTripper { return next }
func (c consentAt) Waiting(Config) *Consent                                    { return &Consent{URL: string(c)} }
