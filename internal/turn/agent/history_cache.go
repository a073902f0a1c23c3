package agent

import (
	"container/list"
	"context"
	"slices"
	"sync"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
)

// maxHistories is how many conversations stay in the cache.
const maxHistories = 256

// historyCache caches the windows of recent conversations, so that the cost of a message does not depend on the length
// of the conversation. It may be ahead of the store by the answers that are being written, and is never behind it:
// code that changes stored turns in another way calls forget.
type historyCache struct {
	memory    Memory
	summaries Summaries

	mu        sync.Mutex // guards what follows; not held while the store is read
	byAge     *list.List // of *history, the most recently used in front
	byAddress map[chat.Address]*list.Element
	loading   map[chat.Address]*loads // only of conversations that are being read
}

// loads are the readings of one conversation that have not ended.
type loads struct {
	running    int
	generation int // incremented by forget
}

// history is the part of a conversation that belongs in a request.
type history struct {
	address chat.Address
	summary conversation.Summary
	turns   []conversation.Turn // that no summary covers
	place   chat.Place          // as it was last known
	// unstored names the turns that add was given and that no load has found in the store since: an answer is added
	// before it is stored, because the next question may come at once.
	unstored []string
}

// newHistoryCache returns an empty cache over the store of o.
func newHistoryCache(o Options) *historyCache {
	return &historyCache{
		memory:    o.Store,
		summaries: o.Store,
		byAge:     list.New(),
		byAddress: map[chat.Address]*list.Element{},
		loading:   map[chat.Address]*loads{},
	}
}

// load returns a copy of the history of a conversation, in which every turn is stored. The turns of
// the copy are shared with the cache and must not be changed.
func (h *historyCache) load(ctx context.Context, a chat.Address, w conversation.Window) (history, error) {
	h.mu.Lock()
	if e := h.byAddress[a]; e != nil {
		h.byAge.MoveToFront(e)
		loaded := *e.Value.(*history)
		h.mu.Unlock()
		if h.confirm(ctx, loaded) {
			return loaded, nil
		}
		// Keep the cached entry: a concurrent answer may still be being written.
		return h.read(ctx, a, w)
	}
	generation := h.beginLoad(a)
	h.mu.Unlock()
	// Read without the lock, so that a slow store delays no other conversation.
	loaded, err := h.read(ctx, a, w)
	h.mu.Lock()
	defer h.mu.Unlock()
	isCurrent := h.endLoad(a) == generation
	if err != nil {
		return history{}, err
	}
	// A load that began before a forget may hold removed turns. Commands of one conversation run concurrently, so
	// another load may have been faster.
	if !isCurrent || h.byAddress[a] != nil {
		return loaded, nil
	}
	kept := loaded // the caller may change its copy
	h.byAddress[a] = h.byAge.PushFront(&kept)
	if h.byAge.Len() > maxHistories {
		h.drop(h.byAge.Back())
	}
	return loaded, nil
}

// beginLoad counts a load and returns its generation. h.mu must be held.
func (h *historyCache) beginLoad(a chat.Address) (generation int) {
	if h.loading[a] == nil {
		h.loading[a] = &loads{}
	}
	h.loading[a].running++
	return h.loading[a].generation
}

// endLoad ends a load that beginLoad has counted, and returns the generation as it is now. h.mu is held.
func (h *historyCache) endLoad(a chat.Address) (generation int) {
	l := h.loading[a]
	if l.running--; l.running == 0 {
		delete(h.loading, a)
	}
	return l.generation
}

// confirm looks in the store for the turns of a copy that were not found there yet, and reports whether all are there.
func (h *historyCache) confirm(ctx context.Context, loaded history) bool {
	for _, id := range loaded.unstored {
		// A turn that is open is the one from before its answer: it was stored with its calls.
		if _, t, err := h.memory.TurnOf(ctx, id); err != nil || t.State == conversation.Open {
			return false
		}
	}
	if len(loaded.unstored) == 0 {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.byAddress[loaded.address]; e != nil {
		kept := e.Value.(*history)
		kept.unstored = slices.DeleteFunc(slices.Clone(kept.unstored), func(id string) bool {
			return slices.Contains(loaded.unstored, id)
		})
	}
	return true
}

// read returns the history of a conversation from the store.
func (h *historyCache) read(ctx context.Context, a chat.Address, w conversation.Window) (history, error) {
	summary, err := h.summaries.Summary(ctx, a)
	if err != nil {
		return history{}, err
	}
	turns, err := h.memory.Turns(ctx, a, store.Range{After: summary.Upto, Newest: w.Limit().MaxTurns})
	if err != nil {
		return history{}, err
	}
	return history{address: a, summary: summary, turns: w.Limit().Trim(turns)}, nil
}

// add replaces the turn with the same ID, or appends the turn. It reports whether the turns need
// a summary, because the window is full.
func (h *historyCache) add(a chat.Address, t *conversation.Turn, w conversation.Window) bool {
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
	if !slices.Contains(old.unstored, t.ID) {
		old.unstored = append(slices.Clone(old.unstored), t.ID)
	}
	isFull := !w.Fits(turns)
	if isFull {
		if shorter, ok := w.Shorten(turns); ok {
			turns, isFull = shorter, false
		}
	}
	old.turns = w.Limit().Trim(turns)
	return isFull
}

// keepPlace remembers the place of a conversation, and returns its known data. A failed look-up must not change the
// beginning of a request.
func (h *historyCache) keepPlace(a chat.Address, p chat.Place) chat.Place {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.byAddress[a]
	if e == nil {
		return p
	}
	known := e.Value.(*history)
	if p != (chat.Place{}) {
		known.place = p
	}
	return known.place
}

// forget makes the next load read from the store, whatever a load that is running has read.
func (h *historyCache) forget(a chat.Address) {
	h.forgetWhere(func(other chat.Address) bool { return other == a })
}

// forgetWhere is forget for the conversations that match.
func (h *historyCache) forgetWhere(matches func(chat.Address) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for a, l := range h.loading {
		if matches(a) {
			l.generation++
		}
	}
	for a, e := range h.byAddress {
		if matches(a) {
			h.drop(e)
		}
	}
}

// drop removes an entry. h.mu is held.
func (h *historyCache) drop(e *list.Element) {
	h.byAge.Remove(e)
	delete(h.byAddress, e.Value.(*history).address)
}
