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

// How long what is done with is kept: conversations to be caught up with, posts
// that were given up, and turns for which a summary stands.
const (
	keepHeard   = 30 * 24 * time.Hour
	keepGivenUp = 7 * 24 * time.Hour
	keepTurns   = 30 * 24 * time.Hour

	keepFeedback  = 365 * 24 * time.Hour
	keepShown     = 30 * 24 * time.Hour
	keepUsage     = 400 * 24 * time.Hour
	keepCalls     = 90 * 24 * time.Hour
	keepApprovals = 30 * 24 * time.Hour
)

// Prune forgets identities of messages and posts that were done long ago, posts
// that were given up then, conversations that were last heard long ago, feedback and
// usage of more than a year ago, which turns posts of more than 30 days ago show, old calls and approvals, and old turns for which a
// summary stands.
func (db *DB) Prune(ctx context.Context) error {
	now := db.now()
	err := db.update(ctx, func(tx *tx) error {
		if err := db.drop(tx.top(heardBucket), func(k, v []byte) (bool, error) {
			var h chat.Heard
			err := db.decode(k, v, &h)
			return h.At.Before(now.Add(-keepHeard)), err
		}); err != nil {
			return err
		}
		for _, name := range []string{doneBucket, streamsBucket} {
			if err := db.drop(tx.top(name), func(k, v []byte) (bool, error) {
				var r doneRecord
				err := db.decode(k, v, &r)
				return r.Done.Before(now.Add(-remember)), err
			}); err != nil {
				return err
			}
		}
		if err := db.drop(tx.top(outboxBucket), func(k, v []byte) (bool, error) {
			var p store.Post
			err := db.decode(k, v, &p)
			return p.Error != "" && p.At.Before(now.Add(-keepGivenUp)), err
		}); err != nil {
			return err
		}
		if err := db.drop(tx.top(feedbackBucket), func(k, v []byte) (bool, error) {
			var f store.Feedback
			err := db.decode(k, v, &f)
			return f.At.Before(now.Add(-keepFeedback)), err
		}); err != nil {
			return err
		}
		if err := db.drop(tx.top(shownBucket), func(k, v []byte) (bool, error) {
			var r shownRecord
			err := db.decode(k, v, &r)
			return r.At.Before(now.Add(-keepShown)), err
		}); err != nil {
			return err
		}
		if err := db.drop(tx.top(callsBucket), func(k, v []byte) (bool, error) {
			var c store.ToolCall
			err := db.decode(k, v, &c)
			return c.Began.Before(now.Add(-keepCalls)), err
		}); err != nil {
			return err
		}
		if err := db.drop(tx.top(approvalsBucket), func(k, v []byte) (bool, error) {
			var a store.Approval
			err := db.decode(k, v, &a)
			return a.At.Before(now.Add(-keepApprovals)), err
		}); err != nil {
			return err
		}
		oldest := now.Add(-keepUsage).UTC().Format(dayFormat)
		if err := db.drop(tx.top(usageBucket), func(k, _ []byte) (bool, error) { return string(k) < oldest, nil }); err != nil {
			return err
		}
		return db.pruneTurns(tx, now.Add(-keepTurns))
	})
	if err != nil {
		return fmt.Errorf("prune store: %w", err)
	}
	return nil
}

// pruneTurns removes turns that began before an instant and for which a summary
// stands. Where they were stays known, so that the summary is made anew when one of
// their messages is deleted.
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
		var old [][]byte
		c := turns.cursor()
		for k, v := c.first(); k != nil && binary.BigEndian.Uint64(k) <= s.Upto; k, v = c.after() {
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

// drop removes the records that are old.
func (db *DB) drop(b *bucket, old func(k, v []byte) (bool, error)) error {
	var keys [][]byte
	err := b.each(func(k, v []byte) error {
		is, err := old(k, v)
		if is {
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
