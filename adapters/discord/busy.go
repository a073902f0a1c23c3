package discord

import (
	"context"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// Rules of telling people that the bot is busy: by one note a place every 5 seconds at most, which
// names all that was refused there.
const (
	// busyEvery is how often a place is told, busyGather how long a note waits for further refused messages.
	busyEvery    = 5 * time.Second
	busyGather   = time.Second
	busyTimeout  = time.Minute
	maxBusyChars = 1500
)

// queueBusyNote has the author of a refused message told that the bot is busy, as a reply. An
// interaction is always answered, because it would show "thinking" otherwise. done is called after the note.
func (d *Discord) queueBusyNote(ctx context.Context, m chat.Message, done func(context.Context) error) {
	if len(m.Reply.Handle) > 0 {
		d.startWork(func() { d.postBusyNote(ctx, *kit.NewBusyNote(m, done)) })
		return
	}
	where := channelOf(m.Conversation)
	wait, first, dropped := d.busy.Add(where, m, done, d.o.Now())
	switch {
	case dropped:
		d.o.Log.Warn("too many busy notes are waiting; dropped one", "platform", "discord", "channel", where)
	case first:
		d.startWork(func() {
			_ = kit.Sleep(ctx, wait) // at the end, too, people are told what became of their words
			d.postBusyNote(context.WithoutCancel(ctx), d.busy.Take(where, d.o.Now()))
		})
	}
}

// postBusyNote replies to the first of the refused messages, in the name of all.
func (d *Discord) postBusyNote(ctx context.Context, n kit.BusyNote) {
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	m := n.Messages[0]
	draft := chat.Draft{Key: m.Key() + "/busy", Text: n.Text(maxBusyChars), Failed: true, Reply: m.Reply, Ephemeral: true}
	_, err := d.Post(ctx, m.Conversation, draft)
	if err == nil {
		err = n.MarkDone(ctx)
	}
	if err != nil {
		d.o.Log.Warn("failed to post the note that the bot is busy", "platform", "discord", "error", err)
	}
}
