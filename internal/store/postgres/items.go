package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ravenbot/internal/store"
)

// SaveItem stores what was made through the API or in chat, under its kind and name. It returns
// store.ErrExists where the name is taken and overwrite is false.
func (db *DB) SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error {
	conflict := `do nothing`
	if overwrite {
		conflict = `do update set v = excluded.v, record = excluded.record`
	}
	record, err := encode(item)
	if err == nil {
		err = db.write(ctx, func(t *tx) error {
			return t.send(func(b *pgx.Batch) {
				b.Queue(`insert into ravenbot.items (kind, name, v, record) values ($1, $2, $3, $4)
					on conflict (kind, name) `+conflict, keyText(kind), keyText(name), recordVersion, record).
					Exec(orElse(store.ErrExists))
				t.noteChange(b, itemKind(kind))
			})
		})
	}
	if err != nil {
		return fmt.Errorf("store %s %q: %w", kind, name, err)
	}
	return nil
}

// orElse returns a function that returns an error where a statement has changed nothing.
func orElse(err error) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 {
			return err
		}
		return nil
	}
}

// Items returns all items of a kind, by name.
func (db *DB) Items(ctx context.Context, kind string) (map[string]json.RawMessage, error) {
	items, err := db.readMap(ctx, "items", `select v, record, name from ravenbot.items where kind = $1`, keyText(kind))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind, err)
	}
	return items, nil
}

// readMap returns the JSON that a query selects, by the key that is selected behind it.
func (db *DB) readMap(ctx context.Context, table, sql string, args ...any) (all map[string]json.RawMessage, err error) {
	err = db.read(ctx, func(ctx context.Context) error {
		all = map[string]json.RawMessage{}
		var key string
		return db.query(ctx, sql, args,
			eachRecord(db, table, func(record json.RawMessage) { all[parseKey(key)] = record }, &key))
	})
	return all, err
}

// Item returns one item of a kind. It returns store.ErrNotFound where there is none.
func (db *DB) Item(ctx context.Context, kind, name string) (json.RawMessage, error) {
	item, found, err := readRecord[json.RawMessage](ctx, db, "items",
		`select v, record from ravenbot.items where kind = $1 and name = $2`, keyText(kind), keyText(name))
	if err == nil && !found {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("load %s %q: %w", kind, name, err)
	}
	return item, nil
}

// DeleteItem removes an item. It returns store.ErrNotFound where there is none.
func (db *DB) DeleteItem(ctx context.Context, kind, name string) error {
	err := db.write(ctx, func(t *tx) error {
		return t.send(func(b *pgx.Batch) {
			b.Queue(`delete from ravenbot.items where kind = $1 and name = $2`, keyText(kind), keyText(name)).
				Exec(orElse(store.ErrNotFound))
			t.noteChange(b, itemKind(kind))
		})
	})
	if err != nil {
		return fmt.Errorf("remove %s %q: %w", kind, name, err)
	}
	return nil
}

// SwapItem replaces an item by another, or by none (nil), and stores posts in the same transaction, whose Seq it sets.
// was nil means that there has to be no item. It returns false and changes nothing where the item is another than was,
// byte by byte.
func (db *DB) SwapItem(
	ctx context.Context,
	kind, name string,
	was, now json.RawMessage,
	posts []store.Post,
) (bool, error) {
	var swapped bool
	var numbers []uint64
	err := db.write(ctx, func(t *tx) error {
		kept, err := t.lockItem(kind, name, len(posts), &numbers)
		if err != nil {
			return err
		}
		if swapped = bytes.Equal(kept, was); !swapped {
			return errUnchanged
		}
		return t.sendAll(func(b *pgx.Batch) error {
			if err := queueItem(b, kind, name, was == nil, now); err != nil {
				return err
			}
			t.noteChange(b, itemKind(kind))
			return db.insertPosts(b, posts, numbers)
		})
	})
	if err != nil {
		return false, fmt.Errorf("replace %s %q: %w", kind, name, err)
	}
	if swapped {
		setNumbers(posts, numbers)
	}
	return swapped, nil
}

// lockItem returns an item, or nil, and numbers for posts. Other transactions that want to change the item
// wait.
func (t *tx) lockItem(kind, name string, posts int, numbers *[]uint64) (kept json.RawMessage, err error) {
	*numbers = make([]uint64, posts)
	return kept, t.send(func(b *pgx.Batch) {
		b.Queue(`select v, record from ravenbot.items where kind = $1 and name = $2 for update`,
			keyText(kind), keyText(name)).
			Query(eachRecord(t.db, "items", func(item json.RawMessage) { kept = item }))
		nextNumbers(b, "post_seq", *numbers)
	})
}

// queueItem queues replacing an item; nil deletes it.
func queueItem(b *pgx.Batch, kind, name string, isNew bool, item json.RawMessage) error {
	if item == nil {
		b.Queue(`delete from ravenbot.items where kind = $1 and name = $2`, keyText(kind), keyText(name))
		return nil
	}
	record, err := encode(item)
	if err != nil {
		return err
	}
	if !isNew {
		b.Queue(`update ravenbot.items set v = $3, record = $4 where kind = $1 and name = $2`,
			keyText(kind), keyText(name), recordVersion, record)
		return nil
	}
	b.Queue(`insert into ravenbot.items (kind, name, v, record) values ($1, $2, $3, $4) on conflict do nothing`,
		keyText(kind), keyText(name), recordVersion, record).Exec(orConflict(fmt.Sprintf("%s %q", kind, name)))
	return nil
}

// orConflict returns what checks the insertion of a row that was not there to be locked: another process may have
// inserted it meanwhile, and the transaction has to be repeated then.
func orConflict(what string) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 {
			return &conflictError{fmt.Errorf("%s was made meanwhile", what)}
		}
		return nil
	}
}
