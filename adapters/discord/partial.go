package discord

import (
	"context"
	"errors"
	"slices"
	"time"

	"ravenbot/internal/core/chat"
)

// editEvery is how often an answer is edited while it is written. Discord takes
// about five edits in five seconds in a channel; where other answers need some of them, the
// pace that Discord asks for is kept.
const editEvery = 1100 * time.Millisecond

// postPartial posts an unfinished answer, or updates what is shown of it. It does not look for earlier attempts,
// because the whole answer follows. A message that shows the same already is not edited.
func (p *postJob) postPartial(ctx context.Context) (chat.Ref, error) {
	key, draft, began := p.memoryKey(), p.draft, p.d.o.Now()
	if begun, known := p.d.begun.Get(key); known && len(begun.ids) > len(p.draft.Replaces.IDs) {
		p.draft.Replaces.IDs = begun.ids
	}
	p.draft.Key += "/live" // its nonce must not stand for that of the whole answer
	if err := p.chooseRoute(ctx); err != nil {
		return chat.Ref{}, &chat.PostError{Err: err}
	}
	for len(p.ids) < len(p.pieces) {
		look := p.pieces[len(p.ids)].appearance()
		id := p.nextReplaced()
		switch {
		case id == "":
			if err := p.sendNext(ctx); err != nil {
				// Whoever called does not learn of what is there: the whole answer has to take its place.
				var failed *chat.PostError
				unknown := len(p.ids) == 0 && errors.As(err, &failed) && failed.Maybe
				p.d.begun.Put(key, begunAnswer{ids: slices.Clone(p.ids), unknown: unknown, draft: draft, at: began})
				return chat.Ref{}, err
			}
			id = p.ids[len(p.ids)-1]
		case p.d.isShown(id, look):
			p.ids = append(p.ids, id)
		default:
			if err := p.editPost(ctx, id); err != nil {
				return chat.Ref{}, p.d.postError(err)
			}
			p.ids = append(p.ids, id)
		}
		p.d.partialShown.Put(id, look)
	}
	p.d.begun.Drop(key)
	return chat.Ref{IDs: slices.Clone(p.ids)}, nil
}

// begunAnswer is what may be shown of an answer although showing it failed.
type begunAnswer struct {
	ids     []string
	unknown bool // the first message may be there
	// draft is what was to be shown, at when that was tried.
	draft chat.Draft
	at    time.Time
}

// replaceBegun lets the whole answer take the place of what showing it has left behind.
func (p *postJob) replaceBegun() {
	begun, _ := p.d.begun.Get(p.memoryKey())
	switch n := len(p.draft.Replaces.IDs); {
	case len(begun.ids) > n:
		p.draft.Replaces.IDs = begun.ids
	case begun.unknown && n == 0:
		p.begunAlone = !p.draft.Again
		p.draft.Again = true
	}
}

// repeatBegun posts the beginning of an answer that may be there once more, for the whole answer to take its place: the
// channel cannot be searched for it, but while Discord knows its nonce it returns the message of the first attempt, if
// there is one. repeatBegun returns false where the nonce may be forgotten, or the outcome is not known this time either.
func (p *postJob) repeatBegun(ctx context.Context) bool {
	begun, _ := p.d.begun.Get(p.memoryKey())
	// The answer to an interaction carries no nonce.
	if !begun.unknown || len(begun.draft.Reply.Handle) > 0 || p.d.o.Now().Sub(begun.at) >= nonceLife {
		return false
	}
	first := &postJob{d: p.d, channel: p.channel, draft: begun.draft, pieces: render(begun.draft)[:1]}
	ref, err := first.postPartial(ctx)
	if err != nil {
		p.d.begun.Put(p.memoryKey(), begun)
		return false
	}
	// Kept until the whole answer is out: posting it may fail and be tried again.
	p.d.begun.Put(p.memoryKey(), begunAnswer{ids: ref.IDs})
	p.draft.Replaces.IDs = ref.IDs
	if p.begunAlone {
		p.unsearchable = false // nothing else was tried before
	}
	return true
}

// isShown reports whether a message is known to look like that. What is forgotten costs an edit.
func (d *Discord) isShown(id, look string) bool {
	now, known := d.partialShown.Get(id)
	return known && now == look
}
