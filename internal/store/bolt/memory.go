package bolt

import (
	"context"
	"fmt"

	"ravenbot/internal/store"
)

// SaveMemory keeps a note, unless its scope has one with that text, and gives it as
// it is kept; false says that it was there before. store.ErrFull says that the scope
// holds most already.
func (db *DB) SaveMemory(ctx context.Context, m store.Memory, most int) (kept store.Memory, isNew bool, err error) {
	err = db.update(ctx, func(tx *tx) error {
		kept, isNew = m, true
		scope, err := tx.top(memoriesBucket).createNested(m.Scope)
		if err != nil {
			return err
		}
		held := 0
		if err := scope.each(func(k, v []byte) error {
			held++
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
		if held >= most {
			return store.ErrFull
		}
		if kept.N, err = scope.nextSequence(); err != nil {
			return err
		}
		return scope.put(seqKey(kept.N), kept)
	})
	if err != nil {
		return store.Memory{}, false, fmt.Errorf("store memory of %s: %w", m.Scope, err)
	}
	return kept, isNew, nil
}

// Memories lists the notes of a scope, oldest first.
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

// DeleteMemory removes a note; store.ErrNotFound says there is none.
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
