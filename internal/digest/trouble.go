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

const troubleKind = "digest trouble"

// trouble is a feed of a digest that cannot be read.
type trouble struct {
	Since time.Time `json:"since"`
	Runs  int       `json:"runs"` // in a row that it failed
	Why   string    `json:"why"`
	Told  bool      `json:"told,omitempty"` // the channel knows
}

// patience is how many looks in a row have to fail before a channel is told: what is
// looked at every few minutes may fail for a moment.
func (d spec) patience() int {
	if d.quiet {
		return 3
	}
	return 1
}

func (s *Service) keptTroubles(ctx context.Context) (map[string]map[string]trouble, error) {
	items, err := s.o.Store.Items(ctx, troubleKind)
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]trouble{}
	for name, raw := range items {
		var one map[string]trouble
		if err := json.Unmarshal(raw, &one); err != nil {
			return nil, fmt.Errorf("read which feeds of digest %s fail: %w", name, err)
		}
		all[name] = one
	}
	return all, nil
}

// troubles gives which feeds of a digest fail now, and the posts that tell its channels
// of those that they do not know of, and of those that work again. The posts have keys
// that make repeating harmless.
func (s *Service) troubles(ctx context.Context, d spec, e *edition, now time.Time) (map[string]trouble, []store.Post, error) {
	all, err := s.keptTroubles(ctx)
	if err != nil || d.task() {
		return nil, nil, err
	}
	before, after := all[d.Name], map[string]trouble{}
	var lines []string
	var keys []string
	for _, f := range d.Feeds {
		was, failing := before[f.URL]
		why, fails := e.failed[f.URL]
		if failing && !fails && was.Told {
			lines = append(lines, fmt.Sprintf("A feed works again: %s. It had failed since %s.", escape(f.shown()), was.Since.In(d.zone).Format("2 Jan 15:04 MST")))
			keys = append(keys, "healed "+f.URL+was.Since.String())
		}
		if !fails {
			continue
		}
		if !failing {
			was = trouble{Since: now}
		}
		was.Runs, was.Why = was.Runs+1, why
		if !was.Told && was.Runs >= d.patience() {
			was.Told = true
			lines = append(lines, "A feed fails: "+escape(why)+". I go on trying, and say so when it works again.")
			keys = append(keys, "fails "+f.URL+was.Since.String())
		}
		after[f.URL] = was
	}
	if len(lines) == 0 {
		return after, nil, nil
	}
	var posts []store.Post
	for _, to := range d.post {
		draft := chat.Draft{Key: "digest/" + d.Name + "/feeds/" + hash(strings.Join(keys, "\n")) + "/" + to.String(),
			Text: "**" + escape(d.title) + "**\n\n- " + strings.Join(lines, "\n- ")}
		posts = append(posts, store.Post{Key: draft.Key, To: to, Draft: draft, At: now})
	}
	return after, posts, nil
}

func (s *Service) keepTroubles(ctx context.Context, d spec, now map[string]trouble) error {
	all, err := s.keptTroubles(ctx)
	if err != nil || len(now) == 0 && len(all[d.Name]) == 0 {
		return err
	}
	return s.save(ctx, troubleKind, d.Name, now)
}

// forgetTroubles is for a digest that is no more.
func (s *Service) forgetTroubles(ctx context.Context, name string) error {
	if err := s.o.Store.DeleteItem(ctx, troubleKind, name); err != nil && !errors.Is(err, store.ErrNotFound) {
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
			i = &FeedInfo{Name: f.shown(), UsedBy: []string{}}
			byURL[f.URL] = i
		}
		i.UsedBy = append(i.UsedBy, by)
	}
	for _, d := range s.all() {
		for _, f := range d.Feeds {
			use(f, d.Name)
		}
	}
	for _, sub := range subs {
		use(Feed{URL: sub.URL}, sub.To.String())
	}
	list := []FeedInfo{}
	for url, i := range byURL {
		if err := s.fetched(ctx, url, i); err != nil {
			return nil, err
		}
		list = append(list, *i)
	}
	slices.SortFunc(list, func(a, b FeedInfo) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// fetched adds what the feed room remembers of a feed.
func (s *Service) fetched(ctx context.Context, url string, i *FeedInfo) error {
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
