package chat

import (
	"context"
	"strconv"
	"time"

	"ravenbot/internal/core/origin"
)

// Context is what a message is about, beside its own words: where it was said and what it
// refers to. It holds only what the author of the message may read, too.
type Context struct {
	Place Place
	// Names are display names by user ID: of the author, and of everybody whom the text of the
	// message names as "@ID". Who could not be looked up in time is not in it.
	Names map[string]string
	// Zone is the time zone of the author as an IANA name, such as Europe/Oslo; empty: the
	// platform does not tell it.
	Zone string
	// Reply is the message that this one replies to.
	Reply *Said
	// Linked are messages of the same place whose links the text holds, in that order.
	Linked []Said
	// Root is the message that the thread began with. It is set where Recent was asked for.
	Root *Said
	// Recent are the newest messages before this one, oldest first, those of the bot included.
	Recent []Said
	// Notes say in whole sentences for the model what could not be read, and why: "4 messages
	// of others are not shown to me, because …".
	Notes []string
}

// Place says where something was said, for a model.
type Place struct {
	Server   string // name of the Discord server or Slack workspace; empty: not known
	Channel  string // name without "#"; empty in a direct message or where it is not known
	Topic    string // what the channel says it is for
	TopicBy  string // the ID of whoever wrote Topic; empty: it is not known
	Thread   string // title of the thread; empty: none, or none is known
	ThreadBy string // the ID of whoever opened the thread; empty: the bot did, or it is not known
	InThread bool
	Members  int // people who are in it; 0: not known
}

// ContextQuery says how much of a Context is wanted.
type ContextQuery struct {
	Messages int // most messages in Recent; 0: none, and no Root
	// After is the Message.ID, as the adapter made it, of the last message that the model knows:
	// Recent begins behind it. Empty: it may begin anywhere.
	After string
}

// ContextReader is a Platform that tells what a message is about. Context ends with ctx: what
// could not be read by then is missing, and Notes says so where it matters.
type ContextReader interface {
	Context(ctx context.Context, m Message, q ContextQuery) Context
}

// Formatter is a Platform whose posts need rules of their own: Formatting returns them in one or
// two sentences for the model that writes the Markdown of a Draft.
type Formatter interface {
	Formatting() string
}

// Said is one message as it is read back.
type Said struct {
	// ID is the platform's own, which comes later the later it was said. That of a post of the bot
	// is among its Ref.IDs.
	ID string
	// Subject is the Message.Subject that it has, or would have, as a message to the bot. That of a
	// post of the bot is the Subject of the message which it answers. Empty: not known, or none.
	Subject string
	By      string // a display name, or what the platform gives in its place
	// ByID is the user's ID on the platform; empty: not known.
	ByID string
	Bot  bool
	// Origin says whose words it holds. The agent sets it; of platforms' messages adapters leave it zero.
	Origin origin.Origin
	// News: it is a post of the bot whose addresses may be opened like those of a page: see Draft.News. The agent sets it.
	News bool
	// Self: the bot itself said it.
	Self  bool
	Text  string // with the text of embeds and of forwarded messages
	At    time.Time
	Files []File
	Link  string // leads people to the message; empty: not known
	// Hidden: somebody said something that the platform does not show to the bot; Text is empty.
	// Reason says why, as a clause that may follow "because", and what the operator can do.
	Hidden bool
	Reason string
}

// HiddenNote returns a sentence for the model on how many messages of a list are hidden, and why;
// empty where none is.
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
	// Link returns the address of a message by the ID of its Message or Said, or "" where it has
	// none.
	Link(at Address, id string) string
}

// ThreadLister is a Platform that lists the threads in a channel which everybody who reads the channel may read.
type ThreadLister interface {
	// OpenThreads returns up to limit of them with messages after an instant, the one with the newest first.
	OpenThreads(ctx context.Context, channel Address, after time.Time, limit int) ([]Address, error)
}

// SharedThreads is a Platform that tells whether everybody who reads a channel may read the threads
// in it, too.
type SharedThreads interface {
	SharesThreads(channel Address) bool
}
