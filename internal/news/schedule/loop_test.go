package schedule

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	log   bytes.Buffer // read it after stop
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
	w := &world{}
	w.start(t, expr, catchUp, last, takes)
	return w
}

// start starts the loop, anew after stop.
func (w *world) start(t *testing.T, expr string, catchUp bool, last time.Time, takes time.Duration) {
	t.Helper()
	s, err := Parse(expr, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	loop := &Loop{
		Jobs:    []Job{{Name: "digest", Schedule: s, CatchUp: catchUp}},
		LastDue: func(string) (time.Time, bool) { return last, !last.IsZero() },
		Now:     w.now,
		Log:     slog.New(slog.NewTextHandler(&w.log, nil)),
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

// TestLoop_ClockAheadThenRight_GoesOn has the clock go ahead and back again, with a restart between: digests went
// silent until the clock had caught up.
func TestLoop_ClockAheadThenRight_GoesOn(t *testing.T) {
	for _, ahead := range []time.Duration{3 * time.Hour, 24 * time.Hour} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %v", ahead, restarted), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { goAheadAndBack(t, ahead, restarted) })
			})
		}
	}
}

func goAheadAndBack(t *testing.T, ahead time.Duration, restarted bool) {
	w := begin(t, "*/10 * * * *", true, time.Time{}, 0)
	<-time.After(25 * time.Minute)
	w.jump(ahead)
	<-time.After(70 * time.Second)
	if runs := w.take(); len(runs) != 3 {
		t.Errorf("up to the jump and for what was missed in it: %v", runs)
	}
	if restarted {
		w.stop()
		w.start(t, "*/10 * * * *", true, w.due[len(w.due)-1], 0)
	}
	w.jump(-ahead)
	<-time.After(time.Hour)
	want := []string{"digest 01-01 00:30", "digest 01-01 00:40", "digest 01-01 00:50", "digest 01-01 01:00",
		"digest 01-01 01:10", "digest 01-01 01:20"}
	if diff := cmp.Diff(want, w.take()); diff != "" {
		t.Errorf("in the hour after the clock was right again (-want +got):\n%s", diff)
	}
	<-time.After(ahead + time.Hour)
	w.stop()
	slices.SortFunc(w.due, time.Time.Compare)
	if once := slices.CompactFunc(slices.Clone(w.due), time.Time.Equal); len(once) != len(w.due) {
		t.Errorf("%d of %d instants were given twice", len(w.due)-len(once), len(w.due))
	}
	for _, line := range []string{"clock jumped", "schedules start again from now"} {
		if !strings.Contains(w.log.String(), line) {
			t.Errorf("the log lacks %q: %s", line, w.log.String())
		}
	}
}

// TestLoop_SuspendedWithoutCatchUp_SkipsWhatWasMissed: the timers stand still while a machine sleeps.
func TestLoop_SuspendedWithoutCatchUp_SkipsWhatWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, "*/10 * * * *", false, time.Time{}, 0)
		defer w.stop()
		<-time.After(25 * time.Minute)
		w.take()
		w.jump(3 * time.Hour) // 3:25
		<-time.After(2 * time.Minute)
		if runs := w.take(); len(runs) != 0 {
			t.Errorf("what was missed meanwhile ran: %v", runs)
		}
		if n := strings.Count(w.log.String(), "skipping runs that were due while the bot was down"); n != 1 {
			t.Errorf("said %d times that it was skipped: %s", n, w.log.String())
		}
		<-time.After(5 * time.Minute)
		if diff := cmp.Diff([]string{"digest 01-01 03:30"}, w.take()); diff != "" {
			t.Errorf("afterwards (-want +got):\n%s", diff)
		}
	})
}

// TestLoopOverRestarts lives 400 days in 20 zones, with restarts at random that
// cut runs off: for every local date one run is done, and one alone.
func TestLoopOverRestarts(t *testing.T) {
	zones := []string{"Africa/Cairo", "America/Havana", "America/New_York", "America/Santiago", "America/Sao_Paulo",
		"America/St_Johns",
		"Antarctica/Troll", "Asia/Amman", "Asia/Beirut", "Asia/Gaza", "Asia/Kathmandu", "Asia/Tehran", "Asia/Tokyo",
		"Atlantic/Azores",
		"Australia/Lord_Howe", "Europe/Berlin", "Europe/London", "Pacific/Auckland", "Pacific/Chatham", "UTC"}
	times := []string{"0 0 * * *", "daily at 1:30", "15 2 * * *", "30 2 * * *", "every day at 3:00",
		"30 8 * * *", "45 23 * * *"}
	synctest.Test(t, func(t *testing.T) {
		h := history{last: map[string]time.Time{}, dates: map[string]int{}}
		for i, name := range zones {
			s, err := Parse(times[i%len(times)], zone(t, name))
			if err != nil {
				t.Fatal(err)
			}
			h.jobs = append(h.jobs, Job{Name: name, Schedule: s, CatchUp: true})
		}
		chance := rand.New(rand.NewPCG(1, 2))
		begin := time.Now()
		for time.Since(begin) < 400*day {
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { h.loop().Run(ctx) })
			<-time.After(time.Duration(15+chance.IntN(60*60)) * time.Minute) // long enough for one run
			cancel()
			wg.Wait()
			<-time.After(time.Duration(chance.IntN(20*60)) * time.Minute)
		}
		h.check(t, begin, begin.AddDate(0, 0, 398))
	})
}

// history is what outlives a restart.
type history struct {
	mu    sync.Mutex
	jobs  []Job
	last  map[string]time.Time
	dates map[string]int // runs by zone and local date
}

func (h *history) loop() *Loop {
	return &Loop{Jobs: h.jobs,
		LastDue: func(name string) (time.Time, bool) {
			h.mu.Lock()
			defer h.mu.Unlock()
			last, ok := h.last[name]
			return last, ok
		},
		Do: func(ctx context.Context, name string, due time.Time) {
			select {
			case <-time.After(7 * time.Minute):
			case <-ctx.Done(): // cut off before it was recorded
				return
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			h.last[name] = due
			h.dates[name+due.Format(" 2006-01-02")]++
		}}
}

func (h *history) check(t *testing.T, from, to time.Time) {
	for _, job := range h.jobs {
		for date := from.AddDate(0, 0, 2); date.Before(to); date = date.AddDate(0, 0, 1) {
			key := job.Name + date.Format(" 2006-01-02")
			if runs := h.dates[key]; runs != 1 {
				t.Errorf("%s: %d runs", key, runs)
			}
		}
	}
	for key, runs := range h.dates {
		if runs != 1 {
			t.Errorf("%s: %d runs", key, runs)
		}
	}
}

// setting is a loop whose jobs are changed while it runs.
type setting struct {
	loop *Loop
	mu   sync.Mutex
	runs []string
}

func (s *setting) job(t *testing.T, name, expr string) Job {
	t.Helper()
	when, err := Parse(expr, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return Job{Name: name, Schedule: when, CatchUp: true}
}

func (s *setting) take() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.runs)
	runs := strings.Join(s.runs, ", ")
	s.runs = nil
	return runs
}

func (s *setting) start(t *testing.T, takes time.Duration) {
	s.loop.LastDue = func(string) (time.Time, bool) { return time.Time{}, false }
	s.loop.Do = func(ctx context.Context, name string, due time.Time) {
		s.mu.Lock()
		s.runs = append(s.runs, name+due.Format(" 2 15:04"))
		s.mu.Unlock()
		select {
		case <-time.After(takes):
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.loop.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
}

func TestSetWhileTheLoopRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &setting{loop: &Loop{}}
		a, b := s.job(t, "a", "daily at 8:00"), s.job(t, "b", "daily at 9:00")
		s.loop.Set([]Job{a})
		s.start(t, 0)
		for _, step := range []struct {
			wait time.Duration // before the next jobs are set
			jobs []Job
			want string // what has run until then
		}{
			{10 * time.Hour, []Job{a, b}, "a 1 08:00"}, // b is new: nothing is due for it until tomorrow
			{24 * time.Hour, []Job{a, b}, "a 2 08:00, b 2 09:00"},
			{30 * time.Minute, []Job{s.job(t, "a", "daily at 7:00"), b}, ""}, // counts from now, 10:30
			// At its new time, and not at the old one as one that was missed.
			{20*time.Hour + 40*time.Minute, []Job{s.job(t, "a", "daily at 7:00"), b}, "a 3 07:00"},
			// What a new schedule would have had today was never promised.
			{3*time.Hour + 20*time.Minute, []Job{s.job(t, "a", "daily at 9:30"), b}, "b 3 09:00"},
			{30 * time.Minute, []Job{b}, ""},
			{23*time.Hour + 30*time.Minute, nil, "b 4 09:00"},
			{48 * time.Hour, []Job{a}, ""},
			{24 * time.Hour, nil, "a 7 08:00"},
		} {
			<-time.After(step.wait)
			if got := s.take(); got != step.want {
				t.Errorf("on %s: ran %q, want %q", time.Now().UTC().Format("2 15:04"), got, step.want)
			}
			s.loop.Set(step.jobs)
		}
	})
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &setting{loop: &Loop{}}
		job := s.job(t, "a", "daily at 8:00")
		s.loop.Jobs = []Job{job}
		s.start(t, 0)
		for _, paused := range []bool{false, true, true, false} {
			<-time.After(12 * time.Hour)
			job.Paused = paused
			s.loop.Set([]Job{job})
			<-time.After(12 * time.Hour)
		}
		if got := s.take(); got != "a 1 08:00, a 2 08:00" {
			t.Errorf("ran %q", got)
		}
		<-time.After(9 * time.Hour)
		if got := s.take(); got != "a 5 08:00" {
			t.Errorf("after the pause: ran %q", got)
		}
	})
}

// TestSetDoesNotOverlapAJob takes a job out and puts it back while it runs.
func TestSetDoesNotOverlapAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &setting{loop: &Loop{}}
		job := s.job(t, "a", "every minute")
		s.loop.Jobs = []Job{job}
		s.start(t, 10*time.Minute)
		<-time.After(2 * time.Minute)
		s.loop.Set(nil)
		synctest.Wait()
		s.loop.Set([]Job{job})
		<-time.After(8 * time.Minute)
		if got := s.take(); got != "a 1 00:01" {
			t.Errorf("while it ran: %q", got)
		}
		<-time.After(2 * time.Minute)
		if got := s.take(); got != "a 1 00:11" {
			t.Errorf("afterwards: %q", got)
		}
	})
}

// Of many jobs that are due at once a bounded number is called at a time, and none is left out.
func TestLoop_ManyDueAtOnce_AllAreCalledAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 1000
		now, most := 0, 0
		calls := map[string]int{}
		var mu sync.Mutex
		l := &Loop{LastDue: func(string) (time.Time, bool) { return time.Time{}, false }}
		daily, err := Parse("0 8 * * *", time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		for n := range many {
			l.Jobs = append(l.Jobs, Job{Name: fmt.Sprint(n), Schedule: daily})
		}
		l.Do = func(ctx context.Context, name string, _ time.Time) {
			mu.Lock()
			now++
			most, calls[name] = max(most, now), calls[name]+1
			mu.Unlock()
			select { // much longer than a due time counts as on time
			case <-time.After(5 * time.Minute):
			case <-ctx.Done():
			}
			mu.Lock()
			now--
			mu.Unlock()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 23*time.Hour)
		defer cancel()
		l.Run(ctx)
		if len(calls) != many || most > 256 {
			t.Errorf("%d of %d jobs were called, %d at a time", len(calls), many, most)
		}
		for name, n := range calls {
			if n != 1 {
				t.Errorf("job %s was called %d times", name, n)
			}
		}
	})
}

// A job that is added is called on time, and not when the loop looks at the clock next.
func TestSet_WakesTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var called []string
		var logged bytes.Buffer
		l := &Loop{
			Log:     slog.New(slog.NewTextHandler(&logged, nil)),
			LastDue: func(string) (time.Time, bool) { return time.Time{}, false },
			Do:      func(context.Context, string, time.Time) { called = append(called, time.Now().UTC().Format("15:04:05")) },
		}
		<-time.After(10 * time.Second) // so that the looks at the clock are not on the minute
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { l.Run(ctx) })
		<-time.After(35 * time.Second)
		every, err := Parse("every minute", time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		l.Set([]Job{{Name: "a", Schedule: every}})
		<-time.After(20 * time.Second)
		cancel()
		wg.Wait()
		if len(called) != 1 || called[0] != "00:01:00" {
			t.Errorf("called at %q", called)
		}
		if logged.Len() > 0 { // about a clock that is right
			t.Errorf("logged %s", &logged)
		}
	})
}

// Of two loops of a process one logs that the clock jumped, and each what follows for its own jobs.
func TestLoop_IsSecond_LogsNoJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		every, err := Parse("every hour", time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		var logged bytes.Buffer
		var ahead atomic.Int64 // of the clock, in nanoseconds
		l := &Loop{
			Jobs:     []Job{{Name: "a", Schedule: every}},
			LastDue:  func(string) (time.Time, bool) { return time.Time{}, false },
			Do:       func(context.Context, string, time.Time) {},
			Now:      func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
			Log:      slog.New(slog.NewTextHandler(&logged, nil)),
			IsSecond: true,
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { l.Run(ctx) })
		for _, d := range []time.Duration{3 * time.Hour, 0} {
			ahead.Store(int64(d))
			<-time.After(time.Minute)
			synctest.Wait()
		}
		<-time.After(time.Minute)
		cancel()
		wg.Wait()
		if log := logged.String(); strings.Contains(log, "clock jumped") || !strings.Contains(log, "start again from now") {
			t.Errorf("logged %s", log)
		}
	})
}

// Jobs that are held take no part of the calls at once: however many there are, another job runs when it is due. Each
// is called once, when its hold ends.
func TestLoop_ManyHeld_OthersRunMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &setting{loop: &Loop{}}
		jobs := []Job{s.job(t, "other", "daily at 9:00")}
		for n := range maxCalls + 44 {
			jobs = append(jobs, s.job(t, fmt.Sprintf("held%03d", n), "daily at 8:00"))
		}
		s.loop.Set(jobs)
		holdEnd := time.Now().Add(10 * time.Hour)
		s.loop.Hold = func(name string) time.Duration {
			if name == "other" {
				return 0
			}
			return time.Until(holdEnd)
		}
		s.start(t, 5*time.Minute)
		<-time.After(9*time.Hour + 30*time.Minute)
		if got := s.take(); got != "other 1 09:00" {
			t.Errorf("while the others are held: ran %q", got)
		}
		<-time.After(time.Hour)
		got := strings.Split(s.take(), ", ")
		if distinct := slices.Compact(slices.Clone(got)); len(got) != maxCalls+44 || len(distinct) != len(got) {
			t.Errorf("after the hold %d calls were made for %d due times, want one for each of %d", len(got), len(distinct),
				maxCalls+44)
		}
	})
}

// A call that waits for others is held when its hold begins meanwhile.
func TestLoop_HoldBeginsWhileACallWaits_ItIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &setting{loop: &Loop{}}
		var jobs []Job
		for n := range maxCalls + 1 {
			jobs = append(jobs, s.job(t, fmt.Sprint(n), "daily at 8:00"))
		}
		s.loop.Set(jobs)
		from, to := time.Now().Add(8*time.Hour+time.Minute), time.Now().Add(10*time.Hour)
		s.loop.Hold = func(string) time.Duration {
			if time.Now().Before(from) {
				return 0
			}
			return time.Until(to)
		}
		s.start(t, 5*time.Minute)
		<-time.After(9 * time.Hour)
		if got := strings.Count(s.take(), "08:00"); got != maxCalls {
			t.Errorf("%d calls were made before the hold ended, want %d", got, maxCalls)
		}
		<-time.After(2 * time.Hour)
		if got := strings.Count(s.take(), "08:00"); got != 1 {
			t.Errorf("%d calls were made after it, want 1", got)
		}
	})
}

// A loop without a log goes on where there is something to log, such as a clock that was ahead.
func TestLoop_WithoutALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		every, err := Parse("every minute", time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		l := &Loop{
			Jobs:    []Job{{Name: "a", Schedule: every}},
			LastDue: func(string) (time.Time, bool) { return time.Now().Add(24 * time.Hour), true },
			Do:      func(context.Context, string, time.Time) { calls++ },
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { l.Run(ctx) })
		<-time.After(90 * time.Second)
		cancel()
		wg.Wait()
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
	})
}
