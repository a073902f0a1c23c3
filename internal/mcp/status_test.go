package mcp

import (
	"strings"
	"testing"
	"time"
)

// Values with names of secrets are masked everywhere, short values nowhere.
func TestNewMasker_FindsSecretsByTheirNames(t *testing.T) {
	for name, want := range map[string]bool{
		"API_TOKEN": true, "api_key": true, "Client_Secret": true, "DB_PASSWORD": true, "AUTHOR": true,
		"AWS_CREDENTIALS": true,
		"COOKIE":          true, "SENTRY_DSN": true, "DATABASE_URL": true, "MODE": false, "URL": false, "": false,
	} {
		if isSecretName(name) != want {
			t.Errorf("%s names a secret: %v", name, !want)
		}
	}
	for value, want := range map[string]string{"1234": "is ***", "123": "is 123"} {
		mask := newMasker(Config{Env: map[string]string{"TOKEN": value}, Headers: map[string]string{"X": value}})
		if got := mask("is " + value); got != want {
			t.Errorf("%s: %s", value, got)
		}
	}
	if got := newMasker(Config{Headers: map[string]string{"A": "Basic  spaced"}})("it is spaced"); got != "it is ***" {
		t.Errorf("a credential behind spaces: %s", got)
	}
	c := Config{Name: "a", Command: "x", Runs: "x --key sesame-open", Env: map[string]string{"KEY": "sesame-open"}}
	h := must(NewHost(Options{Servers: []Config{c}}))
	if st, _ := h.Get("a"); strings.Contains(st.Runs, "sesame") {
		t.Errorf("people are shown %q", st.Runs)
	}
}

// The state shows waiting tools, unless another state is more important.
func TestPublicState(t *testing.T) {
	s := must(must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}}})).server("a"))
	for state, want := range map[State]State{
		Connected: Quarantined, NoToolsFound: Quarantined, Uninitialized: Quarantined, Connecting: Connecting, Failed: Failed,
		Stopped: Stopped, Disabled: Disabled,
	} {
		s.state, s.decisions = state, []decidedTool{{state: ToolQuarantined}}
		if got := s.publicState(); got != want {
			t.Errorf("%s with tools that wait is shown as %s", state, got)
		}
		if s.decisions = nil; s.publicState() != state {
			t.Errorf("%s is shown as %s", state, s.publicState())
		}
	}
}

// A status says since when a server is in its state, however often it fails there, and when it last answered.
func TestStatus_SaysSinceWhen(t *testing.T) {
	now := time.Unix(0, 0)
	s, conn, _ := inMemory(t, Options{Now: func() time.Time { return now }})
	defer conn.close()
	fail := func(problem string) func() error {
		return func() error { s.setState(Failed, problem); return nil }
	}
	answer := func() error { return s.refresh(t.Context(), conn, time.Minute) }
	for _, tt := range []struct {
		at             int64 // seconds
		do             func() error
		problem        string
		since, checked int64
	}{
		{0, answer, "", 0, 0},
		{10, fail("one"), "one", 10, 0},
		{20, fail("two"), "two", 10, 0},
		{30, answer, "", 30, 30},
		{40, answer, "", 30, 40},
	} {
		now = time.Unix(tt.at, 0)
		err := tt.do()
		st := s.status()
		if err != nil || st.Error != tt.problem || st.Since.Unix() != tt.since || st.Checked.Unix() != tt.checked {
			t.Errorf("after %d s: %+v, %v; want it since %d s and checked after %d s", tt.at, st, err, tt.since, tt.checked)
		}
	}
}
