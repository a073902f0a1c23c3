package digest

import (
	"context"
	"time"
)

const (
	// pauseFactor is how many times as long as a step took nothing else is computed, maxPause the most: a step that took
	// long has waited for the disk. With 3 and 50 ms the slowest answers in chat took 2.6 times as long (2026-11).
	pauseFactor = 7
	maxPause    = 100 * time.Millisecond
	// readGap is the longest time between the beginnings of two reads of feeds. One costs about 4 ms of a processor
	// (2026-11).
	readGap = 50 * time.Millisecond
)

// pace bounds which part of the processor and of the store's transactions runs take that nobody waits for: thousands
// may be due in one minute, and conversations are answered meanwhile. Steps that compute are done alone, each with a
// pause behind it, so that they take about an eighth of one processor. The beginnings of reads of feeds have such
// pauses, too, but bounded ones, so that a slow server holds up nobody.
type pace struct{ turn, read chan struct{} }

// newPace returns a pace at which a step may begin at once.
func newPace() pace { return pace{make(chan struct{}, 1), make(chan struct{}, 1)} }

// do waits for its turn until ctx ends, and does a step. A step of a run that somebody waits for is done at once.
func (p pace) do(ctx context.Context, d spec, step func() error) error {
	if d.asked {
		return step()
	}
	if err := enter(ctx, p.turn); err != nil {
		return err
	}
	began := time.Now()
	// The run itself goes on during the pause: it may have to wait for a server or a model next.
	defer func() { time.AfterFunc(min(pauseFactor*time.Since(began), maxPause), func() { <-p.turn }) }()
	return step()
}

// doRead reads a feed when a run that nobody waits for may begin to, or when ctx ends, which the read notices.
func (p pace) doRead(ctx context.Context, d spec, read func()) {
	if d.asked || enter(ctx, p.read) != nil {
		read()
		return
	}
	began := time.Now()
	next := time.AfterFunc(readGap, func() { <-p.read })
	read()
	// A quick read is followed by the next one sooner. Where the gap is over already, Stop reports that.
	if took := time.Since(began); (1+pauseFactor)*took < readGap && next.Stop() {
		time.AfterFunc(pauseFactor*took, func() { <-p.read })
	}
}

// enter waits for a place in a channel until ctx ends.
func enter(ctx context.Context, turns chan struct{}) error {
	select {
	case turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
