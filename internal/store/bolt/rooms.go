package bolt

import (
	"context"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"ravenbot/internal/store"
)

// keepEntries is how many lines of a web room are kept.
const keepEntries = 2000

// PutEntry writes a line of a web room, in the place of an earlier one with the
// same ID, and gives it back with its Seq.
func (db *DB) PutEntry(ctx context.Context, e store.Entry) (store.Entry, error) {
	out := e
	err := db.update(ctx, func(tx *bbolt.Tx) error {
		room, err := tx.Bucket([]byte(roomsBucket)).CreateBucketIfNotExists([]byte(e.Room))
		if err != nil {
			return err
		}
		ids, err := tx.Bucket([]byte(entriesBucket)).CreateBucketIfNotExists([]byte(e.Room))
		if err != nil {
			return err
		}
		out.Seq = 0
		if _, err := db.get(ids, []byte(e.ID), &out.Seq); err != nil {
			return err
		}
		if out.Seq == 0 {
			if out.Seq, err = room.NextSequence(); err != nil {
				return err
			}
			if err := put(ids, []byte(e.ID), out.Seq); err != nil {
				return err
			}
		}
		if err := put(room, seqKey(out.Seq), out); err != nil {
			return err
		}
		return db.dropEntry(room, ids, out.Seq)
	})
	if err != nil {
		return store.Entry{}, fmt.Errorf("store a line of room %s: %w", e.Room, err)
	}
	return out, nil
}

// dropEntry removes the line that newest pushes out.
func (db *DB) dropEntry(room, ids *bbolt.Bucket, newest uint64) error {
	if newest <= keepEntries {
		return nil
	}
	key := seqKey(newest - keepEntries)
	var old store.Entry
	found, err := db.get(room, key, &old)
	if err != nil || !found {
		return err
	}
	if err := ids.Delete([]byte(old.ID)); err != nil {
		return err
	}
	return room.Delete(key)
}

// Entries gives up to n lines of a web room with Seq below before (0: the
// newest), oldest first.
func (db *DB) Entries(ctx context.Context, room string, before uint64, n int) ([]store.Entry, error) {
	var list []store.Entry
	err := db.view(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(roomsBucket)).Bucket([]byte(room))
		if b == nil {
			return nil
		}
		c := b.Cursor()
		k, v := c.Last()
		if before > 0 {
			c.Seek(seqKey(before))
			k, v = c.Prev()
		}
		for ; k != nil && len(list) < n; k, v = c.Prev() {
			var e store.Entry
			if err := db.decode(k, v, &e); err != nil {
				return err
			}
			list = append(list, e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load room %s: %w", room, err)
	}
	slices.Reverse(list)
	return list, nil
}

// Rooms lists the names of the web rooms that hold anything.
func (db *DB) Rooms(ctx context.Context) ([]string, error) {
	var rooms []string
	err := db.view(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(roomsBucket)).ForEachBucket(func(k []byte) error {
			rooms = append(rooms, string(k))
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list rooms: %w", err)
	}
	return rooms, nil
}

// DeleteRoom removes all lines of a web room; there may be none.
func (db *DB) DeleteRoom(ctx context.Context, room string) error {
	err := db.update(ctx, func(tx *bbolt.Tx) error {
		for _, name := range []string{roomsBucket, entriesBucket} {
			b := tx.Bucket([]byte(name))
			if b.Bucket([]byte(room)) == nil {
				continue
			}
			if err := b.DeleteBucket([]byte(room)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete room %s: %w", room, err)
	}
	return nil
}
