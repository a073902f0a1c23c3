// Package chat is the vocabulary that chat platforms and the rest of the bot share: the place of a conversation
// (Address), incoming messages (Message), outgoing posts (Draft), and the abilities of a platform (Platform and its
// optional interfaces). It promises plain values that survive a round trip through JSON and imports only the standard
// library, origin and text. The adapter decides how a draft looks, and delivery when it is sent.
//
// An adapter implements Platform (connect, post, health) and the optional interfaces that its platform supports, such
// as editing, typing, forms and reading back. Callers ask for an ability by a type assertion. A person's action is a
// Message, whose Kind names the action (event.go). The bot's output is a Draft in Markdown, which each adapter
// converts to its platform's form and length.
package chat

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/origin"
)

// Reach says how a message came to concern the bot.
type Reach string

// The ways in which a message reaches the bot.
const (
	// Addressed is a mention, a direct message, a reply to the bot or a command.
	Addressed Reach = "addressed"
	// Followed is a reply, without a mention, in a thread that may be the bot's.
	Followed Reach = "followed"
	// Overheard is anything else said where the bot can read.
	Overheard Reach = "overheard"
)

// User is a person or a program on a platform.
type User struct {
	ID string `json:"id"`
	// Name is what people call the user. Everybody chooses it freely, so nothing is decided by it.
	Name string `json:"name,omitempty"`
	// Handle is the name of the account, which no two users of a platform share; empty: the
	// platform does not tell it.
	Handle string `json:"handle,omitempty"`
	// Global is true if the ID is the same in all workspaces of the platform.
	Global bool `json:"global,omitempty"`
	Admin  bool `json:"admin,omitempty"` // may change the bot's settings for the workspace
	// Roles are the roles of the user in the workspace: ids, and names where they are known.
	Roles []string `json:"roles,omitempty"`
	// Operator is true for whoever is signed in with the admin token, such as in a web room.
	// There is no account of a chat platform behind such a user.
	Operator bool `json:"operator,omitempty"`
}

// Operator returns whoever is signed in with the admin token, or sits at the bot's machine.
func Operator() User { return User{ID: "admin", Name: "operator", Admin: true, Operator: true} }

// Change says what became of a message that came before.
type Change string

// The changes of a message.
const (
	Edited  Change = "edited"  // Text takes the place of what it said
	Deleted Change = "deleted" // it is gone
)

// Message is one thing said to the bot, or a change of one. It is stored before
// it is acted on and must carry whatever is needed to answer it after a restart.
type Message struct {
	// ID is the message's identity within its platform: team, channel and
	// timestamp on Slack, the message or interaction id on Discord. Two
	// deliveries with one ID, and one Revision, are one message.
	ID string `json:"id"`
	// Change and Revision are set where the message with this ID was edited or
	// deleted; Revision tells one edit from the next. The Conversation of a change
	// may lack the thread, and a deletion has no more than its ID.
	Change   Change `json:"change,omitempty"`
	Revision string `json:"revision,omitempty"`

	Conversation Address `json:"conversation"`
	// Direct is true in a conversation that only the author and the bot can read, such as a
	// direct message. The adapter sets it; nobody else may guess it from an address.
	Direct  bool      `json:"direct,omitempty"`
	Author  User      `json:"author"`
	Text    string    `json:"text"` // without the mention of the bot
	Files   []File    `json:"files,omitempty"`
	Reach   Reach     `json:"reach"`
	Command string    `json:"command,omitempty"` // "ask", "digest", …; Pressed; Submitted; empty: plain text
	Reply   Reply     `json:"reply,omitzero"`    // how an answer refers to this message
	Time    time.Time `json:"time"`              // when the platform says that it was said
	// Values are what was filled in, by Field.Name, where Command is Submitted.
	Values map[string]string `json:"values,omitempty"`
	// Missed: it was said while the bot was away, and read or brought by its platform afterwards.
	Missed bool `json:"missed,omitempty"`
	// ForOther: somebody else is spoken to. The text begins with their mention; where the message
	// was overheard it mentions them anywhere, or replies to them.
	ForOther bool `json:"forOther,omitempty"`
	// ReplyTo is the ID of the message that this one replies to, as the platform names it; empty:
	// it replies to none.
	ReplyTo string `json:"replyTo,omitempty"`
	// Target is the message that a MessageCommand was used on. It has at least an ID.
	Target *Said `json:"target,omitempty"`
	// Reaction is set where nothing was said, but a sign put below a post.
	Reaction *Reaction `json:"reaction,omitempty"`
	// Origin says whose words Text holds beside those of the author, of a task that a model has written.
	Origin origin.Origin `json:"origin,omitzero"`
}

// Subject is the identity, over all platforms, of the message or of the one that
// this is a change of.
func (m Message) Subject() string { return m.Conversation.Platform + "/" + m.ID }

// Key is the identity of what was taken: the message, or this change of it.
func (m Message) Key() string {
	if m.Change == "" {
		return m.Subject()
	}
	return m.Subject() + "~" + string(m.Change) + m.Revision
}

// Asked is what one answer is for: a message, or several that waited together.
type Asked struct {
	// Turn names the work: the Key of the message that it began with. It stays
	// when that message is edited or deleted meanwhile.
	Turn     string
	Messages []Message // as they read now, in order; at least one
	// Revised ends when one of them was edited or deleted, or another has to be
	// taken in: the work stops at the next step and is asked for again. nil: that cannot happen.
	Revised context.Context
	// Stored is closed when the messages are stored, or cannot be: then Revised has ended. Before that the work may only
	// read: no model is asked, nothing is changed, and nobody is told anything. nil: they are stored.
	Stored <-chan struct{}
}

// AwaitStored waits until Stored is closed. It returns the error of ctx where that ends first.
func (q Asked) AwaitStored(ctx context.Context) error {
	if q.Stored != nil {
		select {
		case <-q.Stored:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// IsRevised reports whether Revised has ended.
func (q Asked) IsRevised() bool { return q.Revised != nil && q.Revised.Err() != nil }

// Last is the message that an answer refers to.
func (q Asked) Last() Message { return q.Messages[len(q.Messages)-1] }

// LastSeen says what was last taken from a conversation.
type LastSeen struct {
	Conversation Address   `json:"conversation"`
	Message      string    `json:"message"` // ID of the newest message taken; empty: none was
	Time         time.Time `json:"time"`    // when the platform says that it was said
	// At is when it was taken, by the bot's own clock, which need not go with the
	// platform's.
	At time.Time `json:"at,omitzero"`
}

// Pressed is the Command of a Message that is the press of a button; its Text is
// the button's Value, its Reply.MessageID the post with the button.
const Pressed = "press"

// What buttons of ours say when they are pressed. The ones that end with a space
// are followed by the name of a turn (Asked.Turn).
const (
	PressStop  = "stop"
	PressRetry = "retry "
	PressGood  = "good "
	PressBad   = "bad "
	PressTools = "tools " // show the tool calls behind an answer
)

// Press takes apart what a button says: PressRetry and the turn, for example.
func (m Message) Press() (what, turn string) {
	if m.Command != Pressed {
		return "", ""
	}
	word, turn, more := strings.Cut(m.Text, " ")
	if !more {
		return word, ""
	}
	return word + " ", turn
}

// Button is something to press below a post.
type Button struct {
	Label string `json:"label"`           // a word or two
	Value string `json:"value"`           // comes back with the press; at most 90 bytes
	Style Style  `json:"style,omitempty"` // how it looks
}

// Style is how a button looks.
type Style string

// The looks of buttons; the empty one is quiet.
const (
	Primary Style = "primary"
	Danger  Style = "danger"
)

// File is a file with a message, or one to be posted. Of a message's file Handle is
// the adapter's own, by which a Fetcher reads it; one to be posted has its Data.
type File struct {
	Name   string          `json:"name"`
	Type   string          `json:"type,omitempty"` // media type, such as image/png
	Size   int64           `json:"size,omitempty"` // bytes; 0: not known
	Handle json.RawMessage `json:"handle,omitempty"`
	Data   []byte          `json:"data,omitempty"`
	// Duration is how long a recording lasts; 0: not known.
	Duration time.Duration `json:"duration,omitempty"`
}

// Fetcher is a Platform that reads the files of messages: at most limit bytes,
// more is an error.
type Fetcher interface {
	Fetch(ctx context.Context, f File, limit int64) ([]byte, error)
}

// Reply ties a draft to what it answers. Handle is the adapter's own: an
// interaction's token, a response_url. It is kept with the message so that the
// answer can be given after a restart.
type Reply struct {
	MessageID string          `json:"messageId,omitempty"`
	Handle    json.RawMessage `json:"handle,omitempty"`
}

// Draft is a post before a platform has rendered it.
type Draft struct {
	// Key is the same whenever the same post is sent again; a platform that can
	// uses it to make repeating harmless.
	Key  string `json:"key"`
	Text string `json:"text"` // Markdown (CommonMark with tables)
	// Title is what a post is called where posts have a title, such as the subject of a mail.
	Title string `json:"title,omitempty"`
	// List names the mailing list that a mail belongs to; Unsubscribe is the address at which its reader ends that.
	List        string `json:"list,omitempty"`
	Unsubscribe string `json:"unsubscribe,omitempty"`
	// Tags are the names of the tags of a post in a forum.
	Tags      []string  `json:"tags,omitempty"`
	Cards     []Card    `json:"cards,omitempty"`
	Footer    string    `json:"footer,omitempty"` // one small line below all else, plain text
	Tools     []ToolRun `json:"tools,omitempty"`  // the tool calls behind an answer
	Buttons   []Button  `json:"buttons,omitempty"`
	Files     []File    `json:"files,omitempty"`
	Reply     Reply     `json:"reply,omitzero"`
	Ephemeral bool      `json:"ephemeral,omitempty"` // for the asker alone, where the platform can
	Failed    bool      `json:"failed,omitempty"`    // the text is an error
	// Editable: another post will take its place. Of several ways to post it a platform takes one whose posts can be
	// edited.
	Editable bool `json:"editable,omitempty"`
	// Answers are further messages that it answers, beside the one that Reply names.
	Answers []Reply `json:"answers,omitempty"`
	// Replaces are the posts that this one takes the place of. A platform that cannot
	// edit, or no longer finds them, posts anew.
	Replaces Ref `json:"replaces,omitzero"`
	// Notify names who is notified of the post: role:ID (of Slack: a user group) or user:ID. Others are not, whatever the
	// text says. Platforms without notifications leave it out.
	Notify []string `json:"notify,omitempty"`
	// Owner is the ID of the user who receives the post by direct message if its place has become unreachable, such as
	// whoever asked for a reminder; empty: nobody does.
	Owner string `json:"owner,omitempty"`
	// Partial: the answer is still being written, and a draft with the same Key will
	// take the place of this one. It says so.
	Partial bool `json:"-"`
	// Origin says whose words the post holds, for when it is quoted to a model. nil: it is not known, and they count as
	// foreign text.
	Origin *origin.Origin `json:"origin,omitempty"`
	// News: it tells what others published, such as a digest, and no model has put together the addresses in it.
	News bool `json:"news,omitempty"`
	// Again: an earlier attempt, perhaps before a restart, may have been posted;
	// the adapter looks for Key on the platform, where it can, before it sends.
	Again bool `json:"-"`
	// Since is when the first attempt was made at the earliest; looking further back
	// is of no use. Zero: not known.
	Since time.Time `json:"-"`
}

// For gives the IDs of all messages that the draft answers.
func (d Draft) For() []string {
	var ids []string
	for _, r := range append([]Reply{d.Reply}, d.Answers...) {
		if r.MessageID != "" {
			ids = append(ids, r.MessageID)
		}
	}
	return ids
}

// Card is one entry of a digest: a story with its link.
type Card struct {
	Title  string    `json:"title"`
	URL    string    `json:"url"`
	Text   string    `json:"text,omitempty"`   // plain text, a few sentences
	Source string    `json:"source,omitempty"` // the feed's title
	Time   time.Time `json:"time,omitzero"`
	Also   []Link    `json:"also,omitempty"` // the same story elsewhere
	// N is the number by which people and the post's text refer to it; 0: it has none.
	N int `json:"n,omitempty"`
	// Image is the address of a picture, http or https.
	Image string `json:"image,omitempty"`
	// Minutes is how long the whole article takes to read; 0: unknown.
	Minutes int `json:"minutes,omitempty"`
	// Why says in a few words why the item was chosen.
	Why string `json:"why,omitempty"`
}

// Notes returns what is said of the item in small print besides its source and time, in plain text.
func (c Card) Notes() []string {
	var notes []string
	if c.Minutes > 0 {
		notes = append(notes, strconv.Itoa(c.Minutes)+" min read")
	}
	if c.Why != "" {
		notes = append(notes, c.Why)
	}
	return notes
}

// Label is the number as it stands before the title, "3. ", or empty.
func (c Card) Label() string {
	if c.N == 0 {
		return ""
	}
	return strconv.Itoa(c.N) + ". "
}

// Link is a titled URL.
type Link struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

// ToolRun is a tool call as people see it.
type ToolRun struct {
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	State  RunState        `json:"state"`
	Args   json.RawMessage `json:"args,omitempty"`
	Result string          `json:"result,omitempty"`
	Note   string          `json:"note,omitempty"` // how far it is, while it runs
	Took   time.Duration   `json:"took,omitempty"`
}

// RunState is how far a tool call has come.
type RunState string

// The states of a tool call.
const (
	Running RunState = "running"
	Done    RunState = "done"
	Failed  RunState = "failed"
)

// FailureMark begins a failed post on platforms that have no other way to show that it is one.
const FailureMark = "⚠️ "

// Ref is the platform's own name of a post that was made. IDs holds more than
// one where a draft had to be split, in order.
type Ref struct {
	IDs []string `json:"ids"`
	// Repeated: an earlier attempt may be there too, and the platform gives no way
	// to look. The post says so itself.
	Repeated bool `json:"repeated,omitempty"`
}

// MayRepeat is the word by which a post says that it may be there twice.
const MayRepeat = "possibly a repeat: I was interrupted while posting this"

// Limits are what a platform takes. Adapters split longer drafts themselves.
type Limits struct {
	Text  int // characters of text in one post
	Cards int // cards in one post
	// Edits is how often a post may be edited while its text is being written; 0:
	// answers appear when they are whole.
	Edits time.Duration
}

// Platform is one chat system. Run and Post may be called concurrently; Post
// may be called before Run has connected, and then fails or waits within ctx.
type Platform interface {
	Name() string
	// Run connects and stays connected until ctx ends, handing every message in
	// order to accept. A nil return of accept means that the message is safe on
	// disk, and only then may the platform be told so. Run returns early only
	// when it cannot ever succeed (a *SetupError).
	Run(ctx context.Context, accept func(context.Context, Message) error) error
	// Post sends a draft. A Ref is returned only with the platform's id in hand.
	// A *PostError says whether trying again makes sense.
	Post(ctx context.Context, to Address, d Draft) (Ref, error)
	Limits() Limits
}

// Health is evidence of a live connection.
type Health struct {
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	Detail    string    `json:"detail,omitempty"` // why not, or what was last heard
	// RateLimited counts how often the platform said that it keeps events back, because there
	// are too many.
	RateLimited int64 `json:"rateLimited,omitempty"`
	// Shards are the sessions that this process has of the ShardCount by which the platform's events come, where they
	// are divided among several processes.
	Shards     []int `json:"shards,omitempty"`
	ShardCount int   `json:"shardCount,omitempty"`
}

// Reporter is a Platform that can tell whether it is really connected.
type Reporter interface {
	Health() Health
}

// Typist is a Platform that can show that an answer is being written. Typing is
// called again every few seconds while it lasts.
type Typist interface {
	Typing(ctx context.Context, to Address) error
}

// Historian is a Platform that can read back what was said in a conversation.
type Historian interface {
	// History gives up to most messages, oldest first: the newest before the one with
	// the given id; "" is the end. Fewer than most may be given though there are more.
	// The error is for people where it is a *SetupError.
	History(ctx context.Context, at Address, before string, most int) ([]Said, error)
}

// Threader is a Platform on which a post can have a thread below it.
type Threader interface {
	// CanThread reports whether a post to a conversation can have a thread below it.
	CanThread(to Address) bool
	// Thread gives where what belongs to a post goes: to the thread below it, which is
	// opened under the title if it is not there. Without a thread in it the address says
	// that there can be none. An error is worth another attempt.
	Thread(ctx context.Context, to Address, post Ref, title string) (Address, error)
}

// PlaceChecker is a Platform that can tell whether a place takes a post before it is made.
type PlaceChecker interface {
	// CheckPost returns a *SetupError if a post with tags, which forums may need, cannot be made in a place, and another
	// error if that could not be found out.
	CheckPost(ctx context.Context, to Address, tags []string) error
}

// OneWay is a Platform whose places are told nothing about posts that did not reach them: what the notice says would
// meet the same refusal.
type OneWay interface {
	Platform
	OneWay()
}

// Progress is a passing view of work under way: never stored, and nothing is
// lost when it is dropped. One of Text, Tool, Note, Reset and Ended is set.
type Progress struct {
	Message string   `json:"message"`        // ID of the message being answered
	Text    string   `json:"text,omitempty"` // more of the answer; append it
	Tool    *ToolRun `json:"tool,omitempty"`
	Note    string   `json:"note,omitempty"`  // a word on what is being waited for
	Reset   bool     `json:"reset,omitempty"` // drop the text shown so far: the model starts again
	Waits   bool     `json:"-"`               // the work waits for a person, and so must not hold up other people
	Ended   bool     `json:"ended,omitempty"` // the work has ended and leaves no post
}

// Reviser is a Platform that keeps what was said on a record of its own.
type Reviser interface {
	// Revise makes the record of a message say what an accepted edit or deletion of it says. It is called before the
	// change counts as done, perhaps repeatedly, and leaves a record that shows this change or a later one as it is.
	Revise(ctx context.Context, change Message) error
}

// Watcher is a Platform that shows work as it happens. Show must not block.
type Watcher interface {
	Show(to Address, p Progress)
}

// SetupError is a fault that somebody has to mend: a refused credential, a missing
// permission. A retry within minutes is of no use. Remedy tells the operator what to do.
type SetupError struct {
	Reason string
	Remedy string
	Err    error
}

func (e *SetupError) Error() string {
	s := e.Reason
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Remedy != "" {
		s += " (" + e.Remedy + ")"
	}
	return s
}

// Unwrap returns the platform's error; nil: there is none.
func (e *SetupError) Unwrap() error { return e.Err }

// PostError is a post that was refused or whose outcome is unknown.
type PostError struct {
	// Permanent: sending the same again cannot succeed.
	Permanent bool
	// Unreachable: the place takes no post of the bot, whatever it says; Permanent is set, too. Reason is why, in words
	// for people.
	Unreachable bool
	Reason      string
	// Maybe: the platform may have taken the post although no answer came.
	Maybe bool
	// After is how long the platform asks us to wait; zero where it did not say.
	After time.Duration
	Err   error
}

// Error returns the text of the platform's error; whether to try again is in the fields.
func (e *PostError) Error() string { return e.Err.Error() }

// Unwrap returns the platform's error.
func (e *PostError) Unwrap() error { return e.Err }

// ErrStopped is the cause with which the work on an answer ends when somebody
// said stop.
var ErrStopped = errors.New("stopped by a user")

// ErrSuperseded is the cause with which showing an unfinished answer, or that somebody types, ends when the whole answer
// is there. A platform stops waiting to send, and finishes a request that it has begun: one that is cut off may still be
// carried out, after the answer is shown.
var ErrSuperseded = errors.New("the whole answer is there")

// ErrBusy is returned by accept when the bot cannot take more work now.
var ErrBusy = errors.New("too much work is waiting")

// BusyError is an ErrBusy about a message that can be kept until its author has been told. A platform that tells
// authors later keeps the message before it acknowledges it: otherwise a crash in between would leave the author
// without a word.
type BusyError struct {
	// Keep stores the message and returns the function that marks it as done. A message that is kept and not done is
	// answered after the next start. done is nil if the message was accepted or kept before.
	Keep func(ctx context.Context) (done func(context.Context) error, err error)
}

// Error returns the text of ErrBusy.
func (*BusyError) Error() string { return ErrBusy.Error() }

// Unwrap returns ErrBusy.
func (*BusyError) Unwrap() error { return ErrBusy }
