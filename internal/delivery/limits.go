package delivery

import (
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

func (c Limits) withDefaults(turns, backlog int) Limits {
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

// pendingMessage is a message that is not answered yet.
type pendingMessage struct {
	subject, user string
	channel       chat.Address
}

func newPendingMessage(m chat.Message) pendingMessage {
	return pendingMessage{m.Subject(), userKey(m), m.Conversation.Base()}
}

// userKey names who said something; empty: nobody who is counted.
func userKey(m chat.Message) string {
	if m.Author.ID == "" {
		return ""
	}
	return m.Conversation.Platform + "/" + m.Author.ID
}

// limiter counts what is not answered yet, and what each user may say. Service.mu
// guards it.
type limiter struct {
	Limits
	backlog  int
	users    map[string]int
	channels map[chat.Address]int
	buckets  map[string]tokenBucket
	sweepAt  int // size of buckets at which those are dropped that are full again
}

// tokenBucket is what a user may still say at a time.
type tokenBucket struct {
	tokens float64
	at     time.Time
}

// minSweep is how many buckets are kept without looking for idle ones.
const minSweep = 256

func newLimiter(c Limits, turns, backlog int) limiter {
	return limiter{Limits: c.withDefaults(turns, backlog), backlog: backlog, users: map[string]int{}, channels: map[chat.Address]int{},
		buckets: map[string]tokenBucket{}, sweepAt: minSweep}
}

// allow tells whether there is room for a message while so many are not answered. A
// channel in which all is answered finds room for longer than those that fill it.
func (c *limiter) allow(m chat.Message, open int, now time.Time) bool {
	user, channel := userKey(m), m.Conversation.Base()
	within := c.takeToken(user, now) || open < c.RelaxedBelow || c.users[user] == 0
	switch {
	case open >= c.backlog && c.channels[channel] > 0, open >= 2*c.backlog:
		return false
	case c.channels[channel] >= c.MaxPerChannel, user != "" && c.users[user] >= c.MaxPerUser:
		return false
	}
	return within
}

// takeToken takes a token of a user's bucket; false: it is empty.
func (c *limiter) takeToken(user string, now time.Time) bool {
	if user == "" {
		return true
	}
	tokens := c.tokensAt(c.buckets[user], now)
	if len(c.buckets) >= c.sweepAt {
		c.dropFullBuckets(now)
	}
	if tokens < 1 {
		return false
	}
	c.buckets[user] = tokenBucket{tokens: tokens - 1, at: now}
	return true
}

func (c *limiter) tokensAt(b tokenBucket, now time.Time) float64 {
	if b.at.IsZero() {
		return float64(c.UserBurst)
	}
	return min(float64(c.UserBurst), b.tokens+float64(now.Sub(b.at))/float64(c.UserInterval))
}

// dropFullBuckets forgets the buckets that are full: they are as good as new.
func (c *limiter) dropFullBuckets(now time.Time) {
	for user, b := range c.buckets {
		if c.tokensAt(b, now) >= float64(c.UserBurst) {
			delete(c.buckets, user)
		}
	}
	c.sweepAt = max(minSweep, 2*len(c.buckets))
}

// add counts a message until release.
func (c *limiter) add(h pendingMessage) {
	if h.user != "" {
		c.users[h.user]++
	}
	c.channels[h.channel]++
}

func (c *limiter) remove(h pendingMessage) {
	if c.users[h.user]--; c.users[h.user] <= 0 {
		delete(c.users, h.user)
	}
	if c.channels[h.channel]--; c.channels[h.channel] <= 0 {
		delete(c.channels, h.channel)
	}
}
