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
	busyText   = "I am busy, please try again in a moment."
	busyEvery  = time.Minute
	busyGather = time.Second
	mostNamed  = 40
	tellWithin = time.Minute
)

// turnedAway are those in one place who are to be told.
type turnedAway struct {
	first chat.Message
	names []string // of all, the first too
}

// sayBusy has whoever sent a message told that it was turned away. An interaction is
// always told: it would show "thinking" otherwise.
func (d *Discord) sayBusy(ctx context.Context, m chat.Message) {
	if len(m.Reply.Handle) > 0 {
		d.begin(func() { d.tellBusy(ctx, m, busyText) })
		return
	}
	where := place(m.Conversation)
	if !d.firstRefusal(where + " " + m.Author.ID) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	away := d.away[where]
	if away == nil {
		away = &turnedAway{first: m}
		if d.away[where] = away; !d.ending {
			d.wg.Go(func() { d.tellTogether(ctx, where) })
		}
	}
	away.names = append(away.names, m.Author.Name)
}

// firstRefusal takes note that a message of somebody was turned away, and tells
// whether it is the first in a while.
func (d *Discord) firstRefusal(who string) bool {
	now := d.o.Now()
	last, known := d.toldBusy.Change(who, func(time.Time, bool) time.Time { return now })
	return !known || now.Sub(last) >= busyEvery
}

// maxToldBusy is how many of those who were told are remembered at least.
const maxToldBusy = 8192

// tellTogether tells all in a place who were turned away within a moment.
func (d *Discord) tellTogether(ctx context.Context, where string) {
	_ = kit.Sleep(ctx, busyGather) // at the end, too, people are told what became of their words
	d.mu.Lock()
	away := d.away[where]
	delete(d.away, where)
	d.mu.Unlock()
	text := busyText
	if named := slices.Compact(slices.Sorted(slices.Values(away.names))); len(named) > 1 {
		more := ""
		if n := len(named) - mostNamed; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		text += " This goes for " + strings.Join(named[:min(len(named), mostNamed)], ", ") + more + "."
	}
	d.tellBusy(context.WithoutCancel(ctx), away.first, text)
}

func (d *Discord) tellBusy(ctx context.Context, m chat.Message, text string) {
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	draft := chat.Draft{Key: m.Key() + "/busy", Text: text, Failed: true, Reply: m.Reply, Ephemeral: true}
	if _, err := d.Post(ctx, m.Conversation, draft); err != nil {
		d.o.Log.Warn("could not say that the bot is busy", "platform", "discord", "error", err)
	}
}
