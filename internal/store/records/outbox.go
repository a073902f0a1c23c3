package records

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// outbox holds posts without an outcome, and those that were given up, by their keys.
var outbox = kv.Of[store.Post](kv.Spec{Name: "outbox", Owner: func(value []byte) (string, error) {
	var p store.Post
	if err := json.Unmarshal(value, &p); err != nil || p.Error != "" {
		return "", err
	}
	return store.ClaimKey(p.To), nil
}})

// SavePosts stores posts until they have an outcome, and sets their Seq. A post whose key is known is skipped, and its Seq
// is 0.
func (s *Store) SavePosts(ctx context.Context, posts []store.Post) error {
	err := s.update(ctx, func(tx kv.Tx) error {
		if err := prefetchPosts(tx, posts); err != nil {
			return err
		}
		return addPosts(tx, posts)
	}, postScopes(nil, posts)...)
	return wrap(err, "store posts")
}

// prefetchPosts fetches what addPosts reads, and more.
func prefetchPosts(tx kv.Tx, posts []store.Post, more ...kv.Ref) error {
	for _, p := range posts {
		more = append(more, kv.Ref{Spec: outbox.Spec, Key: p.Key}, kv.Ref{Spec: done.Spec, Key: postDone(p.Key)},
			kv.Ref{Spec: outbox.Spec})
	}
	return tx.Prefetch(more...)
}

// addPosts stores posts whose keys are not known, and gives each a Seq; that of the others is 0.
func addPosts(tx kv.Tx, posts []store.Post) error {
	for i := range posts {
		posts[i].Seq = 0 // of an earlier run of this transaction
		waits, err := outbox.Has(tx, "", posts[i].Key)
		isDone, doneErr := done.Has(tx, "", postDone(posts[i].Key))
		if err = cmp.Or(err, doneErr); err != nil {
			return err
		}
		if waits || isDone {
			continue
		}
		if posts[i].Seq, err = tx.Next(outbox.Spec, ""); err != nil {
			return err
		}
		if err := outbox.Put(tx, "", posts[i].Key, posts[i]); err != nil {
			return err
		}
	}
	return nil
}

// PendingPosts returns the posts without an outcome, in the order in which they were saved.
func (s *Store) PendingPosts(ctx context.Context) ([]store.Post, error) {
	found, err := s.listPosts(ctx, true, func(p store.Post) bool { return p.Error == "" })
	return found, wrap(err, "list pending posts")
}

// Undelivered returns the posts that were given up, in the order in which they were saved.
func (s *Store) Undelivered(ctx context.Context) ([]store.Post, error) {
	found, err := s.listPosts(ctx, false, func(p store.Post) bool { return p.Error != "" })
	return found, wrap(err, "list posts given up")
}

// Unnotified returns the posts that were given up and whose places were not told, in the order in which they were saved.
func (s *Store) Unnotified(ctx context.Context) ([]store.Post, error) {
	found, err := s.listPosts(ctx, true, func(p store.Post) bool { return p.Error != "" && !p.Notified })
	return found, wrap(err, "list posts to give notice of")
}

// listPosts returns the posts in the outbox that are wanted, in the order in which they were saved; mine: those of this
// process.
func (s *Store) listPosts(ctx context.Context, mine bool, want func(store.Post) bool) ([]store.Post, error) {
	found, err := list(ctx, s, outbox, kv.Range{Mine: mine})
	found = slices.DeleteFunc(found, func(p store.Post) bool { return !want(p) })
	sortPosts(found)
	return found, err
}

// sortPosts brings posts into the order in which they were saved.
func sortPosts(list []store.Post) {
	slices.SortFunc(list, func(a, b store.Post) int { return cmp.Compare(a.Seq, b.Seq) })
}

// SaveOutcomes stores the outcomes of posts and marks the messages that they answer as done. A post that was given up
// stays in the outbox with its error, for the operator. The first write of anybody within patience takes the outcomes
// along.
func (s *Store) SaveOutcomes(ctx context.Context, outcomes []store.Outcome, patience time.Duration) error {
	var refs []kv.Ref
	var scopes []string
	for _, o := range outcomes {
		refs, scopes = append(refs, kv.Ref{Spec: outbox.Spec, Key: o.Key}), append(scopes, postScope(o.Key))
	}
	err := s.Update(ctx, kv.Write{Scopes: scopes, Patience: patience}, func(tx kv.Tx) error {
		if err := tx.Prefetch(refs...); err != nil {
			return err
		}
		for _, o := range outcomes {
			if err := s.saveOutcome(tx, o); err != nil {
				return fmt.Errorf("post %s: %w", o.Key, err)
			}
		}
		return nil
	})
	return wrap(err, "store the outcomes of posts")
}

// saveOutcome takes a post from the outbox, or notes why it was given up, and marks the messages that it answers as done.
func (s *Store) saveOutcome(tx kv.Tx, o store.Outcome) error {
	p, found, err := outbox.Get(tx, "", o.Key)
	if err != nil || !found {
		return err // without a post the outcome was stored before: repeating is harmless
	}
	if o.Error != "" {
		p.Error = o.Error
		err = outbox.Put(tx, "", o.Key, p)
	} else if err = outbox.Delete(tx, "", o.Key); err == nil {
		err = savePostRef(tx, p, o)
	}
	if err == nil {
		err = streams.Delete(tx, "", o.Key)
	}
	if err != nil {
		return err
	}
	// Giving up is an outcome as well: a restart must not answer again.
	return s.markDone(tx, p.Messages())
}

// savePostRef stores where a post is, under its own key and under that of the post that it replaced, and which turn it
// shows.
func savePostRef(tx kv.Tx, p store.Post, o store.Outcome) error {
	if err := saveShownTurns(tx, p, o); err != nil {
		return err
	}
	r := doneRecord{Done: o.At, Ref: o.Ref}
	// A replacement may have more or fewer messages than the original, and the next edit looks up the original's key.
	if p.Replaces != "" {
		if err := done.Put(tx, "", postDone(p.Replaces), r); err != nil {
			return err
		}
	}
	return done.Put(tx, "", postDone(o.Key), r)
}

// PostRef returns the platform's identifiers of a post of the last days. It returns false if they are not known.
func (s *Store) PostRef(ctx context.Context, key string) (chat.Ref, bool, error) {
	r, found, err := lookUp(ctx, s, done, "", postDone(key))
	return r.Ref, found, wrap(err, "look for post %s", key)
}

// MarkNotified records that the places of undelivered posts were told so. Unknown keys are skipped.
func (s *Store) MarkNotified(ctx context.Context, keys []string) error {
	var scopes []string
	for _, key := range keys {
		scopes = append(scopes, postScope(key))
	}
	err := s.update(ctx, func(tx kv.Tx) error {
		for _, key := range keys {
			p, found, err := outbox.Get(tx, "", key)
			if err != nil {
				return err
			}
			if p.Notified = true; found {
				if err := outbox.Put(tx, "", key, p); err != nil {
					return err
				}
			}
		}
		return nil
	}, scopes...)
	return wrap(err, "store which given up posts are known")
}
