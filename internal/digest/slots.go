package digest

import "context"

// How many runs are under way at once. Thousands of digests may be due in the same minute: each run holds its feeds in
// memory and takes a part of the processor, which conversations need, too.
const (
	maxScheduledRuns = 4
	// maxAskedRuns counts runs and previews that somebody waits for. They have slots of their own.
	maxAskedRuns = 4
	// maxTasks counts tasks: an agent may be busy for minutes.
	maxTasks = 8
)

// slots bound the runs that are under way.
type slots struct {
	// Each holds an element for a run that is under way.
	scheduled chan struct{}
	asked     chan struct{}
	tasks     chan struct{}
}

// newSlots returns slots of which all are free.
func newSlots() slots {
	return slots{
		scheduled: make(chan struct{}, maxScheduledRuns),
		asked:     make(chan struct{}, maxAskedRuns),
		tasks:     make(chan struct{}, maxTasks),
	}
}

// acquire waits for a slot for a digest until ctx ends, and returns a function that gives it back. Polls come one after
// another and need no slot.
func (s slots) acquire(ctx context.Context, d spec) (release func(), err error) {
	free := s.scheduled
	// In this order: a task that somebody asks for must not wait behind those of the schedule.
	switch {
	case d.quiet:
		return func() {}, nil
	case d.asked:
		free = s.asked
	case d.isTask():
		free = s.tasks
	}
	select {
	case free <- struct{}{}:
		return func() { <-free }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
