package slack

import (
	"context"
	"testing"
	"time"

	"ravenbot/internal/chat"
)

func gapAt(channel, thread, oldest string) *gap {
	return &gap{place: place{channel, thread}, oldest: oldest, filled: make(chan struct{})}
}

// free reports whether a message would have nothing to wait for.
func free(m *missed, channel, thread string) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m.wait(ctx, chat.Address{Channel: channel, Thread: thread})
	return m.before(place{channel, thread}) == nil
}

func TestAnOutageWhileOneIsCaughtUpLosesNothing(t *testing.T) {
	m := newMissed(true)
	m.begin()
	if free(&m, "C1", "") {
		t.Error("nothing is waited for before the gaps are known")
	}
	m.known([]*gap{gapAt("C1", "", "10"), gapAt("C2", "", "10")})
	first, _ := m.next(time.Time{})
	m.begin() // while C1 is being read
	m.known([]*gap{gapAt("C1", "", "20"), gapAt("C2", "", "20")})
	m.fill(first)
	if free(&m, "C1", "") {
		t.Error("what was said while C1 was read is not waited for")
	}
	for range 2 {
		g, _ := m.next(time.Time{})
		if g == nil || g.oldest != "10" {
			t.Fatalf("next is %+v, want a gap from 10 on", g)
		}
		m.fill(g)
	}
	if g, at := m.next(time.Time{}); g != nil || !at.IsZero() || !free(&m, "C1", "") || !free(&m, "C2", "") {
		t.Errorf("%+v is left", g)
	}
}

func TestWhatIsWaitedForComesFirst(t *testing.T) {
	m := newMissed(true)
	m.begin()
	m.known([]*gap{gapAt("C1", "", "1"), gapAt("C2", "", "1"), gapAt("C2", "5", "5"), gapAt("C2", "6", "6")})
	if free(&m, "C2", "6") || !free(&m, "C3", "") {
		t.Error("a thread does not wait, or a channel without a gap does")
	}
	now := time.Now()
	for i, want := range []place{{"C2", ""}, {"C2", "6"}, {"C1", ""}, {"C2", "5"}} {
		g, _ := m.next(now)
		if g == nil || g.place != want {
			t.Fatalf("gap %d is %+v, want %v", i, g, want)
		}
		if want.channel == "C1" {
			m.later(g, now.Add(time.Minute))
			continue
		}
		m.fill(g)
	}
	if g, at := m.next(now); g != nil || !at.Equal(now.Add(time.Minute)) {
		t.Errorf("%+v is tried again at %v, want in a minute", g, at)
	}
	if g, _ := m.next(now.Add(time.Minute)); g == nil || g.failed != 1 {
		t.Errorf("%+v, want the gap that failed", g)
	}
}
