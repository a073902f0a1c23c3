package bolt

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/store"
)

// keepSeen is how long an item that no feed lists any more is remembered;
// keepRuns is how many runs of a digest are kept.
const (
	keepSeen = 90 * 24 * time.Hour
	keepRuns = 200
)

// LoadFeed gives what is remembered of a feed; false says nothing is.
func (db *DB) LoadFeed(ctx context.Context, url string) (store.Feed, bool, error) {
	var f store.Feed
	var found bool
	err := db.view(func(tx *bbolt.Tx) (err error) {
		found, err = db.get(tx.Bucket([]byte(feedsBucket)), feedKey(url), &f)
		return err
	})
	if err != nil {
		return store.Feed{}, false, fmt.Errorf("load feed %s: %w", url, err)
	}
	return f, found, nil
}

// SaveFeed keeps what is to be remembered of a feed.
func (db *DB) SaveFeed(ctx context.Context, f store.Feed) error {
	err := db.update(ctx, func(tx *bbolt.Tx) error {
		return put(tx.Bucket([]byte(feedsBucket)), feedKey(f.URL), f)
	})
	if err != nil {
		return fmt.Errorf("store feed %s: %w", f.URL, err)
	}
	return nil
}

// feedKey keeps within bbolt's longest key; no URL in use comes near.
func feedKey(url string) []byte { return []byte(url[:min(len(url), bbolt.MaxKeySize)]) }

// LastRuns gives the newest n runs of a digest, newest first.
func (db *DB) LastRuns(ctx context.Context, digest string, n int) ([]store.Run, error) {
	var runs []store.Run
	err := db.view(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(runsBucket)).Bucket([]byte(digest))
		if b == nil {
			return nil
		}
		c := b.Cursor()
		for k, v := c.Last(); k != nil && len(runs) < n; k, v = c.Prev() {
			var r store.Run
			if err := db.decode(k, v, &r); err != nil {
				return err
			}
			runs = append(runs, r)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load runs of digest %s: %w", digest, err)
	}
	return runs, nil
}

// Seen tells which of the item ids a digest has seen before, and whether it has
// seen any at all.
func (db *DB) Seen(ctx context.Context, digest string, ids []string) (seen map[string]bool, ever bool, err error) {
	seen = map[string]bool{}
	err = db.view(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(seenBucket)).Bucket([]byte(digest))
		if b == nil {
			return nil
		}
		ever = true
		for _, id := range ids {
			if b.Get([]byte(id)) != nil {
				seen[id] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("load items seen by digest %s: %w", digest, err)
	}
	return seen, ever, nil
}

// FinishRun records a run, the ids of all items that it saw (none where it
// failed), and its posts, in one transaction. A second run for the same due
// instant returns false and changes nothing.
func (db *DB) FinishRun(ctx context.Context, r store.Run, saw []string, posts []store.Post) (bool, error) {
	var isNew bool
	err := db.update(ctx, func(tx *bbolt.Tx) error {
		runs, err := tx.Bucket([]byte(runsBucket)).CreateBucketIfNotExists([]byte(r.Digest))
		if err != nil {
			return err
		}
		if isNew = runs.Get(timeKey(r.Due)) == nil; !isNew {
			return nil
		}
		if err := put(runs, timeKey(r.Due), r); err != nil {
			return err
		}
		if err := dropOldest(runs, keepRuns); err != nil {
			return err
		}
		if err := db.markSeen(tx, r, saw); err != nil {
			return err
		}
		return db.record(tx, posts)
	})
	if err != nil {
		return false, fmt.Errorf("store run of digest %s: %w", r.Digest, err)
	}
	return isNew, nil
}

// AmendRun writes a run again, in its place, and forgets items that it saw.
func (db *DB) AmendRun(ctx context.Context, r store.Run, forget []string) error {
	err := db.update(ctx, func(tx *bbolt.Tx) error {
		runs := tx.Bucket([]byte(runsBucket)).Bucket([]byte(r.Digest))
		if runs == nil {
			return store.ErrNotFound
		}
		if seen := tx.Bucket([]byte(seenBucket)).Bucket([]byte(r.Digest)); seen != nil {
			for _, id := range forget {
				if err := seen.Delete([]byte(id)); err != nil {
					return err
				}
			}
		}
		return put(runs, timeKey(r.Due), r)
	})
	if err != nil {
		return fmt.Errorf("amend run of digest %s: %w", r.Digest, err)
	}
	return nil
}

func (db *DB) markSeen(tx *bbolt.Tx, r store.Run, saw []string) error {
	if len(saw) == 0 {
		return nil
	}
	b, err := tx.Bucket([]byte(seenBucket)).CreateBucketIfNotExists([]byte(r.Digest))
	if err != nil {
		return err
	}
	for _, id := range saw {
		if err := put(b, []byte(id), r.Ended); err != nil {
			return err
		}
	}
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		var last time.Time
		if err := db.decode(k, v, &last); err != nil {
			return err
		}
		if last.Before(r.Ended.Add(-keepSeen)) {
			if err := c.Delete(); err != nil {
				return err
			}
		}
	}
	return nil
}

func dropOldest(b *bbolt.Bucket, keep int) error {
	var keys [][]byte
	if err := b.ForEach(func(k, _ []byte) error { keys = append(keys, k); return nil }); err != nil {
		return err
	}
	for i := 0; i < len(keys)-keep; i++ {
		if err := b.Delete(keys[i]); err != nil {
			return err
		}
	}
	return nil
}
