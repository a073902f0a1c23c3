package delivery

import (
	"context"
	"slices"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// notifyEvery is how often places are tried that do not know of a post that was to
// be there; whenever another post reaches one it is told, too.
const notifyEvery = 30 * time.Minute

// maxUndelivered bounds the posts that are remembered to be told of.
const maxUndelivered = 1000

// loadUndelivered gives the posts given up of which their places do not know.
func (s *Service) loadUndelivered(ctx context.Context) ([]store.Post, error) {
	list, err := s.o.Store.Undelivered(ctx)
	list = slices.DeleteFunc(list, func(p store.Post) bool { return p.Notified })
	return list[max(0, len(list)-maxUndelivered):], err
}

// addUndelivered remembers a post that was given up, and tries to say so at once: what was
// refused may have been its form.
func (s *Service) addUndelivered(ctx context.Context, p store.Post) {
	s.mu.Lock()
	if len(s.undelivered) < maxUndelivered {
		s.undelivered = append(s.undelivered, p)
	}
	s.mu.Unlock()
	s.notifyUndelivered(ctx, func(lost store.Post) bool { return lost.Key == p.Key })
}

// notifyUndelivered says, in words that any platform takes, which posts could not be made where
// they were to be. Those that cannot be told now stay.
func (s *Service) notifyUndelivered(ctx context.Context, which func(store.Post) bool) {
	for _, p := range s.claimUndelivered(which) {
		if !s.notifyPlace(ctx, p) {
			s.mu.Lock()
			s.undelivered = append(s.undelivered, p)
			s.mu.Unlock()
		}
	}
}

// claimUndelivered takes posts out of what is lost, so that one caller at a time tells of
// each.
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

// notifyPlace tells of one post, and reports whether that is done with.
func (s *Service) notifyPlace(ctx context.Context, p store.Post) bool {
	platform := s.o.Platform(p.To.Platform)
	if platform == nil {
		return false
	}
	what := "My answer"
	if p.Message == "" {
		what = "A post of mine"
	}
	d := chat.Draft{Key: p.Key + "/lost", Reply: p.Draft.Reply, Failed: true, Text: what + " of " + p.At.UTC().Format("2 January 15:04 MST") +
		" could not be posted here (reference " + p.Key + "). Whoever runs this bot finds the reason in its log."}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	if _, err := platform.Post(ctx, p.To, d); err != nil {
		s.o.Log.Warn("loss of a post not told where it was to be", "post", p.Key, "error", err)
		return false
	}
	s.counts.notified.Add(1)
	s.flushOutcomes() // the post has to be on record as given up
	if err := s.o.Store.MarkNotified(ctx, []string{p.Key}); err != nil {
		s.o.Log.Error("not stored that a loss is known; it may be told again", "post", p.Key, "error", err)
	}
	return true
}
