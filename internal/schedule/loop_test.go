package schedule

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// world runs one job under a clock that can be made to jump.
type world struct {
	mu    sync.Mutex
	shift time.Duration
	runs  []string
	due   []time.Time
	stop  func()
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.shift)
}

func (w *world) jump(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shift += d
}

func (w *world) take() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	runs := w.runs
	w.runs = nil
	return runs
}

func begin(t *testing.T, expr string, catchUp bool, last time.Time, takes time.Duration) *world {
	t.Helper()
	s, err := Parse(expr, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	loop := &Loop{
		Jobs:    []Job{{Name: "digest", Schedule: s, CatchUp: catchUp}},
		LastDue: func(string) (time.Time, bool) { return last, !last.IsZero() },
		Now:     w.now,
		Do: func(ctx context.Context, name string, due time.Time) {
			w.mu.Lock()
			w.runs = append(w.runs, name+" "+due.UTC().Format("01-02 15:04"))
			w.due = append(w.due, due)
			w.mu.Unlock()
			select {
			case <-time.After(takes):
			case <-ctx.Done():
			}
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { loop.Run(ctx); close(done) }()
	w.stop = func() { cancel(); <-done }
	return w
}

// The clock of a synctest bubble starts at 2000-01-01 00:00 UTC.

func TestLoopRunsEachDueInstantOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, "0 8 * * *", false, time.Time{}, time.Minute)
		defer w.stop()
		<-time.After(72 * time.Hour)
		want := []string{"digest 01-01 08:00", "digest 01-02 08:00", "digest 01-03 08:00"}
		if diff := cmp.Diff(want, w.take()); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
	})
}

func TestLoopAfterDowntime(t *testing.T) {
	last := time.Date(1999, 12, 20, 8, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name    string
		catchUp bool
		want    []string
	}{
		{"catching up", true, []string{"digest 12-31 08:00"}},
		{"skipping", false, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := begin(t, "0 8 * * *", tc.catchUp, last, 0)
				defer w.stop()
				if diff := cmp.Diff(tc.want, w.take()); diff != "" {
					t.Errorf("runs at start (-want +got):\n%s", diff)
				}
				<-time.After(9 * time.Hour)
				if diff := cmp.Diff([]string{"digest 01-01 08:00"}, w.take()); diff != "" {
					t.Errorf("runs later (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestLoopNeverOverlapsAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, "* * * * *", false, time.Time{}, 150*time.Second)
		defer w.stop()
		<-time.After(7 * time.Minute)
		want := []string{"digest 01-01 00:01", "digest 01-01 00:03", "digest 01-01 00:06"}
		if diff := cmp.Diff(want, w.take()); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
	})
}

func TestLoopSurvivesClockJumps(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, jump := range []time.Duration{time.Hour, -time.Hour, year, -year} {
		t.Run(jump.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := begin(t, "*/10 * * * *", true, time.Time{}, 0)
				defer w.stop()
				for _, by := range []time.Duration{jump, -jump, jump, -jump} {
					<-time.After(65 * time.Minute)
					w.take()
					w.jump(by)
					<-time.After(time.Minute)
					if runs := w.take(); len(runs) > 1 {
						t.Errorf("a jump of %s gave a storm: %v", by, runs)
					}
				}
				<-time.After(3 * time.Hour)
				if runs := w.take(); len(runs) < 12 || len(runs) > 18 {
					t.Errorf("%d runs in the three hours after the jumps", len(runs))
				}
				slices.SortFunc(w.due, time.Time.Compare)
				if once := slices.CompactFunc(slices.Clone(w.due), time.Time.Equal); len(once) != len(w.due) {
					t.Errorf("%d of %d runs were for an instant given before", len(w.due)-len(once), len(w.due))
				}
			})
		})
	}
}

// TestLoopOverRestarts lives 400 days with a restart every 17 hours: nothing
// due is lost, nothing is run twice.
func TestLoopOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last time.Time
		var all []string
		for range 400 * 24 / 20 {
			w := begin(t, "0 8 * * *", true, last, 0)
			<-time.After(17 * time.Hour)
			all = append(all, w.take()...)
			w.stop()
			if len(w.due) > 0 {
				last = w.due[len(w.due)-1]
			}
			<-time.After(3 * time.Hour)
		}
		if len(all) != 400 || len(slices.Compact(slices.Clone(all))) != 400 {
			t.Errorf("%d runs in 400 days", len(all))
		}
	})
}
