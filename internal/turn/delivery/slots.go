package delivery

import (
	"context"
	"sync"

	"ravenbot/internal/core/chat"
)

// workerSlots bounds the answers worked on at a time, in all and for each channel. A free
// slot goes to the waiting channel that has the fewest, and within a channel to the one
// that waited longest.
type workerSlots struct {
	maxPerChannel int

	mu      sync.Mutex
	free    int                              // slots that nobody has
	running map[chat.Address]int             // slots that a channel has; none for 0
	waiting map[chat.Address][]chan struct{} // closed when the slot is granted; oldest first
}

// newWorkerSlots returns slots for all answers and for those of one channel; both are at least 1.
func newWorkerSlots(all, maxPerChannel int) *workerSlots {
	return &workerSlots{
		maxPerChannel: maxPerChannel,
		free:          all,
		running:       map[chat.Address]int{},
		waiting:       map[chat.Address][]chan struct{}{},
	}
}

// acquire waits for a slot for a channel, which release gives back. It returns false where ctx ends
// first.
func (s *workerSlots) acquire(ctx context.Context, channel chat.Address) bool {
	turn := make(chan struct{})
	s.mu.Lock()
	s.waiting[channel] = append(s.waiting[channel], turn)
	s.grantFree()
	s.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
		// ctx ends with the whole service, so the place in the queue need not be given up.
		return false
	}
}

// release gives a slot back.
func (s *workerSlots) release(channel chat.Address) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.running[channel]--; s.running[channel] == 0 {
		delete(s.running, channel)
	}
	s.grantFree()
}

// grantFree hands out the free slots. The caller holds s.mu.
func (s *workerSlots) grantFree() {
	for s.free > 0 {
		// Channels with the fewest slots come first, so that many questions in one channel do
		// not delay the others.
		least, found := chat.Address{}, false
		for channel := range s.waiting {
			if n := s.running[channel]; n < s.maxPerChannel && (!found || n < s.running[least]) {
				least, found = channel, true
			}
		}
		if !found {
			return
		}
		queue := s.waiting[least]
		close(queue[0])
		if queue = queue[1:]; len(queue) == 0 {
			delete(s.waiting, least)
		} else {
			s.waiting[least] = queue
		}
		s.free--
		s.running[least]++
	}
}
