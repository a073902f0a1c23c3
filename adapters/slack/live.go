package slack

import (
	"context"
	"errors"
	"slices"
	"time"

	"ravenbot/internal/chat"
)

// editEvery is how often an answer is edited while it is written: chat.update takes
// some fifty calls a minute.
const editEvery = 2 * time.Second

// stillWriting ends an answer that is not whole.
const stillWriting = "✍️ writing…"

var errNoEdit = errors.New("an answer at a response_url cannot be edited")

// show posts an answer that is still being written, or brings what is shown of it
// up to date. Nothing is looked for and nothing repeated: the whole answer follows.
func (s *Slack) show(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	if len(d.Reply.Handle) > 0 {
		return chat.Ref{}, &chat.PostError{Permanent: true, Err: errNoEdit}
	}
	unlock, err := s.gates.enter(ctx, to.Channel)
	if err != nil {
		return chat.Ref{}, err
	}
	defer unlock()
	d.Footer = stillWriting
	p := &posting{Slack: s, to: to, d: d, pieces: render(d)}
	old := d.Replaces.IDs
	for n := range p.pieces {
		ts := ""
		if n < len(old) {
			ts = old[n]
		}
		if ts != "" && n < len(old)-1 && n < len(p.pieces)-1 { // whole since the piece behind it was begun
			p.ids = append(p.ids, ts)
			continue
		}
		id, err := p.send(ctx, n, ts)
		if err != nil {
			return chat.Ref{}, err
		}
		p.ids = append(p.ids, id)
	}
	return chat.Ref{IDs: slices.Clone(p.ids)}, nil
}
