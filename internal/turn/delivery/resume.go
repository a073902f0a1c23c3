package delivery

import (
	"context"
	"maps"
	"slices"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// resumeWork queues work without an outcome, and undelivered posts without a notice. It queues nothing if any of the
// reads fails.
func (s *Service) resumeWork(ctx context.Context) error {
	posts, err := s.o.Store.PendingPosts(ctx)
	if err != nil {
		return err
	}
	messages, err := s.o.Store.Unanswered(ctx)
	if err != nil {
		return err
	}
	undelivered, err := s.o.Store.Unnotified(ctx)
	if err != nil {
		return err
	}
	s.resume(append(posts, undelivered...), messages)
	return nil
}

// Take queues the messages and posts that take returns, which belong to this process from then on. Until Take returns, no
// message is stored and queued. Do not call it before Ready.
func (s *Service) Take(take func() (store.Taken, error)) error {
	s.taking.Lock()
	defer s.taking.Unlock()
	work, err := take()
	if err == nil {
		s.resume(work.Posts, work.Messages)
	}
	return err
}

// resume queues work that another process has left, in the order in which it was stored: first the posts, then the
// messages without a post, then the messages that no process has begun to answer. Posts that were given up are queued for
// notice. Work that was resumed within the last hour is skipped.
func (s *Service) resume(posts []store.Post, messages []store.Received) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// No queue is worked on while the lock is held, so that messages which were merged into one answer are merged
	// again.
	s.recovering = true
	s.forgetResumed()
	answered := map[string]bool{}
	pending, unanswered := 0, 0
	for _, p := range posts {
		isNew := s.noteResumed(p.Key)
		if p.Error != "" {
			if isNew {
				s.undelivered = append(s.undelivered, p)
			}
			continue
		}
		for _, key := range p.Messages() {
			answered[key] = true
		}
		if isNew {
			pending++
			// The post may have been sent before the crash. Again makes the adapter search for it on the platform
			// first.
			p.Draft.Again = true
			s.enqueueLocked(p.To, job{post: &p})
		}
	}
	s.undelivered = s.undelivered[max(0, len(s.undelivered)-maxUndelivered):]
	for _, r := range messages {
		// A message with a stored post has its answer; only the post is left to be sent.
		if key := r.Message.Key(); !r.Fresh && !answered[key] && s.noteResumed(key) && !s.isQueued(r.Message) {
			unanswered++
			s.routeLocked(r.Message)
		}
	}
	s.startResumed()
	for _, r := range messages {
		if r.Fresh {
			s.routeLocked(r.Message)
		}
	}
	if pending+unanswered > 0 {
		s.o.Log.Info("resuming work of another process", "posts", pending, "messages", unanswered)
	}
}

// noteResumed returns false where a post or a message was resumed before: what Run reads at its start may be
// taken, too.
func (s *Service) noteResumed(key string) bool {
	if _, ok := s.resumed[key]; ok {
		return false
	}
	s.resumed[key] = s.o.Now()
	return true
}

// rememberResumed is how long the keys of resumed work are kept. Run and Take read the same work within moments.
const rememberResumed = time.Hour

// forgetResumed removes the keys of work that was resumed too long ago to be taken again.
func (s *Service) forgetResumed() {
	before := s.o.Now().Add(-rememberResumed)
	maps.DeleteFunc(s.resumed, func(_ string, at time.Time) bool { return at.Before(before) })
}

// isQueued reports whether a message waits or is being answered here.
func (s *Service) isQueued(m chat.Message) bool {
	q := s.questions[m.Subject()]
	return q != nil && slices.Contains(q.keys, m.Key())
}

// startResumed ends recovery. It puts the resumed jobs, which are older, in front of the waiting jobs of each queue,
// starts new queues, and answers the collected urgent questions.
func (s *Service) startResumed() {
	s.recovering = false
	for _, q := range s.urgent {
		s.answerUrgent(q)
	}
	s.urgent = nil
	for a, l := range s.queues {
		if len(l.resumed) > 0 {
			l.jobs, l.resumed = append(l.resumed, l.jobs...), nil
			s.startQueue(a, l)
		}
	}
}

// WorkingIn reports whether anything is queued or under way in a channel or its threads.
func (s *Service) WorkingIn(channel chat.Address) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.queues {
		if at.Base() == channel {
			return true
		}
	}
	return false
}
