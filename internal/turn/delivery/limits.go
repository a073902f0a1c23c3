package delivery

import (
	"time"

	"ravenbot/internal/core/chat"
)

// Limits bounds what single users and channels may take of what all share. Zero fields have
// the defaults that are named here.
type Limits struct {
	// A user may send UserBurst (10) messages at once, and then one each UserInterval (3
	// seconds). This limit is off for users whose messages are all answered, and while fewer
	// than RelaxedBelow messages wait in all (a twentieth of Options.MaxBacklog).
	UserInterval time.Duration
	UserBurst    int
	RelaxedBelow int
	// MaxPerUser (100) and MaxPerChannel (a quarter of Options.MaxBacklog) bound the messages
	// of one user, and of one channel with its threads, that are not answered yet.
	MaxPerUser, MaxPerChannel int
	// MaxTurnsPerChannel (an eighth of Options.MaxTurns) bounds the answers worked on at a time
	// for one channel with its threads.
	MaxTurnsPerChannel int
}

// withDefaults replaces zero limits by defaults, which follow from the number of concurrent answers and from the size
// of the backlog.
func (c Limits) withDefaults(turns, backlog int) Limits {
	for _, one := range []struct {
		field *int
		value int
	}{
		{&c.UserBurst, 10},
		{&c.RelaxedBelow, max(backlog/20, 1)},
		{&c.MaxPerUser, 100},
		{&c.MaxPerChannel, max(backlog/4, 1)},
		{&c.MaxTurnsPerChannel, max(turns/8, 1)},
	} {
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

// newPendingMessage returns what the limits count of a message. A thread counts for its channel.
func newPendingMessage(m chat.Message) pendingMessage {
	return pendingMessage{m.Subject(), userKey(m), m.Conversation.Base()}
}

// userKey names the author of a message. It is empty if the author has no limit.
func userKey(m chat.Message) string {
	if m.Author.ID == "" {
		return ""
	}
	return m.Conversation.Platform + "/" + m.Author.ID
}

// limiter counts the messages that are not answered yet, and limits the rate of each user, over all processes that
// share the store. Service.mu guards it.
type limiter struct {
	Limits
	backlog  int
	users    map[string]int
	channels map[chat.Address]int
	buckets  map[string]tokenBucket
	sweepAt  int // number of buckets at which the full ones are dropped
	// heard is what other processes told last, by their ids and by user, and elsewhere how many messages of a user are
	// not answered there.
	heard     map[int64]map[string]sender
	elsewhere map[string]int
}

// tokenBucket holds how many messages a user could send at a time.
type tokenBucket struct {
	tokens float64 // at the time at; fractions add up
	at     time.Time
	sent   int // tokens that were taken in this process since it was full
}

// minSweep is how many buckets are kept before full ones are dropped.
const minSweep = 256

// newLimiter returns a limiter with the defaults for limits that are zero.
func newLimiter(c Limits, turns, backlog int) limiter {
	return limiter{
		Limits:   c.withDefaults(turns, backlog),
		backlog:  backlog,
		users:    map[string]int{},
		channels: map[chat.Address]int{},
		buckets:  map[string]tokenBucket{},
		sweepAt:  minSweep,
	}
}

// allow reports whether a message may be accepted while open messages are not answered. It takes a
// token of its user in any case; it does not count the message, which add does.
func (c *limiter) allow(m chat.Message, open int, now time.Time) bool {
	user, channel := userKey(m), m.Conversation.Base()
	waiting := c.users[user] + c.elsewhere[user]
	// The token is taken first, also while the rate is not limited, so that a user who sends
	// a flood is limited as soon as the bot is busy.
	within := c.takeToken(user, now) || open < c.RelaxedBelow || waiting == 0
	switch {
	// Channels without open messages get up to twice the backlog, so that the channels that filled it cannot block the
	// others.
	case open >= c.backlog && c.channels[channel] > 0, open >= 2*c.backlog:
		return false
	case c.channels[channel] >= c.MaxPerChannel, user != "" && waiting >= c.MaxPerUser:
		return false
	}
	return within
}

// takeToken takes a token from a user's bucket. It returns false if the bucket is empty.
func (c *limiter) takeToken(user string, now time.Time) bool {
	if user == "" {
		return true
	}
	// Tokens are added when the bucket is read, so that no timer is needed.
	b := c.buckets[user]
	tokens := c.tokensAt(b, now)
	if len(c.buckets) >= c.sweepAt {
		c.dropFullBuckets(now)
	}
	if tokens < 1 {
		return false
	}
	if tokens == float64(c.UserBurst) {
		b.sent = 0
	}
	c.buckets[user] = tokenBucket{tokens: tokens - 1, at: now, sent: b.sent + 1}
	return true
}

// tokensAt returns the tokens of a bucket at a time. An unused bucket is full.
func (c *limiter) tokensAt(b tokenBucket, now time.Time) float64 {
	if b.at.IsZero() {
		return float64(c.UserBurst)
	}
	return min(float64(c.UserBurst), b.tokens+float64(now.Sub(b.at))/float64(c.UserInterval))
}

// dropFullBuckets drops full buckets, because a new one would be the same. It is next called at twice the remaining
// number, so its cost is spread.
func (c *limiter) dropFullBuckets(now time.Time) {
	for user, b := range c.buckets {
		if c.tokensAt(b, now) >= float64(c.UserBurst) {
			delete(c.buckets, user)
		}
	}
	c.sweepAt = max(minSweep, 2*len(c.buckets))
}

// add counts a message as not answered, until remove.
func (c *limiter) add(h pendingMessage) {
	if h.user != "" {
		c.users[h.user]++
	}
	c.channels[h.channel]++
}

// remove takes back one add. Entries that reach zero are deleted: the maps must not grow with all users and channels
// that ever wrote.
func (c *limiter) remove(h pendingMessage) {
	if c.users[h.user]--; c.users[h.user] <= 0 {
		delete(c.users, h.user)
	}
	if c.channels[h.channel]--; c.channels[h.channel] <= 0 {
		delete(c.channels, h.channel)
	}
}
