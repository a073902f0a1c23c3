package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// SavePosts stores posts until they have an outcome, and sets their Seq. A post whose key is known is
// skipped, and its Seq is 0.
func (db *DB) SavePosts(ctx context.Context, posts []store.Post) error {
	var numbers []uint64
	err := db.write(ctx, func(t *tx) (err error) {
		if numbers, err = t.numberPosts(len(posts)); err != nil {
			return err
		}
		return t.sendAll(func(b *pgx.Batch) error { return db.insertPosts(b, posts, numbers) })
	})
	if err != nil {
		return fmt.Errorf("store posts: %w", err)
	}
	setNumbers(posts, numbers)
	return nil
}

// numberPosts returns numbers for n posts that come behind all that were stored before.
func (t *tx) numberPosts(n int) ([]uint64, error) {
	numbers := make([]uint64, n)
	return numbers, t.send(func(b *pgx.Batch) { nextNumbers(b, "post_seq", numbers) })
}

// insertPosts queues inserting posts under their numbers. The number of a post that is there already becomes 0
// when the batch is done.
func (db *DB) insertPosts(b *pgx.Batch, posts []store.Post, numbers []uint64) error {
	for i, p := range posts {
		p.Seq = numbers[i]
		record, err := encode(p)
		if err != nil {
			return err
		}
		b.Queue(`insert into ravenbot.posts (key, seq, v, record, failed, address, at, owner)
			values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (key) do nothing`,
			keyText(p.Key), int64(p.Seq), recordVersion, record, p.Error != "", keyText(p.To.String()), p.At, db.owner()).
			Exec(func(tag pgconn.CommandTag) error {
				if tag.RowsAffected() == 0 {
					numbers[i] = 0
				}
				return nil
			})
	}
	return nil
}

// setNumbers sets the Seq of posts.
func setNumbers(posts []store.Post, numbers []uint64) {
	for i := range posts {
		posts[i].Seq = numbers[i]
	}
}

// PendingPosts returns the posts without an outcome, in the order in which they were saved: of a member its own.
func (db *DB) PendingPosts(ctx context.Context) ([]store.Post, error) {
	return db.listPosts(ctx, "list pending posts", db.owner(), false)
}

// Undelivered returns the posts that were given up, in the order in which they were saved.
func (db *DB) Undelivered(ctx context.Context) ([]store.Post, error) {
	return db.listPosts(ctx, "list posts given up", 0, true)
}

// Unnotified returns the posts that were given up and whose places were not told, in the order in which they were
// saved: of a member its own.
func (db *DB) Unnotified(ctx context.Context) ([]store.Post, error) {
	list, err := db.listPosts(ctx, "list posts to give notice of", db.owner(), true)
	return slices.DeleteFunc(list, func(p store.Post) bool { return p.Notified }), err
}

// listPosts returns the posts that wait, or those that were given up, of one owner or, for 0, of all.
func (db *DB) listPosts(ctx context.Context, what string, owner int64, failed bool) ([]store.Post, error) {
	list, err := readRecords[store.Post](ctx, db, "posts",
		`select v, record from ravenbot.posts where record is not null and `+ofOwner+` and failed = $2 order by seq`,
		owner, failed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return list, nil
}

// SaveOutcomes stores the outcomes of posts and marks the messages that they answer as done. A post that
// was given up stays with its error, for the operator. An outcome that was stored before changes nothing. It does not
// wait: writers share no transaction here.
func (db *DB) SaveOutcomes(ctx context.Context, outcomes []store.Outcome, _ time.Duration) error {
	err := db.write(ctx, func(t *tx) error {
		posts, err := t.lockPosts(outcomeKeys(outcomes))
		if err != nil || len(posts) == 0 {
			return orUnchanged(err)
		}
		return t.sendAll(func(b *pgx.Batch) error {
			for _, o := range outcomes {
				p, found := posts[o.Key]
				if !found {
					continue
				}
				delete(posts, o.Key) // the first outcome of a post counts
				if err := saveOutcome(b, db.Now(), p, o); err != nil {
					return fmt.Errorf("post %s: %w", o.Key, err)
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("store the outcomes of posts: %w", err)
	}
	return nil
}

// orUnchanged returns err, or errUnchanged where there is none.
func orUnchanged(err error) error {
	if err == nil {
		return errUnchanged
	}
	return err
}

// outcomeKeys returns the keys of the posts that have the outcomes.
func outcomeKeys(outcomes []store.Outcome) []string {
	keys := make([]string, len(outcomes))
	for i, o := range outcomes {
		keys[i] = o.Key
	}
	return keys
}

// lockPosts returns those of some posts that are pending or were given up, by key. Other transactions that
// want to change them wait. All lock in the same order.
func (t *tx) lockPosts(keys []string) (map[string]store.Post, error) {
	posts := map[string]store.Post{}
	return posts, t.send(func(b *pgx.Batch) {
		var key string
		b.Queue(`select v, record, key from ravenbot.posts
			where key = any($1::text[]) and record is not null order by key for update`,
			keyTexts(keys)).Query(eachRecord(t.db, "posts", func(p store.Post) {
			p.Key = parseKey(key) // JSON cannot hold every key
			posts[p.Key] = p
		}, &key))
	})
}

// saveOutcome queues storing the outcome of a post.
func saveOutcome(b *pgx.Batch, now time.Time, p store.Post, o store.Outcome) error {
	b.Queue(`delete from ravenbot.streams where key = $1`, keyText(o.Key))
	if o.Error != "" {
		p.Error = o.Error
		if err := updatePost(b, p); err != nil {
			return err
		}
	} else if err := savePostRef(b, p, o); err != nil {
		return err
	}
	// Also where the post was given up: that is an outcome, and a restart must not answer again.
	return markDone(b, now, p.Messages())
}

// updatePost queues storing a post in the place of what has its key.
func updatePost(b *pgx.Batch, p store.Post) error {
	record, err := encode(p)
	if err != nil {
		return err
	}
	b.Queue(`update ravenbot.posts set v = $2, record = $3, failed = $4 where key = $1`,
		keyText(p.Key), recordVersion, record, p.Error != "")
	return nil
}

// savePostRef queues storing where a post is, under its own key and under that of the post that it
// replaced, and which turn it shows.
func savePostRef(b *pgx.Batch, p store.Post, o store.Outcome) error {
	if err := saveShownTurns(b, p, o); err != nil {
		return err
	}
	done, err := encode(doneRecord{Done: o.At, Ref: o.Ref})
	if err != nil {
		return err
	}
	b.Queue(`update ravenbot.posts set record = null, failed = false, done = $2, done_at = $3 where key = $1`,
		keyText(o.Key), done, o.At)
	// A replacement may have more or fewer messages than the original, and the next edit looks up the
	// original's key.
	if p.Replaces != "" {
		b.Queue(`insert into ravenbot.posts (key, seq, v, failed, done, done_at) values ($1, 0, $2, false, $3, $4)
			on conflict (key) do update set done = excluded.done, done_at = excluded.done_at`,
			keyText(p.Replaces), recordVersion, done, o.At)
	}
	return nil
}

// PostRef returns where a post of the last days is on its platform. It returns false where that is not known.
func (db *DB) PostRef(ctx context.Context, key string) (chat.Ref, bool, error) {
	r, found, err := readRecord[doneRecord](ctx, db, "posts",
		`select v, done from ravenbot.posts where key = $1 and done is not null`, keyText(key))
	if err != nil {
		return chat.Ref{}, false, fmt.Errorf("look for post %s: %w", key, err)
	}
	return r.Ref, found, nil
}

// MarkNotified records that the places of undelivered posts were told so. Unknown keys are skipped.
func (db *DB) MarkNotified(ctx context.Context, keys []string) error {
	err := db.write(ctx, func(t *tx) error {
		posts, err := t.lockPosts(slices.Clone(keys))
		if err != nil || len(posts) == 0 {
			return orUnchanged(err)
		}
		return t.sendAll(func(b *pgx.Batch) error {
			for _, p := range posts {
				p.Notified = true
				if err := updatePost(b, p); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("store which given up posts are known: %w", err)
	}
	return nil
}
