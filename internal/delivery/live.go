package delivery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"ravenbot/internal/chat"
)

// Rules of showing an answer while it is made: what takes less than liveAfter
// appears when it is whole; an edit may take liveTimeout.
const (
	liveAfter   = 1200 * time.Millisecond
	liveTimeout = 15 * time.Second
)

// liveAnswer shows an answer on a platform while it is being made: a post that is edited
// at the platform's pace. The whole answer takes its place.
type liveAnswer struct {
	s        *Service
	platform chat.Platform
	to       chat.Address
	key      string
	reply    chat.Reply

	mu     sync.Mutex
	text   []byte
	tools  []chat.ToolRun
	dirty  bool
	cancel context.CancelFunc // of the edit under way; nil while the post is being made

	ref  chat.Ref // of the post; empty: there is none
	stop chan struct{}
	done chan struct{}
}

// startLiveAnswer begins to show the answer to a question where the platform can; nil: it
// cannot. A post that an earlier process began is taken up.
func (s *Service) startLiveAnswer(ctx context.Context, a chat.Address, q *question) *liveAnswer {
	s.mu.Lock()
	messages, known := q.messages, q.followUp != nil || q.fixedReply != nil
	s.mu.Unlock()
	platform := s.o.Platform(a.Platform)
	if len(messages) == 0 || known || platform == nil || platform.Limits().Edits == 0 {
		return nil
	}
	l := &liveAnswer{s: s, platform: platform, to: a, key: q.turn, reply: messages[len(messages)-1].Reply,
		stop: make(chan struct{}), done: make(chan struct{})}
	ref, _, err := s.o.Store.Stream(ctx, l.key)
	if err != nil {
		s.o.Log.Error("begun answer not looked up", "post", l.key, "error", err)
	}
	if l.ref = ref; q.resumed && len(ref.IDs) == 0 {
		return nil // it may have been begun: the whole answer is posted after a look
	}
	s.wg.Go(func() { l.run(ctx) })
	return l
}

// show takes note of progress; it never blocks.
func (l *liveAnswer) show(p chat.Progress) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case p.Reset:
		l.text = nil
	case p.Tool != nil:
		i := slices.IndexFunc(l.tools, func(t chat.ToolRun) bool { return t.ID == p.Tool.ID })
		if i < 0 {
			l.tools = append(l.tools, *p.Tool)
		} else {
			l.tools[i] = *p.Tool
		}
		l.dirty = true
	case p.Text != "":
		l.text = append(l.text, p.Text...)
		l.dirty = true
	}
}

// end stops showing and gives the post that is there.
func (l *liveAnswer) end() chat.Ref {
	if l == nil {
		return chat.Ref{}
	}
	close(l.stop)
	l.mu.Lock()
	if l.cancel != nil { // the whole answer is a better edit
		l.cancel()
	}
	l.mu.Unlock()
	<-l.done
	return l.ref
}

func (l *liveAnswer) run(ctx context.Context) {
	defer close(l.done)
	timer := time.NewTimer(liveAfter)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-l.stop:
			return
		case <-ctx.Done():
			return
		}
		if d, changed := l.draft(); changed && !l.postPartial(ctx, d) {
			return
		}
		timer.Reset(l.platform.Limits().Edits)
	}
}

// draft is the answer as far as it has come, if that has changed.
func (l *liveAnswer) draft() (chat.Draft, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dirty {
		return chat.Draft{}, false
	}
	l.dirty = false
	return chat.Draft{Key: l.key, Text: string(l.text), Tools: slices.Clone(l.tools), Reply: l.reply, Partial: true, Replaces: l.ref,
		Buttons: []chat.Button{{Label: "Stop", Value: chat.PressStop, Style: chat.Danger}}}, true
}

// postPartial shows the answer so far, and reports whether it makes sense to go on. The
// first time the place of the post is recorded, so that a crash does not leave it
// behind unfinished.
func (l *liveAnswer) postPartial(ctx context.Context, d chat.Draft) bool {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	if len(l.ref.IDs) > 0 {
		l.mu.Lock()
		l.cancel = cancel
		l.mu.Unlock()
	}
	ref, err := l.platform.Post(ctx, l.to, d)
	var refused *chat.PostError
	if errors.As(err, &refused) && refused.After > 0 && sleep(ctx, refused.After) {
		return true
	}
	if err != nil {
		l.s.o.Log.Debug("answer not shown while it is made", "post", l.key, "error", err)
		return false
	}
	if len(ref.IDs) == 0 || slices.Equal(ref.IDs, l.ref.IDs) {
		return true
	}
	l.ref = ref
	if err := l.s.o.Store.SaveStream(ctx, l.key, ref); err != nil {
		l.s.o.Log.Error("place of a begun answer not stored", "post", l.key, "error", err)
	}
	return true
}
