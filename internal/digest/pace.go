package digest

import (
	"context"
	"time"
)

// maxReadPause bounds the pause after a feed was read. A feed that is slow to answer takes little of the processor.
const maxReadPause = 20 * time.Millisecond

// pace bounds which part of the processor runs take that nobody waits for. Each step that computes is done alone, and
// the next one waits as long as it took: half of one processor is the most, and less where others keep the machine
// busy. Without that, the median answer in chat took more than twice as long while hundreds of digests ran, with it 1.4
// times as long (measured 2026-11-22, two processors).
type pace struct{ turn chan struct{} }

func newPace() pace { return pace{make(chan struct{}, 1)} }

// do waits for its turn until ctx ends, and does a step. A step of a run that somebody waits for is done at once.
func (p pace) do(ctx context.Context, d spec, step func() error) error {
	if d.asked {
		return step()
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	began := time.Now()
	// The run itself goes on during the pause: it may have to wait for a server or a model next.
	defer func() { time.AfterFunc(time.Since(began), func() { <-p.turn }) }()
	return step()
}

// pauseAfterRead pauses a run that nobody waits for as long as reading a feed took.
func (d spec) pauseAfterRead(ctx context.Context, took time.Duration) {
	if d.asked {
		return
	}
	select {
	case <-time.After(min(took, maxReadPause)):
	case <-ctx.Done():
	}
}
