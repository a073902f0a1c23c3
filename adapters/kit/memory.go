package kit

import (
	"cmp"
	"sync"
)

// generation is how many things a Memory keeps unless its Size says otherwise.
const generation = 1024

// Memory remembers the latest things by their keys: at least the newest Size of them, and at
// most twice as many. The zero value is ready for use by several goroutines.
type Memory[V any] struct {
	Size int // 0: generation

	mu         sync.Mutex
	young, old map[string]V
}

// Get returns what is remembered of a key; false: nothing.
func (m *Memory[V]) Get(key string) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.find(key)
}

// find returns what is remembered under a key, in either generation, or false.
func (m *Memory[V]) find(key string) (V, bool) {
	v, known := m.young[key]
	if !known {
		v, known = m.old[key]
	}
	return v, known
}

// Put remembers a value in the place of what was known.
func (m *Memory[V]) Put(key string, v V) {
	m.Change(key, func(V, bool) V { return v })
}

// Change replaces what is remembered in one step, and returns what it was.
func (m *Memory[V]) Change(key string, next func(was V, known bool) V) (was V, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, known = m.find(key)
	// Dropping a whole generation at a time needs no list of ages.
	if _, young := m.young[key]; m.young == nil || !young && len(m.young) >= cmp.Or(m.Size, generation) {
		m.young, m.old = map[string]V{}, m.young
	}
	m.young[key] = next(was, known)
	return was, known
}

// First remembers that a key was seen, and reports whether it was not known before.
func (m *Memory[V]) First(key string) bool {
	_, known := m.Change(key, func(was V, _ bool) V { return was })
	return !known
}

// Drop forgets a key.
func (m *Memory[V]) Drop(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.young, key)
	delete(m.old, key)
}
