package kit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
)

// Limits of notes that the bot is busy.
const (
	maxBusyGroups   = 4096
	maxBusyMessages = 100 // of one note; the others are counted
	maxBusyWords    = 48  // characters of each message
)

// BusyNotes gathers the messages that were refused because the bot was busy, so that one note tells
// of several, and each is told of. It is safe for concurrent use.
type BusyNotes struct {
	// Gather is how long a note waits for more messages, Every the least time between two notes
	// of one key.
	Gather, Every time.Duration

	mu     sync.Mutex
	groups map[string]*BusyNote
	told   Memory[time.Time]
}

// BusyNote is the refused messages that one note is to tell of.
type BusyNote struct {
	Messages []chat.Message
	More     int // that are not among Messages

	due  time.Time
	done []func(context.Context) error // of all messages
}

// NewBusyNote returns the note of one message.
func NewBusyNote(m chat.Message, done func(context.Context) error) *BusyNote {
	return &BusyNote{Messages: []chat.Message{m}, done: []func(context.Context) error{done}}
}

// KeepRefused keeps a message that accept refused with chat.ErrBusy, until done is called. The author needs no note if
// done is nil: the message was accepted or kept before. After an error nothing is kept.
func KeepRefused(ctx context.Context, refusal error) (done func(context.Context) error, err error) {
	if busy, ok := errors.AsType[*chat.BusyError](refusal); ok {
		return busy.Keep(ctx)
	}
	return func(context.Context) error { return nil }, nil
}

// MarkDone marks the messages of a posted note as done. It returns the errors of the store; the next start answers the
// messages that they are about.
func (n BusyNote) MarkDone(ctx context.Context) error {
	var all []error
	for _, done := range n.done {
		all = append(all, done(ctx))
	}
	return errors.Join(all...)
}

// Add adds a message, with what KeepRefused returned for it, to the note of a key. Where it is the first it returns how
// long to wait before the note is to be taken, and true. A second delivery of a message changes nothing; with too many
// notes waiting the message is dropped, and dropped is true.
func (b *BusyNotes) Add(
	key string,
	m chat.Message,
	done func(context.Context) error,
	now time.Time,
) (wait time.Duration, first, dropped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.groups[key]
	switch {
	case n == nil && len(b.groups) >= maxBusyGroups:
		return 0, false, true
	case n == nil:
		wait = b.Gather
		if last, ok := b.told.Get(key); ok {
			wait = max(wait, b.Every-now.Sub(last))
		}
		if b.groups == nil {
			b.groups = map[string]*BusyNote{}
		}
		n = NewBusyNote(m, done)
		n.due = now.Add(wait)
		b.groups[key] = n
		return wait, true, false
	}
	for _, other := range n.Messages {
		if other.ID == m.ID {
			return 0, false, false
		}
	}
	n.done = append(n.done, done)
	if len(n.Messages) < maxBusyMessages {
		n.Messages = append(n.Messages, m)
	} else {
		n.More++
	}
	return 0, false, false
}

// Take returns the note of a key and forgets it.
func (b *BusyNotes) Take(key string, now time.Time) BusyNote {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.groups[key]
	if n == nil {
		return BusyNote{}
	}
	delete(b.groups, key)
	b.told.Put(key, now)
	return *n
}

// Due takes the notes that have waited long enough.
func (b *BusyNotes) Due(now time.Time) []BusyNote {
	b.mu.Lock()
	var keys []string
	for key, n := range b.groups {
		if !n.due.After(now) {
			keys = append(keys, key)
		}
	}
	b.mu.Unlock()
	var notes []BusyNote
	for _, key := range keys {
		notes = append(notes, b.Take(key, now))
	}
	return notes
}

// Text returns the note in at most about maxChars characters. It names the authors where there are
// several.
func (n BusyNote) Text(maxChars int) string {
	names := false
	for _, m := range n.Messages {
		names = names || m.Author.ID != n.Messages[0].Author.ID
	}
	var list []string
	size, more := 0, n.More
	for i, m := range n.Messages {
		one := "“" + text.Shorten(text.OneLine(m.Text), maxBusyWords) + "”"
		if strings.TrimSpace(m.Text) == "" {
			one = "a message without words"
		}
		if names {
			one = m.Author.Name + " " + one
		}
		if size += len(one); size > maxChars {
			more += len(n.Messages) - i
			break
		}
		list = append(list, one)
	}
	what := strings.Join(list, ", ")
	if more > 0 {
		what += fmt.Sprintf(" and %d more", more)
	}
	return "I am busy right now and could not take " + what + ". Please try again in a moment."
}
