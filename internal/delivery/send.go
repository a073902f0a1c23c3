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
	maxWait     = time.Minute
	giveUpAfter = 6 * time.Hour
)

// send posts until the platform names the post or it is given up, and records
// which. It holds its lane meanwhile, so that order is kept.
func (s *Service) send(p store.Post, result chan<- store.Outcome) {
	ctx := s.working
	ref, err := s.postWithRetries(ctx, p)
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
	s.outcomes <- outcomeEvent{Outcome: out}
	if result != nil {
		result <- out
	}
	if err != nil {
		s.addUndelivered(ctx, p)
		return
	}
	s.notifyUndelivered(ctx, func(lost store.Post) bool { return lost.To.Base() == p.To.Base() })
}

// outcomeEvent is that of a post; or, with flushed, a wish to know when all before it
// are stored.
type outcomeEvent struct {
	store.Outcome
	flushed chan struct{}
}

// flushOutcomes returns when the outcomes of all posts so far are stored, or the service
// ends.
func (s *Service) flushOutcomes() {
	done := make(chan struct{})
	s.outcomes <- outcomeEvent{flushed: done}
	select {
	case <-done:
	case <-s.working.Done():
	}
}

// gatherFor is how long the outcome of a post may wait for others, to be stored with
// them. Nobody waits for it: a crash meanwhile makes the post one that may have
// been sent, which the platform is asked about before it is sent again.
const gatherFor = 20 * time.Millisecond

// storeOutcomes stores outcomes until there will be no more. Only a full or broken store
// holds it up, and then the lanes too, once the queue is full.
func (s *Service) storeOutcomes(ctx context.Context) {
	for first := range s.outcomes {
		batch, waiters := s.gatherBatch(first)
		if len(batch) > 0 {
			limited, cancel := context.WithTimeout(ctx, giveUpAfter)
			_ = s.retryWrite(limited, "outcomes of posts not stored", func() error { return s.o.Store.SaveOutcomes(limited, batch) })
			cancel()
		}
		for _, w := range waiters {
			close(w)
		}
	}
}

// gatherBatch collects outcomes for a moment, or until somebody waits for them.
func (s *Service) gatherBatch(first outcomeEvent) (batch []store.Outcome, waiters []chan struct{}) {
	timer := time.NewTimer(gatherFor)
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

func (s *Service) postWithRetries(ctx context.Context, p store.Post) (chat.Ref, error) {
	platform := s.o.Platform(p.To.Platform)
	if platform == nil {
		return chat.Ref{}, fmt.Errorf("platform %s is not switched on", p.To.Platform)
	}
	since, wait := s.o.Now(), firstWait
	p.Draft.Since = p.At
	for {
		ref, err := s.postOnce(ctx, platform, p)
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
		if s.o.Now().Sub(since)+pause > giveUpAfter {
			return ref, fmt.Errorf("no attempt of %v succeeded: %w", giveUpAfter, err)
		}
		s.o.Log.Warn("post not taken, trying again", "post", p.Key, "to", p.To.String(), "wait", pause, "error", err)
		if !s.waitToRetry(ctx, pause) {
			return ref, errStopped
		}
		wait = min(2*wait, maxWait)
	}
}

// postOnce posts where the post belongs: in the thread of another one, if it is below
// that and there can be a thread.
func (s *Service) postOnce(ctx context.Context, platform chat.Platform, p store.Post) (chat.Ref, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	to := p.To
	if threads, ok := platform.(chat.Threader); ok && p.Below != "" {
		s.flushOutcomes()
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

// waitToRetry waits between attempts to send, and reports whether there is to be another:
// a post that waits when the service ends is sent after the next start.
func (s *Service) waitToRetry(ctx context.Context, d time.Duration) bool {
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

// retryWrite repeats a write to the store until it succeeds: a full disk may get
// space again, and going on without the record would break what was promised.
func (s *Service) retryWrite(ctx context.Context, what string, write func() error) error {
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
		wait = min(2*wait, maxWait)
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
