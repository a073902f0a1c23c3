package bolt

import (
	"context"
	"fmt"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// subscriptionKey returns the key of a subscription. Those of a conversation stand together.
func subscriptionKey(to chat.Address, url string) []byte { return feedKey(to.String() + " " + url) }

// SaveSubscription stores a subscription and replaces one of the same conversation to the
// same feed.
func (db *DB) SaveSubscription(ctx context.Context, s store.Subscription) error {
	err := db.update(ctx, func(tx *tx) error {
		return tx.top(subscriptionsBucket).put(subscriptionKey(s.To, s.URL), s)
	})
	if err != nil {
		return fmt.Errorf("store subscription of %s: %w", s.To, err)
	}
	return nil
}

// DeleteSubscription deletes a subscription. It returns store.ErrNotFound where there is
// none.
func (db *DB) DeleteSubscription(ctx context.Context, to chat.Address, url string) error {
	err := db.update(ctx, func(tx *tx) error {
		b := tx.top(subscriptionsBucket)
		if !b.has(subscriptionKey(to, url)) {
			return store.ErrNotFound
		}
		return b.delete(subscriptionKey(to, url))
	})
	if err != nil {
		return fmt.Errorf("remove subscription of %s: %w", to, err)
	}
	return nil
}

// Subscriptions returns all subscriptions, by conversation.
func (db *DB) Subscriptions(ctx context.Context) ([]store.Subscription, error) {
	var list []store.Subscription
	err := db.view(func(tx *tx) error {
		return tx.top(subscriptionsBucket).each(func(k, v []byte) error {
			var s store.Subscription
			err := db.decode(k, v, &s)
			list = append(list, s)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list subscriptions: %w", err)
	}
	return list, nil
}
