package bolt

import (
	"bytes"
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

// SwapItem replaces an item by another, or by none, and stores posts in the same transaction. It
// returns false and changes nothing where the item is another than was.
func (db *DB) SwapItem(
	ctx context.Context,
	kind, name string,
	was, now json.RawMessage,
	posts []store.Post,
) (bool, error) {
	var swapped bool
	err := db.update(ctx, func(tx *tx) error {
		b, err := tx.top(itemsBucket).createNested(kind)
		if err != nil {
			return err
		}
		var kept json.RawMessage
		if _, err := b.get([]byte(name), &kept); err != nil {
			return err
		}
		// Byte by byte: the caller got was from here, so that an equal value written otherwise is a
		// change.
		if swapped = bytes.Equal(kept, was); !swapped {
			return nil
		}
		switch {
		case now != nil:
			err = b.put([]byte(name), now)
		case was != nil:
			err = b.delete([]byte(name))
		}
		if err != nil {
			return err
		}
		return db.savePosts(tx, posts)
	})
	if err != nil {
		return false, fmt.Errorf("replace %s %q: %w", kind, name, err)
	}
	return swapped, nil
}
