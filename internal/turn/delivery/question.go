package delivery

import (
	"context"
	"slices"

	"ravenbot/internal/core/chat"
)

// question is a message to answer, or several that waited together, with the changes made
// to them since. Service.mu guards it.
type question struct {
	turn         string           // chat.Asked.Turn; empty: the turn that holds the message
	messages     []chat.Message   // with their present texts
	pending      []pendingMessage // the messages that are counted as not answered until this is
	keys         []string         // of all that the answer finishes: messages, even deleted ones, and changes
	changes      []chat.Message   // of its messages, or of the answered message that it changes
	followUp     *chat.Message    // the change of an answered message, or the press of a button, that this is about
	resumed      bool             // an earlier process may have begun to show the answer
	fixedReply   *chat.Draft      // a fixed answer that needs no agent
	extraReplies []chat.Reply     // to messages that this answers besides, such as the word stop
	stored       chan struct{}    // closed when the message is stored, or withdrawn; nil if it was stored before

	revised context.Context // ended by revise when messages has changed; nil while not being answered
	revise  context.CancelFunc
	stop    context.CancelCauseFunc // ends the work
	park    func()                  // notes that the work waits for a person; may be nil
}

// newQuestion returns the question that a message is.
func newQuestion(m chat.Message) *question {
	return &question{turn: m.Key(), messages: []chat.Message{m}, keys: []string{m.Key()}}
}

// Waiting messages are answered together up to these limits.
const (
	maxMergedMessages = 20
	maxMergedBytes    = 16 << 10 // bytes of text
)

// route hands a stored message on: a change to the question that it is about, a stop to the
// work that it ends, an urgent message past the queue, all others to their queue. The order
// of the cases matters: a change of a waiting message must not become a question.
func (s *Service) route(m chat.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routeLocked(m)
}

// routeLocked is route for callers that hold s.mu.
func (s *Service) routeLocked(m chat.Message) {
	q := s.questions[m.Subject()]
	switch {
	// A question whose message is being stored may be withdrawn. This change must not be lost, so it is queued after
	// the answer.
	case m.Change != "" && q != nil && q.isStored():
		s.revise(q, m)
	case m.Change == chat.Deleted:
		s.enqueueQuestion(m, &question{keys: []string{m.Key()}, changes: []chat.Message{m}, followUp: &m})
	case m.Change != "":
		changed := []chat.Message{m}
		s.enqueueQuestion(m, &question{messages: changed, keys: []string{m.Key()}, changes: changed, followUp: &m})
	case m.Stops() && s.stopWork(m):
	case s.o.Urgent != nil && s.o.Urgent(m):
		q := newQuestion(m)
		q.resumed = s.recovering
		s.answerUrgent(q)
	case m.Command == chat.Pressed:
		s.enqueueQuestion(m, &question{messages: []chat.Message{m}, keys: []string{m.Key()}, followUp: &m})
	default:
		s.enqueueQuestion(m, newQuestion(m))
	}
}

// answerUrgent answers a question outside its conversation's queue and without a worker slot, because the work that
// holds the slots may wait for this message.
func (s *Service) answerUrgent(q *question) {
	switch {
	case s.closed: // the next start does it
	case s.recovering:
		s.urgent = append(s.urgent, q)
	default:
		s.wg.Go(func() { s.answerQuestion(q.messages[0].Conversation, newQueue(), q) })
	}
}

// enqueueQuestion queues a question and counts its message as not answered.
func (s *Service) enqueueQuestion(m chat.Message, q *question) {
	q.resumed = s.recovering
	s.questions[m.Subject()] = q
	q.pending = append(q.pending, newPendingMessage(m))
	s.limiter.add(q.pending[0])
	s.enqueueLocked(m.Conversation, job{question: q})
}

// canMerge reports whether another question may be answered together with q: plain messages can, commands and changes
// of answered messages cannot.
func (q *question) canMerge(other *question) bool {
	if other == nil || !q.isPlain() || !other.isPlain() || len(q.messages)+len(other.messages) > maxMergedMessages {
		return false
	}
	if !q.isStored() { // it may be withdrawn, alone
		return false
	}
	size := 0
	for _, m := range slices.Concat(q.messages, other.messages) {
		size += len(m.Text)
	}
	return size <= maxMergedBytes
}

// isCommand reports whether a question asks the agent by a command.
func (q *question) isCommand() bool {
	return q != nil && q.followUp == nil && q.fixedReply == nil && len(q.messages) == 1 &&
		q.messages[0].Command == chat.CommandAsk
}

// isPlain reports whether a question consists of messages that people said, without a command among
// them.
func (q *question) isPlain() bool {
	return q.followUp == nil && q.fixedReply == nil && !slices.ContainsFunc(q.messages, func(m chat.Message) bool {
		return m.Command != ""
	})
}

// merge adds another question to q. Changes of its messages reach q from then on. s.mu is held, and
// q is not being answered yet.
func (s *Service) merge(q, other *question) {
	// All messages of q were deleted while it waited: no turn of that name was begun.
	if len(q.messages) == 0 && q.turn != "" {
		q.turn = other.turn
	}
	q.messages = append(q.messages, other.messages...)
	// In the order in which they were said: what came over several connections, while one of them was slow, was stored
	// in another one.
	if !slices.ContainsFunc(q.messages, func(m chat.Message) bool { return m.Time.IsZero() }) {
		slices.SortStableFunc(q.messages, func(a, b chat.Message) int { return a.Time.Compare(b.Time) })
	}
	q.keys = append(q.keys, other.keys...)
	q.changes = append(q.changes, other.changes...)
	q.resumed = q.resumed || other.resumed
	for _, h := range other.pending {
		s.questions[h.subject] = q
	}
	q.pending, other.pending = append(q.pending, other.pending...), nil
	s.counts.merged.Add(1)
}

// revise applies an edit or deletion to a question that waits or is being answered; s.mu is held.
// An edit that arrives after a newer one changes nothing.
func (s *Service) revise(q *question, change chat.Message) {
	// Also where nothing changes: the change waits in the inbox, and is done with the answer.
	q.keys = append(q.keys, change.Key())
	q.changes = append(q.changes, change)
	i := slices.IndexFunc(q.messages, func(m chat.Message) bool { return m.Subject() == change.Subject() })
	switch {
	case i < 0: // deleted before
		return
	case change.Change == chat.Deleted:
		// The slice is cloned because the agent may be reading it without the lock.
		q.messages = slices.Delete(slices.Clone(q.messages), i, i+1)
	case change.Text == q.messages[i].Text || change.Revision < q.messages[i].Revision:
		return
	default:
		q.messages = slices.Clone(q.messages)
		q.messages[i].Text, q.messages[i].Revision = change.Text, change.Revision
		// A handle may hold the words, and must not bring back those from before.
		if len(change.Reply.Handle) > 0 {
			q.messages[i].Reply.Handle = change.Reply.Handle
		}
	}
	s.counts.revised.Add(1)
	q.interrupt()
}

// interrupt notifies the work on a question that its messages have changed. s.mu must be held.
func (q *question) interrupt() {
	// The end of the context interrupts the work. The next attempt gets a new context.
	if q.revised != nil {
		q.revise()
		q.revised, q.revise = context.WithCancel(context.Background())
	}
}

// forgetPending has the messages of a question count as answered; s.mu is held.
func (s *Service) forgetPending(q *question) {
	for _, h := range q.pending {
		if s.questions[h.subject] == q { // not the key of an edit that was stored first
			delete(s.questions, h.subject)
		}
		s.limiter.remove(h)
	}
	q.pending = nil
}

// stopWork stops the work that a stop message is about, and reports whether the message is handled. A command in a
// channel also stops its author's questions in the channel's threads. A command gets its own answer. So does the word
// stop if nothing is being answered, or if its author must not stop the work.
func (s *Service) stopWork(m chat.Message) bool {
	found := s.questionsToStop(m)
	running := slices.DeleteFunc(slices.Clone(found), func(q *question) bool { return !q.mayStop(m) })
	for _, q := range running {
		if q.fixedReply = stoppedDraft(); q.stop != nil {
			q.stop(chat.ErrStopped)
		}
		s.counts.stopped.Add(1)
	}
	own := newQuestion(m)
	own.fixedReply = stoppedDraft()
	own.fixedReply.Ephemeral = true
	switch {
	case len(running) == 0 && len(found) > 0:
		own.fixedReply.Text = "Only the asker or an administrator can stop this."
	case len(running) > 0 && m.Command == "" && running[0].isStored():
		// The answer that was stopped reports it, and finishes this message with its own.
		running[0].keys = append(running[0].keys, m.Key())
		running[0].extraReplies = append(running[0].extraReplies, m.Reply)
		return true
	case len(running) == 0 && m.Reach != chat.Addressed:
		return false // not addressed to the bot: people say stop to one another
	case len(running) == 0:
		own.fixedReply.Text = "I am not working on anything here just now."
	}
	if len(found) > 0 { // other work in this place may take its time
		own.resumed = s.recovering
		s.answerUrgent(own)
	} else {
		s.enqueueQuestion(m, own)
	}
	return true
}

// questionsToStop returns the questions that a stop message is about. During recovery these
// are the ones that were being answered when the other process ended: the first in each queue.
func (s *Service) questionsToStop(m chat.Message) []*question {
	var found []*question
	for a, l := range s.queues {
		running := l.current
		if s.recovering {
			running = nil
			if len(l.resumed) > 0 && l.resumed[0].question != nil {
				running = []*question{l.resumed[0].question}
			}
		}
		// What runs in the very place of the stop is meant, and nothing else.
		if a == m.Conversation && len(running) > 0 {
			return running
		}
		for _, q := range running {
			if m.Command == "stop" && a.Base() == m.Conversation.Base() && q.isAskedBy(m.Author) {
				found = append(found, q)
			}
		}
	}
	return found
}

// isAskedBy reports whether somebody has said any message of the question.
func (q *question) isAskedBy(u chat.User) bool {
	return slices.ContainsFunc(q.messages, func(asked chat.Message) bool { return asked.Author.ID == u.ID })
}

// mayStop reports whether a message may stop the work on q: only the asker and administrators may.
func (q *question) mayStop(m chat.Message) bool { return m.AuthorManages() || q.isAskedBy(m.Author) }

// stoppedDraft returns the answer to a question that was stopped, in new memory.
func stoppedDraft() *chat.Draft { return &chat.Draft{Text: "Stopped."} }
