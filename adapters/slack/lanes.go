package slack

import (
	"context"
	"sync"
)

// lanes run jobs: those of one key in order, those of different keys side by side.
// Their queues have no bound of their own: Slack stops sending when too much is
// not acknowledged.
type lanes struct {
	ctx context.Context
	wg  sync.WaitGroup

	mu    sync.Mutex
	queue map[string][]func() // a key is there while a goroutine works for it
}

func newLanes(ctx context.Context) *lanes {
	return &lanes{ctx: ctx, queue: map[string][]func(){}}
}

// do queues a job; it is dropped where the context ends before its turn comes.
func (l *lanes) do(key string, job func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting, running := l.queue[key]
	l.queue[key] = append(waiting, job)
	if !running {
		l.wg.Go(func() { l.work(key) })
	}
}

func (l *lanes) work(key string) {
	for job := l.next(key); job != nil; job = l.next(key) {
		job()
	}
}

// next takes the first job of a lane, which ends where there is none.
func (l *lanes) next(key string) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.queue[key]
	if len(waiting) == 0 || l.ctx.Err() != nil {
		delete(l.queue, key)
		return nil
	}
	l.queue[key] = waiting[1:]
	return waiting[0]
}

// wait returns when all lanes have ended; nothing may be queued any more.
func (l *lanes) wait() { l.wg.Wait() }
