package bolt

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ravenbot/internal/store"
)

// keepSeen is how long an item is remembered that no feed lists any more; keepRuns is how
// many runs of a digest are kept.
const (
	keepSeen = 90 * 24 * time.Hour
	keepRuns = 200
)

// LoadFeed returns the record of a feed. It returns false where there is none.
func (db *DB) LoadFeed(ctx context.Context, url string) (store.Feed, bool, error) {
	var f store.Feed
	var found bool
	err := db.view(func(tx *tx) (err error) {
		found, err = tx.top(feedsBucket).get(feedKey(url), &f)
		return err
	})
	if err != nil {
		return store.Feed{}, false, fmt.Errorf("load feed %s: %w", url, err)
	}
	return f, found, nil
}

// SaveFeeds stores the records of feeds, all or none.
func (db *DB) SaveFeeds(ctx context.Context, feeds ...store.Feed) error {
	err := db.update(ctx, func(tx *tx) error {
		for _, f := range feeds {
			if err := tx.top(feedsBucket).put(feedKey(f.URL), f); err != nil {
				return fmt.Errorf("%s: %w", f.URL, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store feeds: %w", err)
	}
	return nil
}

// feedKey returns a key within bbolt's limit, to which longer addresses are cut; no URL in use
// comes near it.
func feedKey(url string) []byte { return []byte(url[:min(len(url), maxKey)]) }

// Item returns one item of a kind. It returns store.ErrNotFound where there is none.
func (db *DB) Item(_ context.Context, kind, name string) (json.RawMessage, error) {
	var item json.RawMessage
	err := db.view(func(tx *tx) error {
		b := tx.top(itemsBucket).nested(kind)
		if b == nil {
			return store.ErrNotFound
		}
		found, err := b.get([]byte(name), &item)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load %s %q: %w", kind, name, err)
	}
	return item, nil
}

// LastRuns returns the newest n runs of a digest, newest first.
func (db *DB) LastRuns(ctx context.Context, digest string, n int) ([]store.Run, error) {
	var runs []store.Run
	err := db.view(func(tx *tx) error {
		b := tx.top(runsBucket).nested(digest)
		if b == nil {
			return nil
		}
		c := b.cursor()
		for k, v := c.last(); k != nil && len(runs) < n; k, v = c.prev() {
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

// SeenItems returns which of some items a digest has seen, and whether it ever saw any.
func (db *DB) SeenItems(
	ctx context.Context,
	digest string,
	ids []string,
) (seen map[string]bool, ever bool, err error) {
	seen = map[string]bool{}
	err = db.view(func(tx *tx) error {
		b := tx.top(seenBucket).nested(digest)
		if b == nil {
			return nil
		}
		ever = true
		for _, id := range ids {
			if b.has([]byte(id)) {
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

// FinishRun stores a run, the ids of the items that it saw (none where it failed), its posts and items of any kind, in
// one transaction. It returns false and changes nothing where a run for the same due time is stored.
func (db *DB) FinishRun(
	ctx context.Context,
	r store.Run,
	saw []string,
	posts []store.Post,
	items ...store.Item,
) (bool, error) {
	var isNew bool
	err := db.update(ctx, func(tx *tx) error {
		runs, err := tx.top(runsBucket).createNested(r.Digest)
		if err != nil {
			return err
		}
		// This check makes repeating a run harmless: the posts of the first one stay.
		if isNew = !runs.has(timeKey(r.Due)); !isNew {
			return nil
		}
		if err := runs.put(timeKey(r.Due), r); err != nil {
			return err
		}
		if err := deleteOldest(runs, keepRuns); err != nil {
			return err
		}
		if err := db.markSeen(tx, r, saw); err != nil {
			return err
		}
		for _, i := range items {
			kind, err := tx.top(itemsBucket).createNested(i.Kind)
			if err != nil {
				return err
			}
			if err := kind.put([]byte(i.Name), i.Data); err != nil {
				return err
			}
		}
		return db.savePosts(tx, posts)
	})
	if err != nil {
		return false, fmt.Errorf("store run of digest %s: %w", r.Digest, err)
	}
	return isNew, nil
}

// AmendRun replaces a run and makes items unseen again. It returns store.ErrNotFound where
// the digest never ran.
func (db *DB) AmendRun(ctx context.Context, r store.Run, forget []string) error {
	err := db.update(ctx, func(tx *tx) error {
		runs := tx.top(runsBucket).nested(r.Digest)
		if runs == nil {
			return store.ErrNotFound
		}
		// A digest whose runs all failed has seen nothing, and has no such bucket.
		if seen := tx.top(seenBucket).nested(r.Digest); seen != nil {
			for _, id := range forget {
				if err := seen.delete([]byte(id)); err != nil {
					return err
				}
			}
		}
		return runs.put(timeKey(r.Due), r)
	})
	if err != nil {
		return fmt.Errorf("amend run of digest %s: %w", r.Digest, err)
	}
	return nil
}

// markSeen notes when a digest saw items last.
func (db *DB) markSeen(tx *tx, r store.Run, saw []string) error {
	if len(saw) == 0 {
		return nil
	}
	b, err := tx.top(seenBucket).createNested(r.Digest)
	if err != nil {
		return err
	}
	for _, id := range saw {
		if err := b.put([]byte(id), r.Ended); err != nil {
			return err
		}
	}
	return nil // items that are still listed got a new time, so only those that left their feed grow old
}

// deleteOldest deletes the first records of a bucket whose keys sort by time, all but the last keep.
func deleteOldest(b *bucket, keep int) error {
	var keys [][]byte
	if err := b.each(func(k, _ []byte) error { keys = append(keys, k); return nil }); err != nil {
		return err
	}
	for i := 0; i < len(keys)-keep; i++ {
		if err := b.delete(keys[i]); err != nil {
			return err
		}
	}
	return nil
}
