package digest

import (
	"context"
	"time"
)

// Thousands of digests may be due in the same minute: each run holds its feeds in memory and takes a part of the
// processor, which conversations need, too.
const (
	maxScheduledRuns = 4
	// maxAskedRuns counts runs and previews that somebody waits for. They have slots of their own.
	maxAskedRuns = 4
	// maxTasks counts tasks: an agent may be busy for minutes.
	maxTasks = 8
	// pauseFactor is how many times as long as a step took nothing else is computed, maxPause the most: a step that took
	// long has waited for the disk. With 3 and 50 ms the slowest answers in chat took 2.6 times as long (2026-11).
	pauseFactor = 7
	maxPause    = 100 * time.Millisecond
	// readGap is the longest time between the beginnings of two reads of feeds. One costs about 4 ms of a processor
	// (2026-11).
	readGap = 50 * time.Millisecond
)

// limiter bounds the runs that are under way, and which part of the processor and of the store's transactions runs take
// that nobody waits for. Each channel holds an element for what is under way, or for the pause behind it.
type limiter struct{ scheduled, asked, tasks, steps, reads chan struct{} }

// newLimiter returns a limiter under which nothing is under way.
func newLimiter() limiter {
	free := func(n int) chan struct{} { return make(chan struct{}, n) }
	return limiter{free(maxScheduledRuns), free(maxAskedRuns), free(maxTasks), free(1), free(1)}
}

// acquire waits for a slot for a run until ctx ends, and returns a function that gives it back. Polls come one after
// another and need no slot.
func (l limiter) acquire(ctx context.Context, d spec) (release func(), err error) {
	slots := l.scheduled
	// In this order: a task that somebody asks for must not wait behind those of the schedule.
	switch {
	case d.quiet:
		return func() {}, nil
	case d.asked:
		slots = l.asked
	case d.isTask():
		slots = l.tasks
	}
	return func() { <-slots }, enter(ctx, slots)
}

// do waits until no other step is done, until ctx ends, and does one, with a pause behind it, so that steps take about
// an eighth of one processor. A step of a run that somebody waits for is done at once.
func (l limiter) do(ctx context.Context, d spec, step func() error) error {
	if d.asked {
		return step()
	}
	if err := enter(ctx, l.steps); err != nil {
		return err
	}
	began := time.Now()
	// The run itself goes on during the pause: it may have to wait for a server or a model next.
	defer func() { time.AfterFunc(min(pauseFactor*time.Since(began), maxPause), func() { <-l.steps }) }()
	return step()
}

// read reads a feed. The next read begins as long after it as the next step would, and readGap after its beginning at
// the latest: a slow server holds up nobody. A run that somebody waits for reads at once. When ctx ends, the read notices.
func (l limiter) read(ctx context.Context, d spec, read func()) {
	if d.asked || enter(ctx, l.reads) != nil {
		read()
		return
	}
	began := time.Now()
	next := time.AfterFunc(readGap, func() { <-l.reads })
	read()
	if took := time.Since(began); (1+pauseFactor)*took < readGap && next.Stop() {
		time.AfterFunc(pauseFactor*took, func() { <-l.reads })
	}
}

// enter waits for a place in a channel until ctx ends.
func enter(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
