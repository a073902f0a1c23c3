package mcp

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A server whose entry changes keeps its approved tools and its log, as long as it runs the same.
func TestPut_ChangedEntry_KeepsApprovalsAndLog(t *testing.T) {
	keep := &memoryStore{}
	h := must(NewHost(Options{Store: keep}))
	h.Servers() // reads the saved state, as at a start
	entry := Config{Name: "a", Command: "x", Hold: true, Env: map[string]string{"TOKEN": "sesame-open"}}
	if err := h.Put(entry, FromAPI); err != nil {
		t.Fatal(err)
	}
	old := must(h.server("a"))
	listed(old, "one")
	if _, err := h.Approve(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	old.logs.add("stderr", []byte("with sesame-open"))
	if err := h.Put(entry, FromAPI); err != nil || must(h.server("a")) != old {
		t.Errorf("the same entry replaced the server: %v", err)
	}
	entry.Env, entry.Timeout = nil, time.Minute
	if err := h.Put(entry, FromAPI); err != nil {
		t.Fatal(err)
	}
	s := must(h.server("a"))
	if s == old || !old.retired.Load() || s.retired.Load() {
		t.Error("the server was not replaced")
	}
	if lines := logLines(h, "a"); len(lines) != 1 || lines[0].Text != "with ***" {
		t.Errorf("its log is %v", lines)
	}
	listed(s, "one", "two")
	if got := states(h, "a"); got["one"] != ToolOffered || got["two"] != ToolOffered {
		t.Errorf("its tools are %v", got)
	}
	// Another program is another server.
	entry.Command = "y"
	if err := h.Put(entry, FromAPI); err != nil {
		t.Fatal(err)
	}
	listed(must(h.server("a")), "one")
	if got := states(h, "a"); got["one"] != ToolQuarantined {
		t.Errorf("the tools of another program are %v", got)
	}
}

// A lease keeps the servers that were there when it began, for half an hour at most.
func TestLease_KeepsServersUntilItIsReleased(t *testing.T) {
	for _, tt := range []struct {
		what    string
		before  bool // the lease began before the server was removed
		release time.Duration
		want    time.Duration
	}{
		{"released", true, 10 * time.Minute, 10 * time.Minute},
		{"never released", true, 24 * time.Hour, 30 * time.Minute},
		{"too late", false, 10 * time.Minute, 0},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := must(NewHost(Options{}))
				runsIn(h, t.Context())
				if err := h.Put(Config{Name: "a", URL: "https://x.example", Disabled: true}, FromAPI); err != nil {
					t.Fatal(err)
				}
				ended := make(chan time.Duration, 1)
				began := time.Now()
				s := must(h.server("a"))
				s.quit = sync.OnceFunc(func() { ended <- time.Since(began) })
				release := func() {}
				if tt.before {
					release = h.Lease()
				}
				if err := h.Remove("a"); err != nil {
					t.Fatal(err)
				}
				if !tt.before {
					release = h.Lease()
				}
				time.AfterFunc(tt.release, func() { release(); release() })
				if took := <-ended; took != tt.want {
					t.Errorf("the server ended after %v, want %v", took, tt.want)
				}
				time.Sleep(48 * time.Hour)
				h.mu.Lock()
				defer h.mu.Unlock()
				if s.leases != 0 {
					t.Errorf("%d leases are left", s.leases)
				}
			})
		})
	}
}
