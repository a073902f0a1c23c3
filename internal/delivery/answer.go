package delivery

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/failpoint"
	"ravenbot/internal/store"
)

// answerInSlot makes the answer to a question, stores it and sends it.
func (s *Service) answerInSlot(a chat.Address, l *queue, q *question) {
	if !s.slots.acquire(s.working, a.Base()) {
		return
	}
	defer s.slots.release(a.Base())
	s.answerQuestion(a, l, q)
}

// answerQuestion is answer where there is room for the work.
func (s *Service) answerQuestion(a chat.Address, l *queue, q *question) {
	began := s.o.Now()
	turn, draft, shown, done := s.produceAnswer(a, l, q)
	if !done {
		return
	}
	if draft == nil && len(shown.IDs) > 0 {
		draft = &chat.Draft{Text: "What I was answering has been deleted."}
	}
	var posts []store.Post
	if draft != nil {
		p := s.newAnswerPost(a, q, turn, *draft, began)
		if len(shown.IDs) > 0 {
			p.Draft.Replaces = shown
		}
		// What an earlier process began to show without having its place on record has
		// to be looked for; answers to commands are not shown before they are whole.
		p.Draft.Again = q.resumed && len(shown.IDs) == 0 && len(p.Draft.Reply.Handle) == 0
		posts = []store.Post{p}
	}
	err := s.retryWrite(s.working, "answer not stored", func() error { return s.o.Store.SaveAnswer(s.working, a, q.keys, turn, posts) })
	if err == nil && draft != nil {
		failpoint.Here(failpoint.PostRecorded)
		s.send(posts[0], nil)
	}
}

// produceAnswer asks for the answer until nothing has changed meanwhile, and gives where
// it has been shown so far; false says that the service ended first. Afterwards
// nobody else changes the question.
func (s *Service) produceAnswer(a chat.Address, l *queue, q *question) (turn *conversation.Turn, draft *chat.Draft, shown chat.Ref, done bool) {
	ctx, stop := context.WithCancelCause(s.working)
	defer stop(nil)
	defer s.showTyping(ctx, a)()
	view := s.startLiveAnswer(ctx, a, q)
	defer func() { shown = view.end() }()
	for {
		asked, reply := s.beginWork(l, q, stop)
		switch {
		case reply != nil:
			turn, draft = nil, reply
		case len(asked.Messages) == 0:
			turn, draft = nil, nil
			_ = s.retryWrite(s.working, "deleted message not purged", func() error { return s.o.Answerer.Purge(s.working, asked.Turn) })
		default:
			turn, draft = s.askAgent(ctx, asked, view)
		}
		if s.working.Err() != nil {
			return nil, nil, shown, false
		}
		if s.endWork(l, q, asked.Revised) {
			return turn, draft, shown, true
		}
	}
}

// beginWork gives what is asked as it stands, and the answer where it is known.
func (s *Service) beginWork(l *queue, q *question, stop context.CancelCauseFunc) (chat.Asked, *chat.Draft) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.revised == nil {
		q.revised = make(chan struct{})
	}
	l.current, q.stop = q, stop
	asked := chat.Asked{Turn: q.turn, Messages: q.messages, Revised: q.revised}
	if q.followUp != nil && len(q.messages) == 0 {
		asked.Turn = q.followUp.Subject()
	}
	return asked, q.fixedReply
}

// endWork takes a question out of reach, unless it was revised since it was begun.
func (s *Service) endWork(l *queue, q *question, revised <-chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-revised:
		return false
	default:
	}
	l.current = nil
	for _, h := range q.pending {
		delete(s.questions, h.subject)
		s.limiter.remove(h)
	}
	q.pending = nil
	return true
}

// lateAfter is how old a question that met nobody may be before its answer says so.
const lateAfter = 2 * time.Minute

// newAnswerPost makes the post of an answer.
func (s *Service) newAnswerPost(a chat.Address, q *question, turn *conversation.Turn, d chat.Draft, began time.Time) store.Post {
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
		if first := q.messages[0]; (first.Missed || q.resumed) && q.followUp == nil && began.Sub(first.Time) > lateAfter {
			d.Footer = appendNote(d.Footer, "asked "+describeAge(began.Sub(first.Time))+"; I could not answer sooner")
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
	}
	if turn != nil {
		if !d.Failed {
			p.Turn = turn.ID
		}
		d.Buttons = answerButtons(turn.ID, d)
		if _, shows := s.o.Platform(a.Platform).(chat.Watcher); !shows && len(d.Buttons) > 0 && len(d.Tools) > 0 {
			d.Buttons = append(d.Buttons, chat.Button{Label: "What I did", Value: chat.PressTools + turn.ID})
		}
	}
	p.Draft = d
	return p
}

// maxButtonValue is the most that a button's value may hold, in bytes.
const maxButtonValue = 90

// answerButtons gives the buttons of an answer: to ask again where it failed, else to say
// whether it helped.
func answerButtons(turn string, d chat.Draft) []chat.Button {
	if len(turn)+len(chat.PressRetry) > maxButtonValue {
		return nil
	}
	if d.Failed {
		return []chat.Button{{Label: "Try again", Value: chat.PressRetry + turn, Style: chat.Primary}}
	}
	return []chat.Button{{Label: "👍", Value: chat.PressGood + turn}, {Label: "👎", Value: chat.PressBad + turn}}
}

// lookUpRef gives where a post is; nowhere, if that is not known any more.
func (s *Service) lookUpRef(key string) chat.Ref {
	s.flushOutcomes()
	ref, _, err := s.o.Store.PostRef(s.working, key)
	if err != nil {
		s.o.Log.Error("place of an earlier answer not read, so it is posted anew", "post", key, "error", err)
	}
	return ref
}

// quoteMessages names messages by their beginnings, so that everybody sees that theirs
// was read.
func quoteMessages(messages []chat.Message) string {
	const most = 48 // characters of each
	var list []string
	for _, m := range messages {
		words := []rune(strings.Join(strings.Fields(m.Text), " "))
		if len(words) > most {
			words = append(words[:most-1], '…')
		}
		list = append(list, "“"+string(words)+"”")
	}
	return strings.Join(list, ", ")
}

func appendNote(footer, more string) string {
	if footer == "" {
		return more
	}
	return footer + " · " + more
}

// describeAge tells a length of time in the words of people.
func describeAge(d time.Duration) string {
	switch {
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d hours ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// askAgent asks the agent, and makes a panic there an error for this question alone.
func (s *Service) askAgent(ctx context.Context, q chat.Asked, view *liveAnswer) (turn *conversation.Turn, draft *chat.Draft) {
	m := q.Last()
	defer func() {
		if r := recover(); r != nil {
			s.o.Log.Error("panic while answering", "message", m.Key(), "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			turn, draft = nil, &chat.Draft{Failed: true,
				Text: "Something went wrong inside the bot (reference " + m.Key() + "). Please tell whoever runs it."}
		}
	}()
	show := view.show
	if w, ok := s.o.Platform(m.Conversation.Platform).(chat.Watcher); ok {
		show = func(p chat.Progress) {
			view.show(p)
			p.Message = m.ID
			w.Show(m.Conversation, p)
		}
	}
	return s.o.Answerer.Answer(ctx, q, show)
}

// Typing is shown only for work that takes longer than typingAfter, so that a
// quick answer costs no extra request.
const (
	typingAfter = 500 * time.Millisecond
	typingEvery = 8 * time.Second
)

// showTyping shows that an answer is being written until the returned function is
// called.
func (s *Service) showTyping(ctx context.Context, a chat.Address) func() {
	t, ok := s.o.Platform(a.Platform).(chat.Typist)
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
			if err := t.Typing(ctx, a); err != nil && ctx.Err() == nil {
				s.o.Log.Debug("typing not shown", "conversation", a.String(), "error", err)
			}
			timer.Reset(typingEvery)
		}
	})
	return stop
}
