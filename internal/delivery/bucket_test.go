package delivery

import (
	"fmt"
	"testing"
	"time"

	"ravenbot/internal/chat"
)

// What is known of users who have gone is forgotten.
func TestIdleBucketsAreDropped(t *testing.T) {
	c, now, most := newLimiter(Limits{}, 256, 10_000), time.Unix(0, 0), 0
	for n := range 100_000 {
		m := chat.Message{ID: fmt.Sprint(n), Author: chat.User{ID: fmt.Sprint(n)}, Conversation: chat.Address{Platform: "slack", Channel: "C"}}
		if !c.allow(m, 9_000, now) {
			t.Fatalf("user %d may say nothing", n)
		}
		c.add(newPendingMessage(m))
		c.remove(newPendingMessage(m))
		now = now.Add(100 * time.Millisecond)
		most = max(most, len(c.buckets))
	}
	if most > 1000 || len(c.users) > 0 || len(c.channels) > 0 {
		t.Errorf("%d buckets at a time, and %d users and %d channels in the end", most, len(c.users), len(c.channels))
	}
}
