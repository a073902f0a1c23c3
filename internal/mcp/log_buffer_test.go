package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/text"
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

// A log holds 500 lines of 2 KiB; 200 of them, and at most 64 KiB, are kept over a restart.
func TestLogBuffer_IsBounded(t *testing.T) {
	r := &logBuffer{now: time.Now}
	for n := range 501 {
		r.add("stderr", fmt.Appendf(nil, "%d", n))
	}
	r.add("stderr", []byte(strings.Repeat("x", 3<<10)))
	list := r.lines(text.OneLine)
	if len(list) != 500 || list[0].Text != "2" || len(list[499].Text) != 2<<10 {
		t.Errorf("%d lines from %q, the last of %d bytes", len(list), list[0].Text, len(list[len(list)-1].Text))
	}
	if saved, ok := r.takeUnsaved(text.OneLine); !ok || len(saved) != 200 || saved[0].Text != "302" {
		t.Errorf("%d lines are saved: %v", len(saved), ok)
	}
	if _, ok := r.takeUnsaved(text.OneLine); ok {
		t.Error("what was saved is saved again")
	}
	for range 100 {
		r.add("stderr", []byte(strings.Repeat("x", 942)))
	}
	if saved, _ := r.takeUnsaved(text.OneLine); len(saved) != 64 { // of 944 bytes as JSON, and 80 around them
		t.Errorf("%d lines of 1 KiB are saved, want 64", len(saved))
	}
	// Lines of an earlier process come before those of this one.
	r = &logBuffer{now: time.Now}
	r.prepend(slices.Repeat([]LogLine{{Stream: "bot", Text: "old"}}, 510))
	r.add("bot", []byte("new"))
	if list := r.lines(text.OneLine); len(list) != 500 || list[0].Text != "old" || list[499].Text != "new" {
		t.Errorf("%d lines, the last is %q", len(list), list[len(list)-1].Text)
	}
	if lines := r.linesSince(time.Time{}, "stdout", text.OneLine); len(lines) > 0 {
		t.Errorf("the lines of a stream without any are %q", lines)
	}
}
