package discord

import (
	"context"
	"errors"

	"ravenbot/adapters/kit"
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

// firstAlarm is how many messages may wait to be stored before the operator is told.
const firstAlarm = 1000

// push queues a message behind those of the same place: what was said in one place is handed
// over in order, places beside one another, so that none waits for the store longer than it
// has to. There is no limit, because the gateway cannot be asked to wait.
func (d *shard) push(in inbound) {
	d.countWaiting(1)
	d.queues.Do(place(in.message.Conversation), func() {
		if d.hand(d.ctx, in) {
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
		d.o.Log.Warn("many discord messages wait to be stored", "platform", "discord", "messages", n)
	}
}

// hand brings one message to accept; false: ctx ended first.
func (d *shard) hand(ctx context.Context, in inbound) bool {
	if in.verdict.answered(ctx) {
		return true
	}
	if d.missed != nil {
		d.missed.Wait(ctx, place(in.message.Conversation))
	}
	if ctx.Err() != nil {
		return false
	}
	if in.guild != "" {
		in.message.Conversation = d.locate(ctx, in.guild, in.message.Conversation.Channel)
	}
	if in.apart {
		d.openThread(ctx, &in.message)
	}
	return d.offer(ctx, in)
}

// offer repeats accept until it takes the message or refuses it as one too many;
// false: ctx ended first.
func (d *shard) offer(ctx context.Context, in inbound) bool {
	for pause := firstPause; ; pause = min(2*pause, longestPause/2) {
		err := d.accept(ctx, in.message)
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
		if !kit.Sleep(ctx, pause) {
			return false
		}
	}
}
