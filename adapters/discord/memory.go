package discord

import (
	"slices"
	"sync"
	"time"
)

// memory knows which pieces of the latest posts are out.
type memory struct {
	mu    sync.Mutex
	done  map[string]outcome
	made  map[string]bool // the ids of all, by themselves
	order []string
	dared map[string]time.Time // pieces sent a second time, of which nobody knows
}

// outcome is how far a post has come.
type outcome struct {
	ids      []string
	repeated bool
}

const maxRemembered = 4096

func newMemory() *memory {
	return &memory{done: map[string]outcome{}, made: map[string]bool{}, dared: map[string]time.Time{}}
}

func (m *memory) get(key string) outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.done[key]
	o.ids = slices.Clone(o.ids)
	return o
}

func (m *memory) put(key string, o outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.done[key]; !known {
		if m.order = append(m.order, key); len(m.order) > maxRemembered {
			for _, id := range m.done[m.order[0]].ids {
				delete(m.made, id)
			}
			delete(m.done, m.order[0])
			m.order = m.order[1:]
		}
	}
	o.ids = slices.Clone(o.ids)
	m.done[key] = o
	for _, id := range o.ids {
		m.made[id] = true
	}
}

// dare notes when a piece was sent a second time without an answer.
func (m *memory) dare(piece string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.dared) >= maxRemembered {
		clear(m.dared)
	}
	if _, known := m.dared[piece]; !known {
		m.dared[piece] = now
	}
}

func (m *memory) daredAt(piece string) (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, known := m.dared[piece]
	return at, known
}

// holds tells whether a message is one that was posted not long ago.
func (m *memory) holds(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.made[id]
}
