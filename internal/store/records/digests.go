package records

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

var (
	// feeds holds the state of feeds, by foreignKey of their addresses.
	feeds = kv.Of[store.Feed](kv.Spec{Name: "feeds"})
	// seenItems holds when an item was last in a feed, in a group for each digest, by foreignKey of the item's id.
	seenItems = kv.Of[time.Time](kv.Spec{Name: "seen", Grouped: true, At: func(value []byte) (at time.Time, err error) {
		err = json.Unmarshal(value, &at)
		return at, err
	}})
	// runs holds the runs of each digest, by the time for which they were due.
	runs = kv.Of[store.Run](kv.Spec{Name: "runs", Grouped: true})
	// subscriptions holds subscriptions, by conversation and feed.
	subscriptions = kv.Of[store.Subscription](kv.Spec{Name: "subscriptions"})
)

// keepRuns is how many runs of a digest are kept.
const keepRuns = 200

// maxForeignKey bounds the bytes of a key that feeds choose.
const maxForeignKey = 1000

// foreignKey returns a key for a text of any length: the end of a long one is replaced by its hash.
func foreignKey(text string) string {
	if len(text) <= maxForeignKey {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return strings.ToValidUTF8(text[:maxForeignKey-len(sum)*2], "") + hex.EncodeToString(sum[:])
}

// LoadFeed returns the record of a feed. It returns false if there is none.
func (s *Store) LoadFeed(ctx context.Context, url string) (store.Feed, bool, error) {
	f, found, err := lookUp(ctx, s, feeds, "", foreignKey(url))
	return f, found, wrap(err, "load feed %s", url)
}

// SaveFeeds stores the records of feeds, all or none.
func (s *Store) SaveFeeds(ctx context.Context, list ...store.Feed) error {
	err := s.update(ctx, func(tx kv.Tx) error {
		for _, f := range list {
			if err := feeds.Put(tx, "", foreignKey(f.URL), f); err != nil {
				return wrap(err, "%s", f.URL)
			}
		}
		return nil
	})
	return wrap(err, "store feeds")
}

// LastRuns returns the newest n runs of a digest, newest first.
func (s *Store) LastRuns(ctx context.Context, digest string, n int) ([]store.Run, error) {
	if n <= 0 {
		return nil, nil
	}
	found, err := list(ctx, s, runs, kv.Range{Group: digest, Reverse: true, Limit: n})
	return found, wrap(err, "load runs of digest %s", digest)
}

// SeenItems returns which of some items a digest has seen, and whether it ever saw any.
func (s *Store) SeenItems(ctx context.Context, digest string, ids []string) (
	seen map[string]bool,
	ever bool,
	err error,
) {
	refs := make([]kv.Ref, len(ids))
	for i, id := range ids {
		refs[i] = kv.Ref{Spec: seenItems.Spec, Group: digest, Key: foreignKey(id)}
	}
	err = s.View(ctx, func(tx kv.Tx) error {
		seen = map[string]bool{}
		has, err := hasGroup(tx, seenItems.Spec, digest)
		if ever = has; err != nil || !ever {
			return err
		}
		if err := tx.Prefetch(refs...); err != nil {
			return err
		}
		for i, id := range ids {
			found, err := seenItems.Has(tx, digest, refs[i].Key)
			if err != nil {
				return err
			}
			if found {
				seen[id] = true
			}
		}
		return nil
	})
	return seen, ever, wrap(err, "load items seen by digest %s", digest)
}

// FinishRun stores a run, the ids of the items that it saw (none if it failed), its posts and items of any kind, in one
// transaction. It returns false and changes nothing if a run for the same due time is stored.
func (s *Store) FinishRun(
	ctx context.Context,
	r store.Run,
	saw []string,
	posts []store.Post,
	more ...store.Item,
) (isNew bool, err error) {
	scopes := []string{"digest/" + r.Digest}
	for _, i := range more {
		scopes = append(scopes, itemScope(i.Kind, i.Name))
	}
	err = s.update(ctx, func(tx kv.Tx) error {
		// This check makes repeating a run harmless: the posts of the first one stay.
		known, err := runs.Has(tx, r.Digest, kv.TimeKey(r.Due))
		if isNew = !known; err != nil || known {
			return err
		}
		err = runs.Put(tx, r.Digest, kv.TimeKey(r.Due), r)
		err = cmp.Or(err, deleteOldest(tx, runs.Spec, r.Digest, keepRuns))
		err = cmp.Or(err, markSeen(tx, r, saw))
		for _, i := range more {
			err = cmp.Or(err, items.Put(tx, i.Kind, i.Name, i.Data))
		}
		err = cmp.Or(err, prefetchPosts(tx, posts))
		return cmp.Or(err, addPosts(tx, posts))
	}, postScopes(scopes, posts)...)
	return isNew && err == nil, wrap(err, "store run of digest %s", r.Digest)
}

// markSeen notes when a digest saw items last. Items that are still listed get a new time each time, so that only those
// that left their feed grow old.
func markSeen(tx kv.Tx, r store.Run, saw []string) error {
	for _, id := range saw {
		if err := seenItems.Put(tx, r.Digest, foreignKey(id), r.Ended); err != nil {
			return err
		}
	}
	if len(saw) == 0 {
		return nil
	}
	return tx.Raise(seenItems.Spec, r.Digest, 1) // the group outlasts its items
}

// AmendRun replaces a run and makes items unseen again. It returns store.ErrNotFound if the digest never ran.
func (s *Store) AmendRun(ctx context.Context, r store.Run, forget []string) error {
	err := s.update(ctx, func(tx kv.Tx) error {
		has, err := hasGroup(tx, runs.Spec, r.Digest)
		if err == nil && !has {
			err = store.ErrNotFound
		}
		for _, id := range forget {
			err = cmp.Or(err, seenItems.Delete(tx, r.Digest, foreignKey(id)))
		}
		return cmp.Or(err, runs.Put(tx, r.Digest, kv.TimeKey(r.Due), r))
	}, "digest/"+r.Digest)
	return wrap(err, "amend run of digest %s", r.Digest)
}

func subscriptionKey(to chat.Address, url string) string { return foreignKey(to.String() + " " + url) }

// SaveSubscription stores a subscription and replaces one of the same conversation to the same feed.
func (s *Store) SaveSubscription(ctx context.Context, sub store.Subscription) error {
	return wrap(put(ctx, s, subscriptions, "", subscriptionKey(sub.To, sub.URL), sub), "store subscription of %s", sub.To)
}

// DeleteSubscription deletes a subscription. It returns store.ErrNotFound if there is none.
func (s *Store) DeleteSubscription(ctx context.Context, to chat.Address, url string) error {
	key := subscriptionKey(to, url)
	return wrap(remove(ctx, s, subscriptions, "", key, "subscription/"+key), "remove subscription of %s", to)
}

// Subscriptions returns all subscriptions, by conversation.
func (s *Store) Subscriptions(ctx context.Context) ([]store.Subscription, error) {
	found, err := list(ctx, s, subscriptions, kv.Range{})
	return found, wrap(err, "list subscriptions")
}
