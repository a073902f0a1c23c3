package delivery

import (
	"slices"
	"sync"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// queue holds the jobs of one conversation. It exists while there is work in it. Service.mu guards
// it, apart from news.
type queue struct {
	jobs    []job
	resumed []job         // to be put before jobs when recovery ends
	started bool          // runQueue works on it
	current []*question   // being answered
	beside  int           // commands that are answered concurrently
	parked  []*question   // being answered, and waiting for a person
	news    chan struct{} // receives an element after changes of jobs, beside or parked
}

// newQueue returns an empty queue, which nobody works on.
func newQueue() *queue { return &queue{news: make(chan struct{}, 1)} }

// wake lets runQueue look at the queue again.
func (l *queue) wake() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// removeCurrent removes a question from the current ones.
func (l *queue) removeCurrent(q *question) {
	l.current = slices.DeleteFunc(l.current, func(other *question) bool { return other == q })
}

// maxBeside is how many commands of one conversation are answered at a time. Unlike messages
// they are not merged, and nobody refers to the one before.
const maxBeside = 4

// job is a question to answer or a post to send.
type job struct {
	question *question
	post     *store.Post
	result   chan<- store.Outcome // receives the outcome of the post, and has room for it; may be nil
	beside   bool                 // a command that is answered concurrently
}

// enqueue is enqueueLocked for callers that do not hold s.mu.
func (s *Service) enqueue(a chat.Address, j job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enqueueLocked(a, j)
}

// enqueueLocked adds a job to the queue of a conversation, and starts the queue if it is new. Jobs of another process
// wait until recovery ends. s.mu must be held.
func (s *Service) enqueueLocked(a chat.Address, j job) {
	if s.closed {
		return // the next start does the job: it is stored
	}
	s.queued++
	l := s.queues[a]
	if l == nil {
		l = newQueue()
		s.queues[a] = l
	}
	// Older work may still be read: it goes before these jobs, and the order is known when recovery ends.
	if s.recovering {
		l.resumed = append(l.resumed, j)
		return
	}
	l.jobs = append(l.jobs, j)
	s.startQueue(a, l)
}

// startQueue has a queue with new jobs worked on.
func (s *Service) startQueue(a chat.Address, l *queue) {
	if l.started {
		l.wake()
		return
	}
	l.started = true
	s.wg.Go(func() { s.runQueue(a, l) })
}

// runQueue runs a queue's jobs in order until there are none. Consecutive commands are answered a few at a time. The
// remaining jobs stay in the store for the next start.
func (s *Service) runQueue(a chat.Address, l *queue) {
	for {
		j, ok, ended := s.nextJob(a, l)
		switch {
		case ended:
			return
		case !ok:
			<-l.news
		case j.post != nil:
			s.send(*j.post, j.result)
		case j.beside:
			s.wg.Go(func() {
				s.answerInSlot(a, l, j.question)
				s.mu.Lock()
				l.beside--
				s.mu.Unlock()
				l.wake()
			})
		default:
			s.answerOrPark(a, l, j.question)
		}
	}
}

// answerOrPark answers a question, and returns when it is answered or waits for a person. While it waits, other
// people's messages are answered.
func (s *Service) answerOrPark(a chat.Address, l *queue, q *question) {
	goOn := make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	s.mu.Lock()
	q.park = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !slices.Contains(l.parked, q) {
			l.parked = append(l.parked, q)
		}
		release()
	}
	s.mu.Unlock()
	s.wg.Go(func() {
		s.answerInSlot(a, l, q)
		s.mu.Lock()
		l.parked = slices.DeleteFunc(l.parked, func(other *question) bool { return other == q })
		s.mu.Unlock()
		release()
		l.wake()
	})
	<-goOn
}

// nextIndex returns the index of the first job that need not wait for a parked question. Jobs of that question's
// author wait, so that their order is kept. It returns -1 if all of them wait. s.mu must be held.
func (l *queue) nextIndex() int {
	return slices.IndexFunc(l.jobs, func(j job) bool {
		return j.question == nil || !slices.ContainsFunc(l.parked, func(parked *question) bool {
			return slices.ContainsFunc(j.question.messages, func(m chat.Message) bool { return parked.isAskedBy(m.Author) })
		})
	})
}

// remove removes a job; s.mu is held.
func (l *queue) remove(at int) {
	if at == 0 {
		l.jobs = l.jobs[1:]
	} else {
		l.jobs = slices.Delete(slices.Clone(l.jobs), at, at+1)
	}
}

// nextJob returns the first job if it may begin, merged with further questions that can be answered with it. If there
// is no job, it sets ended and removes the queue.
func (s *Service) nextJob(a chat.Address, l *queue) (j job, ok, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The queue is removed under the lock that enqueueLocked holds, so that no job can be
	// added to a queue that nobody works on.
	if len(l.jobs) == 0 || s.closed {
		if l.beside > 0 || len(l.parked) > 0 {
			return job{}, false, false
		}
		s.queued -= len(l.jobs)
		delete(s.queues, a)
		return job{}, false, true
	}
	at := l.nextIndex()
	if at < 0 {
		return job{}, false, false
	}
	j = l.jobs[at]
	// Decided once and under the lock: a command that is deleted from here on still counts.
	j.beside = j.question.isCommand()
	if l.beside > 0 && (!j.beside || l.beside == maxBeside) {
		return job{}, false, false
	}
	if j.beside {
		l.beside++
	}
	l.remove(at)
	s.queued--
	for j.question != nil && len(l.parked) == 0 && len(l.jobs) > 0 && j.question.canMerge(l.jobs[0].question) {
		s.merge(j.question, l.jobs[0].question)
		l.remove(0)
		s.queued--
	}
	return j, true, false
}
