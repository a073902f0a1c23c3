package slack

import "sync"

// generation is how many things a memory keeps at least.
const generation = 1024

// memory remembers the latest things by their keys: those of the last generation
// for sure, and none older than two. Its zero value is ready.
type memory[V any] struct {
	mu         sync.Mutex
	young, old map[string]V
}

func (m *memory[V]) get(key string) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.find(key)
}

func (m *memory[V]) find(key string) (V, bool) {
	v, known := m.young[key]
	if !known {
		v, known = m.old[key]
	}
	return v, known
}

func (m *memory[V]) put(key string, v V) {
	m.change(key, func(V, bool) V { return v })
}

// change replaces what is remembered, in one step, and gives what it was.
func (m *memory[V]) change(key string, next func(was V, known bool) V) (was V, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, known = m.find(key)
	if m.young == nil || len(m.young) >= generation {
		m.young, m.old = map[string]V{}, m.young
	}
	m.young[key] = next(was, known)
	return was, known
}

func (m *memory[V]) drop(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.young, key)
	delete(m.old, key)
}
