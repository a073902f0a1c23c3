package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/store"
)

// SaveMemory stores a note, and returns it with its number. It returns the stored note and false where the scope has
// one with the same text, and store.ErrFull where it holds limit notes. Writers of one scope wait for one another.
func (db *DB) SaveMemory(ctx context.Context, m store.Memory, limit int) (kept store.Memory, isNew bool, err error) {
	scope := keyText(m.Scope)
	err = db.write(ctx, func(t *tx) error {
		kept, isNew = m, true
		last, notes, err := t.lockScope(scope, true)
		if err != nil {
			return err
		}
		for _, old := range notes {
			if old.Text == m.Text {
				kept, isNew = old, false
				return errUnchanged
			}
		}
		if len(notes) >= limit {
			return store.ErrFull
		}
		// The number never goes back while the scope exists: one that people have seen names one note for
		// good.
		kept.N = last + 1
		return t.sendAll(func(b *pgx.Batch) error {
			b.Queue(`update ravenbot.memory_scopes set last = $2 where scope = $1`, scope, int64(kept.N))
			return queueMemory(b, kept)
		})
	})
	if err != nil {
		return store.Memory{}, false, fmt.Errorf("store memory of %s: %w", m.Scope, err)
	}
	return kept, isNew, nil
}

// queueMemory queues storing a note under its number.
func queueMemory(b *pgx.Batch, m store.Memory) error {
	record, err := encode(m)
	if err != nil {
		return err
	}
	b.Queue(`insert into ravenbot.memories (scope, n, v, record) values ($1, $2, $3, $4)
		on conflict (scope, n) do update set v = excluded.v, record = excluded.record`,
		keyText(m.Scope), int64(m.N), recordVersion, record)
	return nil
}

// lockScope returns the last number of a scope and its notes. Other transactions that want to change them wait.
// Where there is no such scope it is made, or without create there are no notes.
func (t *tx) lockScope(scope string, create bool) (last uint64, notes []store.Memory, err error) {
	lock := `select last from ravenbot.memory_scopes where scope = $1 for update`
	if create {
		// One statement that makes or locks it: between two, another process may delete the scope.
		lock = `insert into ravenbot.memory_scopes as s (scope, last) values ($1, 0)
			on conflict (scope) do update set last = s.last returning last`
	}
	err = t.send(func(b *pgx.Batch) {
		b.Queue(lock, scope).Query(each([]any{&last}, func() error { return nil }))
		b.Queue(`select v, record from ravenbot.memories where scope = $1 order by n`, scope).
			Query(eachRecord(t.db, "memories", func(m store.Memory) { notes = append(notes, m) }))
	})
	return last, notes, err
}

// Memories returns the notes of a scope, oldest first.
func (db *DB) Memories(ctx context.Context, scope string) ([]store.Memory, error) {
	list, err := readRecords[store.Memory](ctx, db, "memories",
		`select v, record from ravenbot.memories where scope = $1 order by n`, keyText(scope))
	if err != nil {
		return nil, fmt.Errorf("list memories of %s: %w", scope, err)
	}
	return list, nil
}

// MemoryScopes returns the scopes that may have notes, in order.
func (db *DB) MemoryScopes(ctx context.Context) ([]string, error) {
	list, err := db.readKeys(ctx, `select scope from ravenbot.memory_scopes order by scope`)
	if err != nil {
		return nil, fmt.Errorf("list the scopes of memories: %w", err)
	}
	return list, nil
}

// ReplaceMemory replaces the text, author and time of a note, and returns it as it was and as it is. Where
// another note of the scope has the same text it deletes the one and returns the other. It returns
// store.ErrNotFound where there is no such note.
func (db *DB) ReplaceMemory(ctx context.Context, m store.Memory) (before, kept store.Memory, err error) {
	scope := keyText(m.Scope)
	err = db.write(ctx, func(t *tx) error {
		before, kept = store.Memory{}, m
		_, notes, err := t.lockScope(scope, false)
		if err != nil {
			return err
		}
		found := false
		for _, other := range notes {
			switch {
			case other.N == m.N:
				before, found = other, true
			case other.Text == m.Text:
				kept = other
			}
		}
		if !found {
			return store.ErrNotFound
		}
		return t.sendAll(func(b *pgx.Batch) error {
			if kept.N != m.N {
				b.Queue(`delete from ravenbot.memories where scope = $1 and n = $2`, scope, int64(m.N))
				return nil
			}
			return queueMemory(b, m)
		})
	})
	if err != nil {
		return store.Memory{}, store.Memory{}, fmt.Errorf("replace memory %d of %s: %w", m.N, m.Scope, err)
	}
	return before, kept, nil
}

// DeleteMemory removes a note. It returns store.ErrNotFound where there is none.
func (db *DB) DeleteMemory(ctx context.Context, scope string, n uint64) error {
	err := db.deleteOne(ctx, `delete from ravenbot.memories where scope = $1 and n = $2`, keyText(scope), int64(n))
	if err != nil {
		return fmt.Errorf("remove memory %d of %s: %w", n, scope, err)
	}
	return nil
}

// DeleteMemories removes all notes of a scope; there may be none.
func (db *DB) DeleteMemories(ctx context.Context, scope string) error {
	err := db.write(ctx, func(t *tx) error {
		return t.send(func(b *pgx.Batch) {
			b.Queue(`delete from ravenbot.memory_scopes where scope = $1`, keyText(scope)) // first: whoever adds a note waits
			b.Queue(`delete from ravenbot.memories where scope = $1`, keyText(scope))
		})
	})
	if err != nil {
		return fmt.Errorf("remove memories of %s: %w", scope, err)
	}
	return nil
}
