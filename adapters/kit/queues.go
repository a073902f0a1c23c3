package kit

import (
	"context"
	"sync"

	"ravenbot/internal/core/workers"
)

// Queues run jobs: those of one key in order, those of different keys side by side. They have
// no limit of their own: a platform stops sending when too much is not acknowledged, or keeps
// sending whatever is done.
type Queues struct {
	ctx context.Context
	wg  workers.Group

	mu      sync.Mutex
	waiting map[string][]func() // a key is there while a goroutine works for it
}

// NewQueues returns queues that run jobs until ctx ends.
func NewQueues(ctx context.Context) *Queues {
	return &Queues{ctx: ctx, waiting: map[string][]func(){}}
}

// Do queues a job behind those of the same key. It is dropped if ctx ends first.
func (q *Queues) Do(key string, job func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ctx.Err() != nil {
		return // Wait may have begun: no goroutine may be started any more
	}
	waiting, running := q.waiting[key]
	q.waiting[key] = append(waiting, job)
	if !running {
		q.wg.Go(func() { q.work(key) })
	}
}

// work does the jobs of a key in order until there are none.
func (q *Queues) work(key string) {
	for job := q.next(key); job != nil; job = q.next(key) {
		job()
	}
}

// next takes the first job of a key, which is forgotten where there is none.
func (q *Queues) next(key string) func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.waiting[key]
	if len(waiting) == 0 || q.ctx.Err() != nil {
		delete(q.waiting, key)
		return nil
	}
	q.waiting[key] = waiting[1:]
	return waiting[0]
}

// Wait returns when the jobs that run have ended. It is called after ctx has ended.
func (q *Queues) Wait() {
	// A Do that did not see the end has started its goroutine when the lock is free.
	q.mu.Lock()
	clear(q.waiting)
	q.mu.Unlock()
	q.wg.Wait()
}
