package slack

import (
	"context"
	"sync"
	"time"

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

// attempts remembers drafts that were not wholly posted, by their keys.
type attempts struct {
	mu sync.Mutex
	of map[string]attempt
}

// mostAttempts bounds what is remembered: nobody says which drafts were given up
// in the end, so all is forgotten when there are that many.
const mostAttempts = 10_000

func (a *attempts) last(key string) attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of[key]
}

func (a *attempts) keep(key string, last attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil || len(a.of) >= mostAttempts {
		a.of = map[string]attempt{}
	}
	a.of[key] = last
}

func (a *attempts) drop(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, key)
}

// A response_url is good for five uses within 30 minutes; one use is left to
// spare.
const (
	responseUses = 4
	responseLife = 29 * time.Minute
)

// responses counts the uses of response_urls.
type responses struct {
	mu   sync.Mutex
	used map[string]int
}

func (r *responses) take(url string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used == nil || len(r.used) > 10_000 {
		r.used = map[string]int{}
	}
	r.used[url]++
	return r.used[url] <= responseUses
}
