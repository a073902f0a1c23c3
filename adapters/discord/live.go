package discord

import (
	"context"
	"slices"
	"sync"
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
		case p.d.live.shows(id, look):
			p.ids = append(p.ids, id)
		default:
			if err := p.edit(ctx, id); err != nil {
				return chat.Ref{}, p.d.postError(err)
			}
			p.ids = append(p.ids, id)
		}
		p.d.live.put(id, look)
	}
	return chat.Ref{IDs: slices.Clone(p.ids)}, nil
}

// views knows what the latest unfinished answers show, so that pieces which have
// not changed are not edited.
type views struct {
	mu    sync.Mutex
	looks map[string]string // by message
}

// maxViews bounds what is known; forgetting costs an edit.
const maxViews = 1024

func (v *views) shows(id, look string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.looks[id] == look
}

// forget is for a post that now shows something else.
func (v *views) forget(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.looks, id)
}

func (v *views) put(id, look string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.looks == nil || len(v.looks) >= maxViews {
		v.looks = map[string]string{}
	}
	v.looks[id] = look
}
