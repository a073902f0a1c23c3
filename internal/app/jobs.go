package app

import (
	"context"
	"reflect"
	"sync"
	"time"

	"ravenbot/internal/schedule"
)

// jobs runs what is due, and changes while it runs: each job has a loop of its own, so
// that the others go on when one changes.
type jobs struct {
	lastDue func(name string) (time.Time, bool)
	do      func(ctx context.Context, name string, due time.Time)
	now     func() time.Time

	mu      sync.Mutex
	wanted  []schedule.Job
	running map[string]*loop
	// start begins the loop of a job, while Run runs; what it missed before since is
	// nothing to it.
	start func(job schedule.Job, since time.Time) *loop
}

// loop is one job at work.
type loop struct {
	job  schedule.Job
	stop context.CancelFunc
}

// Set replaces the jobs. One that stays as it is goes on; what runs is let finish.
func (j *jobs) Set(list []schedule.Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wanted = list
	if j.start != nil {
		j.adjust(j.now())
	}
}

// Run works until ctx ends and every call of do has returned.
func (j *jobs) Run(ctx context.Context) {
	var wg sync.WaitGroup
	j.mu.Lock()
	j.running = map[string]*loop{}
	j.start = func(job schedule.Job, since time.Time) *loop {
		own, stop := context.WithCancel(ctx)
		last := j.lastDue
		if !since.IsZero() {
			last = func(string) (time.Time, bool) { return since, true }
		}
		l := schedule.Loop{Jobs: []schedule.Job{job}, LastDue: last, Now: j.now,
			Do: func(_ context.Context, name string, due time.Time) { j.do(ctx, name, due) }}
		wg.Go(func() { l.Run(own) })
		return &loop{job, stop}
	}
	j.adjust(time.Time{})
	j.mu.Unlock()
	<-ctx.Done()
	j.mu.Lock()
	j.start = nil
	j.mu.Unlock()
	wg.Wait()
}

// adjust ends the loops of jobs that are gone or have changed, and begins those that
// are wanted. The mutex is held.
func (j *jobs) adjust(since time.Time) {
	wanted := map[string]bool{}
	for _, job := range j.wanted {
		wanted[job.Name] = true
		old := j.running[job.Name]
		if old != nil && reflect.DeepEqual(old.job, job) {
			continue
		}
		if old != nil {
			old.stop()
		}
		j.running[job.Name] = j.start(job, since)
	}
	for name, old := range j.running {
		if !wanted[name] {
			old.stop()
			delete(j.running, name)
		}
	}
}
