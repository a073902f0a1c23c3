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

// kept is how many conversations stay in memory.
const kept = 256

// histories holds the windows of recent conversations in memory, so that a
// message costs the same however much was said before it.
type histories struct {
	memory Memory
	window conversation.Window

	mu    sync.Mutex
	byAge *list.List // of *history, the most recently used in front
	found map[chat.Address]*list.Element
}

type history struct {
	address chat.Address
	turns   []conversation.Turn
}

func newHistories(m Memory, w conversation.Window) *histories {
	return &histories{memory: m, window: w, byAge: list.New(), found: map[chat.Address]*list.Element{}}
}

// load gives the turns of a conversation that belong in a request.
func (h *histories) load(ctx context.Context, a chat.Address) ([]conversation.Turn, error) {
	h.mu.Lock()
	if e := h.found[a]; e != nil {
		h.byAge.MoveToFront(e)
		turns := e.Value.(*history).turns
		h.mu.Unlock()
		return turns, nil
	}
	h.mu.Unlock()
	turns, err := h.memory.Turns(ctx, a, store.Range{Newest: h.window.Turns})
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found[a] = h.byAge.PushFront(&history{a, h.window.Trim(turns)})
	if h.byAge.Len() > kept {
		h.drop(h.byAge.Back())
	}
	return turns, nil
}

// add appends a turn, in the place of an unfinished one with the same ID.
func (h *histories) add(a chat.Address, t *conversation.Turn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.found[a]
	if e == nil {
		return
	}
	old := e.Value.(*history)
	turns := slices.DeleteFunc(slices.Clone(old.turns), func(o conversation.Turn) bool { return o.ID == t.ID })
	old.turns = h.window.Trim(append(turns, *t))
}

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
