package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/failpoint"
)

// Rules of sending. An attempt may take postTimeout. Waits between attempts double from firstWait to maxWait, unless
// the platform requests a longer one. A post is given up on a permanent refusal, or giveUpAfter its first attempt.
const (
	postTimeout = time.Minute
	firstWait   = time.Second
	maxWait     = time.Minute
	giveUpAfter = 6 * time.Hour
)

// send sends p until the platform accepts it or it is given up, and queues the outcome for storing. Its queue waits,
// so that the posts of a conversation keep their order.
func (s *Service) send(p store.Post, result chan<- store.Outcome) {
	ctx := s.workCtx
	ref, err := s.postWithRetries(ctx, p)
	if errors.Is(err, errStopped) {
		return // no outcome: the next start sends the post
	}
	out := store.Outcome{Key: p.Key, Ref: ref, At: s.o.Now()}
	if err != nil {
		out.Error = err.Error()
		s.o.Log.Error("failed to deliver a post; giving up", "post", p.Key, "to", p.To.String(), "error", err)
		s.counts.givenUp.Add(1)
	} else {
		failpoint.Here(failpoint.PostSent)
		s.counts.posted.Add(1)
	}
	if ref.Repeated {
		s.counts.repeated.Add(1)
		s.o.Log.Warn("post may appear twice", "post", p.Key, "to", p.To.String())
	}
	s.queueOutcome(ctx, outcomeEvent{Outcome: out})
	if result != nil {
		result <- out
	}
	if err != nil {
		s.addUndelivered(ctx, p)
		return
	}
	// The place accepts posts again: a good moment for the notices that it missed.
	s.notifyUndelivered(ctx, func(lost store.Post) bool { return lost.To.Base() == p.To.Base() })
}

// outcomeEvent is the outcome of a post or, with flushed, a request to close that channel
// when all outcomes before it are stored.
type outcomeEvent struct {
	store.Outcome
	flushed chan struct{}
}

// queueOutcome queues an outcome for storing. It returns false if ctx ends before there is room. The next start
// repeats a post without an outcome, after it has searched the platform for it.
func (s *Service) queueOutcome(ctx context.Context, e outcomeEvent) bool {
	// Try without ctx first, because select chooses at random when ctx has ended and there is room, too.
	select {
	case s.outcomes <- e:
		return true
	default:
	}
	select {
	case s.outcomes <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// flushOutcomes returns when the outcomes of all posts so far are stored, or ctx ends.
func (s *Service) flushOutcomes(ctx context.Context) {
	done := make(chan struct{})
	if !s.queueOutcome(ctx, outcomeEvent{flushed: done}) {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// storeLastFor is how long the end of the service may wait for storing the last outcomes. A supervisor kills a slow
// process, and the next start finds the missing outcomes.
const storeLastFor = 3 * time.Second

// gatherFor is how long the outcome of a post may wait for other outcomes, and then again for another write to share.
// Nobody waits for it. After a crash in this time, the platform is searched for the post before it is sent again.
const gatherFor = 10 * time.Millisecond

// storeOutcomes stores outcomes until ctx ends. When the store is full or broken it waits, and
// once the channel is full the queues wait, too.
func (s *Service) storeOutcomes(ctx context.Context) {
	for {
		var first outcomeEvent
		select {
		case first = <-s.outcomes:
		case <-ctx.Done():
			return
		}
		batch, waiters := s.gatherBatch(first)
		patience := gatherFor
		if len(waiters) > 0 {
			patience = 0
		}
		if len(batch) > 0 {
			limited, cancel := context.WithTimeout(ctx, giveUpAfter)
			_ = s.retryWrite(limited, "failed to store the outcomes of posts", func() error {
				return s.o.Store.SaveOutcomes(limited, batch, patience)
			})
			cancel()
		}
		for _, w := range waiters {
			close(w)
		}
	}
}

// gatherBatch collects outcomes for gatherFor, or until somebody waits for them. It returns at most
// as many as the channel holds, and whom to tell when they are stored.
func (s *Service) gatherBatch(first outcomeEvent) (batch []store.Outcome, waiters []chan struct{}) {
	end := time.After(gatherFor)
	next := first
	for {
		if next.flushed != nil {
			return batch, append(waiters, next.flushed)
		}
		if batch = append(batch, next.Outcome); len(batch) == cap(s.outcomes) {
			return batch, waiters
		}
		select {
		case next = <-s.outcomes:
		case <-end:
			return batch, waiters
		}
	}
}

// postWithRetries posts p until the platform accepts it. It returns errStopped where the
// service ends first, and another error where p is given up.
func (s *Service) postWithRetries(ctx context.Context, p store.Post) (chat.Ref, error) {
	since, wait := s.o.Now(), firstWait
	p.Draft.Since = p.At // how far back the adapter has to look for an earlier attempt
	for {
		// Asked each time: while a post waits its platform may get another token.
		platform := s.o.Platform(p.To.Platform)
		if platform == nil && s.o.Replicas != nil && s.o.Now().Sub(p.At) < giveUpAfter {
			return chat.Ref{}, s.freePost(ctx, p)
		}
		if platform == nil {
			return chat.Ref{}, fmt.Errorf("platform %s is not switched on", p.To.Platform)
		}
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
			// It stays set: a refused later attempt does not clear up an unknown earlier one.
			p.Draft.Again = p.Draft.Again || refused.Maybe
			pause = max(wait, refused.After)
		} else {
			// Nothing is known about this error, such as a lost connection: the post may be there.
			p.Draft.Again = true
		}
		if s.o.Now().Sub(since)+pause > giveUpAfter {
			return ref, fmt.Errorf("no attempt of %v succeeded: %w", giveUpAfter, err)
		}
		s.o.Log.Warn("failed to deliver a post; retrying", "post", p.Key, "to", p.To.String(), "wait", pause, "error", err)
		if !s.waitToRetry(ctx, pause) {
			return ref, errStopped
		}
		wait = min(2*wait, maxWait)
	}
}

// freePost leaves a post to a process in which its platform is switched on, and returns errStopped: the configurations of
// replicas differ while they are changed one after another.
func (s *Service) freePost(ctx context.Context, p store.Post) error {
	s.o.Log.Info("platform is not switched on here; leaving the post to another replica", "post", p.Key,
		"platform", p.To.Platform)
	_ = s.retryWrite(ctx, "failed to leave a post to another replica", func() error { return s.o.Replicas.FreePost(ctx, p) })
	return errStopped
}

// postOnce makes one attempt to post p: in the thread of the post that it belongs below, if
// the platform has threads, else in its conversation.
func (s *Service) postOnce(ctx context.Context, platform chat.Platform, p store.Post) (chat.Ref, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	to := p.To
	if threads, ok := platform.(chat.Threader); ok && p.Below != "" {
		s.flushOutcomes(ctx) // the outcome of the post above may not be stored yet
		head, found, err := s.o.Store.PostRef(ctx, p.Below)
		if err == nil && found {
			to, err = threads.Thread(ctx, p.To, head, p.Title)
		}
		if err != nil {
			// A PostError, since nothing was posted: any other error would have the next attempt look for the post.
			return chat.Ref{}, &chat.PostError{Err: fmt.Errorf("find the thread: %w", err)}
		}
	}
	return s.postOwned(ctx, platform, to, p.Draft)
}

// postOwned makes one attempt to post d while this process owns the store. A process that has taken over sends the
// post itself.
func (s *Service) postOwned(ctx context.Context, platform chat.Platform, to chat.Address, d chat.Draft) (chat.Ref, error) {
	if err := s.o.Store.Owned(); err != nil {
		return chat.Ref{}, &chat.PostError{Err: err}
	}
	if s.o.Store.IsShared() {
		ctx = chat.WithPermission(ctx, s.o.Store.Owned)
	}
	return platform.Post(ctx, to, d)
}

// waitToRetry waits between attempts. It returns false if the service ends. Unlike work under way, a waiting post gets
// no grace period and is sent after the next start.
func (s *Service) waitToRetry(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.ending:
	case <-ctx.Done():
	}
	return false
}

// retryWrite repeats a write to the store until it succeeds or ctx ends with errStopped. A full disk may get space
// again, and proceeding without the record would break a promise. what is the log message for each failure.
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

// sleep waits for d. It returns false where ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
