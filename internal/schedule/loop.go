package schedule

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// clockCheckInterval is how often the loop looks at the clock while it waits, since the clock
	// may jump while timers run on.
	clockCheckInterval = 30 * time.Second
	// maxLateness is how late a due instant may be met while the loop runs and still
	// count as on time.
	maxLateness = 2 * time.Minute
	// maxClockError is how far ahead of the clock the last due instant may lie before the
	// loop concludes that the clock was wrong then, and starts afresh.
	maxClockError = 26 * time.Hour
	// maxRemembered is how many of the last given instants are never given again,
	// whatever the clock does.
	maxRemembered = 64
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
	r := &loopRun{loop: l, now: l.Now, states: map[string]*jobState{}, done: make(chan *jobState)}
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
		r.applyJobs()
		timer := time.NewTimer(r.startDue(ctx))
		select {
		case <-ctx.Done():
		case <-l.wake:
		case s := <-r.done:
			r.finishCall(s)
		case <-timer.C:
		}
		timer.Stop()
	}
	r.calls.Wait()
}

// loopRun is the loop while it runs; all of it belongs to the goroutine of Run.
type loopRun struct {
	loop   *Loop
	now    func() time.Time
	states map[string]*jobState
	done   chan *jobState
	calls  sync.WaitGroup
}

// jobState is where a job stands: everything up to base is settled.
type jobState struct {
	job     Job
	base    time.Time
	due     time.Time // the next after base
	isDue   bool      // false: there is none
	started []time.Time
	busy    bool
	removed bool
}

// applyJobs takes over the jobs that were set.
func (r *loopRun) applyJobs() {
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
			s.update(job, r.now())
		} else {
			r.states[job.Name] = r.newJobState(job)
		}
	}
	for name, s := range r.states {
		if s.removed = !named[name]; s.removed && !s.busy {
			delete(r.states, name)
		}
	}
}

func (r *loopRun) newJobState(job Job) *jobState {
	s := &jobState{job: job}
	now := r.now()
	last, ok := r.loop.LastDue(job.Name)
	if !ok {
		s.setBase(now)
		return s
	}
	s.started = append(s.started, last)
	s.setBase(last)
	if onTime := now.Add(-1); !job.CatchUp && onTime.After(last) {
		s.setBase(onTime) // what is due this very instant was not missed
	}
	return s
}

// update gives a job that goes on its new settings.
func (s *jobState) update(job Job, now time.Time) {
	fresh := !s.job.Schedule.isSame(job.Schedule) || s.job.Paused && !job.Paused || s.removed
	s.job = job
	if fresh && now.After(s.base) {
		s.base = now
	}
	s.setBase(s.base)
}

func (s *jobState) setBase(base time.Time) {
	s.base = base
	s.due, s.isDue = s.job.Schedule.Next(base)
}

// finishCall ends a call of Do.
func (r *loopRun) finishCall(s *jobState) {
	if s.busy = false; s.removed {
		delete(r.states, s.job.Name)
	}
}

// startDue gives what is due and returns how long nothing will be.
func (r *loopRun) startDue(ctx context.Context) time.Duration {
	now, pause := r.now(), clockCheckInterval
	for _, s := range r.states {
		if s.busy || s.removed {
			continue
		}
		if due, ok := s.takeDue(now); ok {
			r.startCall(ctx, s, due)
		} else if s.isDue {
			pause = min(pause, s.due.Sub(now))
		}
	}
	return pause
}

// takeDue moves base to the latest due instant that has passed, and returns it when
// it is to be given.
func (s *jobState) takeDue(now time.Time) (due time.Time, give bool) {
	if s.base.Sub(now) > maxClockError {
		s.setBase(now)
		return time.Time{}, false
	}
	if !s.isDue || s.due.After(now) {
		return time.Time{}, false
	}
	due, ok := s.job.Schedule.Latest(s.base, now)
	if !ok {
		return time.Time{}, false
	}
	s.setBase(due)
	isLate := now.Sub(due) > maxLateness && !s.job.CatchUp
	if s.job.Paused || isLate || slices.ContainsFunc(s.started, due.Equal) {
		return time.Time{}, false
	}
	return due, true
}

func (r *loopRun) startCall(ctx context.Context, s *jobState, due time.Time) {
	if len(s.started) == maxRemembered {
		s.started = s.started[1:]
	}
	s.started = append(s.started, due)
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
