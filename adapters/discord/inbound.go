package discord

import (
	"context"
	"errors"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// inbound is a message on its way to accept.
type inbound struct {
	message     chat.Message
	guild       string // set where it must be looked up whether the channel is a thread
	stored      func() // called when accept has taken the message, nil if nobody asks
	wantsThread bool   // the answer is wanted in a thread of its own
	// form tells whether a form was the answer, so that nothing is accepted; nil: there can be none.
	form formResult
}

// Limits of what waits to be stored, as on a full disk.
const (
	// firstAlarm is how many messages may wait before the operator is told.
	firstAlarm = 1000
	// maxWaiting is how many may wait in memory. The gateway cannot be asked to wait, so the connection is ended: what
	// is said then Discord brings again when the session is resumed, or it is read from the history.
	maxWaiting = 50_000
	roomEvery  = time.Second // how often it is looked whether fewer wait
)

// isFull reports whether more messages than limit wait to be stored.
func (d *shard) isFull(limit int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting > limit
}

// awaitRoom waits until messages may come: where too many waited to be stored, until half of them are. false: ctx has
// ended.
func (d *shard) awaitRoom(ctx context.Context) bool {
	if d.isFull(d.maxWaiting) {
		for d.isFull(d.maxWaiting/2) && kit.Sleep(ctx, roomEvery) {
		}
	}
	return ctx.Err() == nil
}

// push queues a message behind those of the same place: what was said in one place is handed over in order, places
// beside one another, so that none waits for the store longer than it has to. It returns at once.
func (d *shard) push(in inbound) {
	if d.collect != nil {
		d.collect(in)
		return
	}
	d.countWaiting(1)
	// Before RESUMED Discord brings what was said while there was no connection.
	in.message.Missed = in.message.Missed || !d.isConnected()
	d.queues.Do(channelOf(in.message.Conversation), func() {
		// What was not handed over stays counted, so that no session is left in which it counts as handled.
		if d.deliver(d.ctx, in) {
			d.countWaiting(-1)
		}
	})
}

// countWaiting counts the messages that wait, and warns each time their number has doubled.
func (d *shard) countWaiting(change int) {
	d.mu.Lock()
	d.waiting += change
	n, warn := d.waiting, d.waiting >= d.alarm
	switch {
	case warn:
		d.alarm *= 2
	case n == 0:
		d.alarm = firstAlarm
	}
	d.mu.Unlock()
	if warn {
		d.o.Log.Warn("many discord messages are waiting to be stored", "platform", "discord", "messages", n)
	}
}

// deliver brings one message to accept, once what was missed before it is in; true: it was accepted, refused as one too
// many, or answered with a form. false: ctx ended first.
func (d *shard) deliver(ctx context.Context, in inbound) bool {
	if in.form.wait(ctx) {
		return true
	}
	if d.missed != nil {
		d.missed.Wait(ctx, channelOf(in.message.Conversation))
	}
	if ctx.Err() != nil {
		return false
	}
	if in.guild != "" {
		in.message.Conversation = d.lookUpAddress(ctx, in.guild, in.message.Conversation.Channel)
	}
	if in.wantsThread {
		d.openThread(ctx, &in.message)
	}
	return d.acceptRepeatedly(ctx, in)
}

// acceptRepeatedly repeats accept until it takes the message or refuses it as one too many;
// false: ctx ended first. What was missed waits for room, unlike an interaction, of which Discord expects an answer.
func (d *shard) acceptRepeatedly(ctx context.Context, in inbound) bool {
	accept := d.accept
	if in.message.Missed && in.stored == nil {
		accept = func(ctx context.Context, m chat.Message) error { return kit.AcceptMissed(ctx, d.accept, m) }
	}
	for pause := firstPause; ; pause = min(2*pause, maxPause/2) {
		err := accept(ctx, in.message)
		var done func(context.Context) error
		if errors.Is(err, chat.ErrBusy) && ctx.Err() == nil {
			done, err = kit.KeepRefused(ctx, err)
		}
		switch {
		case err == nil:
			// The note to the author waits for the first answer to the interaction, and that one for stored.
			if in.stored != nil {
				in.stored()
			}
			if done != nil {
				d.queueBusyNote(ctx, in.message, done)
			}
			return true
		case ctx.Err() != nil:
			return false
		}
		d.o.Log.Error(
			"failed to store a discord message; retrying",
			"platform",
			"discord",
			"message",
			in.message.Key(),
			"wait",
			pause,
			"error",
			err,
		)
		if !kit.Sleep(ctx, pause) {
			return false
		}
	}
}
