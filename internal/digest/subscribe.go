package digest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"ravenbot/internal/chat"
	"ravenbot/internal/feed"
	"ravenbot/internal/store"
)

// subscriptionItems is how many new items of a feed are posted at a time.
const subscriptionItems = 5

func subscribed(s store.Subscription) Spec {
	sum := sha256.Sum256([]byte(s.To.String() + " " + s.URL))
	return Spec{Name: "subscription/" + hex.EncodeToString(sum[:8]), Title: s.Title, Quiet: true,
		Feeds: []string{s.URL}, Post: []chat.Address{s.To}, MaxItems: subscriptionItems}
}

// Subscribe has what is new in a feed from now on posted to a conversation, and
// gives the feed's title. What the feed holds already is not posted.
func (s *Service) Subscribe(ctx context.Context, to chat.Address, address string) (string, error) {
	res, err := s.o.Feeds.Fetch(ctx, address)
	if err != nil {
		return "", err
	}
	now := s.o.Now().UTC()
	sub := store.Subscription{To: to, URL: address, Title: cmp.Or(res.Feed.Heading(), host(address)), At: now}
	var saw []string
	for _, it := range res.Items {
		saw = append(saw, identity(address, it))
	}
	run := store.Run{Digest: subscribed(sub).Name, Due: now, Began: now, Ended: now, OK: true, Manual: true, Note: "subscribed"}
	if _, err := s.o.Store.FinishRun(ctx, run, saw, nil); err != nil {
		return "", fmt.Errorf("subscribe %s to %s: %w", to, address, err)
	}
	return sub.Title, s.o.Store.SaveSubscription(ctx, sub)
}

// Unsubscribe ends a subscription; store.ErrNotFound says there is none.
func (s *Service) Unsubscribe(ctx context.Context, to chat.Address, address string) error {
	return s.o.Store.DeleteSubscription(ctx, to, address)
}

// Poll looks at the feeds of all subscriptions and posts what is new. A feed that
// cannot be read is logged and looked at again the next time.
func (s *Service) Poll(ctx context.Context) {
	s.polls.Lock()
	defer s.polls.Unlock()
	list, err := s.o.Store.Subscriptions(ctx)
	if err != nil {
		s.o.Log.Error("subscriptions not read", "error", err)
		return
	}
	for _, sub := range list {
		if ctx.Err() != nil {
			return
		}
		if _, err := s.carryOut(ctx, subscribed(sub), s.o.Now(), false, leave); err != nil && ctx.Err() == nil {
			s.o.Log.Warn("subscription not served", "to", sub.To.String(), "reason", feed.Explain(sub.URL, err))
		}
	}
}
