package digest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/news/feed"
	"ravenbot/internal/ops/measure"
)

// FeedInfo describes a feed that the bot reads for digests and subscriptions.
type FeedInfo struct {
	Name         string     `json:"name"` // its address
	Title        string     `json:"title,omitempty"`
	LastFetch    *time.Time `json:"lastFetch,omitempty"`
	Next         *time.Time `json:"next,omitempty"` // not fetched before
	FailingSince *time.Time `json:"failingSince,omitempty"`
	Failure      string     `json:"failure,omitempty"`
	UsedBy       []string   `json:"usedBy"` // names of digests, addresses of channels that subscribed
}

// KnownFeeds returns every feed of all digests and subscriptions once, by address.
func (s *Service) KnownFeeds(ctx context.Context) ([]FeedInfo, error) {
	subs, err := s.o.Store.Subscriptions(ctx)
	if err != nil {
		return nil, err
	}
	byURL := map[string]*FeedInfo{}
	use := func(f Feed, by string) {
		i := byURL[f.URL]
		if i == nil {
			i = &FeedInfo{Name: f.displayURL(), UsedBy: []string{}}
			byURL[f.URL] = i
		}
		i.UsedBy = append(i.UsedBy, by)
	}
	for _, d := range s.specs() {
		for _, f := range d.Feeds {
			use(f, d.Name)
		}
	}
	for _, sub := range subs {
		use(Feed{URL: sub.URL}, sub.To.String())
	}
	list := []FeedInfo{}
	for url, i := range byURL {
		if err := s.addFetchState(ctx, url, i); err != nil {
			return nil, err
		}
		list = append(list, *i)
	}
	slices.SortFunc(list, func(a, b FeedInfo) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// TryFeed reads a feed of KnownFeeds now, however often it has failed, and returns how many items it has. The error is
// ErrUnknown if no feed has the name.
func (s *Service) TryFeed(ctx context.Context, name string) (items int, err error) {
	urls := map[string]string{}
	for _, d := range s.specs() {
		for _, f := range d.Feeds {
			urls[f.displayURL()] = f.URL
		}
	}
	subs, err := s.o.Store.Subscriptions(ctx)
	for _, sub := range subs {
		urls[sub.URL] = sub.URL
	}
	url, known := urls[name]
	if err == nil && !known {
		err = ErrUnknown
	}
	if err != nil {
		return 0, err
	}
	res, err := s.o.Feeds.Fetch(ctx, url)
	return len(res.Document.Items), err
}

// addFetchState adds the state that package feed stores of a feed.
func (s *Service) addFetchState(ctx context.Context, url string, i *FeedInfo) error {
	kept, found, err := s.o.Store.LoadFeed(ctx, url)
	if err != nil || !found {
		return err
	}
	var state feed.State
	if err := json.Unmarshal(kept.Data, &state); err != nil {
		return fmt.Errorf("read the record of feed %s: %w", i.Name, err)
	}
	i.Title = state.Document.Feed.Heading()
	if !state.FetchedAt.IsZero() {
		i.LastFetch = &state.FetchedAt
	}
	if state.Failures > 0 {
		i.FailingSince, i.Failure = &state.FailingSince, state.LastFailure
	}
	// The latest of the reasons to wait decides.
	for _, until := range []*time.Time{&state.NextAllowed, &state.FreshUntil, &state.TryAgain} {
		if until.After(s.o.Now()) && (i.Next == nil || until.After(*i.Next)) {
			i.Next = until
		}
	}
	return nil
}

// countRead counts a read of a feed that was not cut off, by whether it failed.
func (s *Service) countRead(f Feed, err error) {
	total := measure.Total{Count: 1}
	if err != nil {
		total.Failed = 1
	}
	s.reads.Add(f.displayURL(), total)
}
