package digest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/feed"
	"ravenbot/internal/store"
)

const failureKind = "digest trouble"

// feedFailure is a feed of a digest that cannot be read.
type feedFailure struct {
	Since    time.Time `json:"since"`
	Runs     int       `json:"runs"` // in a row that it failed
	Reason   string    `json:"why"`
	Notified bool      `json:"told,omitempty"` // the channel knows
}

// failuresBeforeNotice is how many looks in a row have to fail before a channel is told: what is
// looked at every few minutes may fail for a moment.
func (d spec) failuresBeforeNotice() int {
	if d.quiet {
		return 3
	}
	return 1
}

func (s *Service) loadFailures(ctx context.Context) (map[string]map[string]feedFailure, error) {
	items, err := s.o.Store.Items(ctx, failureKind)
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]feedFailure{}
	for name, raw := range items {
		var one map[string]feedFailure
		if err := json.Unmarshal(raw, &one); err != nil {
			return nil, fmt.Errorf("read which feeds of digest %s fail: %w", name, err)
		}
		all[name] = one
	}
	return all, nil
}

// updateFailures returns which feeds of a digest fail now, and the posts that tell its channels
// of those that they do not know of, and of those that work again. The posts have keys
// that make repeating harmless.
func (s *Service) updateFailures(ctx context.Context, d spec, e *edition, now time.Time) (map[string]feedFailure, []store.Post, error) {
	all, err := s.loadFailures(ctx)
	if err != nil || d.isTask() {
		return nil, nil, err
	}
	before, after := all[d.Name], map[string]feedFailure{}
	var lines []string
	var keys []string
	for _, f := range d.Feeds {
		was, failing := before[f.URL]
		why, fails := e.failures[f.URL]
		if failing && !fails && was.Notified {
			lines = append(lines, fmt.Sprintf("A feed works again: %s. It had failed since %s.", escapeMarkdown(f.displayURL()), was.Since.In(d.zone).Format("2 Jan 15:04 MST")))
			keys = append(keys, "healed "+f.URL+was.Since.String())
		}
		if !fails {
			continue
		}
		if !failing {
			was = feedFailure{Since: now}
		}
		was.Runs, was.Reason = was.Runs+1, why
		if !was.Notified && was.Runs >= d.failuresBeforeNotice() {
			was.Notified = true
			lines = append(lines, "A feed fails: "+escapeMarkdown(why)+". I go on trying, and say so when it works again.")
			keys = append(keys, "fails "+f.URL+was.Since.String())
		}
		after[f.URL] = was
	}
	if len(lines) == 0 {
		return after, nil, nil
	}
	var posts []store.Post
	for _, to := range d.post {
		draft := chat.Draft{Key: "digest/" + d.Name + "/feeds/" + shortHash(strings.Join(keys, "\n")) + "/" + to.String(),
			Text: "**" + escapeMarkdown(d.title) + "**\n\n- " + strings.Join(lines, "\n- ")}
		posts = append(posts, store.Post{Key: draft.Key, To: to, Draft: draft, At: now})
	}
	return after, posts, nil
}

func (s *Service) saveFailures(ctx context.Context, d spec, now map[string]feedFailure) error {
	all, err := s.loadFailures(ctx)
	if err != nil || len(now) == 0 && len(all[d.Name]) == 0 {
		return err
	}
	return s.saveItem(ctx, failureKind, d.Name, now)
}

// deleteFailures is for a digest that is no more.
func (s *Service) deleteFailures(ctx context.Context, name string) error {
	if err := s.o.Store.DeleteItem(ctx, failureKind, name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// FeedInfo is a feed that the bot reads for digests and subscriptions.
type FeedInfo struct {
	Name         string     `json:"name"` // its address
	Title        string     `json:"title,omitempty"`
	LastFetch    *time.Time `json:"lastFetch,omitempty"`
	Next         *time.Time `json:"next,omitempty"` // not asked before
	FailingSince *time.Time `json:"failingSince,omitempty"`
	Failure      string     `json:"failure,omitempty"`
	UsedBy       []string   `json:"usedBy"` // names of digests, addresses of channels that subscribed
}

// KnownFeeds lists every feed of all digests and subscriptions once, by address.
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

// addFetchState adds what the feed room remembers of a feed.
func (s *Service) addFetchState(ctx context.Context, url string, i *FeedInfo) error {
	kept, found, err := s.o.Store.LoadFeed(ctx, url)
	if err != nil || !found {
		return err
	}
	var state feed.State
	if err := json.Unmarshal(kept.Data, &state); err != nil {
		return fmt.Errorf("read what is kept of feed %s: %w", i.Name, err)
	}
	i.Title = state.Document.Feed.Heading()
	if !state.FetchedAt.IsZero() {
		i.LastFetch = &state.FetchedAt
	}
	if since, times := state.Failing(); times > 0 {
		i.FailingSince, i.Failure = &since, state.LastFailure
	}
	for _, until := range []*time.Time{&state.NextAllowed, &state.FreshUntil, &state.TryAgain} {
		if until.After(s.o.Now()) && (i.Next == nil || until.After(*i.Next)) {
			i.Next = until
		}
	}
	return nil
}
