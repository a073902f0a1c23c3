package bolt

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// remember is how long the identity of a message or post that is done is kept:
// longer than any platform's last redelivery.
const remember = 48 * time.Hour

// inboxRecord is a message on its way, or only when it was done.
type inboxRecord struct {
	Received *store.Received `json:"received,omitempty"`
	Seq      uint64          `json:"seq,omitempty"`
	Done     time.Time       `json:"done,omitzero"`
}

// postRecord finds a post by its key.
type postRecord struct {
	Seq  uint64    `json:"seq,omitempty"`
	Done time.Time `json:"done,omitzero"`
	Ref  chat.Ref  `json:"ref,omitzero"`
}

// Accept keeps a message until it has been answered. It returns false, and keeps
// nothing, when a message with the same key was accepted before.
func (db *DB) Accept(ctx context.Context, r store.Received) (bool, error) {
	var isNew bool
	key := []byte(r.Message.Key())
	err := db.update(ctx, func(tx *bbolt.Tx) error {
		inbox, waiting := tx.Bucket([]byte(inboxBucket)), tx.Bucket([]byte(waitingBucket))
		if isNew = inbox.Get(key) == nil; !isNew {
			return nil
		}
		seq, err := waiting.NextSequence()
		if err != nil {
			return err
		}
		if err := waiting.Put(seqKey(seq), seal(key)); err != nil {
			return err
		}
		return put(inbox, key, inboxRecord{Received: &r, Seq: seq})
	})
	if err != nil {
		return false, fmt.Errorf("store message %s: %w", key, err)
	}
	return isNew, nil
}

// Waiting lists the messages without an outcome, in order of arrival.
func (db *DB) Waiting(ctx context.Context) ([]store.Received, error) {
	var list []store.Received
	err := db.view(func(tx *bbolt.Tx) error {
		inbox := tx.Bucket([]byte(inboxBucket))
		return tx.Bucket([]byte(waitingBucket)).ForEach(func(k, v []byte) error {
			key, err := unseal(v)
			if err != nil {
				return damaged(db.path, fmt.Sprintf("record %x: %v", k, err), restore)
			}
			var r inboxRecord
			found, err := db.get(inbox, key, &r)
			if err != nil {
				return err
			}
			if found && r.Received != nil {
				list = append(list, *r.Received)
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list waiting messages: %w", err)
	}
	return list, nil
}

// Answered records, in one transaction, the turn that answered a message and the
// posts that will say so. turn may be nil (a command keeps no history), and so
// may posts: then the message is done.
func (db *DB) Answered(ctx context.Context, m chat.Message, turn *conversation.Turn, posts []store.Post) error {
	err := db.update(ctx, func(tx *bbolt.Tx) error {
		if turn != nil {
			if err := db.putTurn(tx, m.Conversation, turn); err != nil {
				return err
			}
		}
		if len(posts) == 0 {
			return db.done(tx, m.Key())
		}
		return db.record(tx, posts)
	})
	if err != nil {
		return fmt.Errorf("store the answer to %s: %w", m.Key(), err)
	}
	return nil
}

// Record keeps posts until they have been sent, and sets their Seq. A post whose
// key is known is left out.
func (db *DB) Record(ctx context.Context, posts []store.Post) error {
	if err := db.update(ctx, func(tx *bbolt.Tx) error { return db.record(tx, posts) }); err != nil {
		return fmt.Errorf("store posts: %w", err)
	}
	return nil
}

func (db *DB) record(tx *bbolt.Tx, posts []store.Post) error {
	outbox, keys := tx.Bucket([]byte(outboxBucket)), tx.Bucket([]byte(postsBucket))
	for i := range posts {
		key := []byte(posts[i].Key)
		if keys.Get(key) != nil {
			continue
		}
		seq, err := outbox.NextSequence()
		if err != nil {
			return err
		}
		posts[i].Seq = seq
		if err := put(keys, key, postRecord{Seq: seq}); err != nil {
			return err
		}
		if err := put(outbox, seqKey(seq), posts[i]); err != nil {
			return err
		}
	}
	return nil
}

// Pending lists the posts without an outcome, in the order of recording.
func (db *DB) Pending(ctx context.Context) ([]store.Post, error) {
	return db.posts("list pending posts", func(p store.Post) bool { return p.Error == "" })
}

// GivenUp lists the posts that could not be delivered.
func (db *DB) GivenUp(ctx context.Context) ([]store.Post, error) {
	return db.posts("list posts given up", func(p store.Post) bool { return p.Error != "" })
}

func (db *DB) posts(what string, want func(store.Post) bool) ([]store.Post, error) {
	var list []store.Post
	err := db.view(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(outboxBucket)).ForEach(func(k, v []byte) error {
			var p store.Post
			if err := db.decode(k, v, &p); err != nil {
				return err
			}
			if want(p) {
				list = append(list, p)
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return list, nil
}

// Posted records the outcome of a post. The message that it answers is done. A
// post that was given up stays, with its error, for the operator to see.
func (db *DB) Posted(ctx context.Context, o store.Posted) error {
	err := db.update(ctx, func(tx *bbolt.Tx) error {
		outbox, keys := tx.Bucket([]byte(outboxBucket)), tx.Bucket([]byte(postsBucket))
		var r postRecord
		found, err := db.get(keys, []byte(o.Key), &r)
		if err != nil || !found || r.Seq == 0 {
			return err
		}
		var p store.Post
		if _, err := db.get(outbox, seqKey(r.Seq), &p); err != nil {
			return err
		}
		if o.Error != "" {
			p.Error = o.Error
			err = put(outbox, seqKey(r.Seq), p)
		} else {
			err = outbox.Delete(seqKey(r.Seq))
		}
		if err != nil {
			return err
		}
		if err := put(keys, []byte(o.Key), postRecord{Done: o.At, Ref: o.Ref}); err != nil || p.Message == "" {
			return err
		}
		return db.done(tx, p.Message)
	})
	if err != nil {
		return fmt.Errorf("store the outcome of post %s: %w", o.Key, err)
	}
	return nil
}

// done forgets a message but for its identity.
func (db *DB) done(tx *bbolt.Tx, key string) error {
	inbox := tx.Bucket([]byte(inboxBucket))
	var r inboxRecord
	found, err := db.get(inbox, []byte(key), &r)
	if err != nil || !found || r.Received == nil {
		return err
	}
	if err := tx.Bucket([]byte(waitingBucket)).Delete(seqKey(r.Seq)); err != nil {
		return err
	}
	return put(inbox, []byte(key), inboxRecord{Done: db.now()})
}

// Prune forgets identities of messages and posts that were done long ago.
func (db *DB) Prune(ctx context.Context) error {
	before := db.now().Add(-remember)
	err := db.update(ctx, func(tx *bbolt.Tx) error {
		for _, name := range []string{inboxBucket, postsBucket} {
			c := tx.Bucket([]byte(name)).Cursor()
			for k, v := c.First(); k != nil; k, v = c.Next() {
				var r struct{ Done time.Time }
				if err := db.decode(k, v, &r); err != nil {
					return err
				}
				if !r.Done.IsZero() && r.Done.Before(before) {
					if err := c.Delete(); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("prune store: %w", err)
	}
	return nil
}
