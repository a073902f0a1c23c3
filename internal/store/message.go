package store

import (
	"time"

	"ravenbot/internal/core/chat"
)

// Message is something that was said in a conversation and is part of no turn, such as a message
// that an import brought.
type Message struct {
	Conversation chat.Address `json:"conversation"`
	ID           string       `json:"id"` // unique in the conversation
	Author       chat.User    `json:"author"`
	Bot          bool         `json:"bot,omitempty"` // this bot or another said it
	At           time.Time    `json:"at"`
	Text         string       `json:"text"`
}

// ConversationVersion says whether what is kept of a conversation has changed since it was read.
type ConversationVersion struct {
	Address chat.Address
	// Turns has a number for each turn, by its Seq, that changes whenever the turn does.
	Turns map[uint64]uint64
	// Messages changes whenever a message outside of turns is added or deleted; 0: there is none.
	Messages uint64
}
