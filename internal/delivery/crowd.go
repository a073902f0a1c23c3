package delivery

import (
	"context"
	"sync"
	"time"

	"ravenbot/internal/chat"
)

// Limits bounds what some may take of what all share. Zero values are replaced by
// those given here.
type Limits struct {
	// UserInterval is how often a user may say something, after Burst messages at once: 3
	// seconds, and 10. That is asked of nobody whose messages are all answered, or
	// while less than Ease of all are not: a twentieth of Options.Backlog.
	UserInterval time.Duration
	UserBurst    int
	RelaxedBelow int
	// MaxPerUser and Channel are the most messages of one user, and in one channel with its
	// threads, that are not answered yet: 100, and a quarter of Options.Backlog.
	MaxPerUser, MaxPerChannel int
	// MaxTurnsPerChannel are the most answers worked on at a time for one channel with its threads:
	// an eighth of Options.Turns.
	MaxTurnsPerChannel int
}

func (c Limits) filled(turns, backlog int) Limits {
	for _, one := range []struct {
		field *int
		value int
	}{{&c.UserBurst, 10}, {&c.RelaxedBelow, max(backlog/20, 1)}, {&c.MaxPerUser, 100}, {&c.MaxPerChannel, max(backlog/4, 1)}, {&c.MaxTurnsPerChannel, max(turns/8, 1)}} {
		if *one.field == 0 {
			*one.field = one.value
		}
	}
	if c.UserInterval == 0 {
		c.UserInterval = 3 * time.Second
	}
	return c
}

// held is a message that is not answered yet.
type held struct {
	subject, user string
	channel       chat.Address
}

func holding(m chat.Message) held {
	return held{m.Subject(), userOf(m), m.Conversation.Base()}
}

// userOf names who said something; empty: nobody who is counted.
func userOf(m chat.Message) string {
	if m.Author.ID == "" {
		return ""
	}
	return m.Conversation.Platform + "/" + m.Author.ID
}

// crowd counts what is not answered yet, and what each user may say. Service.mu
// guards it.
type crowd struct {
	Limits
	backlog  int
	users    map[string]int
	channels map[chat.Address]int
	buckets  map[string]bucket
	sweep    int // size of buckets at which those are dropped that are full again
}

// bucket is what a user may still say at a time.
type bucket struct {
	tokens float64
	at     time.Time
}

// leastSweep is how many buckets are kept without looking for idle ones.
const leastSweep = 256

func newCrowd(c Limits, turns, backlog int) crowd {
	return crowd{Limits: c.filled(turns, backlog), backlog: backlog, users: map[string]int{}, channels: map[chat.Address]int{},
		buckets: map[string]bucket{}, sweep: leastSweep}
}

// admits tells whether there is room for a message while so many are not answered. A
// channel in which all is answered finds room for longer than those that fill it.
func (c *crowd) admits(m chat.Message, open int, now time.Time) bool {
	user, channel := userOf(m), m.Conversation.Base()
	within := c.spend(user, now) || open < c.RelaxedBelow || c.users[user] == 0
	switch {
	case open >= c.backlog && c.channels[channel] > 0, open >= 2*c.backlog:
		return false
	case c.channels[channel] >= c.MaxPerChannel, user != "" && c.users[user] >= c.MaxPerUser:
		return false
	}
	return within
}

// spend takes a token of a user's bucket; false: it is empty.
func (c *crowd) spend(user string, now time.Time) bool {
	if user == "" {
		return true
	}
	tokens := c.tokens(c.buckets[user], now)
	if len(c.buckets) >= c.sweep {
		c.dropIdle(now)
	}
	if tokens < 1 {
		return false
	}
	c.buckets[user] = bucket{tokens: tokens - 1, at: now}
	return true
}

func (c *crowd) tokens(b bucket, now time.Time) float64 {
	if b.at.IsZero() {
		return float64(c.UserBurst)
	}
	return min(float64(c.UserBurst), b.tokens+float64(now.Sub(b.at))/float64(c.UserInterval))
}

// dropIdle forgets the buckets that are full: they are as good as new.
func (c *crowd) dropIdle(now time.Time) {
	for user, b := range c.buckets {
		if c.tokens(b, now) >= float64(c.UserBurst) {
			delete(c.buckets, user)
		}
	}
	c.sweep = max(leastSweep, 2*len(c.buckets))
}

// hold counts a message until release.
func (c *crowd) hold(h held) {
	if h.user != "" {
		c.users[h.user]++
	}
	c.channels[h.channel]++
}

func (c *crowd) release(h held) {
	if c.users[h.user]--; c.users[h.user] <= 0 {
		delete(c.users, h.user)
	}
	if c.channels[h.channel]--; c.channels[h.channel] <= 0 {
		delete(c.channels, h.channel)
	}
}

// slots are the answers that may be worked on at a time. Who waits gets one in the
// order in which they came, those of the channels that have the fewest first, and
// none where a channel has its share.
type slots struct {
	most int // of one channel

	mu      sync.Mutex
	free    int
	running map[chat.Address]int
	waiting map[chat.Address][]chan struct{}
}

func newSlots(all, most int) *slots {
	return &slots{most: most, free: all, running: map[chat.Address]int{}, waiting: map[chat.Address][]chan struct{}{}}
}

// enter waits for a slot for a channel; false: ctx ended before.
func (s *slots) enter(ctx context.Context, channel chat.Address) bool {
	turn := make(chan struct{})
	s.mu.Lock()
	s.waiting[channel] = append(s.waiting[channel], turn)
	s.grant()
	s.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done(): // everything ends: the place in the queue is of no use to others
		return false
	}
}

// leave gives a slot back.
func (s *slots) leave(channel chat.Address) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.running[channel]--; s.running[channel] == 0 {
		delete(s.running, channel)
	}
	s.grant()
}

// grant hands out what is free.
func (s *slots) grant() {
	for s.free > 0 {
		least, found := chat.Address{}, false
		for channel := range s.waiting {
			if n := s.running[channel]; n < s.most && (!found || n < s.running[least]) {
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
