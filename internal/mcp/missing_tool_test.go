package mcp

import (
	"strings"
	"testing"
)

// Whoever calls a tool that is not there now learns why, and what can be done.
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
