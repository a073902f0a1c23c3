package kit

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
)

func gapAt(key, after string) *Gap { return &Gap{Key: key, After: after} }

func newCatchUp() *CatchUp { return &CatchUp{Log: slog.New(slog.DiscardHandler), Now: time.Now} }

// isFree reports whether a message would have nothing to wait for.
func isFree(c *CatchUp, keys ...string) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.Wait(ctx, keys...)
	return c.before(keys) == nil
}

func TestCatchUp_OutageWhileAGapIsRead_ReadsItOnceMore(t *testing.T) {
	c := newCatchUp()
	c.Begin()
	if isFree(c, "C1") {
		t.Error("nothing is waited for before the gaps are known")
	}
	c.known([]*Gap{gapAt("C1", "10"), gapAt("C2", "10")})
	first, _ := c.next(time.Time{})
	c.Begin() // while C1 is being read
	c.known([]*Gap{gapAt("C1", "20"), gapAt("C2", "20")})
	c.end(first, tally{})
	if isFree(c, "C1") {
		t.Error("what was said while C1 was read is not waited for")
	}
	for range 2 {
		g, _ := c.next(time.Time{})
		if g == nil || g.After != "10" {
			t.Fatalf("next is %+v, want a gap from 10 on", g)
		}
		c.end(g, tally{})
	}
	if g, at := c.next(time.Time{}); g != nil || !at.IsZero() || !isFree(c, "C1") || !isFree(c, "C2") || c.Len() != 0 {
		t.Errorf("%+v is left", g)
	}
}

func TestCatchUp_GapThatIsWaitedFor_ComesFirst(t *testing.T) {
	c := newCatchUp()
	c.Begin()
	c.known([]*Gap{gapAt("C1", "1"), gapAt("C2", "1"), gapAt("C2/5", "5"), gapAt("C2/6", "6")})
	if isFree(c, "C2/6", "C2") || !isFree(c, "C3") {
		t.Error("a thread does not wait, or a channel without a gap does")
	}
	now := time.Now()
	for i, want := range []string{"C2", "C2/6", "C1", "C2/5"} {
		g, _ := c.next(now)
		if g == nil || g.Key != want {
			t.Fatalf("gap %d is %+v, want %v", i, g, want)
		}
		if want == "C1" {
			c.retry(g, 0, now.Add(time.Minute))
			continue
		}
		c.end(g, tally{})
	}
	if g, at := c.next(now); g != nil || !at.Equal(now.Add(time.Minute)) {
		t.Errorf("%+v is tried again at %v, want in a minute", g, at)
	}
	c.Hasten(func(*Gap) bool { return true })
	if g, _ := c.next(now); g != nil {
		t.Errorf("%+v is read at once although it failed", g)
	}
	if g, _ := c.next(now.Add(time.Minute)); g == nil || g.failed != 1 {
		t.Errorf("%+v, want the gap that failed", g)
	}
}

func TestCatchUp_OlderIDs(t *testing.T) {
	for _, pair := range [][2]string{{"", "1"}, {"9", "10"}, {"1700000000.000001", "1700000000.000002"}, {"99", "100"}} {
		if older(pair[0], pair[1]) != pair[0] || older(pair[1], pair[0]) != pair[0] {
			t.Errorf("%q is not older than %q", pair[0], pair[1])
		}
	}
}

// Gaps are read by several readers; one that fails is read again, one that can never be read
// lets what waits for it pass.
func TestCatchUp_Run_ReadsUntilNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCatchUp()
		c.Readers = 2
		asked, failed := 0, map[string]int{}
		var reading sync.Mutex // two readers call Read
		refused := errors.New("refused")
		c.List = func(context.Context) ([]*Gap, error) {
			if asked++; asked == 1 {
				return nil, errors.New("store is busy")
			}
			late := gapAt("late", "1")
			late.NotBefore = time.Now().Add(time.Hour)
			return []*Gap{gapAt("good", "1"), gapAt("flaky", "1"), gapAt("gone", "1"), gapAt("dropped", "1"), late}, nil
		}
		c.Read = func(_ context.Context, g *Gap) (int, error) {
			reading.Lock()
			failed[g.Key]++
			attempt := failed[g.Key]
			reading.Unlock()
			switch {
			case g.Key == "flaky" && attempt < 3:
				return 1, errors.New("for the moment")
			case g.Key == "gone":
				return 0, refused
			}
			return 1, nil
		}
		c.IsFinal = func(_ *Gap, err error) bool {
			if !errors.Is(err, refused) {
				return false
			}
			c.Drop(func(g *Gap) bool { return g.Key == "dropped" })
			return true
		}
		c.RetryAfter = func(error) time.Duration { return 10 * time.Second }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		c.Begin()
		began := time.Now()
		go func() { c.Run(ctx); close(ended) }()
		for _, key := range []string{"good", "flaky", "gone", "dropped"} {
			c.Wait(t.Context(), key)
		}
		if took := time.Since(began); took < 20*time.Second || took > time.Minute || failed["flaky"] != 3 || asked != 2 {
			t.Errorf("took %v, read %v, asked %d times", took, failed, asked)
		}
		c.Add([]*Gap{gapAt("thread", "1"), gapAt("late", "1")})
		c.Hasten(func(g *Gap) bool { return g.Key == "late" })
		c.Wait(t.Context(), "thread", "late")
		if took := time.Since(began); took > time.Minute || c.Len() != 0 || c.Has("late") {
			t.Errorf("after %v there are %d gaps", took, c.Len())
		}
		cancel()
		<-ended
	})
}

func TestAcceptMissed_NoRoom_OffersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offered := 0
		err := AcceptMissed(t.Context(), func(_ context.Context, m chat.Message) error {
			if offered++; !m.Missed || offered < 3 {
				return chat.ErrBusy
			}
			return nil
		}, chat.Message{ID: "1"})
		if err != nil || offered != 3 {
			t.Errorf("offered %d times: %v", offered, err)
		}
		broken := errors.New("disk full")
		if err := AcceptMissed(t.Context(), func(context.Context, chat.Message) error {
			return broken
		}, chat.Message{}); !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
	})
}

// A place that is listed again while it is read is read from where it stands, if that is older than
// what was listed; the reader moves on meanwhile.
func TestCatchUp_OutageWhileAReaderMovesOn_ReadsFromTheOlderPlace(t *testing.T) {
	for _, tt := range []struct{ name, listed, want string }{
		{"listed further on", "30", "20"},
		{"listed before it", "05", "05"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				c := newCatchUp()
				var lists, reads atomic.Int32
				c.List = func(context.Context) ([]*Gap, error) {
					if lists.Add(1) == 1 {
						return []*Gap{gapAt("C1", "10")}, nil
					}
					return []*Gap{gapAt("C1", tt.listed)}, nil
				}
				move, end := make(chan struct{}), make(chan struct{})
				second := make(chan string, 1)
				c.Read = func(_ context.Context, g *Gap) (int, error) {
					if reads.Add(1) > 1 {
						second <- g.After
						return 0, nil
					}
					<-move
					c.Advance(g, "20")
					<-end
					return 1, nil
				}
				c.IsFinal = func(*Gap, error) bool { return false }
				done := make(chan struct{})
				go func() { c.Run(ctx); close(done) }()
				c.Begin()
				synctest.Wait()
				close(move)
				synctest.Wait()
				c.Begin()
				synctest.Wait()
				close(end)
				if got := <-second; got != tt.want {
					t.Errorf("read again from %q, want %q", got, tt.want)
				}
				cancel()
				<-done
			})
		})
	}
}

// A gap is moved on and listed again at the same time: the race detector sees what is not guarded.
func TestCatchUp_AdvanceAndOutageAtTheSameTime(t *testing.T) {
	c := newCatchUp()
	c.Begin()
	c.known([]*Gap{gapAt("C1", "10")})
	g, _ := c.next(time.Time{})
	var reading sync.WaitGroup
	reading.Go(func() { c.Advance(g, "20") })
	c.Begin()
	c.known([]*Gap{gapAt("C1", "30")})
	reading.Wait()
	if again, _ := c.next(time.Time{}); again == nil || again.After != "10" && again.After != "20" {
		t.Errorf("the place is read again by %+v, want from 10 or 20", again)
	}
}
