package bolt

import (
	"context"
	"encoding/json"
	"fmt"

	"ravenbot/internal/store"
)

// SaveItem stores what was made through the API or in chat, under its kind and name. It
// returns store.ErrExists where the name is taken and overwrite is false.
func (db *DB) SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error {
	err := db.update(ctx, func(tx *tx) error {
		b, err := tx.top(itemsBucket).createNested(kind)
		if err != nil {
			return err
		}
		if !overwrite && b.has([]byte(name)) {
			return store.ErrExists
		}
		return b.put([]byte(name), item)
	})
	if err != nil {
		return fmt.Errorf("store %s %q: %w", kind, name, err)
	}
	return nil
}

// Items returns all items of a kind, by name.
func (db *DB) Items(_ context.Context, kind string) (map[string]json.RawMessage, error) {
	items := map[string]json.RawMessage{}
	err := db.view(func(tx *tx) error {
		b := tx.top(itemsBucket).nested(kind)
		if b == nil {
			return nil
		}
		return b.each(func(k, v []byte) error {
			var item json.RawMessage
			err := db.decode(k, v, &item)
			items[string(k)] = item
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind, err)
	}
	return items, nil
}

// DeleteItem removes an item. It returns store.ErrNotFound where there is none.
func (db *DB) DeleteItem(ctx context.Context, kind, name string) error {
	err := db.update(ctx, func(tx *tx) error {
		b := tx.top(itemsBucket).nested(kind)
		if b == nil || !b.has([]byte(name)) {
			return store.ErrNotFound
		}
		return b.delete([]byte(name))
	})
	if err != nil {
		return fmt.Errorf("remove %s %q: %w", kind, name, err)
	}
	return nil
}
