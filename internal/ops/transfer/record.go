// Package transfer exports the bot's data as JSON lines, and imports such lines: messages, notes, settings,
// subscriptions, members' filters, mailboxes that want no mails, and the jobs, digests, agents and MCP servers that
// were created through the API or in chat.
//
// It promises that an import into an empty store followed by an export gives the same lines, that an import only adds
// missing data, and that a faulty line is reported by its number while the others are still imported. Entries of
// servers and agents are exported as stored, including their secrets.
package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
)

// The kinds of records.
const (
	kindServer       = "server"
	kindAgent        = "agent"
	kindDigest       = "digest"
	kindSetting      = "setting"
	kindSubscription = "subscription"
	kindMemory       = "memory"
	kindMessage      = "message"
	kindJob          = "job"
	kindFilter       = "filter"         // of a member, for entries of digests
	kindUnsubscribed = "unsubscription" // of a mailbox, from a digest
	kindPause        = "pause"          // of a digest
)

// Limits of what an import takes. What was exported has to come back: an answer may have 1 MiB, of which JSON writes
// quotes and ends of lines as two bytes.
const (
	MaxLine        = 4 << 20 // bytes of a line
	maxTextBytes   = 1 << 20 // of a message
	maxIDBytes     = 500
	maxNameBytes   = 200
	maxMemoryChars = 500
	maxMemories    = 200 // notes of a scope
)

// author is who said something.
type author struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// message is a line of the kind message.
type message struct {
	Kind         string    `json:"kind"`
	Conversation string    `json:"conversation"`
	ID           string    `json:"id"`
	Author       author    `json:"author"`
	Bot          bool      `json:"bot"`
	At           time.Time `json:"at"`
	Text         string    `json:"text"`
}

// memory is a line of the kind memory. Scope is user:PLATFORM/ID or channel:ADDRESS.
type memory struct {
	Kind  string    `json:"kind"`
	Scope string    `json:"scope"`
	Text  string    `json:"text"`
	By    string    `json:"by"`
	User  string    `json:"user,omitempty"` // PLATFORM/ID of who asked, where it is known
	At    time.Time `json:"at"`
	// Origin says whose words the turn had read in which it was made.
	Origin origin.Origin `json:"origin,omitzero"`
}

// setting is a line of the kind setting: a layer of settings.
type setting struct {
	Kind  string          `json:"kind"`
	Scope string          `json:"scope"`
	Value json.RawMessage `json:"value"`
}

// subscription is a line of the kind subscription.
type subscription struct {
	Kind  string    `json:"kind"`
	To    string    `json:"to"`
	URL   string    `json:"url"`
	Title string    `json:"title"`
	At    time.Time `json:"at"`
}

// item is a line of the kinds of itemKinds.
type item struct {
	Kind  string          `json:"kind"`
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// itemKinds returns the kinds under which the store keeps items, by those of records.
func itemKinds() map[string]string {
	return map[string]string{
		kindServer:       "mcp server",
		kindAgent:        "agent",
		kindDigest:       "digest",
		kindJob:          "job",
		kindFilter:       "digest member filter",
		kindUnsubscribed: "digest unsubscription",
		kindPause:        "digest pause",
	}
}

// decode reads a line into a record. Unknown fields are refused: they would be lost without a word.
func decode(line []byte, record any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(record); err != nil {
		return fmt.Errorf("it is no such record: %w", err)
	}
	return nil
}

// checkObject returns an error for what is no JSON object.
func checkObject(raw json.RawMessage) error {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return errors.New(`"value" is no JSON object`)
	}
	return nil
}

// checkMessage returns the conversation of a message, or what is wrong with it.
func (m message) check() (chat.Address, error) {
	a, err := chat.ParseAddress(m.Conversation)
	switch {
	case err != nil:
		return a, fmt.Errorf(`"conversation": %w`, err)
	case m.ID == "" || len(m.ID) > maxIDBytes:
		return a, fmt.Errorf(`"id" has %d bytes, want 1 to %d`, len(m.ID), maxIDBytes)
	case m.At.IsZero():
		return a, errors.New(`"at" is missing: want a time such as 2026-11-21T08:00:00Z`)
	case m.Text == "" || len(m.Text) > maxTextBytes:
		return a, fmt.Errorf(`"text" has %d bytes, want 1 to %d`, len(m.Text), maxTextBytes)
	}
	return a, nil
}
