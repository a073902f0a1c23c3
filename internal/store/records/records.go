// Package records implements store.Store once for all engines, over the transactions of package kv. Each kind of
// record is one collection, declared next to the methods that use it. Specs lists them all.
//
// Every method is one transaction. Its scopes (see kv.Write) are a channel for records of conversations, and otherwise
// the group or record that it reads before it writes.
package records

import (
	"context"
	"fmt"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/recall/meaning"
	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// Store is a store.Store over an engine. Its methods may be called concurrently.
type Store struct {
	kv.Engine
	feedback store.FeedbackTotals[feedbackVersion]
	own      ownUsage
}

// New returns the store in an engine that was opened with Specs.
func New(e kv.Engine) *Store { return &Store{Engine: e} }

// Specs returns the collections of all records. A record comes after the records that it refers to.
func Specs() []*kv.Spec {
	return []*kv.Spec{
		inbox.Spec, outbox.Spec, done.Spec, streams.Spec, lastSeen.Spec,
		turns.Spec, messages.Spec, messageIDs.Spec, messageTurns.Spec, quotes.Spec, summaries.Spec,
		calls.Spec, results.Spec, approvals.Spec, feedback.Spec, shownTurns.Spec,
		feeds.Spec, seenItems.Spec, runs.Spec, subscriptions.Spec,
		entries.Spec, entryIDs.Spec, roomFiles.Spec, fileData.Spec,
		memories.Spec, usage.Spec, settings.Spec, blobs.Spec, items.Spec,
		meaning.Vectors.Spec,
	}
}

// wrap returns an error with what was attempted, or nil.
func wrap(err error, attempted string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(attempted, args...), err)
}

// update runs fn in a write transaction with scopes.
func (s *Store) update(ctx context.Context, fn func(kv.Tx) error, scopes ...string) error {
	return s.Update(ctx, kv.Write{Scopes: scopes}, fn)
}

// read returns what fn returns in a read transaction.
func read[T any](ctx context.Context, s *Store, fn func(kv.Tx) (T, error)) (result T, err error) {
	err = s.View(ctx, func(tx kv.Tx) (err error) {
		result, err = fn(tx)
		return err
	})
	return result, err
}

// list returns the records of a range.
func list[T any](ctx context.Context, s *Store, c kv.Collection[T], r kv.Range) ([]T, error) {
	return read(ctx, s, func(tx kv.Tx) ([]T, error) { return c.List(tx, r) })
}

// lookUp returns a record, and false if there is none.
func lookUp[T any](ctx context.Context, s *Store, c kv.Collection[T], group, key string) (T, bool, error) {
	var found bool
	record, err := read(ctx, s, func(tx kv.Tx) (record T, err error) {
		record, found, err = c.Get(tx, group, key)
		return record, err
	})
	return record, found, err
}

// mustFind returns a record, or store.ErrNotFound.
func mustFind[T any](ctx context.Context, s *Store, c kv.Collection[T], group, key string) (T, error) {
	record, found, err := lookUp(ctx, s, c, group, key)
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return record, err
}

// put stores a record on which no other one depends.
func put[T any](ctx context.Context, s *Store, c kv.Collection[T], group, key string, record T) error {
	return s.update(ctx, func(tx kv.Tx) error { return c.Put(tx, group, key, record) })
}

// remove deletes a record, or returns store.ErrNotFound. scope is that of writes to the record.
func remove[T any](ctx context.Context, s *Store, c kv.Collection[T], group, key, scope string) error {
	return s.update(ctx, func(tx kv.Tx) error {
		found, err := c.Has(tx, group, key)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return c.Delete(tx, group, key)
	}, scope)
}

// channelScope is the scope of what belongs to the conversations of a channel.
func channelScope(a chat.Address) string { return "channel/" + a.Base().String() }

// postScope is the scope of a post.
func postScope(key string) string { return "post/" + key }

// postScopes returns the scopes of posts, behind some others.
func postScopes(scopes []string, posts []store.Post) []string {
	for _, p := range posts {
		scopes = append(scopes, postScope(p.Key))
	}
	return scopes
}
