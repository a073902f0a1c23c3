package agent

import (
	"container/list"
	"context"
	"slices"
	"sync"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// maxHistories is how many conversations stay in the cache.
const maxHistories = 256

// historyCache caches the windows of recent conversations, so that the cost of a message
// does not depend on the length of the conversation.
type historyCache struct {
	memory    Memory
	summaries Summaries
	window    conversation.Window

	mu        sync.Mutex // guards what follows; not held while the store is read
	byAge     *list.List // of *history, the most recently used in front
	byAddress map[chat.Address]*list.Element
}

// history is the part of a conversation that belongs in a request.
type history struct {
	address   chat.Address
	summary   conversation.Summary
	turns     []conversation.Turn
	uncovered int // turns that the window has pushed out since the summary
}

func newHistoryCache(o Options) *historyCache {
	return &historyCache{
		memory:    o.Store,
		summaries: o.Store,
		window:    o.Window,
		byAge:     list.New(),
		byAddress: map[chat.Address]*list.Element{},
	}
}

// load returns a copy of the history of a conversation.
func (h *historyCache) load(ctx context.Context, a chat.Address) (history, error) {
	h.mu.Lock()
	if e := h.byAddress[a]; e != nil {
		h.byAge.MoveToFront(e)
		loaded := *e.Value.(*history)
		h.mu.Unlock()
		return loaded, nil
	}
	h.mu.Unlock()
	summary, err := h.summaries.Summary(ctx, a)
	if err != nil {
		return history{}, err
	}
	turns, err := h.memory.Turns(ctx, a, store.Range{After: summary.Upto, Newest: h.window.MaxTurns})
	if err != nil {
		return history{}, err
	}
	loaded := history{address: a, summary: summary, turns: h.window.Trim(turns)}
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := loaded // the caller may change its copy
	h.byAddress[a] = h.byAge.PushFront(&kept)
	if h.byAge.Len() > maxHistories {
		h.drop(h.byAge.Back())
	}
	return loaded, nil
}

// add replaces the turn with the same ID, or appends the turn. It reports whether turns have
// left the window that no summary covers.
func (h *historyCache) add(a chat.Address, t *conversation.Turn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.byAddress[a]
	if e == nil {
		return false
	}
	old := e.Value.(*history)
	turns := slices.Clone(old.turns) // copies that load has returned share the old slice
	if i := slices.IndexFunc(turns, func(o conversation.Turn) bool { return o.ID == t.ID }); i >= 0 {
		turns[i] = *t
	} else {
		turns = append(turns, *t)
	}
	old.turns = h.window.Trim(turns)
	old.uncovered += len(turns) - len(old.turns)
	return old.uncovered > 0
}

// forget makes the next load read from the store.
func (h *historyCache) forget(a chat.Address) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.byAddress[a]; e != nil {
		h.drop(e)
	}
}

func (h *historyCache) drop(e *list.Element) {
	h.byAge.Remove(e)
	delete(h.byAddress, e.Value.(*history).address)
}
