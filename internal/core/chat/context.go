package chat

import (
	"context"
	"strconv"
	"time"

	"ravenbot/internal/core/origin"
)

// Context is the context of a message: its place and the messages that it refers to. It holds only data that the
// author of the message can read.
type Context struct {
	Place Place
	// Names are the display names of the author and of everybody whom the text mentions as "@ID", by user ID. Names
	// that could not be looked up in time are missing.
	Names map[string]string
	// Zone is the time zone of the author as an IANA name, such as Europe/Oslo. It is empty if unknown.
	Zone string
	// Reply is the message that this one replies to.
	Reply *Said
	// Linked are messages of the same place that the text links to, in that order.
	Linked []Said
	// Root is the first message of the thread. It is set if Recent was requested.
	Root *Said
	// Recent are the newest messages before this one, oldest first, including the bot's messages.
	Recent []Said
	// Notes are sentences for the model about unreadable messages and the reasons: "4 messages of others are not shown
	// to me, because …".
	Notes []string
}

// Place describes a place for a model.
type Place struct {
	Server   string // name of the Discord server or Slack workspace; empty if unknown
	Channel  string // name without "#"; empty in a direct message or if unknown
	Topic    string // the channel's description
	TopicBy  string // the ID of the author of Topic; empty if unknown
	Thread   string // title of the thread; empty if there is none or it is unknown
	ThreadBy string // the ID of the person who opened the thread; empty if unknown or the bot did
	InThread bool
	Members  int // number of members; 0 if unknown
}

// ContextQuery selects the parts of a Context.
type ContextQuery struct {
	Messages int // maximum of Recent; 0 for no messages and no Root
	// After is the adapter's Message.ID of the last message that the model has seen: Recent begins after it. If it is
	// empty, Recent begins anywhere.
	After string
}

// ContextReader is a Platform that reads the context of a message. Context returns with ctx. Unread parts are missing,
// and Notes mentions them if they matter.
type ContextReader interface {
	Context(ctx context.Context, m Message, q ContextQuery) Context
}

// Formatter is a Platform whose posts follow special rules. Formatting returns them in one or two sentences for the
// model that writes the Markdown of a Draft.
type Formatter interface {
	Formatting() string
}

// Said is one earlier message.
type Said struct {
	// ID is the platform's own and sorts by time. A post of the bot has one of its Ref.IDs.
	ID string
	// Subject is the Message.Subject of the same message to the bot. A post of the bot has the Subject of the message
	// that it answers. It is empty if unknown or if there is none.
	Subject string
	By      string // a display name, or the platform's replacement
	// ByID is the user's ID on the platform. It is empty if unknown.
	ByID string
	Bot  bool
	// Origin holds the sources of the text. The agent sets it; adapters leave it zero.
	Origin origin.Origin
	// News is true for a post of the bot whose addresses may be opened like the addresses of a page (see Draft.News).
	// The agent sets it.
	News bool
	// Self is true for the bot's own messages.
	Self  bool
	Text  string // including the text of embeds and forwarded messages
	At    time.Time
	Files []File
	Link  string // address of the message for people; empty if unknown
	// Hidden is true if the platform does not show the message to the bot. Text is empty, and Reason is a clause that
	// can follow "because", with the operator's remedy.
	Hidden bool
	Reason string
}

// HiddenNote returns a sentence for the model with the number of hidden messages and the reason. It is empty if there
// are none.
func HiddenNote(list []Said) string {
	n, reason := 0, ""
	for _, s := range list {
		if s.Hidden {
			n, reason = n+1, s.Reason
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "1 message of somebody else is not shown to me, because " + reason + "."
	}
	return strconv.Itoa(n) + " messages of others are not shown to me, because " + reason + "."
}

// Linker is a Platform whose messages have addresses on the web.
type Linker interface {
	// Link returns the address of a message by the ID of its Message or Said, or "" if it has none.
	Link(at Address, id string) string
}

// ThreadLister is a Platform that lists the threads of a channel that all readers of the channel can read.
type ThreadLister interface {
	// OpenThreads returns up to limit threads with messages after an instant, sorted by their last message, newest
	// first.
	OpenThreads(ctx context.Context, channel Address, after time.Time, limit int) ([]Address, error)
}

// SharedThreads is a Platform that reports whether all readers of a channel can read its threads, too.
type SharedThreads interface {
	SharesThreads(channel Address) bool
}
