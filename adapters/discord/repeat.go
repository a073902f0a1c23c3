package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/turn/markdown"
)

// Rules of repeating a post whose outcome is not known.
const (
	// maxLookPages of pageSize messages are looked through.
	maxLookPages = 5
	clockSkew    = time.Minute     // between this machine's clock and Discord's
	nonceLife    = 2 * time.Minute // Discord remembers "a few"
	// A nonce is the name of a piece and the mark of a store: 25 characters, the most that Discord takes.
	nameLen, markLen = 22, 3
	// formerNonceLen is the length of nonces before they had marks: two characters more of the name.
	formerNonceLen = 24
)

// findEarlier finds the pieces that an earlier attempt posted and appends their ids, and notes if that can never be
// seen. An error means that looking again later may help.
func (p *postJob) findEarlier(ctx context.Context) error {
	// No history shows a message that only the asker sees.
	private := p.command && p.draft.Ephemeral
	if private && p.hook != nil {
		p.searched, p.unsearchable = true, true
		return nil
	}
	before := len(p.ids)
	after, end := p.searchStart(), false
	for range maxLookPages {
		page, next, err := p.d.readHistory(ctx, p.channel, after)
		if isRefused(err) {
			p.d.o.Log.Warn(
				"failed to search a discord channel for an earlier attempt",
				"platform",
				"discord",
				"post",
				p.draft.Key,
				"error",
				err,
			)
			break
		}
		if err != nil {
			return p.d.lookError(err)
		}
		p.matchPieces(page)
		if after, end = next, next == ""; end || len(p.ids) == len(p.pieces) {
			end = true
			break
		}
	}
	p.searched = true
	// A page that was not read may hold a piece.
	p.unsearchable = !end || private && len(p.ids) == before
	return nil
}

// searchStart returns the id of the last message that is older than any attempt; empty if that is
// not known.
func (p *postJob) searchStart() string {
	if p.answersID == "" && !p.draft.Since.IsZero() {
		return snowflake(p.draft.Since.Add(-clockSkew))
	}
	start := p.answersID // by no clock
	// The beginning of the answer may be older than the last message: further ones may have joined the question since.
	for _, r := range p.draft.Answers {
		if idPattern().MatchString(r.MessageID) && isNewer(start, r.MessageID) {
			start = r.MessageID
		}
	}
	return start
}

// lookError returns the error of a search as one of posting: the outcome is still unknown.
func (d *Discord) lookError(err error) error {
	var e *chat.PostError
	if !errors.As(d.postError(err), &e) {
		return err
	}
	return &chat.PostError{
		Maybe: true,
		After: e.After,
		Err:   fmt.Errorf("look for an earlier attempt to post: %w", e.Err),
	}
}

// matchPieces finds pieces in a page of the history, oldest first, because pieces may be alike.
func (p *postJob) matchPieces(page []wirePost) {
	for _, w := range page {
		if p.isCutOff(w) {
			p.partial = w.ID
		}
		if len(p.ids) < len(p.pieces) && p.isNext(w) {
			p.ids = append(p.ids, w.ID)
		}
	}
}

// isCutOff reports whether a message is an answer to the same message, or to another one of the same question, that was
// cut off while it was written.
func (p *postJob) isCutOff(w wirePost) bool {
	self := p.d.botUser().ID
	return w.Author.Bot && (self == "" || w.Author.ID == self) && p.answersID != "" &&
		(w.Reference.MessageID == p.answersID || slices.Contains(p.draft.For(), w.Reference.MessageID)) &&
		strings.HasSuffix(w.Content, stillWriting)
}

// isNext reports whether a message is the next piece: by its nonce, else by its author, its words and what it answers.
func (p *postJob) isNext(w wirePost) bool {
	after := p.answersID
	if len(p.ids) > 0 {
		after = p.ids[len(p.ids)-1]
	}
	if !isNewer(w.ID, after) {
		return false
	}
	// Before the first greeting the bot does not know its own id.
	if self := p.d.botUser().ID; !w.Author.Bot || self != "" && w.Author.ID != self {
		return false
	}
	// A nonce decides where it is shown: by their words alone, pieces of different posts may be alike.
	var own string
	if json.Unmarshal(w.Nonce, &own) == nil && own != "" {
		return strings.HasPrefix(own, p.name())
	}
	next := p.pieces[len(p.ids)]
	if withoutMark(w.Content) != withoutMark(next.text) || len(w.Embeds) != len(next.embeds) ||
		len(w.Attachments) != len(next.files) {
		return false
	}
	for i, e := range next.embeds {
		var shown embed
		if json.Unmarshal(w.Embeds[i], &shown) != nil || shown.URL != e.URL || shown.Title != e.Title {
			return false
		}
	}
	wanted := p.draft.Reply.MessageID
	switch {
	case p.hook != nil:
		return w.Interaction.ID == p.hook.ID
	case wanted != "" && len(p.ids) == 0:
		// Without a reference it was posted when what it answers was gone.
		return w.Reference.MessageID == wanted || w.Reference.MessageID == ""
	}
	return true
}

// allowRepeat decides on a piece that may be there although nobody can see it. It is sent once more with a mark, or
// without one while Discord itself refuses a second message, which shield says: so long after the draft was made, or
// after the repeat, a nonce is still known. A third attempt is a *chat.PostError.
func (p *postJob) allowRepeat(shield time.Duration) error {
	p.repeatingNow = false
	if !p.unsearchable {
		return nil
	}
	now := p.d.o.Now()
	at, dared := p.d.sent.resent.Get(p.pieceKey())
	switch {
	case !dared && now.Sub(p.draft.Since) < shield:
		return nil
	case dared && now.Sub(at) >= shield:
		return &chat.PostError{Permanent: true, Maybe: true,
			Err: fmt.Errorf(
				"post to discord channel %s: sent twice without an answer, and it cannot be seen whether it is there",
				p.channel,
			)}
	}
	p.repeatingNow = !dared
	p.markRepeat()
	return nil
}

// markRepeat says in the last piece that the post may be there twice.
func (p *postJob) markRepeat() {
	if p.repeated {
		return
	}
	p.repeated = true
	last := &p.pieces[len(p.pieces)-1]
	marked := last.text + repeatMark
	switch {
	case last.text == "":
		marked = strings.TrimSpace(repeatMark)
	case smallLine(p.draft) != "" && strings.HasSuffix(last.text, smallLine(p.draft)):
		marked = last.text + repeatMarkInline
	}
	if markdown.Length(marked) > maxText {
		p.pieces = append(p.pieces, piece{text: strings.TrimSpace(repeatMark)})
		return
	}
	last.text = marked
}

// The mark is a small line of its own, or the end of the one that is there.
const (
	repeatMark       = "\n-# " + chat.MayRepeat
	repeatMarkInline = " · " + chat.MayRepeat
)

// withoutMark returns a text without the mark that an attempt may have had.
func withoutMark(text string) string {
	text = strings.TrimSuffix(strings.TrimSpace(text), repeatMarkInline)
	return strings.TrimSpace(strings.TrimSuffix("\n"+text, repeatMark))
}
