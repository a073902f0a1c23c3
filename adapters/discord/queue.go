package discord

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

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

// drain hands the queue to accept, in order, until ctx ends.
func (d *shard) drain(ctx context.Context, accept func(context.Context, chat.Message) error) {
	for {
		in, ok := d.queue.head(ctx)
		if !ok {
			return
		}
		if in.verdict.answered(ctx) {
			d.queue.drop()
			continue
		}
		if in.guild != "" {
			in.message.Conversation = d.locate(ctx, in.guild, in.message.Conversation.Channel)
		}
		if in.apart {
			d.openThread(ctx, &in.message)
		}
		if !d.offer(ctx, in, accept) {
			return
		}
		d.queue.drop()
	}
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

const (
	busyText  = "I am busy, please try again in a moment."
	busyEvery = time.Minute
)

// sayBusy tells the channel, once a minute, that a message was turned away. An
// interaction is always told: it would show "thinking" otherwise.
func (d *Discord) sayBusy(ctx context.Context, m chat.Message) {
	now := d.o.Now()
	where := place(m.Conversation)
	d.mu.Lock()
	for channel, at := range d.toldBusy {
		if now.Sub(at) >= busyEvery {
			delete(d.toldBusy, channel)
		}
	}
	_, told := d.toldBusy[where]
	if !told {
		d.toldBusy[where] = now
	}
	d.mu.Unlock()
	if told && m.Command == "" {
		return
	}
	d.begin(func() {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		draft := chat.Draft{Key: m.Key() + "/busy", Text: busyText, Failed: true, Reply: m.Reply, Ephemeral: true}
		if _, err := d.Post(ctx, m.Conversation, draft); err != nil {
			d.o.Log.Warn("could not say that the bot is busy", "platform", "discord", "error", err)
		}
	})
}
