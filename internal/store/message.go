package store

import (
	"time"

	"ravenbot/internal/core/chat"
)

// Message is a message of a conversation that is not in a turn, such as an imported one.
type Message struct {
	Conversation chat.Address `json:"conversation"`
	ID           string       `json:"id"` // unique in the conversation
	Author       chat.User    `json:"author"`
	Bot          bool         `json:"bot,omitempty"` // this bot or another wrote it
	At           time.Time    `json:"at"`
	Text         string       `json:"text"`
}

// ConversationVersion shows whether the data of a conversation has changed since it was read.
type ConversationVersion struct {
	Address chat.Address
	// Turns has a number for each turn, by its Seq, that changes whenever the turn does.
	Turns map[uint64]uint64
	// Messages changes whenever a message outside of turns is added or deleted. It is 0 if there is none.
	Messages uint64
}
