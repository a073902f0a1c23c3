package slack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ravenbot/internal/chat"
)

// Bounds of the search for what an earlier attempt posted.
const (
	lookPages = 5
	lookPage  = 100
	// clocks is how far our clock and Slack's may be apart.
	clocks = time.Minute
)

var errTwice = errors.New("it was sent twice without an answer, and Slack does not let the bot see whether it is there")

// look finds what an earlier attempt posted. Where that cannot be known the post
// is made once more and says so; where Slack only fails to answer, nothing is
// posted now.
func (p *posting) look(ctx context.Context) error {
	select {
	case <-p.ready: // the bot has to know its own posts
	case <-ctx.Done():
		return &chat.PostError{Maybe: true, Err: fmt.Errorf("look whether the post was made: the bot does not know yet who it is: %w", ctx.Err())}
	}
	whole, err := p.search(ctx)
	switch {
	case err != nil && !forGood(err):
		return p.unclear(err)
	case err != nil:
		p.o.Log.Warn("cannot look whether a post was made", "post", p.d.Key, "error", err)
	}
	p.looked = true
	// What goes to a response_url for the asker alone shows in no history, and what
	// goes there for all is not surely recognised.
	response := p.handle.User != ""
	p.blind = err != nil || !whole || p.private()
	switch {
	case !p.blind && !response, len(p.found) == len(p.pieces):
		return nil
	case p.blind && p.repeated:
		return &chat.PostError{Permanent: true, Err: errTwice}
	}
	p.marked = true
	p.d.Footer = joined(p.d.Footer, chat.MayRepeat)
	p.pieces = render(p.d)
	return nil
}

// unclear says that Slack failed to show what is there.
func (p *posting) unclear(err error) error {
	return &chat.PostError{Maybe: true, After: retryAfter(err), Err: fmt.Errorf("look whether the post was made: %w", redacted(err))}
}

// search looks for the pieces of the draft where they would be; whole says that
// nothing there was left out.
func (p *posting) search(ctx context.Context) (whole bool, err error) {
	p.found, p.begun = map[int]string{}, map[int]string{}
	oldest := stamp(p.d.Reply.MessageID)
	if oldest == "" && !p.d.Since.IsZero() { // what is answered goes by no clock
		oldest = stampOf(p.d.Since.Add(-clocks))
	}
	pages := 0
	defer p.place()
	return read(ctx, p.page, passage{channel: p.to.Channel, thread: p.to.Thread, oldest: oldest, pageSize: lookPage}, func(messages []inner) bool {
		for _, m := range messages {
			if n := p.recognise(m); n >= 0 {
				p.found[n] = m.TS
			}
		}
		pages++
		return pages < lookPages && (len(p.found) < len(p.pieces) || len(p.files) > 0 && !p.uploaded)
	})
}

// cutOff stands for the number of a piece that was cut off before it got its label.
const cutOff = -1

// place gives a stream that was cut off its number: it is the last one that was
// begun.
func (p *posting) place() {
	ts := p.begun[cutOff]
	delete(p.begun, cutOff)
	if ts == "" {
		return
	}
	n := 0
	for p.found[n] != "" || p.begun[n] != "" {
		n++
	}
	p.begun[n] = ts
}

// recognise tells which piece of the draft a message is; -1: none. Where its label
// was lost it is known by its text.
func (p *posting) recognise(m inner) int {
	if !p.posted(m) {
		return -1
	}
	if p.carries(m) {
		p.uploaded = true
		return -1
	}
	if l, ok := labelOf(m); ok {
		switch {
		case l.Key != shortKey(p.d.Key), l.Piece < 0:
		case l.Live:
			p.begun[l.Piece] = m.TS
		case l.Piece < len(p.pieces):
			return l.Piece
		}
		return -1
	}
	begun := p.to.Thread != "" && m.TS != p.to.Thread && stamp(p.d.Reply.MessageID) != "" && len(m.Files) == 0
	for n, one := range p.pieces {
		if p.found[n] == "" && (n > 0 || !begun) && (p.readable(m) == p.readable(inner{Text: one.text}) || m.Text == one.body) {
			return n
		}
	}
	// A stream gets its label when it ends. What the bot began in this thread, after
	// the message that is answered, and did not end is the beginning of the answer.
	if begun {
		p.begun[cutOff] = m.TS
	}
	return -1
}
