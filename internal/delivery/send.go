package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/failpoint"
	"ravenbot/internal/store"
)

// Rules of sending: an attempt may take postTimeout; waits double from firstWait
// to longestWait unless the platform names a longer one; a post is given up when
// it is refused for good, or giveUp after its first attempt.
const (
	postTimeout = time.Minute
	firstWait   = time.Second
	longestWait = time.Minute
	giveUp      = 6 * time.Hour
)

// send posts until the platform names the post or it is given up, and records
// which. It holds its lane meanwhile, so that order is kept.
func (s *Service) send(p store.Post, result chan<- store.Outcome) {
	ctx := s.turns
	ref, err := s.try(ctx, p)
	if errors.Is(err, errStopped) {
		return
	}
	out := store.Outcome{Key: p.Key, Ref: ref, At: s.o.Now()}
	if err != nil {
		out.Error = err.Error()
		s.o.Log.Error("post given up", "post", p.Key, "to", p.To.String(), "error", err)
		s.counts.givenUp.Add(1)
	} else {
		failpoint.Here(failpoint.PostSent)
		s.counts.posted.Add(1)
	}
	if ref.Repeated {
		s.counts.repeated.Add(1)
		s.o.Log.Warn("post may be there twice", "post", p.Key, "to", p.To.String())
	}
	s.outcomes <- outcome{Outcome: out}
	if result != nil {
		result <- out
	}
	if err != nil {
		s.lose(ctx, p)
		return
	}
	s.tell(ctx, func(lost store.Post) bool { return lost.To.Base() == p.To.Base() })
}

// outcome is that of a post; or, with flushed, a wish to know when all before it
// are stored.
type outcome struct {
	store.Outcome
	flushed chan struct{}
}

// flush returns when the outcomes of all posts so far are stored, or the service
// ends.
func (s *Service) flush() {
	done := make(chan struct{})
	s.outcomes <- outcome{flushed: done}
	select {
	case <-done:
	case <-s.turns.Done():
	}
}

// gather is how long the outcome of a post may wait for others, to be stored with
// them. Nobody waits for it: a crash meanwhile makes the post one that may have
// been sent, which the platform is asked about before it is sent again.
const gather = 20 * time.Millisecond

// record stores outcomes until there will be no more. Only a full or broken store
// holds it up, and then the lanes too, once the queue is full.
func (s *Service) record(ctx context.Context) {
	for first := range s.outcomes {
		batch, waiters := s.gathered(first)
		if len(batch) > 0 {
			limited, cancel := context.WithTimeout(ctx, giveUp)
			_ = s.insist(limited, "outcomes of posts not stored", func() error { return s.o.Store.SaveOutcomes(limited, batch) })
			cancel()
		}
		for _, w := range waiters {
			close(w)
		}
	}
}

// gathered collects outcomes for a moment, or until somebody waits for them.
func (s *Service) gathered(first outcome) (batch []store.Outcome, waiters []chan struct{}) {
	timer := time.NewTimer(gather)
	defer timer.Stop()
	next, more := first, true
	for more {
		if next.flushed != nil {
			return batch, append(waiters, next.flushed)
		}
		if batch = append(batch, next.Outcome); len(batch) == cap(s.outcomes) {
			return batch, waiters
		}
		select {
		case next, more = <-s.outcomes:
		case <-timer.C:
			more = false
		}
	}
	return batch, waiters
}

func (s *Service) try(ctx context.Context, p store.Post) (chat.Ref, error) {
	platform := s.o.Platform(p.To.Platform)
	if platform == nil {
		return chat.Ref{}, fmt.Errorf("platform %s is not switched on", p.To.Platform)
	}
	since, wait := s.o.Now(), firstWait
	p.Draft.Since = p.At
	for {
		ref, err := s.attempt(ctx, platform, p)
		if err == nil {
			return ref, nil
		}
		if ctx.Err() != nil {
			return ref, errStopped
		}
		pause := wait
		var refused *chat.PostError
		if errors.As(err, &refused) {
			if refused.Permanent {
				return ref, err
			}
			p.Draft.Again = p.Draft.Again || refused.Maybe
			pause = max(wait, refused.After)
		} else {
			p.Draft.Again = true
		}
		if s.o.Now().Sub(since)+pause > giveUp {
			return ref, fmt.Errorf("no attempt of %v succeeded: %w", giveUp, err)
		}
		s.o.Log.Warn("post not taken, trying again", "post", p.Key, "to", p.To.String(), "wait", pause, "error", err)
		if !s.rest(ctx, pause) {
			return ref, errStopped
		}
		wait = min(2*wait, longestWait)
	}
}

// attempt posts where the post belongs: in the thread of another one, if it is below
// that and there can be a thread.
func (s *Service) attempt(ctx context.Context, platform chat.Platform, p store.Post) (chat.Ref, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	to := p.To
	if threads, ok := platform.(chat.Threader); ok && p.Below != "" {
		s.flush()
		head, found, err := s.o.Store.PostRef(ctx, p.Below)
		if err == nil && found {
			to, err = threads.Thread(ctx, p.To, head, p.Title)
		}
		if err != nil {
			return chat.Ref{}, &chat.PostError{Err: fmt.Errorf("find the thread: %w", err)}
		}
	}
	return platform.Post(ctx, to, p.Draft)
}

// rest waits between attempts to send, and reports whether there is to be another:
// a post that waits when the service ends is sent after the next start.
func (s *Service) rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ending:
	case <-ctx.Done():
	}
	return false
}

// insist repeats a write to the store until it succeeds: a full disk may get
// space again, and going on without the record would break what was promised.
func (s *Service) insist(ctx context.Context, what string, write func() error) error {
	wait := firstWait
	for {
		err := write()
		if err == nil {
			return nil
		}
		s.o.Log.Error(what, "error", err, "wait", wait)
		if !sleep(ctx, wait) {
			return errStopped
		}
		wait = min(2*wait, longestWait)
	}
}

// sleep waits, and reports whether ctx lasted.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
