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

// keptHistories is how many conversations stay in memory.
const keptHistories = 256

// histories holds the windows of recent conversations in memory, so that a
// message costs the same however much was said before it.
type histories struct {
	memory    Memory
	summaries Summaries
	window    conversation.Window

	mu    sync.Mutex
	byAge *list.List // of *history, the most recently used in front
	found map[chat.Address]*list.Element
}

// history is what of a conversation belongs in a request.
type history struct {
	address chat.Address
	summary conversation.Summary
	turns   []conversation.Turn
	over    int // turns that the window has pushed out since the summary
}

func newHistories(o Options) *histories {
	return &histories{memory: o.Store, summaries: o.Store, window: o.Window, byAge: list.New(), found: map[chat.Address]*list.Element{}}
}

// load gives a copy of the history of a conversation.
func (h *histories) load(ctx context.Context, a chat.Address) (history, error) {
	h.mu.Lock()
	if e := h.found[a]; e != nil {
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
	kept := loaded
	h.found[a] = h.byAge.PushFront(&kept)
	if h.byAge.Len() > keptHistories {
		h.drop(h.byAge.Back())
	}
	return loaded, nil
}

// add puts a turn in the place of the one with the same ID, or last. It reports
// whether turns have been pushed out that no summary stands for.
func (h *histories) add(a chat.Address, t *conversation.Turn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.found[a]
	if e == nil {
		return false
	}
	old := e.Value.(*history)
	turns := slices.Clone(old.turns)
	if i := slices.IndexFunc(turns, func(o conversation.Turn) bool { return o.ID == t.ID }); i >= 0 {
		turns[i] = *t
	} else {
		turns = append(turns, *t)
	}
	old.turns = h.window.Trim(turns)
	old.over += len(turns) - len(old.turns)
	return old.over > 0
}

// forget makes the next load read anew.
func (h *histories) forget(a chat.Address) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.found[a]; e != nil {
		h.drop(e)
	}
}

func (h *histories) drop(e *list.Element) {
	h.byAge.Remove(e)
	delete(h.found, e.Value.(*history).address)
}
