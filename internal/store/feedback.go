package store

import (
	"slices"
	"time"

	"ravenbot/internal/chat"
)

// Feedback is what somebody thinks of an answer. A later one of the same user
// takes the place of an earlier one.
type Feedback struct {
	Turn string    `json:"turn"`
	User string    `json:"user"`
	Good bool      `json:"good"`
	At   time.Time `json:"at"`
	// Signs are the reactions that say so, oldest first; none: a button did.
	Signs []Sign `json:"signs,omitempty"`
	// Withdrawn: the reactions that said so were taken away. Who lists feedback is not
	// shown it.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// Sign is a reaction that stands below a post.
type Sign struct {
	Post string `json:"post"`
	Name string `json:"name"`
	Good bool   `json:"good,omitempty"`
}

// Reaction is a sign below a post that shows a turn, or the end of one. Without a User
// it is that of everybody, without a Sign whatever there is.
type Reaction struct {
	Turn, User string
	Post, Sign string
	Good, Gone bool
	At         time.Time
}

// Apply gives what somebody thinks after a reaction of theirs: what the last of those
// that stand says. What is told late, or again, changes nothing; false says so. For
// that the end of a reaction that was never told of is kept, too.
func (f Feedback) Apply(r Reaction) (Feedback, bool) {
	pressed := !f.At.IsZero() && !f.Withdrawn && len(f.Signs) == 0
	if !pressed && r.At.Before(f.At) || pressed && r.Gone {
		return f, false
	}
	signs := slices.DeleteFunc(slices.Clone(f.Signs), func(s Sign) bool { return s.Post == r.Post && (r.Sign == "" || s.Name == r.Sign) })
	if !r.Gone {
		signs = append(signs, Sign{Post: r.Post, Name: r.Sign, Good: r.Good})
	}
	after := Feedback{Turn: f.Turn, User: f.User, Signs: signs, Withdrawn: len(signs) == 0, At: r.At}
	if !after.Withdrawn {
		after.Good = signs[len(signs)-1].Good
	}
	return after, true
}

// ShownTurn is where a post is and the turn that it shows.
type ShownTurn struct {
	To   chat.Address `json:"to"`
	Turn string       `json:"turn"`
}
