package discord

import (
	"context"
	"slices"
	"time"

	"ravenbot/internal/chat"
)

// editEvery is how often an answer is edited while it is written. Discord takes
// about five edits in five seconds in a channel, and there may be other answers.
const editEvery = 1500 * time.Millisecond

// show posts an answer that is still being written, or brings what is shown of it
// up to date. Nothing is looked for and nothing repeated: the whole answer follows.
func (p *post) show(ctx context.Context) (chat.Ref, error) {
	p.draft.Key += "/live" // its nonce must not stand for that of the whole answer
	if err := p.choose(ctx); err != nil {
		return chat.Ref{}, &chat.PostError{Err: err}
	}
	for len(p.ids) < len(p.pieces) {
		look := p.pieces[len(p.ids)].look()
		id := p.inPlace()
		switch {
		case id == "":
			if err := p.send(ctx); err != nil {
				return chat.Ref{}, err
			}
			id = p.ids[len(p.ids)-1]
		case p.d.shows(id, look):
			p.ids = append(p.ids, id)
		default:
			if err := p.edit(ctx, id); err != nil {
				return chat.Ref{}, p.d.postError(err)
			}
			p.ids = append(p.ids, id)
		}
		p.d.shown.Put(id, look)
	}
	return chat.Ref{IDs: slices.Clone(p.ids)}, nil
}

// shows reports whether a message is known to look like that already. Forgetting costs an edit.
func (d *Discord) shows(id, look string) bool {
	now, known := d.shown.Get(id)
	return known && now == look
}
