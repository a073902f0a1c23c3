package delivery

import "ravenbot/internal/core/chat"

// beginUnstored begins the work on a question while its message is being stored, so that the work need not wait for
// the disk. The work reads its context, and waits before it has any effect (chat.Asked.Stored). It returns nil if the
// message must be stored and routed first, because it is no question or its conversation has other work, to which it
// may belong. The caller stores the message, and then closes the question's channel stored, or calls withdraw.
func (s *Service) beginUnstored(m chat.Message) *question {
	isElsewhere := s.o.Replicas != nil && !s.o.Replicas.Has(m.Conversation)
	if isElsewhere || !m.IsQuestion() || m.Stops() || s.o.Urgent != nil && s.o.Urgent(m) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.recovering || s.questions[m.Subject()] != nil || s.queues[m.Conversation] != nil {
		return nil
	}
	q := newQuestion(m)
	q.stored = make(chan struct{})
	s.enqueueQuestion(m, q)
	return q
}

// withdraw ends the work on a question that was begun before its message was stored: the message was accepted before, or
// could not be stored. Until then no other message has become a part of the question.
func (s *Service) withdraw(q *question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.messages, q.keys = nil, nil
	s.forgetPending(q)
	q.interrupt()
	close(q.stored)
}

// isStored reports whether the messages of a question are stored.
func (q *question) isStored() bool {
	select {
	case <-q.stored:
		return true
	default:
		return q.stored == nil
	}
}

// awaitStored waits until the message of a question is stored. It returns false if the question was withdrawn, or the
// service ends first. Then there is nothing to finish.
func (s *Service) awaitStored(l *queue, q *question) bool {
	if q.stored == nil {
		return true
	}
	select {
	case <-q.stored:
	case <-s.workCtx.Done():
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(q.keys) > 0 {
		return true
	}
	l.removeCurrent(q)
	return false
}
