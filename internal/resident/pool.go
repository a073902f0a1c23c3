package resident

import (
	"context"
	"math"
	"runtime/debug"

	"golang.org/x/sync/semaphore"
)

// Pool bounds the memory that large things take together, such as the files that people attach and upload: who wants to
// work on one says beforehand how much memory that takes, and waits until so much is free. Who came first is served first.
// A nil *Pool bounds nothing.
type Pool struct {
	size int64
	left *semaphore.Weighted
}

// SharePool returns a Pool of a share of the memory limit of Go (GOMEMLIMIT), 2 for half of it, and of most bytes where that
// is less or there is no limit.
func SharePool(share, most int64) *Pool { return NewPool(min(debug.SetMemoryLimit(-1)/share, most)) }

// NewPool returns a Pool of some bytes.
func NewPool(bytes int64) *Pool { return &Pool{bytes, semaphore.NewWeighted(bytes)} }

// Size returns the bytes of the whole pool.
func (p *Pool) Size() int64 {
	if p == nil {
		return math.MaxInt64
	}
	return p.size
}

// collectFrom is from how many bytes on the garbage of what took them is collected when they are given back. Else it would
// still be there while the next one works.
const collectFrom = 32 << 20

// Take waits until n bytes are free, and holds them until release is called. What takes more than the whole pool waits
// for all of it. The error is that of ctx; then nothing is held. Who holds something must not take more before it has
// released it: two of them could wait for each other.
func (p *Pool) Take(ctx context.Context, n int64) (release func(), err error) {
	if p == nil {
		return func() {}, nil
	}
	n = min(n, p.size)
	if err := p.left.Acquire(ctx, n); err != nil {
		return nil, err
	}
	return func() {
		if n >= collectFrom || n == p.size {
			debug.FreeOSMemory()
		}
		p.left.Release(n)
	}, nil
}
