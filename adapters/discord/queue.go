package discord

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"ravenbot/internal/chat"
)

// inbound is a message on its way to accept.
type inbound struct {
	message chat.Message
	guild   string // set where it must be looked up whether the channel is a thread
	stored  func() // called when accept has taken the message, nil if nobody asks
	apart   bool   // the answer is wanted in a thread of its own
	verdict verdict
}

// queue holds what was read and not yet accepted, in order. It has no limit,
// because the gateway cannot be asked to wait; its length is logged and shown.
// Messages of places with a gap stand aside until the gap is filled.
type queue struct {
	log  *slog.Logger
	wake chan struct{}

	mu    sync.Mutex
	items []inbound
	size  int // of items, of what stands aside, and the head
	alarm int // size that is logged next
	gate  *gate
}

const firstAlarm = 1000

func newQueue(log *slog.Logger) *queue {
	return &queue{log: log, wake: make(chan struct{}, 1), alarm: firstAlarm}
}

func (q *queue) push(in inbound) {
	q.mu.Lock()
	q.items = append(q.items, in)
	q.size++
	n, loud := q.size, q.size >= q.alarm
	if loud {
		q.alarm *= 2
	}
	q.mu.Unlock()
	if loud {
		q.log.Warn("many discord messages wait to be stored", "platform", "discord", "messages", n)
	}
	signal(q.wake)
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size
}

// head waits for the oldest message that may pass. It counts until drop.
func (q *queue) head(ctx context.Context) (inbound, bool) {
	for {
		if in, ok := q.pass(); ok {
			return in, ctx.Err() == nil
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return inbound{}, false
		}
	}
}

func (q *queue) pass() (inbound, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) > 0 && q.gate.open() {
		in := q.items[0]
		q.items[0] = inbound{}
		q.items = q.items[1:]
		if !q.gate.aside(in) {
			return in, true
		}
	}
	if q.size == 0 {
		q.alarm = firstAlarm
	}
	return inbound{}, false
}

func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.size--
}

// drain hands the queue to accept until ctx ends: what was said in one place in order,
// places beside one another, so that none waits for the store longer than it has to.
func (d *shard) drain(ctx context.Context, accept func(context.Context, chat.Message) error) {
	l := &lanes{queue: map[string][]inbound{}}
	defer l.wg.Wait()
	for {
		in, ok := d.queue.head(ctx)
		if !ok {
			return
		}
		l.do(place(in.message.Conversation), in, func(in inbound) bool {
			if !d.hand(ctx, in, accept) {
				return false
			}
			d.queue.drop()
			return true
		})
	}
}

// lanes are messages on their way to accept, by place. One is there while somebody
// works for it.
type lanes struct {
	wg    sync.WaitGroup
	mu    sync.Mutex
	queue map[string][]inbound
}

// do has a message of a place handed over when those before it are. After a failure
// nothing more is.
func (l *lanes) do(where string, in inbound, hand func(inbound) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, working := l.queue[where]
	l.queue[where] = append(before, in)
	if !working {
		l.wg.Go(func() {
			for next, more := l.next(where); more && hand(next); next, more = l.next(where) {
			}
		})
	}
}

func (l *lanes) next(where string) (inbound, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.queue[where]
	if len(list) == 0 {
		delete(l.queue, where)
		return inbound{}, false
	}
	l.queue[where] = list[1:]
	return list[0], true
}

// hand brings one message to accept; false: ctx ended first.
func (d *shard) hand(ctx context.Context, in inbound, accept func(context.Context, chat.Message) error) bool {
	if in.verdict.answered(ctx) {
		return true
	}
	if in.guild != "" {
		in.message.Conversation = d.locate(ctx, in.guild, in.message.Conversation.Channel)
	}
	if in.apart {
		d.openThread(ctx, &in.message)
	}
	return d.offer(ctx, in, accept)
}

// offer repeats accept until it takes the message or refuses it as one too many;
// false: ctx ended first.
func (d *shard) offer(ctx context.Context, in inbound, accept func(context.Context, chat.Message) error) bool {
	for pause := firstPause; ; pause = min(2*pause, longestPause/2) {
		err := accept(ctx, in.message)
		switch {
		case err == nil:
			if in.stored != nil {
				in.stored()
			}
			return true
		case errors.Is(err, chat.ErrBusy):
			if in.stored != nil {
				in.stored()
			}
			d.sayBusy(ctx, in.message)
			return true
		case ctx.Err() != nil:
			return false
		}
		d.o.Log.Error("discord message not stored, trying again", "platform", "discord", "message", in.message.Key(), "wait", pause, "error", err)
		if !wait(ctx, pause) {
			return false
		}
	}
}
