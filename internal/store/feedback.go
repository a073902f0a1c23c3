package store

import (
	"slices"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
)

// Feedback is a user's opinion on an answer. A later one of the same user replaces the earlier one.
type Feedback struct {
	Turn string    `json:"turn"`
	User string    `json:"user"`
	Good bool      `json:"good"`
	At   time.Time `json:"at"`
	// Signs are the reactions behind it, oldest first. It is empty if a button was pressed.
	Signs []Sign `json:"signs,omitempty"`
	// Withdrawn: all reactions were removed. The record stays so that a late or repeated
	// event is recognized; lists leave it out.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// FeedbackTotals caches the counts of feedback until it changes. It is safe for concurrent use; its zero value is
// ready for use. V distinguishes the states of the feedback.
type FeedbackTotals[V comparable] struct {
	mu        sync.Mutex
	isKnown   bool
	version   V
	good, bad int
}

// Get returns the counts of a version, and false where another one was set.
func (c *FeedbackTotals[V]) Get(version V) (good, bad int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.good, c.bad, c.isKnown && c.version == version
}

// Set counts the feedback of a version, and returns the counts.
func (c *FeedbackTotals[V]) Set(version V, list []Feedback) (good, bad int) {
	for _, f := range list {
		if f.Good {
			good++
		}
	}
	bad = len(list) - good
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isKnown, c.version, c.good, c.bad = true, version, good, bad
	return good, bad
}

// Sign is a reaction below a post.
type Sign struct {
	Post string `json:"post"`
	Name string `json:"name"`
	Good bool   `json:"good,omitempty"`
}

// Reaction is an event: a sign was added below a post that shows a turn, or (Gone) was
// removed. An empty User means all users, an empty Sign all signs.
type Reaction struct {
	Turn, User string
	Post, Sign string
	Good, Gone bool
	At         time.Time
}

// Apply returns the feedback after a reaction: the newest remaining sign decides. It returns false if nothing changes,
// because the event is older than the record or a removal cannot undo a button press. The removal of an unknown sign
// is recorded as well, so that its addition, delivered late, changes nothing.
func (f Feedback) Apply(r Reaction) (Feedback, bool) {
	// Feedback without signs that is not withdrawn came from a button. A later reaction replaces it. An event about an
	// earlier reaction does not.
	pressed := !f.At.IsZero() && !f.Withdrawn && len(f.Signs) == 0
	if !pressed && r.At.Before(f.At) || pressed && r.Gone {
		return f, false
	}
	signs := slices.DeleteFunc(slices.Clone(f.Signs), func(s Sign) bool {
		return s.Post == r.Post && (r.Sign == "" || s.Name == r.Sign)
	})
	if !r.Gone {
		signs = append(signs, Sign{Post: r.Post, Name: r.Sign, Good: r.Good})
	}
	after := Feedback{Turn: f.Turn, User: f.User, Signs: signs, Withdrawn: len(signs) == 0, At: r.At}
	if !after.Withdrawn {
		after.Good = signs[len(signs)-1].Good
	}
	return after, true
}

// ShownTurn is the place of a post, the turn that it shows, if any, and its sources.
type ShownTurn struct {
	To     chat.Address   `json:"to"`
	Turn   string         `json:"turn"`
	Origin *origin.Origin `json:"origin,omitempty"` // nil if unknown, as for posts before November 2026
	News   bool           `json:"news,omitempty"`   // see chat.Draft
}
