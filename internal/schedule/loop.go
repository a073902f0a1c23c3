package schedule

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// look is how often the loop looks at the clock while it waits, since the clock
	// may jump while timers run on.
	look = 30 * time.Second
	// grace is how late a due instant may be met while the loop runs and still
	// count as on time.
	grace = 2 * time.Minute
	// wrong is how far ahead of the clock the last due instant may lie before the
	// loop concludes that the clock was wrong then, and starts afresh.
	wrong = 26 * time.Hour
	// remembered is how many of the last given instants are never given again,
	// whatever the clock does.
	remembered = 64
)

// Job is something to be run on a schedule.
type Job struct {
	Name     string // tells jobs apart
	Schedule Schedule
	// CatchUp says that after downtime the latest missed due instant is run once;
	// without it missed instants are passed over.
	CatchUp bool
	// Paused says that what becomes due is passed over, also once it goes on.
	Paused bool
}

// Loop runs jobs when they are due. LastDue and Do are required.
type Loop struct {
	// Jobs are those to begin with; Set replaces them.
	Jobs []Job
	// LastDue is the last due instant of a job that was given to Do before the loop
	// knew the job; false when there was none. Called once for each job that is new.
	LastDue func(name string) (time.Time, bool)
	// Do is called for each due instant, in order, each instant once; calls
	// for one job never overlap, those of different jobs may. Instants that
	// pass while Do is busy are missed like those of downtime, but for the latest
	// of them if it is at most two minutes old. Do should end soon after ctx does.
	Do func(ctx context.Context, name string, due time.Time)
	// Now is the clock; nil is time.Now.
	Now func() time.Time

	mu      sync.Mutex
	next    []Job
	changed bool
	wake    chan struct{} // made by Run
}

// Set replaces the jobs, by their names; it is safe to call at any time. A job that
// stays goes on where it is: what it ran is not run again, what runs is let finish.
// A new schedule counts from now. A job that is new is treated as when the loop
// starts: with CatchUp the latest instant missed since LastDue is run.
func (l *Loop) Set(jobs []Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next, l.changed = slices.Clone(jobs), true
	if l.wake != nil {
		select {
		case l.wake <- struct{}{}:
		default: // it has yet to see an earlier change
		}
	}
}

// Run blocks until ctx ends and every call of Do has returned.
func (l *Loop) Run(ctx context.Context) {
	r := &run{loop: l, now: l.Now, states: map[string]*state{}, done: make(chan *state)}
	if r.now == nil {
		r.now = time.Now
	}
	l.mu.Lock()
	l.wake = make(chan struct{}, 1)
	if !l.changed {
		l.next, l.changed = l.Jobs, true
	}
	l.mu.Unlock()
	for ctx.Err() == nil {
		r.apply()
		timer := time.NewTimer(r.step(ctx))
		select {
		case <-ctx.Done():
		case <-l.wake:
		case s := <-r.done:
			r.rest(s)
		case <-timer.C:
		}
		timer.Stop()
	}
	r.calls.Wait()
}

// run is the loop while it runs; all of it belongs to the goroutine of Run.
type run struct {
	loop   *Loop
	now    func() time.Time
	states map[string]*state
	done   chan *state
	calls  sync.WaitGroup
}

// state is where a job stands: everything up to base is settled.
type state struct {
	job     Job
	base    time.Time
	due     time.Time // the next after base
	isDue   bool      // false: there is none
	given   []time.Time
	busy    bool
	removed bool
}

// apply takes over the jobs that were set.
func (r *run) apply() {
	r.loop.mu.Lock()
	jobs, changed := r.loop.next, r.loop.changed
	r.loop.changed = false
	r.loop.mu.Unlock()
	if !changed {
		return
	}
	named := map[string]bool{}
	for _, job := range jobs {
		named[job.Name] = true
		if s := r.states[job.Name]; s != nil {
			s.become(job, r.now())
		} else {
			r.states[job.Name] = r.begin(job)
		}
	}
	for name, s := range r.states {
		if s.removed = !named[name]; s.removed && !s.busy {
			delete(r.states, name)
		}
	}
}

func (r *run) begin(job Job) *state {
	s := &state{job: job}
	now := r.now()
	last, ok := r.loop.LastDue(job.Name)
	if !ok {
		s.settled(now)
		return s
	}
	s.given = append(s.given, last)
	s.settled(last)
	if onTime := now.Add(-1); !job.CatchUp && onTime.After(last) {
		s.settled(onTime) // what is due this very instant was not missed
	}
	return s
}

// become gives a job that goes on its new settings.
func (s *state) become(job Job, now time.Time) {
	fresh := !s.job.Schedule.same(job.Schedule) || s.job.Paused && !job.Paused || s.removed
	s.job = job
	if fresh && now.After(s.base) {
		s.base = now
	}
	s.settled(s.base)
}

func (s *state) settled(base time.Time) {
	s.base = base
	s.due, s.isDue = s.job.Schedule.Next(base)
}

// rest ends a call of Do.
func (r *run) rest(s *state) {
	if s.busy = false; s.removed {
		delete(r.states, s.job.Name)
	}
}

// step gives what is due and returns how long nothing will be.
func (r *run) step(ctx context.Context) time.Duration {
	now, pause := r.now(), look
	for _, s := range r.states {
		if s.busy || s.removed {
			continue
		}
		if due, ok := s.settle(now); ok {
			r.give(ctx, s, due)
		} else if s.isDue {
			pause = min(pause, s.due.Sub(now))
		}
	}
	return pause
}

// settle moves base to the latest due instant that has passed, and returns it when
// it is to be given.
func (s *state) settle(now time.Time) (due time.Time, give bool) {
	if s.base.Sub(now) > wrong {
		s.settled(now)
		return time.Time{}, false
	}
	if !s.isDue || s.due.After(now) {
		return time.Time{}, false
	}
	due, ok := s.job.Schedule.Latest(s.base, now)
	if !ok {
		return time.Time{}, false
	}
	s.settled(due)
	isLate := now.Sub(due) > grace && !s.job.CatchUp
	if s.job.Paused || isLate || slices.ContainsFunc(s.given, due.Equal) {
		return time.Time{}, false
	}
	return due, true
}

func (r *run) give(ctx context.Context, s *state, due time.Time) {
	if len(s.given) == remembered {
		s.given = s.given[1:]
	}
	s.given = append(s.given, due)
	s.busy = true
	name := s.job.Name
	r.calls.Go(func() {
		r.loop.Do(ctx, name, due)
		select {
		case r.done <- s:
		case <-ctx.Done():
		}
	})
}
