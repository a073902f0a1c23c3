package schedule

import (
	"context"
	"sync"
	"time"
)

const (
	// look is how often a waiting job looks at the clock, which may jump while
	// timers run on.
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
	Name     string
	Schedule Schedule
	// CatchUp says that after downtime the latest missed due instant is run once;
	// without it missed instants are passed over.
	CatchUp bool
}

// Loop runs jobs when they are due. Jobs, LastDue and Do are required.
type Loop struct {
	Jobs []Job
	// LastDue is the last due instant of a job that was given to Run before this
	// process started; false when there was none. Called once for each job.
	LastDue func(name string) (time.Time, bool)
	// Do is called for each due instant, in order, each instant once; calls
	// for one job never overlap, those of different jobs may. Instants that
	// pass while Do is busy are missed like those of downtime, but for the latest
	// of them if it is at most two minutes old. Do should end soon after ctx does.
	Do func(ctx context.Context, name string, due time.Time)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Run blocks until ctx ends and every call of Do has returned.
func (l *Loop) Run(ctx context.Context) {
	now := l.Now
	if now == nil {
		now = time.Now
	}
	var wg sync.WaitGroup
	for _, job := range l.Jobs {
		r := &runner{job: job, now: now, do: l.Do}
		last, ok := l.LastDue(job.Name)
		wg.Go(func() { r.run(ctx, last, ok) })
	}
	wg.Wait()
}

// runner is one job's state: everything up to base is settled.
type runner struct {
	job   Job
	now   func() time.Time
	do    func(ctx context.Context, name string, due time.Time)
	base  time.Time
	given []time.Time
}

func (r *runner) run(ctx context.Context, last time.Time, ok bool) {
	r.base = r.now()
	if ok {
		r.given = append(r.given, last)
		r.base = last
		r.settle(ctx, 0)
	}
	for ctx.Err() == nil {
		if !r.wait(ctx) {
			return
		}
		r.settle(ctx, grace)
	}
}

// wait returns true when the next due instant has come or the clock has jumped
// so far back that base must be set anew.
func (r *runner) wait(ctx context.Context) bool {
	next, ok := r.job.Schedule.Next(r.base)
	for {
		now := r.now()
		pause := look
		if ok {
			pause = min(pause, next.Sub(now))
		}
		if pause <= 0 || r.base.Sub(now) > wrong {
			return true
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
}

// settle gives the latest due instant that has passed, when it is no later than
// lateness or the job catches up, and moves base to it.
func (r *runner) settle(ctx context.Context, lateness time.Duration) {
	now := r.now()
	if r.base.Sub(now) > wrong {
		r.base = now
		return
	}
	due, ok := r.job.Schedule.Latest(r.base, now)
	if !ok {
		return
	}
	r.base = due
	if r.wasGiven(due) || (!r.job.CatchUp && now.Sub(due) > lateness) {
		return
	}
	if len(r.given) == remembered {
		r.given = r.given[1:]
	}
	r.given = append(r.given, due)
	if ctx.Err() == nil {
		r.do(ctx, r.job.Name, due)
	}
}

func (r *runner) wasGiven(due time.Time) bool {
	for _, g := range r.given {
		if g.Equal(due) {
			return true
		}
	}
	return false
}
