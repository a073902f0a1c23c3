package bolt

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// keepDone is how long the key of a finished message or post is kept: longer than any
// platform redelivers an event.
const keepDone = 48 * time.Hour

// inboxRecord is a message without an outcome; Seq orders them by arrival.
type inboxRecord struct {
	Received store.Received `json:"received"`
	Seq      uint64         `json:"seq"`
}

// doneRecord is what remains of a finished message or post.
type doneRecord struct {
	Done time.Time `json:"done"`
	Ref  chat.Ref  `json:"ref,omitzero"`
}

// messageDoneKey and postDoneKey return the keys of finished messages and posts. They share a
// bucket, and the prefix keeps their keys apart.
func messageDoneKey(key string) []byte { return []byte("m/" + key) }
func postDoneKey(key string) []byte    { return []byte("p/" + key) }

// Accept stores a message until it is answered. It returns false and stores nothing where
// a message with the same key was accepted before.
func (db *DB) Accept(ctx context.Context, r store.Received) (bool, error) {
	key := r.Message.Key()
	known := func(tx *tx) bool {
		return tx.top(inboxBucket).has([]byte(key)) || tx.top(doneBucket).has(messageDoneKey(key))
	}
	var isNew bool
	err := db.update(ctx, func(tx *tx) error {
		if isNew = !known(tx); !isNew {
			return nil // which costs no fsync
		}
		inbox := tx.top(inboxBucket)
		if err := inbox.put([]byte(key), inboxRecord{r, inbox.nextSequence()}); err != nil {
			return err
		}
		return saveLastSeen(tx, r.Message, db.now())
	})
	if err != nil {
		return false, fmt.Errorf("store message %s: %w", key, err)
	}
	return isNew, nil
}

// saveLastSeen records that a message of a conversation was accepted, for catching up
// after a downtime. Edits and deletions do not count: they are about older messages.
func saveLastSeen(tx *tx, m chat.Message, at time.Time) error {
	if m.Change != "" {
		return nil
	}
	return tx.top(lastSeenBucket).put([]byte(m.Conversation.String()),
		chat.LastSeen{Conversation: m.Conversation, Message: m.ID, Time: m.Time, At: at})
}

// LastSeen returns the newest accepted message of each conversation of a platform, of
// those accepted since an instant, latest first.
func (db *DB) LastSeen(ctx context.Context, platform string, since time.Time) ([]chat.LastSeen, error) {
	var list []chat.LastSeen
	err := db.view(func(tx *tx) error {
		prefix := []byte(platform + ":")
		c := tx.top(lastSeenBucket).cursor()
		for k, v := c.seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.next() {
			var h chat.LastSeen
			if err := db.decode(k, v, &h); err != nil {
				return err
			}
			if !h.At.Before(since) {
				list = append(list, h)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list conversations heard: %w", err)
	}
	slices.SortFunc(list, func(a, b chat.LastSeen) int { return b.At.Compare(a.At) })
	return list, nil
}

// ConversationOf returns the conversation of a message that waits or is part of a turn, by
// the message's subject. It returns false where it is neither.
func (db *DB) ConversationOf(ctx context.Context, subject string) (chat.Address, bool, error) {
	var in inboxRecord
	var at store.TurnRef
	var waits, held bool
	err := db.view(func(tx *tx) (err error) {
		if waits, err = tx.top(inboxBucket).get([]byte(subject), &in); err != nil || waits {
			return err
		}
		held, err = tx.top(messageTurnsBucket).get([]byte(subject), &at)
		return err
	})
	if err != nil {
		return chat.Address{}, false, fmt.Errorf("look for message %s: %w", subject, err)
	}
	if waits {
		return in.Received.Message.Conversation, true, nil
	}
	return at.Conversation, held, nil
}

// Unanswered returns the messages without an outcome, in order of arrival.
func (db *DB) Unanswered(ctx context.Context) ([]store.Received, error) {
	var records []inboxRecord
	err := db.view(func(tx *tx) error {
		return tx.top(inboxBucket).each(func(k, v []byte) error {
			var r inboxRecord
			err := db.decode(k, v, &r)
			records = append(records, r)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list waiting messages: %w", err)
	}
	// bbolt sorts by key, which says nothing of the order of arrival.
	slices.SortFunc(records, func(a, b inboxRecord) int { return cmp.Compare(a.Seq, b.Seq) })
	var list []store.Received
	for _, r := range records {
		list = append(list, r.Received)
	}
	return list, nil
}

// SaveAnswer stores, in one transaction, the turn that answered messages and the posts
// with the answer. turn may be nil: a command keeps no history. Without posts the
// messages, named by their keys, are done at once.
func (db *DB) SaveAnswer(
	ctx context.Context,
	to chat.Address,
	messages []string,
	turn *conversation.Turn,
	posts []store.Post,
) error {
	var saved conversation.Turn
	err := db.update(ctx, func(tx *tx) error {
		if turn != nil {
			// A change may run more than once (see update), so the caller's turn is only
			// changed by its result.
			saved = *turn
			if err := db.countTurn(tx, to, &saved); err != nil {
				return err
			}
			if err := db.putTurn(tx, to, &saved); err != nil {
				return err
			}
		}
		if len(posts) == 0 {
			return db.markDone(tx, messages)
		}
		// The messages stay in the inbox until the posts have outcomes: SaveOutcomes marks
		// them done.
		return db.savePosts(tx, posts)
	})
	if err != nil {
		return fmt.Errorf("store the answer to %s: %w", strings.Join(messages, ", "), err)
	}
	if turn != nil {
		turn.Seq = saved.Seq
	}
	return nil
}

// SavePosts stores posts until they have an outcome, and sets their Seq. A post whose key
// is known is skipped, and its Seq is 0.
func (db *DB) SavePosts(ctx context.Context, posts []store.Post) error {
	if err := db.update(ctx, func(tx *tx) error { return db.savePosts(tx, posts) }); err != nil {
		return fmt.Errorf("store posts: %w", err)
	}
	return nil
}

// savePosts stores posts that are not known by their keys, and gives each a Seq. A post that was
// stored or sent before keeps Seq 0, by which the caller knows. It writes to the caller's posts,
// and so does every run of the change.
func (db *DB) savePosts(tx *tx, posts []store.Post) error {
	outbox, done := tx.top(outboxBucket), tx.top(doneBucket)
	for i := range posts {
		posts[i].Seq = 0 // of an earlier run of this change
		key := []byte(posts[i].Key)
		if outbox.has(key) || done.has(postDoneKey(posts[i].Key)) {
			continue
		}
		posts[i].Seq = outbox.nextSequence()
		if err := outbox.put(key, posts[i]); err != nil {
			return err
		}
	}
	return nil
}

// PendingPosts returns the posts without an outcome, in the order in which they were saved.
func (db *DB) PendingPosts(ctx context.Context) ([]store.Post, error) {
	return db.listPosts("list pending posts", func(p store.Post) bool { return p.Error == "" })
}

// Undelivered returns the posts that were given up, in the order in which they were saved.
func (db *DB) Undelivered(ctx context.Context) ([]store.Post, error) {
	return db.listPosts("list posts given up", func(p store.Post) bool { return p.Error != "" })
}

// Unnotified returns the posts that were given up and whose places were not told, in the order in which they were
// saved.
func (db *DB) Unnotified(ctx context.Context) ([]store.Post, error) {
	return db.listPosts("list posts to give notice of", func(p store.Post) bool { return p.Error != "" && !p.Notified })
}

// listPosts returns the posts in the outbox that are wanted, in the order in which they were stored. what says in an
// error what was attempted.
func (db *DB) listPosts(what string, want func(store.Post) bool) ([]store.Post, error) {
	var list []store.Post
	err := db.view(func(tx *tx) error {
		return tx.top(outboxBucket).each(func(k, v []byte) error {
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
	slices.SortFunc(list, func(a, b store.Post) int { return cmp.Compare(a.Seq, b.Seq) })
	return list, nil
}

// SaveOutcomes stores the outcomes of posts and marks the messages that they answer as
// done. A post that was given up stays in the outbox with its error, for the operator. The first
// write of anybody within patience takes the outcomes along.
func (db *DB) SaveOutcomes(ctx context.Context, outcomes []store.Outcome, patience time.Duration) error {
	err := db.updateWithin(ctx, patience, func(tx *tx) error {
		for _, o := range outcomes {
			if err := db.saveOutcome(tx, o); err != nil {
				return fmt.Errorf("post %s: %w", o.Key, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store the outcomes of posts: %w", err)
	}
	return nil
}

// saveOutcome takes a post from the outbox, or notes why it was given up, and marks the messages that it answers as
// done.
func (db *DB) saveOutcome(tx *tx, o store.Outcome) error {
	outbox := tx.top(outboxBucket)
	var p store.Post
	found, err := outbox.get([]byte(o.Key), &p)
	if err != nil || !found {
		return err // without a post the outcome was stored before: repeating is harmless
	}
	// A post that was given up stays in the outbox; the others leave their place behind.
	if o.Error != "" {
		p.Error = o.Error
		err = outbox.put([]byte(o.Key), p)
	} else if err = outbox.delete([]byte(o.Key)); err == nil {
		err = savePostRef(tx, p, o)
	}
	if err == nil {
		err = tx.top(streamsBucket).delete([]byte(o.Key))
	}
	if err != nil {
		return err
	}
	// Also where the post was given up: that is an outcome, and a restart must not answer again.
	return db.markDone(tx, p.Messages())
}

// savePostRef stores where a post is, under its own key and under that of the post that it
// replaced, and which turn it shows.
func savePostRef(tx *tx, p store.Post, o store.Outcome) error {
	if err := saveShownTurns(tx, p, o); err != nil {
		return err
	}
	done := tx.top(doneBucket)
	r := doneRecord{Done: o.At, Ref: o.Ref}
	// A replacement may have more or fewer messages than the original, and the next edit
	// looks up the original's key.
	if p.Replaces != "" {
		if err := done.put(postDoneKey(p.Replaces), r); err != nil {
			return err
		}
	}
	return done.put(postDoneKey(o.Key), r)
}

// markDone removes messages from the inbox and keeps their keys, so that a redelivered
// message is recognized.
func (db *DB) markDone(tx *tx, messages []string) error {
	for _, key := range messages {
		if err := tx.top(inboxBucket).delete([]byte(key)); err != nil {
			return err
		}
		if err := tx.top(doneBucket).put(messageDoneKey(key), doneRecord{Done: db.now()}); err != nil {
			return err
		}
	}
	return nil
}

// PostRef returns the platform's identifiers of a post of the last days. It returns false
// where they are not known.
func (db *DB) PostRef(ctx context.Context, key string) (chat.Ref, bool, error) {
	var r doneRecord
	var found bool
	err := db.view(func(tx *tx) (err error) {
		found, err = tx.top(doneBucket).get(postDoneKey(key), &r)
		return err
	})
	if err != nil {
		return chat.Ref{}, false, fmt.Errorf("look for post %s: %w", key, err)
	}
	return r.Ref, found, nil
}

// MarkNotified records that the places of undelivered posts were told so. Unknown keys are
// skipped.
func (db *DB) MarkNotified(ctx context.Context, keys []string) error {
	err := db.update(ctx, func(tx *tx) error {
		outbox := tx.top(outboxBucket)
		for _, key := range keys {
			var p store.Post
			found, err := outbox.get([]byte(key), &p)
			if err != nil {
				return err
			}
			if p.Notified = true; found {
				if err := outbox.put([]byte(key), p); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store which given up posts are known: %w", err)
	}
	return nil
}
