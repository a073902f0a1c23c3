package delivery

import (
	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// lane is the queue of one conversation. It exists while there is work in it.
type lane struct {
	queue []job
	now   *question // being answered, nil if none
}

// job is a question to answer or a post to send.
type job struct {
	question *question
	post     *store.Post
	result   chan<- store.Outcome // gets the outcome of the post, where anybody waits; has room for it
}

func (s *Service) enqueue(a chat.Address, j job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enqueueLocked(a, j)
}

func (s *Service) enqueueLocked(a chat.Address, j job) {
	if s.closed {
		return // the store has it for the next start
	}
	s.waiting++
	l := s.lanes[a]
	if l != nil {
		l.queue = append(l.queue, j)
		return
	}
	l = &lane{queue: []job{j}}
	s.lanes[a] = l
	if !s.held {
		s.wg.Go(func() { s.work(a, l) })
	}
}

// release lets the lanes that were filled meanwhile begin.
func (s *Service) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	for _, q := range s.asides {
		s.aside(q)
	}
	s.asides = nil
	for a, l := range s.lanes {
		s.wg.Go(func() { s.work(a, l) })
	}
}

// work does a lane's jobs in order until there are none. What is left when the
// service ends stays in the store for the next start.
func (s *Service) work(a chat.Address, l *lane) {
	for {
		j, more := s.next(a, l)
		switch {
		case !more:
			return
		case j.question != nil:
			s.answer(a, l, j.question)
		default:
			s.send(*j.post, j.result)
		}
	}
}

// next takes the first job, and with a question those that can be answered with
// it. The lane ends with its last job.
func (s *Service) next(a chat.Address, l *lane) (job, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(l.queue) == 0 || s.closed {
		s.waiting -= len(l.queue)
		delete(s.lanes, a)
		return job{}, false
	}
	j := l.queue[0]
	l.queue = l.queue[1:]
	s.waiting--
	for j.question != nil && len(l.queue) > 0 && j.question.takes(l.queue[0].question) {
		s.merge(j.question, l.queue[0].question)
		l.queue = l.queue[1:]
		s.waiting--
	}
	return j, true
}
