package slack

import (
	"context"
	"errors"
	"slices"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

const (
	// growEvery is how often what is shown of an answer grows: chat.appendStream takes some
	// hundred calls a minute (tier 4, 2026).
	growEvery = time.Second
	// editEvery is how often it is edited where there are no streams: chat.update takes some
	// fifty calls a minute (tier 3, 2026).
	editEvery = 1200 * time.Millisecond
)

// maxPieces is how many messages an answer may take; a longer one becomes a file.
const maxPieces = 5

// stillWriting ends an answer that is not whole.
const stillWriting = "✍️ writing…"

// errNoEdit is returned for an unfinished answer that would go to a response_url.
var errNoEdit = errors.New("an answer at a response_url cannot be edited")

// postPartial posts an unfinished answer, or updates what is shown of it, and returns the ids of its messages. It does
// not look for earlier attempts, because the whole answer follows. No ids and no error: there is nothing to show yet.
// Errors are *chat.PostError, permanent where such an answer cannot be edited.
func (s *Slack) postPartial(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	if len(d.Reply.Handle) > 0 {
		return chat.Ref{}, &chat.PostError{Permanent: true, Err: errNoEdit}
	}
	unlock, err := s.enterChannel(ctx, to.Channel)
	if err != nil {
		return chat.Ref{}, err
	}
	defer unlock()
	d.Footer = stillWriting
	p := &postJob{Slack: s, to: to, draft: d, pieces: render(d)}
	p.pieces = p.pieces[:min(len(p.pieces), maxPieces)] // the rest will be a file
	old := d.Replaces.IDs
	for n := range p.pieces {
		if n < len(old)-1 && n < len(p.pieces)-1 { // whole since the piece behind it was begun
			p.ids = append(p.ids, old[n])
			continue
		}
		ts := ""
		if n < len(old) {
			ts = old[n]
		}
		id, err := p.growPiece(ctx, n, ts)
		if errors.Is(err, errNothingYet) {
			break
		}
		if err != nil {
			var failed *chat.PostError
			unknown := ts == "" && errors.As(err, &failed) && failed.Maybe
			// It may be there, or pieces before it are that the caller does not learn of: the whole answer looks for them.
			if unknown || len(p.ids) > len(old) {
				s.attempts.Put(d.Key, sendAttempt{unknown: true})
			}
			return chat.Ref{}, err
		}
		p.ids = append(p.ids, id)
	}
	if len(p.ids) > 0 {
		s.partialShown.Put(threadKey(to.Channel, to.Thread), true)
		s.clearReaction(to)
	}
	return chat.Ref{IDs: slices.Clone(p.ids)}, nil
}

// growPiece shows a piece in the post ts, or in a new one if ts is empty: as a stream where Slack takes that, otherwise
// by edits, between which it waits for editEvery. It returns the id of the post, and errNothingYet where a stream has
// nothing to begin with.
func (p *postJob) growPiece(ctx context.Context, n int, ts string) (string, error) {
	if ts == "" {
		if id, err := p.beginStream(ctx, n); id != "" || err != nil {
			return id, err
		}
		return p.sendPiece(ctx, n, "")
	}
	if done, err := p.extendStream(ctx, n, ts); done || err != nil {
		return ts, err
	}
	where := threadKey(p.to.Channel, ts)
	if last, _ := p.edited.Get(where); !kit.Sleep(ctx, editEvery-time.Since(last)) {
		return "", &chat.PostError{Err: ctx.Err()}
	}
	p.edited.Put(where, time.Now())
	return p.sendPiece(ctx, n, ts)
}
