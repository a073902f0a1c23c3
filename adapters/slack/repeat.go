package slack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
)

// Bounds of the search for what an earlier attempt posted.
const (
	// maxLookPages of lookPageSize messages are looked through; where there are more, the search is not whole.
	maxLookPages = 5
	lookPageSize = 100
	// clockSkew is how far our clock and Slack's may be apart.
	clockSkew = time.Minute
)

// errSentTwice is why a post is given up whose two attempts had no answer: both may be there already.
var errSentTwice = errors.New(
	"it was sent twice without an answer, and Slack does not let the bot see whether it is there",
)

// findEarlier finds what an earlier attempt posted, and sets posted and partial. If that can never be known, the post
// is made once more and says so; if Slack only fails to answer, nothing is posted now. It returns a *chat.PostError
// where the post must not be sent: to be tried later, or, where it was sent twice blindly, never.
func (p *postJob) findEarlier(ctx context.Context) error {
	select {
	case <-p.ready: // the bot has to know its own posts
	case <-ctx.Done():
		return &chat.PostError{
			Maybe: true,
			Err:   fmt.Errorf("look whether the post was made: the bot does not know yet who it is: %w", ctx.Err()),
		}
	}
	whole, err := p.searchEarlier(ctx)
	switch {
	case err != nil && !isFinal(err):
		return p.lookError(err)
	case err != nil:
		p.o.Log.Warn("failed to search a slack channel for an earlier attempt", "post", p.draft.Key, "error", err)
	}
	p.searched = true
	// What goes to a response_url for the asker alone shows in no history, and what
	// goes there for all is not surely recognised.
	response := p.handle.User != ""
	p.blind = err != nil || !whole || p.isPrivate()
	switch {
	case !p.blind && !response, len(p.posted) == len(p.pieces):
		return nil
	case p.blind && p.repeated:
		return &chat.PostError{Permanent: true, Err: errSentTwice}
	}
	p.marked = true
	p.draft.Footer = joinFooter(p.draft.Footer, chat.MayRepeat)
	p.pieces = render(p.draft)
	return nil
}

// lookError returns the error of a search that Slack did not answer.
func (p *postJob) lookError(err error) error {
	return &chat.PostError{
		Maybe: true,
		After: retryAfter(err),
		Err:   fmt.Errorf("look whether the post was made: %w", redact(err)),
	}
}

// searchEarlier looks for the pieces of the draft where they would be: behind what is answered, or since the draft was
// made. whole is false if some messages there were not read.
func (p *postJob) searchEarlier(ctx context.Context) (whole bool, err error) {
	p.posted, p.partial = map[int]string{}, map[int]string{}
	oldest := timestampOf(p.draft.Reply.MessageID)
	if oldest == "" && !p.draft.Since.IsZero() { // what is answered goes by no clock
		oldest = formatTimestamp(p.draft.Since.Add(-clockSkew))
	}
	// The beginning of the answer may be older than the last message: further ones may have joined the question since.
	for ts := range strings.FieldsSeq(p.answeredTimestamps()) {
		oldest = min(oldest, ts)
	}
	pages := 0
	defer p.numberUnlabelled()
	return readPages(
		ctx,
		p.fetchPage,
		historyQuery{channel: p.to.Channel, thread: p.to.Thread, oldest: oldest, pageSize: lookPageSize},
		func(messages []*wireMessage) bool {
			for _, m := range messages {
				if n := p.recognize(m); n >= 0 {
					p.posted[n] = m.TS
				}
			}
			// Files are posted behind the last piece, so that all pieces being found does not end the search for them.
			pages++
			return pages < maxLookPages && (len(p.posted) < len(p.pieces) || len(p.files) > 0 && !p.uploaded)
		},
	)
}

// unnumbered is the key of a piece that was cut off before it got its label.
const unnumbered = -1

// numberUnlabelled gives a stream that was cut off its number: it is the last piece that was begun.
func (p *postJob) numberUnlabelled() {
	ts := p.partial[unnumbered]
	delete(p.partial, unnumbered)
	if ts == "" {
		return
	}
	n := 0
	for p.posted[n] != "" || p.partial[n] != "" {
		n++
	}
	p.partial[n] = ts
}

// recognize returns which piece of the draft a message is; -1 if none. A message without a label is recognized by its
// text. An unfinished answer is noted in partial, and a message with the files in uploaded.
func (p *postJob) recognize(m *wireMessage) int {
	if !p.isOwnPost(m) {
		return -1
	}
	if p.hasFiles(m) {
		p.uploaded = true
		return -1
	}
	if l, ok := labelOf(m); ok {
		switch {
		case l.Key != shortKey(p.draft.Key), l.Piece < 0:
		case l.Live:
			p.partial[l.Piece] = m.TS
		case l.Piece < len(p.pieces):
			return l.Piece
		}
		return -1
	}
	// Streams answer in threads. A first piece without a label may be one that was not ended, even with all its text.
	begun := p.to.Thread != "" && m.TS != p.to.Thread && timestampOf(p.draft.Reply.MessageID) != "" &&
		len(m.Files) == 0
	for n, one := range p.pieces {
		if p.posted[n] == "" && (n > 0 || !begun) &&
			(p.incomingText(m) == p.incomingText(&wireMessage{Text: one.text(maxPlainText)}) || m.Text == one.body) {
			return n
		}
	}
	// A stream gets its label when it ends. What the bot began in this thread, after
	// the message that is answered, and did not end is the beginning of the answer.
	if begun {
		p.partial[unnumbered] = m.TS
	}
	return -1
}
