package delivery

import (
	"context"
	"slices"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// notifyEvery is how often notices of undelivered posts are tried. A place also gets its
// notices whenever another post reaches it.
const notifyEvery = 30 * time.Minute

// maxUndelivered limits the undelivered posts that wait for a notice.
const maxUndelivered = 1000

// addUndelivered adds a post that was given up, and tries to tell its place at once: the
// platform may have refused the form of the post, not the place.
func (s *Service) addUndelivered(ctx context.Context, p store.Post) {
	s.mu.Lock()
	if len(s.undelivered) < maxUndelivered {
		s.undelivered = append(s.undelivered, p)
	}
	s.mu.Unlock()
	s.notifyUndelivered(ctx, func(lost store.Post) bool { return lost.Key == p.Key })
}

// notifyUndelivered tells the places of undelivered posts that match. Notices that cannot be
// posted now are kept.
func (s *Service) notifyUndelivered(ctx context.Context, which func(store.Post) bool) {
	for _, p := range s.claimUndelivered(which) {
		if !s.notifyPlace(ctx, p) {
			s.mu.Lock()
			s.undelivered = append(s.undelivered, p)
			s.mu.Unlock()
		}
	}
}

// claimUndelivered removes the matching posts from the list and returns them, so that only
// one caller at a time sends a notice of each.
func (s *Service) claimUndelivered(which func(store.Post) bool) []store.Post {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.undelivered) == 0 {
		return nil
	}
	var mine []store.Post
	s.undelivered = slices.DeleteFunc(s.undelivered, func(p store.Post) bool {
		if which(p) {
			mine = append(mine, p)
			return true
		}
		return false
	})
	return mine
}

// notifyPlace reports one undelivered post in its place, in plain text that any platform accepts. It returns false if
// the notice must be retried.
func (s *Service) notifyPlace(ctx context.Context, p store.Post) bool {
	platform := s.o.Platform(p.To.Platform)
	if platform == nil {
		return false
	}
	if _, ok := platform.(chat.OneWay); ok {
		return true
	}
	what := "My answer"
	if p.Message == "" {
		what = "A post of mine"
	}
	d := chat.Draft{
		Key:    p.Key + "/lost",
		Reply:  p.Draft.Reply,
		Failed: true,
		Text: what + " of " + p.At.UTC().Format("2 January 15:04 MST") + " could not be posted here (reference " +
			p.Key + "). The bot's log has the reason.",
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	if _, err := s.postOwned(ctx, platform, p.To, d); err != nil {
		s.o.Log.Warn("failed to post the notice of an undelivered post; retrying later", "post", p.Key, "error", err)
		return false
	}
	s.counts.notified.Add(1)
	s.flushOutcomes(ctx) // MarkNotified needs the outcome of the post to be stored
	if err := s.o.Store.MarkNotified(ctx, []string{p.Key}); err != nil {
		s.o.Log.Error("failed to record the notice of an undelivered post; it may be repeated", "post", p.Key, "error", err)
	}
	return true
}
