package records

import (
	"context"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// memories holds the notes of each scope, by their numbers.
var memories = kv.Of[store.Memory](kv.Spec{Name: "memories", Grouped: true})

// SaveMemory stores a note, and returns it with its number. It returns the stored note and false if the scope has one with
// the same text, and store.ErrFull if it holds limit notes.
func (s *Store) SaveMemory(ctx context.Context, m store.Memory, limit int) (kept store.Memory, isNew bool, err error) {
	err = s.update(ctx, func(tx kv.Tx) error {
		kept, isNew = m, true
		found, err := memories.List(tx, kv.Range{Group: m.Scope})
		for _, old := range found {
			if old.Text == m.Text {
				kept, isNew = old, false
			}
		}
		if err != nil || !isNew {
			return err
		}
		if len(found) >= limit {
			return store.ErrFull
		}
		// The number never goes back while the scope exists: one that people have seen names one note for good.
		if kept.N, err = tx.Next(memories.Spec, m.Scope); err != nil {
			return err
		}
		return memories.Put(tx, m.Scope, kv.NumberKey(kept.N), kept)
	}, memoryScope(m.Scope))
	if err != nil {
		return store.Memory{}, false, wrap(err, "store memory of %s", m.Scope)
	}
	return kept, isNew, nil
}

func memoryScope(scope string) string { return memories.Name + "/" + scope }

// Memories returns the notes of a scope, oldest first.
func (s *Store) Memories(ctx context.Context, scope string) ([]store.Memory, error) {
	found, err := list(ctx, s, memories, kv.Range{Group: scope})
	return found, wrap(err, "list memories of %s", scope)
}

// MemoryScopes returns the scopes that may have notes, in order.
func (s *Store) MemoryScopes(ctx context.Context) ([]string, error) {
	scopes, err := s.groups(ctx, memories.Spec)
	return scopes, wrap(err, "list the scopes of memories")
}

// groups returns the names of the groups of a collection.
func (s *Store) groups(ctx context.Context, spec *kv.Spec) ([]string, error) {
	return read(ctx, s, func(tx kv.Tx) (names []string, err error) {
		err = tx.Groups(spec, "", "", func(name string) error {
			names = append(names, name)
			return nil
		})
		return names, err
	})
}

// ReplaceMemory replaces the text, author and time of a note, and returns it as it was and as it is. If another note of
// the scope has the same text it deletes the one and returns the other. It returns store.ErrNotFound if there is no such
// note.
func (s *Store) ReplaceMemory(ctx context.Context, m store.Memory) (before, kept store.Memory, err error) {
	err = s.update(ctx, func(tx kv.Tx) error {
		before, kept = store.Memory{}, m
		found, err := memories.List(tx, kv.Range{Group: m.Scope})
		if err != nil {
			return err
		}
		has := false
		for _, note := range found {
			switch {
			case note.N == m.N:
				before, has = note, true
			case note.Text == m.Text:
				kept = note
			}
		}
		switch {
		case !has:
			return store.ErrNotFound
		// The other note stays, under the number that people have seen: one of two equal ones is enough.
		case kept.N != m.N:
			return memories.Delete(tx, m.Scope, kv.NumberKey(m.N))
		}
		return memories.Put(tx, m.Scope, kv.NumberKey(m.N), m)
	}, memoryScope(m.Scope))
	if err != nil {
		return store.Memory{}, store.Memory{}, wrap(err, "replace memory %d of %s", m.N, m.Scope)
	}
	return before, kept, nil
}

// DeleteMemory removes a note. It returns store.ErrNotFound if there is none.
func (s *Store) DeleteMemory(ctx context.Context, scope string, n uint64) error {
	return wrap(remove(ctx, s, memories, scope, kv.NumberKey(n), memoryScope(scope)), "remove memory %d of %s", n, scope)
}

// DeleteMemories removes all notes of a scope; there may be none.
func (s *Store) DeleteMemories(ctx context.Context, scope string) error {
	err := s.update(ctx, func(tx kv.Tx) error { return tx.DeleteGroup(memories.Spec, scope) }, memoryScope(scope))
	return wrap(err, "remove memories of %s", scope)
}
