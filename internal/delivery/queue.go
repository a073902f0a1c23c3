package delivery

import (
	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// queue holds the jobs of one conversation. It exists while there is work in it.
type queue struct {
	jobs    []job
	current *question // being answered, nil if none
}

// job is a question to answer or a post to send.
type job struct {
	question *question
	post     *store.Post
	result   chan<- store.Outcome // receives the outcome of the post, and has room for it; may be nil
}

func (s *Service) enqueue(a chat.Address, j job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enqueueLocked(a, j)
}

func (s *Service) enqueueLocked(a chat.Address, j job) {
	if s.closed {
		return // the next start does the job: it is stored
	}
	s.queued++
	l := s.queues[a]
	if l != nil {
		l.jobs = append(l.jobs, j)
		return
	}
	l = &queue{jobs: []job{j}}
	s.queues[a] = l
	if !s.recovering {
		s.wg.Go(func() { s.runQueue(a, l) })
	}
}

// startQueues ends recovery: it starts the queues and answers the urgent questions that
// were collected meanwhile.
func (s *Service) startQueues() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recovering = false
	for _, q := range s.urgent {
		s.answerUrgent(q)
	}
	s.urgent = nil
	for a, l := range s.queues {
		s.wg.Go(func() { s.runQueue(a, l) })
	}
}

// runQueue does a queue's jobs in order until there are none. What is left when the service
// ends stays in the store for the next start.
func (s *Service) runQueue(a chat.Address, l *queue) {
	for {
		j, more := s.nextJob(a, l)
		switch {
		case !more:
			return
		case j.question != nil:
			s.answerInSlot(a, l, j.question)
		default:
			s.send(*j.post, j.result)
		}
	}
}

// nextJob returns the first job; further questions that can be answered with it are merged
// into it. It returns false and removes the queue where there is no job.
func (s *Service) nextJob(a chat.Address, l *queue) (job, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The queue is removed under the lock that enqueueLocked holds, so that no job can be
	// added to a queue that nobody works on.
	if len(l.jobs) == 0 || s.closed {
		s.queued -= len(l.jobs)
		delete(s.queues, a)
		return job{}, false
	}
	j := l.jobs[0]
	l.jobs = l.jobs[1:]
	s.queued--
	for j.question != nil && len(l.jobs) > 0 && j.question.canMerge(l.jobs[0].question) {
		s.merge(j.question, l.jobs[0].question)
		l.jobs = l.jobs[1:]
		s.queued--
	}
	return j, true
}
