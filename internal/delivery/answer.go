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

// answer makes the answer to a question, stores it and sends it.
func (s *Service) answer(a chat.Address, l *lane, q *question) {
	if !s.slots.enter(s.turns, a.Base()) {
		return
	}
	defer s.slots.leave(a.Base())
	s.settle(a, l, q)
}

// settle is answer where there is room for the work.
func (s *Service) settle(a chat.Address, l *lane, q *question) {
	began := s.o.Now()
	turn, draft, shown, done := s.workOut(a, l, q)
	if !done {
		return
	}
	if draft == nil && len(shown.IDs) > 0 {
		draft = &chat.Draft{Text: "What I was answering has been deleted."}
	}
	var posts []store.Post
	if draft != nil {
		p := s.post(a, q, turn, *draft, began)
		if len(shown.IDs) > 0 {
			p.Draft.Replaces = shown
		}
		// What an earlier process began to show without having its place on record has
		// to be looked for; answers to commands are not shown before they are whole.
		p.Draft.Again = q.left && len(shown.IDs) == 0 && len(p.Draft.Reply.Handle) == 0
		posts = []store.Post{p}
	}
	err := s.insist(s.turns, "answer not stored", func() error { return s.o.Store.SaveAnswer(s.turns, a, q.keys, turn, posts) })
	if err == nil && draft != nil {
		failpoint.Here(failpoint.PostRecorded)
		s.send(posts[0], nil)
	}
}

// workOut asks for the answer until nothing has changed meanwhile, and gives where
// it has been shown so far; false says that the service ended first. Afterwards
// nobody else changes the question.
func (s *Service) workOut(a chat.Address, l *lane, q *question) (turn *conversation.Turn, draft *chat.Draft, shown chat.Ref, done bool) {
	ctx, stop := context.WithCancelCause(s.turns)
	defer stop(nil)
	defer s.typing(ctx, a)()
	view := s.watch(ctx, a, q)
	defer func() { shown = view.end() }()
	for {
		asked, reply := s.begin(l, q, stop)
		switch {
		case reply != nil:
			turn, draft = nil, reply
		case len(asked.Messages) == 0:
			turn, draft = nil, nil
			_ = s.insist(s.turns, "deleted message not purged", func() error { return s.o.Answerer.Purge(s.turns, asked.Turn) })
		default:
			turn, draft = s.think(ctx, asked, view)
		}
		if s.turns.Err() != nil {
			return nil, nil, shown, false
		}
		if s.end(l, q, asked.Revised) {
			return turn, draft, shown, true
		}
	}
}

// begin gives what is asked as it stands, and the answer where it is known.
func (s *Service) begin(l *lane, q *question, stop context.CancelCauseFunc) (chat.Asked, *chat.Draft) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.revised == nil {
		q.revised = make(chan struct{})
	}
	l.now, q.stop = q, stop
	asked := chat.Asked{Turn: q.turn, Messages: q.messages, Revised: q.revised}
	if q.again != nil && len(q.messages) == 0 {
		asked.Turn = q.again.Subject()
	}
	return asked, q.reply
}

// end takes a question out of reach, unless it was revised since it was begun.
func (s *Service) end(l *lane, q *question, revised <-chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-revised:
		return false
	default:
	}
	l.now = nil
	for _, h := range q.holds {
		delete(s.subjects, h.subject)
		s.crowd.release(h)
	}
	q.holds = nil
	return true
}

// lateAfter is how old a question that met nobody may be before its answer says so.
const lateAfter = 2 * time.Minute

// post makes the post of an answer.
func (s *Service) post(a chat.Address, q *question, turn *conversation.Turn, d chat.Draft, began time.Time) store.Post {
	key := q.turn
	if q.again != nil {
		key = q.again.Key()
	}
	p := store.Post{Key: key, To: a, Message: q.keys[0], Also: q.keys[1:], At: s.o.Now()}
	d.Key = p.Key
	if n := len(q.messages); n > 0 {
		d.Reply = q.messages[n-1].Reply
		for _, m := range q.messages[:n-1] {
			d.Answers = append(d.Answers, m.Reply)
		}
		if first := q.messages[0]; (first.Missed || q.left) && q.again == nil && began.Sub(first.Time) > lateAfter {
			d.Footer = note(d.Footer, "asked "+ago(began.Sub(first.Time))+"; I could not answer sooner")
		}
		if n > 1 {
			d.Footer = note(d.Footer, "in answer to "+quotes(q.messages))
		}
	}
	d.Answers = append(d.Answers, q.answers...)
	if q.again != nil && turn != nil && !d.Failed {
		p.Replaces = turn.ID
		d.Replaces = s.whereabouts(turn.ID)
		d.Reply.Handle = nil // a press is not answered by the post that it changes
	}
	if turn != nil {
		if !d.Failed {
			p.Turn = turn.ID
		}
		d.Buttons = below(turn.ID, d)
		if _, shows := s.o.Platform(a.Platform).(chat.Watcher); !shows && len(d.Buttons) > 0 && len(d.Tools) > 0 {
			d.Buttons = append(d.Buttons, chat.Button{Label: "What I did", Value: chat.PressTools + turn.ID})
		}
	}
	p.Draft = d
	return p
}

// mostValue is the most that a button's value may hold, in bytes.
const mostValue = 90

// below gives the buttons of an answer: to ask again where it failed, else to say
// whether it helped.
func below(turn string, d chat.Draft) []chat.Button {
	if len(turn)+len(chat.PressRetry) > mostValue {
		return nil
	}
	if d.Failed {
		return []chat.Button{{Label: "Try again", Value: chat.PressRetry + turn, Style: chat.Primary}}
	}
	return []chat.Button{{Label: "👍", Value: chat.PressGood + turn}, {Label: "👎", Value: chat.PressBad + turn}}
}

// whereabouts gives where a post is; nowhere, if that is not known any more.
func (s *Service) whereabouts(key string) chat.Ref {
	s.flush()
	ref, _, err := s.o.Store.PostRef(s.turns, key)
	if err != nil {
		s.o.Log.Error("place of an earlier answer not read, so it is posted anew", "post", key, "error", err)
	}
	return ref
}

// quotes names messages by their beginnings, so that everybody sees that theirs
// was read.
func quotes(messages []chat.Message) string {
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

func note(footer, more string) string {
	if footer == "" {
		return more
	}
	return footer + " · " + more
}

// ago tells a length of time in the words of people.
func ago(d time.Duration) string {
	switch {
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d hours ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// think asks the agent, and makes a panic there an error for this question alone.
func (s *Service) think(ctx context.Context, q chat.Asked, view *live) (turn *conversation.Turn, draft *chat.Draft) {
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

// typing shows that an answer is being written until the returned function is
// called.
func (s *Service) typing(ctx context.Context, a chat.Address) func() {
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
