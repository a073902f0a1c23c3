// Package resident limits the memory that large pieces of data take at the same time.
package resident

import (
	"context"
	"math"
	"runtime/debug"

	"golang.org/x/sync/semaphore"
)

// Pool bounds the memory that large pieces of data take together, such as the files that people attach and upload.
// Whoever works on one says first how much memory that takes, and waits until so much is free, in the order of arrival. A
// nil *Pool bounds nothing.
type Pool struct {
	size int64
	left *semaphore.Weighted
}

// SharePool returns a Pool of the memory limit of Go (GOMEMLIMIT) divided by parts, and of most bytes at the most.
func SharePool(parts, most int64) *Pool { return NewPool(min(debug.SetMemoryLimit(-1)/parts, most)) }

// NewPool returns a Pool of some bytes.
func NewPool(bytes int64) *Pool { return &Pool{bytes, semaphore.NewWeighted(bytes)} }

// Size returns the bytes of the whole pool.
func (p *Pool) Size() int64 {
	if p == nil {
		return math.MaxInt64
	}
	return p.size
}

// collectFrom is the number of bytes from which on the garbage collector runs when they are released. Else the garbage
// would still be there while the next one works.
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
	return p.releaseOf(n), nil
}

// TryTake holds n bytes, or the whole pool where that is less, until release is called, if so much is free now and nobody
// waits; else ok is false. Unlike Take it may be called by who holds some already.
func (p *Pool) TryTake(n int64) (release func(), ok bool) {
	if p == nil {
		return func() {}, true
	}
	n = min(n, p.size)
	if !p.left.TryAcquire(n) {
		return nil, false
	}
	return p.releaseOf(n), true
}

// releaseOf returns a function that gives n bytes back.
func (p *Pool) releaseOf(n int64) func() {
	return func() {
		if n >= collectFrom || n == p.size {
			debug.FreeOSMemory()
		}
		p.left.Release(n)
	}
}
