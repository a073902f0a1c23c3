package digest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ravenbot/internal/feed"
	"ravenbot/internal/measure"
)

// maxFeedChecks is how many feeds one poll looks at that were not looked at since the start. With more, the next polls
// go on.
const maxFeedChecks = 100

// checkNewFeeds reads feeds of scheduled digests that were never read, and logs those that cannot be: a wrong address
// is noticed soon after it was written, and not at the first run of its digest. What is read is kept, so that the run
// asks its server for changes alone. The caller holds pollLock.
func (s *Service) checkNewFeeds(ctx context.Context) {
	users := map[string][]string{} // names of digests, by address
	feeds := map[string]Feed{}
	for _, d := range s.specs() {
		if d.Paused || d.isInstant() { // Poll reads those that post items as they come
			continue
		}
		for _, f := range d.Feeds {
			// What comes with the program was checked with the configuration.
			if !s.checked[f.URL] && !strings.HasPrefix(f.URL, "bundled:") {
				users[f.URL], feeds[f.URL] = append(users[f.URL], d.Name), f
			}
		}
	}
	var unread []string
	looked := slices.Sorted(maps.Keys(users))
	for _, url := range looked[:min(len(looked), maxFeedChecks)] {
		known, err := s.wasRead(ctx, url)
		if err != nil {
			s.o.Log.Error("feed not checked", "feed", feeds[url].displayURL(), "error", err)
			return
		}
		if s.checked[url] = true; !known {
			unread = append(unread, url)
		}
	}
	// A few at a time: what they hold is in memory until all of a call are read.
	for batch := range slices.Chunk(unread, fetchAtOnce) {
		_, errs := s.o.Feeds.PollAll(ctx, batch, func(read func()) { read() })
		if ctx.Err() != nil {
			return
		}
		for n, url := range batch {
			s.noteCheck(feeds[url], users[url], errs[n])
		}
	}
}

// noteCheck counts the first read of a feed of some digests, and logs that it failed. The caller holds pollLock.
func (s *Service) noteCheck(f Feed, digests []string, err error) {
	if errors.Is(err, feed.ErrQueued) {
		delete(s.checked, f.URL)
		return
	}
	// One that failed before is not asked again so soon, also not after a restart.
	if failing, _ := errors.AsType[*feed.FailingError](err); failing == nil {
		s.countRead(f, err)
	}
	if err != nil {
		s.o.Log.Warn("feed not read", "digest", strings.Join(digests, ", "), "feed", f.displayURL(), "error", err)
	}
}

// wasRead reports whether a feed was ever read.
func (s *Service) wasRead(ctx context.Context, url string) (bool, error) {
	kept, found, err := s.o.Store.LoadFeed(ctx, url)
	if err != nil || !found {
		return false, err
	}
	var state feed.State
	if err := json.Unmarshal(kept.Data, &state); err != nil {
		return false, fmt.Errorf("read what is kept of it: %w", err)
	}
	return !state.FetchedAt.IsZero(), nil
}

// countRead counts a read of a feed that was not cut off, by whether it failed.
func (s *Service) countRead(f Feed, err error) {
	total := measure.Total{Count: 1}
	if err != nil {
		total.Failed = 1
	}
	s.reads.Add(f.displayURL(), total)
}
