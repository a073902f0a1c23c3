package digest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

const (
	// maxPerPoll is how many items an instant digest or a subscription posts in one poll. The others are named in one line.
	maxPerPoll   = 5
	takenAsKnown = "taken as known"
)

// chooseInstant chooses from what has come since the last poll. The first poll posts
// nothing: what the feed holds already is not new.
func (d spec) chooseInstant(e *edition, stories []story) {
	if e.firstRun && d.Source != fromSubscription {
		e.markOnly = true
		for _, st := range stories {
			st.verdict, st.reason = takenAsKnown, "it was there before the first look"
		}
		return
	}
	limit := min(maxPerPoll, d.MaxItems)
	for n, st := range stories {
		if n < limit {
			st.verdict = posted
			e.chosen = append(e.chosen, st)
			continue
		}
		st.verdict, st.reason = overLimit, fmt.Sprintf("%d items a look are posted, the others named", limit)
		e.surplus = append(e.surplus, st)
	}
}

// fromSubscription is the Plan.Source of a conversation's subscription to a feed.
const fromSubscription = "subscription"

// subscriptionSpec returns a subscription as a digest that posts items as they come.
func subscriptionSpec(sub store.Subscription) spec {
	return spec{
		Plan: Plan{Name: "subscription/" + shortHash(sub.To.String() + " " + sub.URL)[:16], Schedule: OnNew,
			Feeds: []Feed{{URL: sub.URL}}, MaxItems: maxPerPoll, Source: fromSubscription, Teasers: true},
		title: sub.Title,
		zone:  time.UTC,
		quiet: true,
		post:  []chat.Address{sub.To},
	}
}

// Subscribe has new items of a feed posted to a conversation from now on, and returns the feed's title. What the feed
// holds already is not posted. It returns store.ErrFull where the conversation follows as many feeds as one may.
func (s *Service) Subscribe(ctx context.Context, to chat.Address, address string) (string, error) {
	res, err := s.o.Feeds.Fetch(ctx, address)
	if err != nil {
		return "", err
	}
	list, err := s.o.Store.Subscriptions(ctx)
	if err != nil {
		return "", fmt.Errorf("subscribe %s to %s: %w", to, address, err)
	}
	here := 0
	for _, other := range list {
		if other.To == to && other.URL != address {
			here++
		}
	}
	if here >= maxSubscriptions {
		return "", fmt.Errorf("subscribe %s to %s: it follows %d feeds: %w", to, address, here, store.ErrFull)
	}
	now := s.o.Now().UTC()
	sub := store.Subscription{To: to, URL: address, Title: cmp.Or(res.Feed.Heading(), host(address)), At: now}
	var saw []string
	for _, it := range res.Items { // the ids must be those of a poll: of the address as it is stored
		saw = append(saw, itemID(address, it))
	}
	// A first run that saw all present items keeps the first poll from posting them.
	run := store.Run{Digest: subscriptionSpec(sub).Name, Due: now, Began: now, Ended: now, OK: true, Manual: true,
		Note: "subscribed"}
	// It is stored before the subscription: a poll in between would find no run, and post all that the feed holds.
	if _, err := s.finishRun(ctx, run, saw, nil); err != nil {
		return "", fmt.Errorf("subscribe %s to %s: %w", to, address, err)
	}
	return sub.Title, s.o.Store.SaveSubscription(ctx, sub)
}

// maxSubscriptions is how many feeds may be followed in one place.
const maxSubscriptions = 50

// Unsubscribe ends a subscription. It returns store.ErrNotFound where there is none. What was seen
// stays, so that nothing is posted twice where the place subscribes again.
func (s *Service) Unsubscribe(ctx context.Context, to chat.Address, address string) error {
	err := s.o.Store.DeleteSubscription(ctx, to, address)
	if err == nil {
		err = s.deleteItem(ctx, failureKind, subscriptionSpec(store.Subscription{To: to, URL: address}).Name)
	}
	return err
}

// unsubscribeChannel ends the subscription of a channel to a feed, by the feed's address or
// title. It returns ErrUnknown where the channel has no such subscription.
func (s *Service) unsubscribeChannel(ctx context.Context, m chat.Message, which string) (string, error) {
	subs, err := s.channelSubscriptions(ctx, m.Conversation)
	if err != nil {
		return "", err
	}
	for _, sub := range subs {
		if sub.URL == which || strings.EqualFold(sub.Title, which) {
			if err := s.Unsubscribe(ctx, sub.To, sub.URL); err != nil && !errors.Is(err, store.ErrNotFound) {
				return "", err
			}
			return "New items of **" + escape(sub.Title) + "** are no longer posted here.", nil
		}
	}
	return "", ErrUnknown
}

// channelSubscriptions returns the subscriptions of a channel.
func (s *Service) channelSubscriptions(ctx context.Context, at chat.Address) ([]store.Subscription, error) {
	all, err := s.o.Store.Subscriptions(ctx)
	return slices.DeleteFunc(all, func(sub store.Subscription) bool { return sub.To.Base() != at.Base() }), err
}

// pollFeeds calls Poll at once, because items of the first look are not new, and then at an interval until ctx ends.
func (s *Service) pollFeeds(ctx context.Context) {
	tick := time.NewTicker(s.o.PollInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		s.Poll(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// Poll reads the feeds of all subscriptions and of the digests that post items as they come, and posts what is new. A
// feed that cannot be read is logged and tried at the next poll. A call waits until the one before has ended.
func (s *Service) Poll(ctx context.Context) {
	s.pollLock.Lock()
	defer s.pollLock.Unlock()
	list := slices.DeleteFunc(s.specs(), func(d spec) bool { return !d.isInstant() || d.Paused })
	subs, err := s.o.Store.Subscriptions(ctx)
	if err != nil {
		s.o.Log.Error("failed to read subscriptions", "error", err)
	}
	for _, sub := range subs {
		list = append(list, subscriptionSpec(sub))
	}
	// One after the other: nobody waits, and the feeds of all together would take what conversations need.
	for _, d := range list {
		if ctx.Err() != nil {
			return
		}
		if err := s.pollDigest(ctx, d); err != nil && ctx.Err() == nil {
			s.o.Log.Warn("poll of digest failed", "digest", d.Name, "to", d.Post, "error", err)
		}
	}
}

// pollTimeout bounds the poll of one digest.
const pollTimeout = 3 * time.Minute

// pollDigest runs a digest that posts items as they come, within pollTimeout.
func (s *Service) pollDigest(ctx context.Context, d spec) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	defer s.lockRun(d.Name)()
	_, err := s.runLocked(ctx, d, s.o.Now(), false, false)
	return err
}
