package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/store"
)

// incompleteFormat is the format of a file that a migration from another store has not filled yet. Older
// versions refuse it as one of a newer version.
const incompleteFormat = 1 << 30

// cutOff is what was found of such a file.
const cutOff = "a migration into it was cut off"

// errCut is returned for a file that a migration has not filled.
func errCut(path string) error {
	return damagedError(path, cutOff,
		"run ravenbot store migrate again, which begins from the start")
}

// OpenTarget opens a new or empty store to be filled with the records of another one, and one that a migration
// has begun to fill, which is emptied. It returns store.ErrExists where there is a store that holds anything.
func OpenTarget(ctx context.Context, path string, now func() time.Time) (*DB, error) {
	if fresh, err := isUnused(path); err == nil && !fresh {
		if err := checkReplaceable(path, now); err != nil {
			return nil, err
		}
		for _, file := range []string{path, walPath(path), markerPath(path)} {
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, fmt.Errorf("begin store from the start: %w", err)
			}
		}
	}
	db, err := Open(path, now)
	if err != nil {
		return nil, err
	}
	if err := db.setFormat(ctx, incompleteFormat); err != nil {
		return nil, errors.Join(fmt.Errorf("begin to fill store %s: %w", path, err), db.Close())
	}
	return db, nil
}

// checkReplaceable returns store.ErrExists if a store holds records and is not the copy of a migration that was cut off.
func checkReplaceable(path string, now func() time.Time) error {
	db, err := Open(path, now)
	if damaged, ok := errors.AsType[*store.DamagedError](err); ok && damaged.What == cutOff {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at store %s: %w", path, err)
	}
	err = db.view(func(tx *tx) error {
		return tx.bolt.ForEach(func(name []byte, b *bbolt.Bucket) error {
			if first, _ := b.Cursor().First(); first != nil && string(name) != formatBucket {
				return store.ErrExists
			}
			return nil
		})
	})
	if err = errors.Join(err, db.Close()); errors.Is(err, store.ErrExists) {
		return fmt.Errorf("fill store %s: it holds records: %w", path, store.ErrExists)
	}
	return err
}

// setFormat writes the number of the file's format.
func (db *DB) setFormat(ctx context.Context, format int) error {
	return db.update(ctx, func(tx *tx) error {
		return tx.top(formatBucket).put([]byte(formatBucket), formatRecord{format})
	})
}

// Complete marks a store that OpenTarget returned as filled.
func (db *DB) Complete(ctx context.Context) error {
	if err := db.setFormat(ctx, formatVersion); err != nil {
		return fmt.Errorf("complete store %s: %w", db.path, err)
	}
	return nil
}
