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
		text := p.pieces[len(p.ids)].text
		id := p.inPlace()
		switch {
		case id == "":
			if err := p.send(ctx); err != nil {
				return chat.Ref{}, err
			}
			id = p.ids[len(p.ids)-1]
		case p.d.live.shows(id, text):
			p.ids = append(p.ids, id)
		default:
			if err := p.edit(ctx, id); err != nil {
				return chat.Ref{}, p.d.postError(err)
			}
			p.ids = append(p.ids, id)
		}
		p.d.live.put(id, text)
	}
	return chat.Ref{IDs: slices.Clone(p.ids)}, nil
}

// views knows what the latest unfinished answers show, so that pieces which have
// not changed are not edited.
type views struct {
	mu    sync.Mutex
	texts map[string]string // by message
}

// maxViews bounds what is known; forgetting costs an edit.
const maxViews = 1024

func (v *views) shows(id, text string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.texts[id] == text
}

func (v *views) put(id, text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.texts == nil || len(v.texts) >= maxViews {
		v.texts = map[string]string{}
	}
	v.texts[id] = text
}
