package slack

import (
	"context"
	"sync"

	"ravenbot/internal/chat"
)

// gates lets one post at a time into a channel, so that order is kept while one
// waits.
type gates struct {
	mu   sync.Mutex
	open map[string]*gate
}

type gate struct {
	turn  chan struct{}
	users int
}

func (g *gates) enter(ctx context.Context, channel string) (leave func(), err error) {
	g.mu.Lock()
	if g.open == nil {
		g.open = map[string]*gate{}
	}
	one := g.open[channel]
	if one == nil {
		one = &gate{turn: make(chan struct{}, 1)}
		g.open[channel] = one
	}
	one.users++
	g.mu.Unlock()
	forget := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(g.open, channel)
		}
	}
	select {
	case one.turn <- struct{}{}:
		return func() { <-one.turn; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, &chat.PostError{Err: ctx.Err()}
	}
}

// attempt is what came of sending a draft that is not wholly posted yet.
type attempt struct {
	ids      []string // pieces that were posted
	unknown  bool     // Slack may have taken more
	repeated bool     // of which one was a repeat already
}
