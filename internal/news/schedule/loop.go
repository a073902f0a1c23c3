package schedule

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// clockCheckInterval is how often the loop looks at the clock while it waits: the clock may jump while timers run
	// on.
	clockCheckInterval = 30 * time.Second
	// maxLateness is how late a due instant may be noticed while the loop runs and still count as on time.
	maxLateness = 2 * time.Minute
	// maxClockError is how far ahead of the clock the last due instant may lie, and how far the clock may move against
	// the timers, before the loop concludes that the clock is or was wrong, and schedules start again from the present.
	// It is more than time servers correct step by step.
	maxClockError = 2 * time.Minute
	// maxRemembered is how many of the latest started instants are never started again, whatever the clock does.
	maxRemembered = 64
	// maxCalls is how many calls of Do are under way at once. The others wait without a goroutine, whose stack takes
	// 8 KB, and counts three times where the garbage collector paces itself: 5,000 took 150 MB (measured 2026-11-22).
	maxCalls = 256
)

// Job is something to run on a schedule.
type Job struct {
	Name     string // identifies the job
	Schedule Schedule
	// CatchUp says that after downtime the latest missed instant is run once. Without it missed instants are skipped.
	CatchUp bool
	// Paused says that due instants are skipped. They are not run later either.
	Paused bool
}

// Loop runs jobs when they are due. LastDue and Do are required.
type Loop struct {
	// Jobs are the jobs to start with; Set replaces them.
	Jobs []Job
	// LastDue returns the last due instant of a job for which Do was called before the loop knew the job, and false
	// when there was none. It is called once for each new job.
	LastDue func(name string) (time.Time, bool)
	// Do is called for each due instant, in order, each instant once. Calls for one job never overlap, those for
	// different jobs may. Instants that pass while Do runs are missed like those of downtime, except the latest of
	// them if it is at most two minutes old. Do should return soon after ctx ends.
	Do func(ctx context.Context, name string, due time.Time)
	// Hold returns how long a due instant of a job still waits before Do is called for it; 0: not at all. What waits is
	// none of the calls under way. The loop asks again at least every 30 s. nil: nothing waits.
	Hold func(name string) time.Duration
	// Now returns the current time. nil: time.Now.
	Now func() time.Time
	// Log is told of clocks that jump. nil: nobody is.
	Log *slog.Logger
	// IsSecond says that another loop of this process logs the jumps themselves, so that this one leaves that out.
	IsSecond bool

	mu   sync.Mutex
	next []Job
	// next and changed are guarded by mu; wake has room for one, so that Set never waits.
	changed bool
	wake    chan struct{} // made by Run
}

// Set replaces the jobs, by their names. It may be called at any time. A job that stays continues: instants that it
// has run are not run again, and a running call is left to finish. A new schedule counts from now. A new job is
// treated as when the loop starts: with CatchUp the latest instant missed since LastDue is run.
func (l *Loop) Set(jobs []Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next, l.changed = slices.Clone(jobs), true
	select {
	case l.wake <- struct{}{}:
	default: // Run has not begun, or has not yet seen an earlier change and will see both
	}
}

// Run runs jobs until ctx ends, and returns when every call of Do has returned. It is called once.
func (l *Loop) Run(ctx context.Context) {
	r := &loopRun{loop: l, log: l.Log, states: map[string]*jobState{}, done: make(chan *jobState)}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.wall, r.timer = r.now(), time.Now()
	l.mu.Lock()
	l.wake = make(chan struct{}, 1)
	// A Set before Run wins over Jobs.
	if !l.changed {
		l.next, l.changed = l.Jobs, true
	}
	l.mu.Unlock()
	for ctx.Err() == nil {
		r.noticeJump()
		r.applyJobs()
		timer := time.NewTimer(r.startDue(ctx))
		select {
		case <-ctx.Done():
		case <-l.wake:
		case s := <-r.done:
			r.finishCall(ctx, s)
		case <-timer.C:
		}
		timer.Stop()
	}
	r.calls.Wait()
}

// loopRun is the state of a running loop. Only the goroutine of Run uses it, except calls.
type loopRun struct {
	loop   *Loop
	log    *slog.Logger
	wall   time.Time // what the clock showed
	timer  time.Time // at this instant of the timers
	states map[string]*jobState
	done   chan *jobState
	calls  sync.WaitGroup
	count  int       // of the calls that are under way
	queue  []dueCall // those that wait for others to end
	held   []dueCall // those that wait as Hold says
}

// dueCall is a call of Do that waits.
type dueCall struct {
	job  *jobState
	due  time.Time
	hold time.Duration // what Hold returned when it was last asked
}

// now returns what the clock shows. Without Round(0) two times would be compared by the timers, which know nothing of
// jumps.
func (r *loopRun) now() time.Time {
	if r.loop.Now != nil {
		return r.loop.Now().Round(0)
	}
	return time.Now().Round(0)
}

// noticeJump logs that the clock was set, or that the machine was suspended.
func (r *loopRun) noticeJump() {
	wall, timer := r.now(), time.Now()
	if by := wall.Sub(r.wall) - timer.Sub(r.timer); by.Abs() > maxClockError && !r.loop.IsSecond {
		r.log.Warn("clock jumped; schedules follow it", "by", by.Round(time.Second), "from", r.wall.UTC(), "to", wall.UTC())
	}
	r.wall, r.timer = wall, timer
}

// jobState is the state of one job: every instant up to base has been dealt with. started are the latest instants for
// which Do was called, oldest first; busy says that a call is under way or waits.
type jobState struct {
	job     Job
	base    time.Time
	due     time.Time // the next one after base
	isDue   bool      // false: there is no next one
	started []time.Time
	busy    bool
	removed bool
}

// applyJobs takes over the jobs of the last Set, if there was one since.
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
		// A removed job that still runs is kept until its call ends, so that a job of that name does not run beside it.
		if s.removed = !named[name]; s.removed && !s.busy {
			delete(r.states, name)
		}
	}
}

// newJobState returns the state of a new job, as of its last run; a job that was never run has missed nothing.
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

// update applies new settings to a job that stays.
func (s *jobState) update(job Job, now time.Time) {
	fresh := !s.job.Schedule.isSame(job.Schedule) || s.job.Paused && !job.Paused || s.removed
	s.job = job
	// There may be thousands that have not changed, and to compute when each is due takes a while.
	if !fresh {
		return
	}
	// Instants of a new schedule, or of a pause, that lie in the past were never promised.
	if now.After(s.base) {
		s.base = now
	}
	s.setBase(s.base)
}

// setBase records that everything up to base has been dealt with, and computes the next due instant.
func (s *jobState) setBase(base time.Time) {
	s.base = base
	s.due, s.isDue = s.job.Schedule.Next(base)
}

// finishCall records the end of a call of Do, and starts the next one that waits.
func (r *loopRun) finishCall(ctx context.Context, s *jobState) {
	if s.busy = false; s.removed {
		delete(r.states, s.job.Name)
	}
	r.count--
	for len(r.queue) > 0 && r.count < maxCalls {
		next := r.queue[0]
		r.queue = r.queue[1:]
		// That a job was removed meanwhile is found by Do, as where the call has begun. Its hold may have begun
		// meanwhile, too.
		r.startOrWait(ctx, next)
	}
}

// startDue starts what is due and returns how long to wait before the next look at the clock.
func (r *loopRun) startDue(ctx context.Context) time.Duration {
	now, pause := r.now(), clockCheckInterval
	held := r.held
	r.held = nil
	for _, c := range held {
		r.startOrWait(ctx, c)
	}
	restarted, ahead := 0, time.Duration(0)
	skipped, example := 0, ""
	for _, s := range r.states {
		if s.busy || s.removed {
			continue
		}
		if by := s.base.Sub(now); by > maxClockError {
			// Waiting for the clock to come by again would keep the job from running until then. What was started is
			// remembered, and not started again.
			s.setBase(now)
			restarted, ahead = restarted+1, max(ahead, by)
		}
		missed, wasDue := s.due, s.isDue && !s.due.After(now)
		if due, ok := s.takeDue(now); ok {
			r.queueCall(ctx, s, due)
		} else if s.isDue {
			pause = min(pause, s.due.Sub(now))
			if wasDue && !s.job.Paused && !s.job.CatchUp && now.Sub(missed) > maxLateness {
				skipped, example = skipped+1, s.job.Name
			}
		}
	}
	if skipped > 0 {
		r.log.Info("skipping runs that were due while the bot was down, as catchUp says", "jobs", skipped, "one", example)
	}
	// One line for all: after a jump there may be thousands.
	if restarted > 0 {
		r.log.Warn("clock was ahead when jobs last ran; schedules start again from now",
			"jobs", restarted, "ahead", ahead.Round(time.Second))
	}
	for _, c := range r.held {
		pause = min(pause, c.hold)
	}
	return pause
}

// takeDue moves base to the latest due instant that has passed, and returns that instant and true if it is to be
// started; earlier ones that have passed are skipped.
func (s *jobState) takeDue(now time.Time) (due time.Time, give bool) {
	if !s.isDue || s.due.After(now) {
		return time.Time{}, false
	}
	due, ok := s.job.Schedule.Latest(s.base, now)
	if !ok {
		return time.Time{}, false
	}
	// Also where it is not started: what is skipped must not come up at the next look.
	s.setBase(due)
	isLate := now.Sub(due) > maxLateness && !s.job.CatchUp
	if s.job.Paused || isLate || slices.ContainsFunc(s.started, due.Equal) {
		return time.Time{}, false
	}
	return due, true
}

// queueCall starts a call of Do for a due instant, now or as soon as it may be.
func (r *loopRun) queueCall(ctx context.Context, s *jobState, due time.Time) {
	// The latest are kept: the clock comes by them again when it was ahead.
	s.started = append(s.started, due)
	slices.SortFunc(s.started, time.Time.Compare)
	s.started = s.started[max(0, len(s.started)-maxRemembered):]
	s.busy = true
	r.startOrWait(ctx, dueCall{job: s, due: due})
}

// startOrWait starts a call, or has it wait: for the end of its hold, or for others to end.
func (r *loopRun) startOrWait(ctx context.Context, c dueCall) {
	c.hold = 0
	if r.loop.Hold != nil {
		c.hold = r.loop.Hold(c.job.job.Name)
	}
	switch {
	case c.hold > 0:
		r.held = append(r.held, c)
	case r.count >= maxCalls:
		r.queue = append(r.queue, c)
	default:
		r.startCall(ctx, c)
	}
}

// startCall calls Do in a goroutine of its own.
func (r *loopRun) startCall(ctx context.Context, c dueCall) {
	r.count++
	s, name, due := c.job, c.job.job.Name, c.due
	r.calls.Go(func() {
		r.loop.Do(ctx, name, due)
		// After ctx has ended nobody reads done any more; Run waits for calls instead.
		select {
		case r.done <- s:
		case <-ctx.Done():
		}
	})
}
