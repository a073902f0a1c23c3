package discord

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/chat"
)

// Rules of telling people that the bot is busy: each once, until none of their
// messages was turned away for busyEvery. Those of one place are told together.
const (
	busyText       = "I am busy right now. Please try again in a moment."
	busyEvery      = time.Minute
	busyGatherTime = time.Second
	maxNamed       = 40
	busyTimeout    = time.Minute
)

// busyGroup is the people in one place who are to be told together that the bot is busy.
type busyGroup struct {
	first chat.Message
	names []string // of all, the first too
}

// queueBusyNote has the author of a refused message told that the bot is busy. An interaction is
// always answered, because it would show "thinking" otherwise.
func (d *Discord) queueBusyNote(ctx context.Context, m chat.Message) {
	if len(m.Reply.Handle) > 0 {
		d.startWork(func() { d.postBusyNote(ctx, m, busyText) })
		return
	}
	where := channelOf(m.Conversation)
	if !d.isFirstRefusal(where + " " + m.Author.ID) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	away := d.busyGroups[where]
	if away == nil {
		away = &busyGroup{first: m}
		if d.busyGroups[where] = away; !d.ending {
			d.wg.Go(func() { d.postBusyGroup(ctx, where) })
		}
	}
	away.names = append(away.names, m.Author.Name)
}

// isFirstRefusal notes that a message of somebody was refused, and reports whether it was the first
// in a while.
func (d *Discord) isFirstRefusal(who string) bool {
	now := d.o.Now()
	last, known := d.busyTold.Change(who, func(time.Time, bool) time.Time { return now })
	return !known || now.Sub(last) >= busyEvery
}

// maxToldBusy is how many of those who were told are remembered at least.
const maxToldBusy = 8192

// postBusyGroup tells everybody in a place whose message was refused within a moment.
func (d *Discord) postBusyGroup(ctx context.Context, where string) {
	_ = kit.Sleep(ctx, busyGatherTime) // at the end, too, people are told what became of their words
	d.mu.Lock()
	away := d.busyGroups[where]
	delete(d.busyGroups, where)
	d.mu.Unlock()
	text := busyText
	// One note for everybody costs one post where a crowd was refused.
	if named := slices.Compact(slices.Sorted(slices.Values(away.names))); len(named) > 1 {
		more := ""
		if n := len(named) - maxNamed; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		text += " This goes for " + strings.Join(named[:min(len(named), maxNamed)], ", ") + more + "."
	}
	d.postBusyNote(context.WithoutCancel(ctx), away.first, text)
}

func (d *Discord) postBusyNote(ctx context.Context, m chat.Message, text string) {
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	draft := chat.Draft{Key: m.Key() + "/busy", Text: text, Failed: true, Reply: m.Reply, Ephemeral: true}
	if _, err := d.Post(ctx, m.Conversation, draft); err != nil {
		d.o.Log.Warn("note that the bot is busy not posted", "platform", "discord", "error", err)
	}
}
