package delivery

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/failpoint"
)

// answerInSlot answers a question when a worker slot of its channel is free.
func (s *Service) answerInSlot(a chat.Address, l *queue, q *question) {
	if !s.slots.acquire(s.workCtx, a.Base()) {
		return
	}
	release := sync.OnceFunc(func() { s.slots.release(a.Base()) })
	defer release()
	s.mu.Lock()
	if park := q.park; park != nil {
		// Work that waits for a person releases its slot, and does not take it again.
		q.park = func() { release(); park() }
	}
	s.mu.Unlock()
	s.answerQuestion(a, l, q)
}

// answerQuestion makes the answer to a question, stores it and sends it. One transaction stores the turn and the post
// before anything is sent, so that exactly one outcome is visible. It returns when the post has an outcome, or the
// service ends. The next start resumes the rest.
func (s *Service) answerQuestion(a chat.Address, l *queue, q *question) {
	began := s.o.Now()
	turn, draft, shown, done := s.produceAnswer(a, l, q)
	if !done {
		return
	}
	// Where a part of the answer is visible already, something has to replace it.
	if draft == nil && len(shown.IDs) > 0 {
		draft = &chat.Draft{Text: "The message that I was answering was deleted."}
	}
	var posts []store.Post
	if draft != nil {
		p := s.newAnswerPost(a, q, turn, *draft, began)
		if len(shown.IDs) > 0 {
			p.Draft.Replaces = shown
		}
		// An earlier process may have begun to show the answer and crashed before it stored the reference. Again makes
		// the adapter search for it. Answers to commands (with a handle) are shown only when they are complete.
		p.Draft.Again = q.resumed && len(shown.IDs) == 0 && len(p.Draft.Reply.Handle) == 0
		posts = []store.Post{p}
	}
	if w, ok := s.o.Platform(a.Platform).(chat.Watcher); ok && draft == nil && q.followUp != nil {
		w.Show(a, chat.Progress{Message: q.followUp.ID, Ended: true})
	}
	err := s.retryWrite(s.workCtx, "failed to store an answer", func() error {
		return s.o.Store.SaveAnswer(s.workCtx, a, q.keys, turn, posts)
	})
	if err == nil && draft != nil {
		failpoint.Here(failpoint.PostRecorded)
		s.send(posts[0], nil)
		s.counts.answers.Add(struct{}{}, s.o.Now().Sub(began))
	}
}

// produceAnswer asks the agent, repeatedly if the question is revised, and returns the answer and its shown post. It
// returns false if the service ended first. Afterwards nothing else changes the question.
func (s *Service) produceAnswer(a chat.Address, l *queue, q *question) (
	turn *conversation.Turn,
	draft *chat.Draft,
	shown chat.Ref,
	done bool,
) {
	ctx, stop := context.WithCancelCause(s.workCtx)
	defer stop(nil)
	defer s.showTyping(a)()
	view := s.startLiveAnswer(ctx, a, q)
	defer func() { shown = view.end() }() // known only when no partial post is under way
	for {
		asked, reply, changes := s.beginWork(l, q, stop)
		if s.reviseRecords(changes) != nil {
			return nil, nil, shown, false
		}
		turn, draft = nil, reply
		if reply == nil && len(asked.Messages) > 0 {
			turn, draft = s.askAgent(ctx, asked, view, q.park)
		}
		// This is the service's context. The work's context also ends when a person stops it, and that answer must be
		// stored.
		if !s.awaitStored(l, q) || s.workCtx.Err() != nil {
			return nil, nil, shown, false
		}
		// All messages were deleted: what the agent keeps of them is deleted, too.
		if reply == nil && len(asked.Messages) == 0 {
			_ = s.retryWrite(s.workCtx, "failed to purge a deleted message", func() error {
				return s.o.Answerer.Purge(s.workCtx, asked.Turn)
			})
		}
		if s.endWork(l, q, asked) {
			return turn, draft, shown, true
		}
	}
}

// reviseRecords has the platforms that keep messages themselves note changes of them. It returns errStopped where the
// service ends first.
func (s *Service) reviseRecords(changes []chat.Message) error {
	for _, m := range changes {
		p, ok := s.o.Platform(m.Conversation.Platform).(chat.Reviser)
		if !ok {
			continue
		}
		// The sender of the change may have ended before it was recorded. Once the change is done nobody would record
		// it.
		err := s.retryWrite(s.workCtx, "failed to note the change of a message", func() error { return p.Revise(s.workCtx, m) })
		if err != nil {
			return err
		}
	}
	return nil
}

// beginWork returns the present question, the answer if it is fixed, and the changes of its messages. From then on
// revisions and stops reach the work.
func (s *Service) beginWork(
	l *queue,
	q *question,
	stop context.CancelCauseFunc,
) (chat.Asked, *chat.Draft, []chat.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.revised == nil {
		q.revised, q.revise = context.WithCancel(context.Background())
	}
	if !slices.Contains(l.current, q) {
		l.current = append(l.current, q)
	}
	q.stop = stop
	asked := chat.Asked{Turn: q.turn, Messages: q.messages, Revised: q.revised, Stored: q.stored}
	// The deletion of a message that was answered before names the message, not the turn.
	if q.followUp != nil && len(q.messages) == 0 {
		asked.Turn = q.followUp.Subject()
	}
	return asked, q.fixedReply, slices.Clone(q.changes)
}

// endWork makes a question final and returns true, unless it was revised since beginWork returned asked.
// Both are one step under the lock, so that no revision is lost between them.
func (s *Service) endWork(l *queue, q *question, asked chat.Asked) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if asked.IsRevised() {
		return false
	}
	// A change that comes from here on finds no question. It is queued behind this one and changes its stored answer.
	l.removeCurrent(q)
	s.forgetPending(q)
	return true
}

// lateAfter is the age from which the answer to a missed question mentions the delay.
const lateAfter = 2 * time.Minute

// newAnswerPost returns the post of an answer.
func (s *Service) newAnswerPost(
	a chat.Address,
	q *question,
	turn *conversation.Turn,
	d chat.Draft,
	began time.Time,
) store.Post {
	// The turn's first post has the turn's key, so a later post has the key of the change. Keys are the same after a
	// crash, so nothing is posted twice.
	key := q.turn
	if q.followUp != nil {
		key = q.followUp.Key()
	}
	p := store.Post{Key: key, To: a, Message: q.keys[0], Also: q.keys[1:], At: s.o.Now()}
	d.Key = p.Key
	if n := len(q.messages); n > 0 {
		d.Reply = q.messages[n-1].Reply
		for _, m := range q.messages[:n-1] {
			d.Answers = append(d.Answers, m.Reply)
		}
		first, age := q.messages[0], began.Sub(q.messages[0].Time)
		if (first.Missed || q.resumed) && q.followUp == nil && age > lateAfter {
			d.Footer = appendNote(d.Footer, "asked "+describeAge(age)+"; I could not answer sooner")
		}
		if n > 1 {
			d.Footer = appendNote(d.Footer, "in answer to "+quoteMessages(q.messages))
		}
	}
	d.Answers = append(d.Answers, q.extraReplies...)
	if q.followUp != nil && turn != nil && !d.Failed {
		p.Replaces = turn.ID
		d.Replaces = s.lookUpRef(turn.ID)
		d.Reply.Handle = nil // a press is not answered by the post that it changes
		// The post with the button is known for longer than the place of a post by its key.
		post := q.followUp.Reply.MessageID
		if len(d.Replaces.IDs) == 0 && q.followUp.Kind() == chat.EventPress && post != "" {
			d.Replaces = chat.Ref{IDs: []string{post}}
		}
	}
	if turn != nil {
		d.Origin = &turn.Origin
		if !d.Failed {
			p.Turn = turn.ID
		}
		d.Buttons = answerButtons(turn.ID, d)
		// A Watcher has shown the calls already.
		if _, shows := s.o.Platform(a.Platform).(chat.Watcher); !shows && len(d.Buttons) > 0 && len(d.Tools) > 0 {
			d.Buttons = append(d.Buttons, chat.Button{Label: "What I did", Value: chat.PressTools + turn.ID})
		}
	}
	p.Draft = d
	return p
}

// maxButtonValue bounds the value of a button, in bytes: Discord's custom_id takes 100
// characters (2025).
const maxButtonValue = 90

// answerButtons returns the buttons of an answer: to try again where it failed, else to give
// feedback. A turn whose name is too long for a button's value has none.
func answerButtons(turn string, d chat.Draft) []chat.Button {
	if len(turn)+len(chat.PressRetry) > maxButtonValue {
		return nil
	}
	if d.Failed {
		return []chat.Button{{Label: "Try again", Value: chat.PressRetry + turn, Style: chat.Primary}}
	}
	return []chat.Button{{Label: "👍", Value: chat.PressGood + turn}, {Label: "👎", Value: chat.PressBad + turn}}
}

// lookUpRef returns the place of a post. It returns an empty Ref if that is unknown or unreadable. The answer then
// becomes a new post.
func (s *Service) lookUpRef(key string) chat.Ref {
	s.flushOutcomes(s.workCtx) // the outcome of the post may not be stored yet
	ref, _, err := s.o.Store.PostRef(s.workCtx, key)
	if err != nil {
		s.o.Log.Error("failed to look up an earlier answer; posting a new message", "post", key, "error", err)
	}
	return ref
}

// quoteMessages returns the beginnings of messages, so that every author sees that theirs
// was read.
func quoteMessages(messages []chat.Message) string {
	const maxQuote = 48 // characters of each
	var list []string
	for _, m := range messages {
		words := []rune(strings.Join(strings.Fields(m.Text), " "))
		if len(words) > maxQuote {
			words = append(words[:maxQuote-1], '…')
		}
		list = append(list, "“"+string(words)+"”")
	}
	return strings.Join(list, ", ")
}

// appendNote returns a footer with one more note in it.
func appendNote(footer, more string) string {
	if footer == "" {
		return more
	}
	return footer + " · " + more
}

// describeAge returns a duration in words, in whole units: minutes up to two hours, hours up to two
// days.
func describeAge(d time.Duration) string {
	switch {
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d hours ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// askAgent asks the agent. A panic there fails this question alone.
func (s *Service) askAgent(
	ctx context.Context,
	q chat.Asked,
	view *liveAnswer,
	park func(),
) (turn *conversation.Turn, draft *chat.Draft) {
	m := q.Last()
	defer func() {
		if r := recover(); r != nil {
			s.o.Log.Error("panic while answering",
				"message", m.Key(),
				"panic", fmt.Sprint(r),
				"stack", string(debug.Stack()))
			turn, draft = nil, &chat.Draft{Failed: true,
				Text: "Something went wrong inside the bot (reference " + m.Key() + "). Please tell the bot's operator."}
		}
	}()
	shown := view.show
	if w, ok := s.o.Platform(m.Conversation.Platform).(chat.Watcher); ok {
		shown = func(p chat.Progress) {
			view.show(p)
			p.Message = m.ID
			w.Show(m.Conversation, p)
		}
		// Nothing else shows that an answered question is being answered again.
		if what, _ := m.Press(); what == chat.PressRetry || m.Change != "" {
			shown(chat.Progress{Reset: true})
		}
	}
	show := func(p chat.Progress) {
		switch {
		case !p.Waits:
			shown(p)
		case park != nil:
			park()
		}
	}
	return s.o.Answerer.Answer(ctx, q, show)
}

// Typing is shown only for work that takes longer than typingAfter, so that a
// quick answer costs no extra request. The answer waits typingPatience for a request that is under way.
const (
	typingAfter    = 500 * time.Millisecond
	typingEvery    = 8 * time.Second
	typingPatience = time.Second
)

// showTyping shows a typing indicator until the returned function is called, or the service ends. That function waits
// for a request that is under way: Slack would show a status that it gets after the answer for two minutes
// (documentation of assistant.threads.setStatus). Failures are only logged: an answer does not depend on it. typingEvery
// is less than the 10 seconds for which Discord shows an indicator (documentation of Trigger Typing Indicator).
func (s *Service) showTyping(a chat.Address) func() {
	t, ok := s.o.Platform(a.Platform).(chat.Typist)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancelCause(s.workCtx)
	done := make(chan struct{})
	begin := time.AfterFunc(typingAfter, func() {
		defer close(done)
		for {
			if err := t.Typing(ctx, a); err != nil && ctx.Err() == nil {
				s.o.Log.Debug("typing not shown", "conversation", a.String(), "error", err)
			}
			if !sleep(ctx, typingEvery) {
				return
			}
		}
	})
	return func() {
		cancel(chat.ErrSuperseded)
		if begin.Stop() {
			return
		}
		select {
		case <-done:
		case <-time.After(typingPatience):
		}
	}
}
