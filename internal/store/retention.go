package store

import (
	"time"

	"ravenbot/internal/core/chat"
)

// Retention holds the retention times of records. A duration of 0 means without end.
type Retention struct {
	// Conversations returns the retention time of a conversation. Nil means without end.
	Conversations func(chat.Address) time.Duration
	// Rooms returns the retention time of a web room's lines and files, by the room's name.
	Rooms    func(room string) time.Duration
	Calls    time.Duration // records of tool calls
	Usage    time.Duration // sums of usage
	Feedback time.Duration
}

// IsOver reports whether messages of a conversation at a time have expired.
func (r Retention) IsOver(a chat.Address, at, now time.Time) bool {
	keep := r.Conversation(a)
	return keep > 0 && at.Before(now.Add(-keep))
}

// Conversation returns the retention time of a conversation.
func (r Retention) Conversation(a chat.Address) time.Duration {
	if r.Conversations == nil {
		return 0
	}
	return r.Conversations(a)
}
