package delivery

import (
	"context"
	"slices"

	"ravenbot/internal/chat"
)

// question is a message to answer, or several that waited together, with what
// became of them since. Service.mu guards it.
type question struct {
	turn     string         // chat.Asked.Turn; empty: the turn that holds the message
	messages []chat.Message // as they read now
	holds    []held         // the messages that lead here, until it is answered
	keys     []string       // of all that is done with the answer: messages, also deleted ones, and changes
	again    *chat.Message  // the change of a message answered before, or the press of a button, that this is about
	left     bool           // by an earlier process, which may have begun to show the answer
	reply    *chat.Draft    // the answer, where it is known already
	answers  []chat.Reply   // to messages answered besides, such as the word stop

	revised chan struct{}           // closed when messages has changed; nil: not being answered
	stop    context.CancelCauseFunc // ends the work
}

// Messages that wait are answered together up to these limits.
const (
	mostMerged  = 20
	mostMergedB = 16 << 10 // bytes of text
)

// take brings a stored message to where it belongs: a change to the question that
// it is about, a stop to the work it ends, all else into its lane.
func (s *Service) take(m chat.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.subjects[m.Subject()]
	switch {
	case m.Change != "" && q != nil:
		s.revise(q, m)
	case m.Change == chat.Deleted:
		s.ask(m, &question{keys: []string{m.Key()}, again: &m})
	case m.Change != "":
		s.ask(m, &question{messages: []chat.Message{m}, keys: []string{m.Key()}, again: &m})
	case m.Stops() && s.halt(m):
	case s.o.Urgent != nil && s.o.Urgent(m):
		s.aside(&question{turn: m.Key(), messages: []chat.Message{m}, keys: []string{m.Key()}, left: s.held})
	case m.Command == chat.Pressed:
		s.ask(m, &question{messages: []chat.Message{m}, keys: []string{m.Key()}, again: &m})
	default:
		s.ask(m, &question{turn: m.Key(), messages: []chat.Message{m}, keys: []string{m.Key()}})
	}
}

// aside answers a question beside what its conversation works on.
func (s *Service) aside(q *question) {
	switch {
	case s.closed:
	case s.held:
		s.asides = append(s.asides, q)
	default:
		s.wg.Go(func() { s.settle(q.messages[0].Conversation, &lane{}, q) })
	}
}

// ask queues a question.
func (s *Service) ask(m chat.Message, q *question) {
	q.left = s.held
	s.subjects[m.Subject()] = q
	q.holds = append(q.holds, holding(m))
	s.crowd.hold(q.holds[0])
	s.enqueueLocked(m.Conversation, job{question: q})
}

// takes reports whether another question may be answered with q: plain messages
// may, commands and changes of messages answered before may not.
func (q *question) takes(other *question) bool {
	if other == nil || !q.plain() || !other.plain() || len(q.messages)+len(other.messages) > mostMerged {
		return false
	}
	size := 0
	for _, m := range slices.Concat(q.messages, other.messages) {
		size += len(m.Text)
	}
	return size <= mostMergedB
}

func (q *question) plain() bool {
	return q.again == nil && q.reply == nil && !slices.ContainsFunc(q.messages, func(m chat.Message) bool {
		return m.Command != ""
	})
}

// merge takes another question into q.
func (s *Service) merge(q, other *question) {
	if len(q.messages) == 0 && q.turn != "" { // all deleted while it waited; nothing was done for it
		q.turn = other.turn
	}
	q.messages = append(q.messages, other.messages...)
	q.keys = append(q.keys, other.keys...)
	q.left = q.left || other.left
	for _, h := range other.holds {
		s.subjects[h.subject] = q
	}
	q.holds, other.holds = append(q.holds, other.holds...), nil
	s.counts.merged.Add(1)
}

// revise changes a question that waits or is being answered. An edit that came
// late, after a newer one, changes nothing.
func (s *Service) revise(q *question, change chat.Message) {
	q.keys = append(q.keys, change.Key())
	i := slices.IndexFunc(q.messages, func(m chat.Message) bool { return m.Subject() == change.Subject() })
	switch {
	case i < 0:
		return
	case change.Change == chat.Deleted:
		if q.again != nil {
			q.again = &change
		}
		q.messages = slices.Delete(slices.Clone(q.messages), i, i+1)
	case change.Text == q.messages[i].Text || change.Revision < q.messages[i].Revision:
		return
	default:
		q.messages = slices.Clone(q.messages)
		q.messages[i].Text, q.messages[i].Revision = change.Text, change.Revision
	}
	s.counts.revised.Add(1)
	if q.revised != nil {
		close(q.revised)
		q.revised = make(chan struct{})
	}
}

// halt stops what is being answered where a message says stop, and reports whether
// the message has thereby been dealt with. A command from the channel stops what
// its author asked in the channel's threads, too. A command, and the word said to a
// bot that does nothing, get an answer of their own.
func (s *Service) halt(m chat.Message) bool {
	running := s.running(m)
	for _, q := range running {
		if q.reply = stopped(); q.stop != nil {
			q.stop(chat.ErrStopped)
		}
		s.counts.stopped.Add(1)
	}
	own := &question{turn: m.Key(), messages: []chat.Message{m}, keys: []string{m.Key()},
		reply: stopped()}
	own.reply.Ephemeral = true
	switch {
	case len(running) > 0 && m.Command == "":
		running[0].keys = append(running[0].keys, m.Key())
		running[0].answers = append(running[0].answers, m.Reply)
		return true
	case len(running) == 0 && m.Reach != chat.Addressed:
		return false // people talking to one another
	case len(running) == 0:
		own.reply.Text = "I am not working on anything here just now."
	}
	s.ask(m, own)
	return true
}

// running gives what a stop is about. Before the lanes begin to work that is what
// was being answered when the last run ended: the first in its lane.
func (s *Service) running(m chat.Message) []*question {
	var found []*question
	for a, l := range s.lanes {
		q := l.now
		if s.held && len(l.queue) > 0 {
			q = l.queue[0].question
		}
		if q == nil {
			continue
		}
		if a == m.Conversation {
			return []*question{q}
		}
		own := func(asked chat.Message) bool { return asked.Author.ID == m.Author.ID }
		if m.Command == "stop" && a.Base() == m.Conversation.Base() && slices.ContainsFunc(q.messages, own) {
			found = append(found, q)
		}
	}
	return found
}

func stopped() *chat.Draft { return &chat.Draft{Text: "Stopped."} }
