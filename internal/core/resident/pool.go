// Package resident limits the memory that large pieces of data take at the same time.
package resident

import (
	"context"
	"math"
	"runtime/debug"

	"golang.org/x/sync/semaphore"
)

// Pool limits the total memory of large pieces of data, such as attached and uploaded files. Before using one, a
// caller reserves its memory, and waits for free memory in the order of arrival. A nil *Pool limits nothing.
type Pool struct {
	size int64
	left *semaphore.Weighted
}

// SharePool returns a Pool of Go's memory limit (GOMEMLIMIT) divided by parts, but of at most most bytes.
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

// collectFrom is the number of released bytes from which the garbage collector runs. Otherwise the garbage would still
// exist while the next caller works.
const collectFrom = 32 << 20

// Take waits until n bytes are free, and reserves them until release is called. A request for more than the whole pool
// waits for all of it. Take returns the error of ctx, and has then reserved nothing. A caller must not take more
// before it has released its memory, because two such callers could deadlock.
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

// TryTake reserves n bytes, or the whole pool if that is less, until release is called. If too little is free now or
// somebody waits, ok is false. Unlike Take, it may be called by a caller that already holds memory.
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

// releaseOf returns a function that releases n bytes.
func (p *Pool) releaseOf(n int64) func() {
	return func() {
		if n >= collectFrom || n == p.size {
			debug.FreeOSMemory()
		}
		p.left.Release(n)
	}
}
