package store

import (
	"time"

	"ravenbot/internal/core/chat"
)

// Retention says how long records are kept. A duration of 0 means without end.
type Retention struct {
	// Conversations returns how long what was said in a conversation is kept; nil: without end.
	Conversations func(chat.Address) time.Duration
	// Rooms returns it for the lines and files of a web room, by the room's name.
	Rooms    func(room string) time.Duration
	Calls    time.Duration // records of tool calls
	Usage    time.Duration // sums of usage
	Feedback time.Duration
}

// IsOver reports whether what was said in a conversation at a time is over its retention.
func (r Retention) IsOver(a chat.Address, at, now time.Time) bool {
	keep := r.Conversation(a)
	return keep > 0 && at.Before(now.Add(-keep))
}

// Conversation returns how long what was said in a conversation is kept.
func (r Retention) Conversation(a chat.Address) time.Duration {
	if r.Conversations == nil {
		return 0
	}
	return r.Conversations(a)
}
