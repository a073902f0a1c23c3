package delivery

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// lane is the queue of one conversation. It exists while there is work in it.
type lane struct {
	queue []job
}

// job is a message to answer or a post to send.
type job struct {
	message *chat.Message
	post    *store.Post
	result  chan<- store.Posted // gets the outcome of the post, where anybody waits; has room for it
}

func (s *Service) enqueue(a chat.Address, j job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return // the store has it for the next start
	}
	s.waiting++
	if l := s.lanes[a]; l != nil {
		l.queue = append(l.queue, j)
		return
	}
	l := &lane{queue: []job{j}}
	s.lanes[a] = l
	s.wg.Go(func() { s.work(a, l) })
}

// work does a lane's jobs in order until there are none. What is left when the
// service ends stays in the store for the next start.
func (s *Service) work(a chat.Address, l *lane) {
	for {
		s.mu.Lock()
		if len(l.queue) == 0 || s.closed {
			s.waiting -= len(l.queue)
			delete(s.lanes, a)
			s.mu.Unlock()
			return
		}
		j := l.queue[0]
		l.queue = l.queue[1:]
		s.waiting--
		s.mu.Unlock()
		if j.message != nil {
			s.answer(*j.message)
		} else {
			s.send(*j.post, j.result)
		}
	}
}

func (s *Service) answer(m chat.Message) {
	ctx := s.turns
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return
	}
	quiet := s.typing(ctx, m)
	turn, draft := s.think(ctx, m)
	quiet()
	if ctx.Err() != nil {
		return
	}
	var posts []store.Post
	if draft != nil {
		draft.Key, draft.Reply = m.Key(), m.Reply
		posts = []store.Post{{Key: m.Key(), To: m.Conversation, Draft: *draft, Message: m.Key(), At: s.o.Now()}}
	}
	err := s.insist(ctx, "answer not stored", func() error { return s.o.Store.Answered(ctx, m.Conversation, []string{m.Key()}, turn, posts) })
	if err == nil && draft != nil {
		s.send(posts[0], nil)
	}
}

// think asks the agent, and makes a panic there an error for this message alone.
func (s *Service) think(ctx context.Context, m chat.Message) (turn *conversation.Turn, draft *chat.Draft) {
	defer func() {
		if r := recover(); r != nil {
			s.o.Log.Error("panic while answering", "message", m.Key(), "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			turn, draft = nil, &chat.Draft{Failed: true,
				Text: "Something went wrong inside the bot (reference " + m.Key() + "). Please tell whoever runs it."}
		}
	}()
	show := func(chat.Progress) {}
	if w, ok := s.o.Platforms[m.Conversation.Platform].(chat.Watcher); ok {
		show = func(p chat.Progress) { p.Message = m.ID; w.Show(m.Conversation, p) }
	}
	return s.o.Answerer.Answer(ctx, m, show)
}

// Typing is shown only for work that takes longer than typingAfter, so that a
// quick answer costs no extra request.
const (
	typingAfter = 500 * time.Millisecond
	typingEvery = 8 * time.Second
)

// typing shows that an answer is being written until the returned function is
// called.
func (s *Service) typing(ctx context.Context, m chat.Message) func() {
	t, ok := s.o.Platforms[m.Conversation.Platform].(chat.Typist)
	if !ok {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	s.wg.Go(func() {
		timer := time.NewTimer(typingAfter)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			if err := t.Typing(ctx, m.Conversation); err != nil && ctx.Err() == nil {
				s.o.Log.Debug("typing not shown", "conversation", m.Conversation.String(), "error", err)
			}
			timer.Reset(typingEvery)
		}
	})
	return stop
}

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
func (s *Service) send(p store.Post, result chan<- store.Posted) {
	ctx := s.turns
	ref, err := s.try(ctx, p)
	if errors.Is(err, errStopped) {
		return
	}
	out := store.Posted{Key: p.Key, Ref: ref, At: s.o.Now()}
	if err != nil {
		out.Error = err.Error()
		s.o.Log.Error("post given up", "post", p.Key, "to", p.To.String(), "error", err)
		s.confess(ctx, p)
	}
	s.outcomes <- out
	if result != nil {
		result <- out
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
		batch := []store.Posted{first}
		timer := time.NewTimer(gather)
		for waiting := true; waiting; {
			select {
			case next, more := <-s.outcomes:
				if more {
					batch = append(batch, next)
				}
				waiting = more && len(batch) < cap(s.outcomes)
			case <-timer.C:
				waiting = false
			}
		}
		timer.Stop()
		limited, cancel := context.WithTimeout(ctx, giveUp)
		_ = s.insist(limited, "outcomes of posts not stored", func() error { return s.o.Store.Posted(limited, batch) })
		cancel()
	}
}

// confess tells the asker, in words that any platform takes, that an answer was
// refused.
func (s *Service) confess(ctx context.Context, p store.Post) {
	platform := s.o.Platforms[p.To.Platform]
	if p.Message == "" || platform == nil {
		return
	}
	p.Draft = chat.Draft{Key: p.Key + "/refused", Reply: p.Draft.Reply, Failed: true,
		Text: "My answer could not be posted here (reference " + p.Key + "). Whoever runs this bot finds the reason in its log."}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	if _, err := platform.Post(ctx, p.To, p.Draft); err != nil {
		s.o.Log.Error("refusal not posted either", "post", p.Key, "error", err)
	}
}

func (s *Service) try(ctx context.Context, p store.Post) (chat.Ref, error) {
	platform := s.o.Platforms[p.To.Platform]
	if platform == nil {
		return chat.Ref{}, fmt.Errorf("platform %s is not switched on", p.To.Platform)
	}
	since, wait := s.o.Now(), firstWait
	for {
		attempt, cancel := context.WithTimeout(ctx, postTimeout)
		ref, err := platform.Post(attempt, p.To, p.Draft)
		cancel()
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
