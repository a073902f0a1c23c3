package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What a server said before a restart can be read after it: marked by stream,
// without its secrets, and not more than a little.
func TestTheLogOutlivesTheProcess(t *testing.T) {
	keep := &memoryStore{}
	entry := fakeServer("a", "noise", "API_TOKEN=sesame-open")
	h, end := hosted(t, Options{Servers: []Config{entry}, Store: keep})
	settled(t, h, "a")
	call(t, find1(t, h, "a", "secret"), `{}`)
	end()
	again := must(NewHost(Options{Servers: []Config{entry}, Store: keep}))
	got := logText(again, "a")
	for _, want := range []string{"stdout: npm warn something is old", "stderr: the token is ***",
		"bot: started", "bot: ended"} {
		if !strings.Contains(got, want) {
			t.Errorf("the log does not hold %q:\n%s", want, got)
		}
	}
	if all := string(must(keep.Load(kindLog, "a"))); strings.Contains(all, "sesame") {
		t.Errorf("a secret is kept: %s", all)
	}
}

func TestWhatIsKeptOfALogIsBounded(t *testing.T) {
	same := func(s string) string { return s }
	r := &logBuffer{now: time.Now}
	if _, fresh := r.takeUnsaved(same); fresh {
		t.Error("an empty log is fresh")
	}
	for i := range 1000 {
		r.add("stderr", fmt.Append(nil, "line ", i))
	}
	list, fresh := r.takeUnsaved(same)
	if !fresh || len(list) != maxSavedLines || list[maxSavedLines-1].Text != "line 999" {
		t.Errorf("%d lines are kept, fresh: %v", len(list), fresh)
	}
	if _, fresh := r.takeUnsaved(same); fresh {
		t.Error("what was kept is fresh")
	}
	for range 1000 {
		r.add("stderr", []byte(strings.Repeat(`"`, maxLogLine)))
	}
	list, _ = r.takeUnsaved(same)
	if data, _ := json.Marshal(list); len(data) > maxSavedBytes || len(list) < 10 {
		t.Errorf("%d lines of %d bytes are kept", len(list), len(data))
	}
}

// counting counts what is saved of logs.
type counting struct {
	memoryStore
	logs atomic.Int32
}

func (c *counting) Save(what, server string, data []byte) error {
	if what == kindLog {
		c.logs.Add(1)
	}
	return c.memoryStore.Save(what, server, data)
}

func TestLogsAreWrittenNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keep := &counting{}
		h := must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x", Disabled: true},
			{Name: "b", Command: "x", Disabled: true}}, Store: keep}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.Run(ctx) }()
		s := must(h.server("a"))
		for range 100 { // ten lines a second
			s.logs.add("stderr", []byte("x"))
			time.Sleep(100 * time.Millisecond)
		}
		if n := keep.logs.Load(); n < 5 || n > 6 {
			t.Errorf("in 10 s the log was written %d times", n)
		}
		before := keep.logs.Load()
		time.Sleep(time.Hour)
		if n := keep.logs.Load() - before; n > 1 {
			t.Errorf("a silent server's log was written %d times", n)
		}
		s.logs.add("stderr", []byte("last words"))
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := string(must(keep.Load(kindLog, "a"))); !strings.Contains(got, "last words") {
			t.Errorf("the last words are not kept: %.200s", got)
		}
	})
}
