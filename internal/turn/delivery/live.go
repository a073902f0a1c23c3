package delivery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
)

// Rules of showing an unfinished answer. An answer that takes less than liveAfter is only shown complete. Text that
// arrives within gatherText is shown together. An edit may take liveTimeout.
const (
	liveAfter   = time.Second
	gatherText  = 100 * time.Millisecond
	liveTimeout = 15 * time.Second
)

// liveAnswer shows an answer while it is made: a post that is edited at the platform's pace, and
// that the whole answer replaces. show may be called from any goroutine, end once; a nil liveAnswer
// shows nothing.
type liveAnswer struct {
	s        *Service
	platform chat.Platform
	to       chat.Address
	key      string
	reply    chat.Reply

	// mu guards the fields up to cancel.
	mu     sync.Mutex
	text   []byte
	tools  []chat.ToolRun
	dirty  bool                    // there is more than was shown
	cancel context.CancelCauseFunc // of the edit under way; nil while the post is being made

	ref   chat.Ref      // of the post; may be empty
	news  chan struct{} // holds an element when there is more to show
	begin *time.Timer   // runs run
	stop  chan struct{} // closed by end
	done  chan struct{} // closed when run has ended
}

// startLiveAnswer begins to show the answer to a question, in the post that an earlier process began, if there is one.
// It returns nil if unfinished answers are not shown.
func (s *Service) startLiveAnswer(ctx context.Context, a chat.Address, q *question) *liveAnswer {
	s.mu.Lock()
	messages, known := q.messages, q.followUp != nil || q.fixedReply != nil
	s.mu.Unlock()
	platform := s.o.Platform(a.Platform)
	if len(messages) == 0 || known || platform == nil || platform.Limits().Edits == 0 {
		return nil
	}
	l := &liveAnswer{
		s:        s,
		platform: platform,
		to:       a,
		key:      q.turn,
		reply:    messages[len(messages)-1].Reply,
		news:     make(chan struct{}, 1),
		stop:     make(chan struct{}),
		done:     make(chan struct{}),
	}
	if q.resumed {
		ref, _, err := s.o.Store.Stream(ctx, l.key)
		if err != nil {
			s.o.Log.Error("failed to look up a partial answer", "post", l.key, "error", err)
		}
		// An earlier process may have posted a beginning and crashed before it stored the reference. A second
		// beginning would look the same, so only the complete answer is posted, and the adapter first searches for the
		// earlier post.
		if l.ref = ref; len(ref.IDs) == 0 {
			return nil
		}
	}
	// Not with ctx, which ends when somebody stops the work: showing it ends then as at the end of the work.
	l.begin = time.AfterFunc(liveAfter, func() { l.run(s.workCtx) })
	return l
}

// show adds progress to the answer. It never blocks.
func (l *liveAnswer) show(p chat.Progress) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	// Not dirty: the shown text stays until there is new text.
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
	if l.dirty {
		select {
		case l.news <- struct{}{}:
		default:
		}
	}
}

// end stops showing the answer, and returns its post, or an empty Ref. It waits for a first post under way, because
// the complete answer may replace it, and for a sent edit, which could otherwise be executed after the complete
// answer.
func (l *liveAnswer) end() chat.Ref {
	if l == nil {
		return chat.Ref{}
	}
	if l.begin.Stop() { // most answers are there before anything of them is shown
		return l.ref
	}
	close(l.stop)
	l.mu.Lock()
	if l.cancel != nil { // an edit that waits for the platform's pace would only delay the whole answer
		l.cancel(chat.ErrSuperseded)
	}
	l.mu.Unlock()
	<-l.done
	return l.ref
}

// run shows the answer whenever there is more of it, at the platform's pace, until end is called, ctx ends or showing
// it fails.
func (l *liveAnswer) run(ctx context.Context) {
	// end waits for it, so that the whole answer never comes before a part of it.
	defer close(l.done)
	var due time.Time
	for {
		select {
		case <-l.news:
		case <-l.stop:
			return
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(max(time.Until(due), gatherText)):
		case <-l.stop:
			return
		case <-ctx.Done():
			return
		}
		// The next time counts from here: a slow platform is not to make the answer jump.
		due = time.Now().Add(l.platform.Limits().Edits)
		if d, changed := l.draft(); changed && !l.postPartial(ctx, d) {
			return
		}
	}
}

// draft returns the answer so far. It returns false if it has not changed.
func (l *liveAnswer) draft() (chat.Draft, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dirty {
		return chat.Draft{}, false
	}
	l.dirty = false
	return chat.Draft{
		Key:      l.key,
		Text:     string(l.text),
		Tools:    slices.Clone(l.tools),
		Reply:    l.reply,
		Partial:  true,
		Replaces: l.ref,
		Buttons:  []chat.Button{{Label: "Stop", Value: chat.PressStop, Style: chat.Danger}},
	}, true
}

// postPartial shows the answer so far, and returns false if showing must end. The first time it stores the post's
// reference, so that after a crash the complete answer can replace it.
func (l *liveAnswer) postPartial(ctx context.Context, d chat.Draft) bool {
	ctx, expire := context.WithTimeout(ctx, liveTimeout)
	defer expire()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Only edits may be cancelled: a first post that is cut off could be there or not.
	if len(l.ref.IDs) > 0 {
		l.mu.Lock()
		l.cancel = cancel
		l.mu.Unlock()
	}
	ref, err := l.s.postOwned(ctx, l.platform, l.to, d)
	var refused *chat.PostError
	if errors.As(err, &refused) && refused.After > 0 && sleep(ctx, refused.After) {
		return true
	}
	if err != nil {
		l.s.o.Log.Debug("partial answer not shown", "post", l.key, "error", err)
		return false
	}
	if len(ref.IDs) == 0 || slices.Equal(ref.IDs, l.ref.IDs) {
		return true
	}
	// Keep the reference even if storing it fails: only a crash needs the record.
	l.ref = ref
	if err := l.s.o.Store.SaveStream(ctx, l.key, ref); err != nil {
		l.s.o.Log.Error("failed to store where a partial answer is", "post", l.key, "error", err)
	}
	return true
}
