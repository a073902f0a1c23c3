package delivery

import (
	"context"
	"sync"

	"ravenbot/internal/chat"
)

// workerSlots are the answers that may be worked on at a time. Who waits gets one in the
// order in which they came, those of the channels that have the fewest first, and
// none where a channel has its share.
type workerSlots struct {
	maxPerChannel int // of one channel

	mu      sync.Mutex
	free    int
	running map[chat.Address]int
	waiting map[chat.Address][]chan struct{}
}

func newWorkerSlots(all, most int) *workerSlots {
	return &workerSlots{maxPerChannel: most, free: all, running: map[chat.Address]int{}, waiting: map[chat.Address][]chan struct{}{}}
}

// acquire waits for a slot for a channel; false: ctx ended before.
func (s *workerSlots) acquire(ctx context.Context, channel chat.Address) bool {
	turn := make(chan struct{})
	s.mu.Lock()
	s.waiting[channel] = append(s.waiting[channel], turn)
	s.grantFree()
	s.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done(): // everything ends: the place in the queue is of no use to others
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

// grantFree hands out what is free.
func (s *workerSlots) grantFree() {
	for s.free > 0 {
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
