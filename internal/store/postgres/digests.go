package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// keepSeen is how long an item is remembered that no feed lists any more; keepRuns is how many runs of a
// digest are kept.
const (
	keepSeen = 90 * 24 * time.Hour
	keepRuns = 200
)

// LoadFeed returns the record of a feed. It returns false where there is none.
func (db *DB) LoadFeed(ctx context.Context, url string) (store.Feed, bool, error) {
	f, found, err := readRecord[store.Feed](ctx, db, "feeds",
		`select v, record from ravenbot.feeds where url = $1`, foreignKey(url))
	if err != nil {
		return store.Feed{}, false, fmt.Errorf("load feed %s: %w", url, err)
	}
	return f, found, nil
}

// SaveFeeds stores the records of feeds, all or none.
func (db *DB) SaveFeeds(ctx context.Context, feeds ...store.Feed) error {
	keys, records := make([]string, len(feeds)), make([]string, len(feeds))
	// Sorted, so that two transactions with the same feeds do not lock their rows crosswise.
	feeds = slices.SortedFunc(slices.Values(feeds), func(a, b store.Feed) int { return strings.Compare(a.URL, b.URL) })
	var err error
	for n, f := range feeds {
		if records[n], err = encode(f); err != nil {
			return fmt.Errorf("store feed %s: %w", f.URL, err)
		}
		keys[n] = foreignKey(f.URL)
	}
	err = db.write(ctx, func(t *tx) error {
		_, err := t.exec(`insert into ravenbot.feeds (url, v, record)
			select url, $2, record::json from unnest($1::text[], $3::text[]) as f (url, record)
			on conflict (url) do update set v = excluded.v, record = excluded.record`, keys, recordVersion, records)
		return err
	})
	if err != nil {
		return fmt.Errorf("store feeds: %w", err)
	}
	return nil
}

// LastRuns returns the newest n runs of a digest, newest first.
func (db *DB) LastRuns(ctx context.Context, digest string, n int) ([]store.Run, error) {
	runs, err := readRecords[store.Run](ctx, db, "runs",
		`select v, record from ravenbot.runs where digest = $1 order by due desc limit $2`, keyText(digest), max(n, 0))
	if err != nil {
		return nil, fmt.Errorf("load runs of digest %s: %w", digest, err)
	}
	return runs, nil
}

// SeenItems returns which of some items a digest has seen, and whether it ever saw any: the first run of a digest is
// told by that.
func (db *DB) SeenItems(
	ctx context.Context,
	digest string,
	ids []string,
) (seen map[string]bool, ever bool, err error) {
	byKey := map[string]string{}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = foreignKey(id)
		byKey[keys[i]] = id
	}
	err = db.read(ctx, func(ctx context.Context) error {
		seen = map[string]bool{}
		err := db.pool.QueryRow(ctx, `select exists (select from ravenbot.digests where name = $1)`,
			keyText(digest)).Scan(&ever)
		if err != nil {
			return err
		}
		var key string
		return db.query(ctx, `select item from ravenbot.seen_items where digest = $1 and item = any($2::text[])`,
			[]any{keyText(digest), keys}, each([]any{&key}, func() error {
				seen[byKey[key]] = true
				return nil
			}))
	})
	if err != nil {
		return nil, false, fmt.Errorf("load items seen by digest %s: %w", digest, err)
	}
	return seen, ever, nil
}

// FinishRun stores a run, the ids of the items that it saw (none where it failed), its posts and items of any
// kind, in one transaction. It returns false and changes nothing where a run for the same due time is stored, by
// whichever process.
func (db *DB) FinishRun(
	ctx context.Context,
	r store.Run,
	saw []string,
	posts []store.Post,
	items ...store.Item,
) (bool, error) {
	record, err := encode(r)
	var isNew bool
	var numbers []uint64
	if err == nil {
		err = db.write(ctx, func(t *tx) (err error) {
			isNew = false
			err = t.send(func(b *pgx.Batch) {
				// The key makes repeating a run harmless: the posts of the first one stay.
				b.Queue(`insert into ravenbot.runs (digest, due, v, record) values ($1, $2, $3, $4) on conflict do nothing`,
					keyText(r.Digest), timeKey(r.Due), recordVersion, record).Exec(func(tag pgconn.CommandTag) error {
					isNew = tag.RowsAffected() > 0
					return nil
				})
			})
			if err != nil || !isNew {
				return orUnchanged(err)
			}
			if numbers, err = t.numberPosts(len(posts)); err != nil {
				return err
			}
			return t.sendAll(func(b *pgx.Batch) error {
				b.Queue(`delete from ravenbot.runs where digest = $1 and due <
					(select due from ravenbot.runs where digest = $1 order by due desc offset $2 limit 1)`,
					keyText(r.Digest), keepRuns-1)
				if err := markSeen(b, r, saw); err != nil {
					return err
				}
				for _, i := range items {
					if err := t.putItem(b, i); err != nil {
						return err
					}
				}
				return db.insertPosts(b, posts, numbers)
			})
		})
	}
	if err != nil {
		return false, fmt.Errorf("store run of digest %s: %w", r.Digest, err)
	}
	if isNew {
		setNumbers(posts, numbers)
	}
	return isNew, nil
}

// putItem queues storing an item in the place of what has its name.
func (t *tx) putItem(b *pgx.Batch, i store.Item) error {
	record, err := encode(i.Data)
	if err != nil {
		return err
	}
	b.Queue(`insert into ravenbot.items (kind, name, v, record) values ($1, $2, $3, $4)
		on conflict (kind, name) do update set v = excluded.v, record = excluded.record`,
		keyText(i.Kind), keyText(i.Name), recordVersion, record)
	t.noteChange(b, itemKind(i.Kind))
	return nil
}

// markSeen queues remembering items. Those that are still listed get a new time, so that only those that left
// their feed grow old.
func markSeen(b *pgx.Batch, r store.Run, saw []string) error {
	if len(saw) == 0 {
		return nil
	}
	record, err := encode(r.Ended)
	if err != nil {
		return err
	}
	b.Queue(`insert into ravenbot.digests (name) values ($1) on conflict do nothing`, keyText(r.Digest))
	known := map[string]bool{}
	var keys []string
	var wholes []*string
	for _, id := range saw {
		key := foreignKey(id)
		if known[key] {
			continue
		}
		known[key] = true
		keys, wholes = append(keys, key), append(wholes, wholeKey(id, key))
	}
	b.Queue(`insert into ravenbot.seen_items (digest, item, whole, v, record, at)
		select $1, item, whole, $4, $5, $6 from unnest($2::text[], $3::text[]) as s (item, whole)
		on conflict (digest, item) do update set v = excluded.v, record = excluded.record, at = excluded.at`,
		keyText(r.Digest), keys, wholes, recordVersion, record, r.Ended)
	return nil
}

// wholeKey returns what a key stands for where that cannot be told from the key, else nil.
func wholeKey(id, key string) *string {
	if whole := keyText(id); whole != key {
		return &whole
	}
	return nil
}

// AmendRun replaces a run and makes items unseen again. It returns store.ErrNotFound where the digest never
// ran.
func (db *DB) AmendRun(ctx context.Context, r store.Run, forget []string) error {
	record, err := encode(r)
	keys := make([]string, len(forget))
	for i, id := range forget {
		keys[i] = foreignKey(id)
	}
	if err == nil {
		err = db.write(ctx, func(t *tx) error {
			return t.send(func(b *pgx.Batch) {
				b.Queue(`insert into ravenbot.runs (digest, due, v, record)
					select $1, $2, $3, $4 where exists (select from ravenbot.runs where digest = $1)
					on conflict (digest, due) do update set v = excluded.v, record = excluded.record`,
					keyText(r.Digest), timeKey(r.Due), recordVersion, record).Exec(func(tag pgconn.CommandTag) error {
					if tag.RowsAffected() == 0 {
						return store.ErrNotFound
					}
					return nil
				})
				b.Queue(`delete from ravenbot.seen_items where digest = $1 and item = any($2::text[])`,
					keyText(r.Digest), keys)
			})
		})
	}
	if err != nil {
		return fmt.Errorf("amend run of digest %s: %w", r.Digest, err)
	}
	return nil
}

// SaveSubscription stores a subscription and replaces one of the same conversation to the same feed.
func (db *DB) SaveSubscription(ctx context.Context, s store.Subscription) error {
	record, err := encode(s)
	if err == nil {
		err = db.write(ctx, func(t *tx) error {
			_, err := t.exec(`insert into ravenbot.subscriptions (address, url, v, record) values ($1, $2, $3, $4)
				on conflict (address, url) do update set v = excluded.v, record = excluded.record`,
				keyText(s.To.String()), foreignKey(s.URL), recordVersion, record)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("store subscription of %s: %w", s.To, err)
	}
	return nil
}

// DeleteSubscription deletes a subscription. It returns store.ErrNotFound where there is none.
func (db *DB) DeleteSubscription(ctx context.Context, to chat.Address, url string) error {
	err := db.deleteOne(ctx, `delete from ravenbot.subscriptions where address = $1 and url = $2`,
		keyText(to.String()), foreignKey(url))
	if err != nil {
		return fmt.Errorf("remove subscription of %s: %w", to, err)
	}
	return nil
}

// deleteOne runs a statement that deletes. It returns store.ErrNotFound where that deletes nothing.
func (db *DB) deleteOne(ctx context.Context, sql string, args ...any) error {
	return db.write(ctx, func(t *tx) error {
		n, err := t.exec(sql, args...)
		if err == nil && n == 0 {
			err = store.ErrNotFound
		}
		return err
	})
}

// Subscriptions returns all subscriptions, by conversation.
func (db *DB) Subscriptions(ctx context.Context) ([]store.Subscription, error) {
	list, err := readRecords[store.Subscription](ctx, db, "subscriptions",
		`select v, record from ravenbot.subscriptions order by address, url`)
	if err != nil {
		return nil, fmt.Errorf("list subscriptions: %w", err)
	}
	return list, nil
}
