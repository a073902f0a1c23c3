package bolt

import (
	"context"
	"fmt"

	"ravenbot/internal/store"
)

// SaveMemory stores a note, and returns it with its number. It returns the stored note and
// false where the scope has one with the same text, and store.ErrFull where it holds limit
// notes.
func (db *DB) SaveMemory(ctx context.Context, m store.Memory, limit int) (kept store.Memory, isNew bool, err error) {
	err = db.update(ctx, func(tx *tx) error {
		kept, isNew = m, true
		scope, err := tx.top(memoriesBucket).createNested(m.Scope)
		if err != nil {
			return err
		}
		count := 0
		if err := scope.each(func(k, v []byte) error {
			count++
			var old store.Memory
			if err := db.decode(k, v, &old); err != nil {
				return err
			}
			if old.Text == m.Text {
				kept, isNew = old, false
			}
			return nil
		}); err != nil || !isNew {
			return err
		}
		if count >= limit {
			return store.ErrFull
		}
		// The sequence never goes back while the scope exists: a number that people have seen
		// names one note for good.
		kept.N = scope.nextSequence()
		return scope.put(seqKey(kept.N), kept)
	})
	if err != nil {
		return store.Memory{}, false, fmt.Errorf("store memory of %s: %w", m.Scope, err)
	}
	return kept, isNew, nil
}

// Memories returns the notes of a scope, oldest first.
func (db *DB) Memories(ctx context.Context, scope string) ([]store.Memory, error) {
	var list []store.Memory
	err := db.view(func(tx *tx) error {
		b := tx.top(memoriesBucket).nested(scope)
		if b == nil {
			return nil
		}
		return b.each(func(k, v []byte) error {
			var m store.Memory
			err := db.decode(k, v, &m)
			list = append(list, m)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list memories of %s: %w", scope, err)
	}
	return list, nil
}

// MemoryScopes returns the scopes that may have notes, in order.
func (db *DB) MemoryScopes(context.Context) ([]string, error) {
	var list []string
	err := db.view(func(tx *tx) error {
		return tx.top(memoriesBucket).eachNested(func(scope string, _ *bucket) error {
			list = append(list, scope)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list the scopes of memories: %w", err)
	}
	return list, nil
}

// ReplaceMemory replaces the text, author and time of a note, and returns it as it was and as
// it is. Where another note of the scope has the same text it deletes the one and returns the
// other. It returns store.ErrNotFound where there is no such note.
func (db *DB) ReplaceMemory(ctx context.Context, m store.Memory) (before, kept store.Memory, err error) {
	err = db.update(ctx, func(tx *tx) error {
		before, kept = store.Memory{}, m
		b := tx.top(memoriesBucket).nested(m.Scope)
		if b == nil {
			return store.ErrNotFound
		}
		found, err := b.get(seqKey(m.N), &before)
		if err != nil {
			return err
		}
		if !found {
			return store.ErrNotFound
		}
		if err := b.each(func(k, v []byte) error {
			var other store.Memory
			err := db.decode(k, v, &other)
			if other.N != m.N && other.Text == m.Text {
				kept = other
			}
			return err
		}); err != nil {
			return err
		}
		// The other note stays, under the number that people have seen: one of two equal ones is enough.
		if kept.N != m.N {
			return b.delete(seqKey(m.N))
		}
		return b.put(seqKey(m.N), m)
	})
	if err != nil {
		return store.Memory{}, store.Memory{}, fmt.Errorf("replace memory %d of %s: %w", m.N, m.Scope, err)
	}
	return before, kept, nil
}

// DeleteMemory removes a note. It returns store.ErrNotFound where there is none.
func (db *DB) DeleteMemory(ctx context.Context, scope string, n uint64) error {
	err := db.update(ctx, func(tx *tx) error {
		b := tx.top(memoriesBucket).nested(scope)
		if b == nil || !b.has(seqKey(n)) {
			return store.ErrNotFound
		}
		return b.delete(seqKey(n))
	})
	if err != nil {
		return fmt.Errorf("remove memory %d of %s: %w", n, scope, err)
	}
	return nil
}

// DeleteMemories removes all notes of a scope; there may be none.
func (db *DB) DeleteMemories(ctx context.Context, scope string) error {
	err := db.update(ctx, func(tx *tx) error {
		b := tx.top(memoriesBucket)
		if b.nested(scope) == nil {
			return nil
		}
		return b.deleteNested(scope)
	})
	if err != nil {
		return fmt.Errorf("remove memories of %s: %w", scope, err)
	}
	return nil
}
