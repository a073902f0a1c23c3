package retention_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/ops/retention"
	"ravenbot/internal/store"
)

var room = chat.Address{Platform: "web", Channel: "general"}

// totals are those of days, of which somebody notes how often they are pruned.
type totals struct{ pruned int }

func (t *totals) Prune(context.Context) error {
	t.pruned++
	return errors.New("the disk is full")
}

// pruned is a store that notes when and by which retention it is pruned.
type pruned struct {
	began time.Time
	at    []time.Duration
	keep  []time.Duration // of calls
	err   error
	item  json.RawMessage
}

func (p *pruned) Item(context.Context, string, string) (json.RawMessage, error) {
	if p.item == nil {
		return nil, store.ErrNotFound
	}
	return p.item, nil
}

func (p *pruned) SaveItem(_ context.Context, _, _ string, item json.RawMessage, _ bool) error {
	p.item = item
	return nil
}

func (p *pruned) Prune(_ context.Context, keep store.Retention) ([]chat.Address, error) {
	p.at, p.keep = append(p.at, time.Since(p.began)), append(p.keep, keep.Calls)
	return []chat.Address{room}, p.err
}

// What was deleted is forgotten, also where the rest failed; the next time is as if nothing had been,
// with the retention of then.
func TestRun_PrunesSoonAndAgain_AndForgetsWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := &pruned{began: time.Now(), err: errors.New("the disk is full")}
		days := time.Duration(0)
		var forgotten []chat.Address
		done := make(chan struct{})
		go func() {
			defer close(done)
			retention.Run(ctx, retention.Options{
				Store: p,
				Now:   time.Now,
				Keep:  func() store.Retention { days += 24 * time.Hour; return store.Retention{Calls: days} },
				Forget: func(_ context.Context, list []chat.Address) error {
					forgotten = append(forgotten, list...)
					return nil
				},
				Log: slog.New(slog.DiscardHandler),
			})
		}()
		time.Sleep(13 * time.Hour)
		cancel()
		<-done
		soon := 10 * time.Second
		if want := []time.Duration{soon, 6*time.Hour + soon, 12*time.Hour + soon}; !slices.Equal(p.at, want) {
			t.Errorf("pruned after %v, want %v", p.at, want)
		}
		if want := []time.Duration{24 * time.Hour, 48 * time.Hour, 72 * time.Hour}; !slices.Equal(p.keep, want) {
			t.Errorf("pruned by %v, want %v", p.keep, want)
		}
		if !slices.Equal(forgotten, []chat.Address{room, room, room}) {
			t.Errorf("forgotten was %v", forgotten)
		}
	})
}

// A retention that was made shorter holds at once, and not after hours.
func TestRun_RetentionChanges_PrunesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := &pruned{began: time.Now()}
		changed := retention.NewSignal()
		done := make(chan struct{})
		go func() {
			defer close(done)
			retention.Run(ctx, retention.Options{
				Store:   p,
				Now:     time.Now,
				Keep:    func() store.Retention { return store.Retention{} },
				Forget:  func(context.Context, []chat.Address) error { return nil },
				Changed: changed,
				Log:     slog.New(slog.DiscardHandler),
			})
		}()
		time.Sleep(time.Hour)
		changed.Send([]string{"retention"})
		synctest.Wait()
		cancel()
		<-done
		if want := []time.Duration{10 * time.Second, time.Hour}; !slices.Equal(p.at, want) {
			t.Errorf("pruned after %v, want %v", p.at, want)
		}
	})
}

// A clock that is years ahead deletes nothing when it is set right within a day, and where it stays so only after a
// day, restarts included.
func TestRun_ClockJumpsAhead_WaitsForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, days := &pruned{began: time.Now()}, &totals{}
		now := func() time.Time {
			switch since := time.Since(p.began); {
			case since > time.Hour && since < 13*time.Hour, since >= 19*time.Hour:
				return time.Now().AddDate(10, 0, 0)
			default:
				return time.Now()
			}
		}
		for _, life := range []time.Duration{19 * time.Hour, 20 * time.Hour, 10 * time.Hour} {
			ctx, cancel := context.WithTimeout(t.Context(), life)
			retention.Run(ctx, retention.Options{
				Store:  p,
				Now:    now,
				Keep:   func() store.Retention { return store.Retention{} },
				Forget: func(context.Context, []chat.Address) error { return nil },
				Totals: days,
				Log:    slog.New(slog.DiscardHandler),
			})
			cancel()
		}
		soon := 10 * time.Second
		if want := []time.Duration{soon, 18*time.Hour + soon, 45*time.Hour + soon}; !slices.Equal(p.at, want) {
			t.Errorf("pruned after %v, want %v", p.at, want)
		}
		if days.pruned != len(p.at) {
			t.Errorf("daily totals were pruned %d times, want as often as records", days.pruned)
		}
	})
}
