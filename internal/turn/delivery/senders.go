package delivery

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// sender is what one process tells the others of a user.
type sender struct {
	Open int `json:"open,omitempty"` // messages that are not answered yet
	Sent int `json:"sent,omitempty"` // tokens taken since the bucket was last full
}

// maxTold is the number of users that a process reports: the most active ones.
const maxTold = 1000

// Topic names what replicas tell one another of the senders of messages.
func (*Service) Topic() string { return "senders" }

// Told returns this process's counts of message senders, for the other replicas. It cannot fail.
func (s *Service) Told() (json.RawMessage, error) {
	s.mu.Lock()
	told := s.limiter.told(s.o.Now())
	s.mu.Unlock()
	return json.Marshal(told)
}

// Hear adds other processes' counts of the same users, by the ids of the processes. After an error nothing has
// changed.
func (s *Service) Hear(others map[int64]json.RawMessage) error {
	told := map[int64]map[string]sender{}
	for id, text := range others {
		var users map[string]sender
		if err := json.Unmarshal(text, &users); err != nil {
			return fmt.Errorf("read the user counts of replica %d: %w", id, err)
		}
		told[id] = users
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limiter.hear(told, s.o.Now())
	return nil
}

// told returns the users whose buckets are not full, or whose messages wait.
func (c *limiter) told(now time.Time) map[string]sender {
	// A bucket that is full again starts from zero, as if its user had never written.
	c.dropFullBuckets(now)
	told := map[string]sender{}
	for user, b := range c.buckets {
		if b.sent > 0 {
			told[user] = sender{Sent: b.sent}
		}
	}
	for user, n := range c.users {
		u := told[user]
		u.Open = n
		told[user] = u
	}
	if len(told) <= maxTold {
		return told
	}
	most := slices.SortedFunc(maps.Keys(told), func(a, b string) int {
		return cmp.Compare(told[b].Open+told[b].Sent, told[a].Open+told[a].Sent)
	})
	for _, user := range most[maxTold:] {
		delete(told, user)
	}
	return told
}

// hear takes tokens for the messages that users have sent to other processes since the last call, and counts their
// unanswered messages there.
func (c *limiter) hear(told map[int64]map[string]sender, now time.Time) {
	c.elsewhere = map[string]int{}
	for id, users := range told {
		for user, u := range users {
			c.elsewhere[user] += u.Open
			sent := u.Sent - c.heard[id][user].Sent
			if sent < 0 { // the bucket there was full in between
				sent = u.Sent
			}
			if sent > 0 {
				b := c.buckets[user]
				b.tokens, b.at = max(c.tokensAt(b, now)-float64(sent), 0), now
				c.buckets[user] = b
			}
		}
	}
	c.heard = told
}
