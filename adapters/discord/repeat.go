package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/markdown"
)

// Rules of repeating a post whose outcome is not known.
const (
	lookPages   = 5
	clocksApart = time.Minute     // between this machine's clock and Discord's
	nonceLife   = 2 * time.Minute // Discord remembers "a few"
)

// look finds the pieces that an earlier attempt has posted. Where that cannot be
// seen for good, it notes so; an error says that looking again later may help.
func (p *post) look(ctx context.Context) error {
	private := p.command && p.draft.Ephemeral // nobody but the asker sees those
	if private && p.hook != nil {
		p.looked, p.blind = true, true
		return nil
	}
	before := len(p.ids)
	after, end := p.start(), false
	for range lookPages {
		page, next, err := p.d.history(ctx, p.channel, after)
		if refused(err) {
			p.d.o.Log.Warn("discord channel cannot be searched for an earlier attempt", "platform", "discord", "post", p.draft.Key, "error", err)
			break
		}
		if err != nil {
			return p.d.unseen(err)
		}
		p.find(page)
		if after, end = next, next == ""; end || len(p.ids) == len(p.pieces) {
			end = true
			break
		}
	}
	p.looked = true
	p.blind = !end || private && len(p.ids) == before
	return nil
}

// start is the id of the last message that is older than any attempt; empty where
// nothing is known of that.
func (p *post) start() string {
	if p.asked == "" && !p.draft.Since.IsZero() {
		return snowflake(p.draft.Since.Add(-clocksApart))
	}
	return p.asked // by no clock
}

// unseen makes an error of looking one of posting: the outcome is as little known
// as before.
func (d *Discord) unseen(err error) error {
	var e *chat.PostError
	if !errors.As(d.postError(err), &e) {
		return err
	}
	return &chat.PostError{Maybe: true, After: e.After, Err: fmt.Errorf("look for an earlier attempt to post: %w", e.Err)}
}

// find takes the pieces that a part of the history shows, oldest first: pieces may
// be alike.
func (p *post) find(page []wirePost) {
	for _, w := range page {
		if p.unfinished(w) {
			p.begun = w.ID
		}
		if len(p.ids) < len(p.pieces) && p.is(w) {
			p.ids = append(p.ids, w.ID)
		}
	}
}

// unfinished tells whether a message is an answer to the same one that was cut off
// while it was written.
func (p *post) unfinished(w wirePost) bool {
	self := p.d.bot().ID
	return w.Author.Bot && (self == "" || w.Author.ID == self) && p.asked != "" && w.Reference.MessageID == p.asked &&
		strings.HasSuffix(w.Content, stillWriting)
}

// is tells whether a message is the next piece.
func (p *post) is(w wirePost) bool {
	after := p.asked
	if len(p.ids) > 0 {
		after = p.ids[len(p.ids)-1]
	}
	if !newer(w.ID, after) {
		return false
	}
	// Before the first greeting the bot does not know its own id.
	if self := p.d.bot().ID; !w.Author.Bot || self != "" && w.Author.ID != self {
		return false
	}
	var own string
	if json.Unmarshal(w.Nonce, &own) == nil && own != "" {
		return own == nonce(p.channel, p.draft.Key, len(p.ids))
	}
	next := p.pieces[len(p.ids)]
	if unmarked(w.Content) != unmarked(next.text) || len(w.Embeds) != len(next.embeds) || len(w.Attachments) != len(next.files) {
		return false
	}
	for i, e := range next.embeds {
		if w.Embeds[i].URL != e.URL || w.Embeds[i].Title != e.Title {
			return false
		}
	}
	wanted := p.draft.Reply.MessageID
	switch {
	case p.hook != nil:
		return w.Interaction != nil && w.Interaction.ID == p.hook.ID
	case wanted != "" && len(p.ids) == 0:
		// Without a reference it was posted when what it answers was gone.
		return w.Reference.MessageID == wanted || w.Reference.MessageID == ""
	}
	return true
}

// dare decides on a piece that may be there although nobody can see it. It is sent
// once more and says so, but for as long as Discord itself sees to it that it is
// there once, which shield tells.
func (p *post) dare(shield time.Duration) error {
	p.daring = false
	if !p.blind {
		return nil
	}
	now := p.d.o.Now()
	at, dared := p.d.sent.dared.Get(p.pieceKey())
	switch {
	case !dared && now.Sub(p.draft.Since) < shield:
		return nil
	case dared && now.Sub(at) >= shield:
		return &chat.PostError{Permanent: true, Maybe: true,
			Err: fmt.Errorf("post to discord channel %s: sent twice without an answer, and it cannot be seen whether it is there", p.channel)}
	}
	p.daring = !dared
	p.mark()
	return nil
}

// mark says in the last piece that the post may be there twice.
func (p *post) mark() {
	if p.repeated {
		return
	}
	p.repeated = true
	last := &p.pieces[len(p.pieces)-1]
	marked := last.text + markBelow
	switch {
	case last.text == "":
		marked = strings.TrimSpace(markBelow)
	case smallLine(p.draft) != "" && strings.HasSuffix(last.text, smallLine(p.draft)):
		marked = last.text + markBeside
	}
	if markdown.Length(marked) > maxText {
		p.pieces = append(p.pieces, piece{text: strings.TrimSpace(markBelow)})
		return
	}
	last.text = marked
}

// The mark is a small line of its own, or the end of the one that is there.
const (
	markBelow  = "\n-# " + chat.MayRepeat
	markBeside = " · " + chat.MayRepeat
)

// unmarked is a text without the mark: an attempt may have had one.
func unmarked(text string) string {
	text = strings.TrimSuffix(strings.TrimSpace(text), markBeside)
	return strings.TrimSpace(strings.TrimSuffix("\n"+text, markBelow))
}
