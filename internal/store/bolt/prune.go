package bolt

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// How long records are kept.
const (
	keepLastSeen    = 30 * 24 * time.Hour // of a conversation
	keepUndelivered = 7 * 24 * time.Hour
	keepTurns       = 30 * 24 * time.Hour // that a summary covers

	keepFeedback  = 365 * 24 * time.Hour
	keepShown     = 30 * 24 * time.Hour // which turn a post shows
	keepUsage     = 400 * 24 * time.Hour
	keepCalls     = 90 * 24 * time.Hour
	keepApprovals = 30 * 24 * time.Hour
)

// Prune deletes the records that are older than they are kept. Turns are deleted only
// where a summary covers them.
func (db *DB) Prune(ctx context.Context) error {
	now := db.now()
	err := db.update(ctx, func(tx *tx) error {
		for _, step := range []func() error{
			pruneOlder(db, tx, lastSeenBucket, now.Add(-keepLastSeen), func(h chat.LastSeen) time.Time { return h.At }),
			pruneOlder(db, tx, doneBucket, now.Add(-keepDone), func(r doneRecord) time.Time { return r.Done }),
			pruneOlder(db, tx, streamsBucket, now.Add(-keepDone), func(r doneRecord) time.Time { return r.Done }),
			pruneOlder(db, tx, outboxBucket, now.Add(-keepUndelivered), func(p store.Post) time.Time {
				if p.Error == "" {
					return now // it is still to be sent
				}
				return p.At
			}),
			pruneOlder(db, tx, feedbackBucket, now.Add(-keepFeedback), func(f store.Feedback) time.Time { return f.At }),
			pruneOlder(db, tx, shownTurnsBucket, now.Add(-keepShown), func(r shownRecord) time.Time { return r.At }),
			pruneOlder(db, tx, callsBucket, now.Add(-keepCalls), func(c store.ToolCall) time.Time { return c.Began }),
			pruneOlder(db, tx, approvalsBucket, now.Add(-keepApprovals), func(a store.Approval) time.Time { return a.At }),
		} {
			if err := step(); err != nil {
				return err
			}
		}
		oldest := now.Add(-keepUsage).UTC().Format(dayFormat)
		err := db.deleteWhere(tx.top(usageBucket), func(k, _ []byte) (bool, error) {
			return string(k) < oldest, nil // keys begin with the day
		})
		if err != nil {
			return err
		}
		return db.pruneTurns(tx, now.Add(-keepTurns))
	})
	if err != nil {
		return fmt.Errorf("prune store: %w", err)
	}
	return nil
}

// pruneOlder returns a step that deletes the records of a bucket whose time is before an
// instant.
func pruneOlder[T any](db *DB, tx *tx, bucket string, than time.Time, at func(T) time.Time) func() error {
	return func() error {
		return db.deleteWhere(tx.top(bucket), func(k, v []byte) (bool, error) {
			var record T
			err := db.decode(k, v, &record)
			return at(record).Before(than), err
		})
	}
}

// pruneTurns deletes turns that began before an instant and that a summary covers. The
// index of their messages stays, so that the summary is written again when one of the
// messages is deleted.
func (db *DB) pruneTurns(tx *tx, before time.Time) error {
	return tx.top(summariesBucket).each(func(k, v []byte) error {
		var s conversation.Summary
		if err := db.decode(k, v, &s); err != nil {
			return err
		}
		turns := tx.top(turnsBucket).nested(string(k))
		if turns == nil {
			return nil
		}
		// The keys are collected first: deleting under a cursor of bbolt makes it skip records.
		var old [][]byte
		c := turns.cursor()
		for k, v := c.first(); k != nil && binary.BigEndian.Uint64(k) <= s.Upto; k, v = c.next() {
			var t conversation.Turn
			if err := db.decode(k, v, &t); err != nil {
				return err
			}
			if !t.Began.Before(before) {
				break
			}
			old = append(old, k)
		}
		for _, k := range old {
			if err := turns.delete(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// deleteWhere deletes the records for which match returns true.
func (db *DB) deleteWhere(b *bucket, match func(k, v []byte) (bool, error)) error {
	var keys [][]byte
	err := b.each(func(k, v []byte) error {
		matches, err := match(k, v)
		if matches {
			keys = append(keys, k)
		}
		return err
	})
	for _, k := range keys {
		if err == nil {
			err = b.delete(k)
		}
	}
	return err
}
