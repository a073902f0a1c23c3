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

// Reach is the way in which a message reaches the bot.
type Reach string

const (
	// Addressed is a mention, a direct message, a reply to the bot or a command.
	Addressed Reach = "addressed"
	// Followed is a reply, without a mention, in a thread that may be the bot's.
	Followed Reach = "followed"
	// Overheard is any other message that the bot can read.
	Overheard Reach = "overheard"
)

// User is a person or a program on a platform.
type User struct {
	ID string `json:"id"`
	// Name is the user's display name. Everybody chooses it freely, so no decision depends on it.
	Name string `json:"name,omitempty"`
	// Handle is the name of the account, which is unique on a platform. It is empty if the platform does not send it.
	Handle string `json:"handle,omitempty"`
	// Global is true if the ID is the same in all workspaces of the platform.
	Global bool `json:"global,omitempty"`
	Admin  bool `json:"admin,omitempty"` // may change the bot's settings for the workspace
	// Roles are the user's roles in the workspace: ids and known names.
	Roles []string `json:"roles,omitempty"`
	// Operator is true for a user who is signed in with the admin token, such as in a web room. Such a user has no
	// account of a chat platform.
	Operator bool `json:"operator,omitempty"`
}

// Operator returns the user who is signed in with the admin token, or sits at the bot's machine.
func Operator() User { return User{ID: "admin", Name: "operator", Admin: true, Operator: true} }

// Change is a later change of a message.
type Change string

// The changes of a message.
const (
	Edited  Change = "edited"  // Text replaces the message
	Deleted Change = "deleted" // the message was deleted
)

// Message is one message to the bot, or a change of one. It is stored before it is handled and must carry all data
// that an answer needs after a restart.
type Message struct {
	// ID identifies the message within its platform: team, channel and timestamp on Slack, the message or interaction
	// id on Discord. Two deliveries with the same ID and Revision are one message.
	ID string `json:"id"`
	// Change and Revision are set if the message with this ID was edited or deleted. Revision distinguishes the edits.
	// The Conversation of a change may lack the thread, and a deletion has only its ID.
	Change   Change `json:"change,omitempty"`
	Revision string `json:"revision,omitempty"`

	Conversation Address `json:"conversation"`
	// Direct is true in a conversation that only the author and the bot can read, such as a direct message. Only the
	// adapter can know this: it does not follow from the address.
	Direct  bool      `json:"direct,omitempty"`
	Author  User      `json:"author"`
	Text    string    `json:"text"` // without the mention of the bot
	Files   []File    `json:"files,omitempty"`
	Reach   Reach     `json:"reach"`
	Command string    `json:"command,omitempty"` // "ask", "digest", …; Pressed; Submitted; empty for plain text
	Reply   Reply     `json:"reply,omitzero"`    // the adapter's data for an answer to this message
	Time    time.Time `json:"time"`              // time of sending, by the platform
	// Values are the values of a form by Field.Name, if Command is Submitted.
	Values map[string]string `json:"values,omitempty"`
	// Missed is true if the message was sent while the bot was away.
	Missed bool `json:"missed,omitempty"`
	// ForOther is true if the message addresses somebody else: its text begins with their mention or, for an overheard
	// message, mentions them anywhere or replies to them.
	ForOther bool `json:"forOther,omitempty"`
	// ReplyTo is the platform's ID of the message that this one replies to. It is empty if there is none.
	ReplyTo string `json:"replyTo,omitempty"`
	// Target is the message that a MessageCommand was used on. It has at least an ID.
	Target *Said `json:"target,omitempty"`
	// Reaction is set if the event is a reaction to a post instead of a message.
	Reaction *Reaction `json:"reaction,omitempty"`
	// Origin holds the sources of Text other than the author, if a model has written it for a task.
	Origin origin.Origin `json:"origin,omitzero"`
}

// Subject identifies the message, or the message that this one changes, across all platforms.
func (m Message) Subject() string { return m.Conversation.Platform + "/" + m.ID }

// Key identifies the accepted event: the message, or this change of it.
func (m Message) Key() string {
	if m.Change == "" {
		return m.Subject()
	}
	return m.Subject() + "~" + string(m.Change) + m.Revision
}

// Asked is the subject of one answer: a message, or several that waited together.
type Asked struct {
	// Turn is the Key of the first message. It stays the same if that message is edited or deleted.
	Turn     string
	Messages []Message // in order, with their latest texts; at least one
	// Revised ends when a message was edited or deleted, or another must be added: the work stops at the next step and
	// is started again. It is nil if that cannot happen.
	Revised context.Context
	// Stored is closed when the messages are stored. If storing fails, Revised ends before. Until then the work may
	// only read: no model requests, no changes and no posts. It is nil if the messages are already stored.
	Stored <-chan struct{}
}

// AwaitStored waits until Stored is closed. It returns the error of ctx if that ends first.
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

// Last returns the message that an answer refers to.
func (q Asked) Last() Message { return q.Messages[len(q.Messages)-1] }

// LastSeen identifies the last accepted message of a conversation.
type LastSeen struct {
	Conversation Address   `json:"conversation"`
	Message      string    `json:"message"` // ID of the newest message; empty if there is none
	Time         time.Time `json:"time"`    // time of sending, by the platform
	// At is the time of acceptance by the bot's clock, which may differ from the platform's clock.
	At time.Time `json:"at,omitzero"`
}

// Pressed is the Command of a Message that reports a pressed button. Its Text is the button's Value, and its
// Reply.MessageID the post with the button.
const Pressed = "press"

// Values of the bot's own buttons. Values with a final space are followed by the name of a turn (Asked.Turn).
const (
	PressStop  = "stop"
	PressRetry = "retry "
	PressGood  = "good "
	PressBad   = "bad "
	PressTools = "tools " // show the tool calls behind an answer
)

// Press splits a button's value, for example into PressRetry and the turn.
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

// Button is a button below a post.
type Button struct {
	Label string `json:"label"`           // a word or two
	Value string `json:"value"`           // returned with the press; at most 90 bytes
	Style Style  `json:"style,omitempty"` // appearance
}

// Style is the appearance of a button.
type Style string

const (
	Primary Style = "primary"
	Danger  Style = "danger"
)

// File is a file of a message or of a post. A message's file has the adapter's Handle, by which a Fetcher reads it. A
// post's file has its Data.
type File struct {
	Name   string          `json:"name"`
	Type   string          `json:"type,omitempty"` // media type, such as image/png
	Size   int64           `json:"size,omitempty"` // bytes; 0 if unknown
	Handle json.RawMessage `json:"handle,omitempty"`
	Data   []byte          `json:"data,omitempty"`
	// Duration is the length of a recording. It is 0 if unknown.
	Duration time.Duration `json:"duration,omitempty"`
}

// Fetcher is a Platform that reads the files of messages. A file of more than limit bytes is an error.
type Fetcher interface {
	Fetch(ctx context.Context, f File, limit int64) ([]byte, error)
}

// Reply ties a draft to the message that it answers. Handle is the adapter's own, such as an interaction's token or a
// response_url. It is stored with the message, so that the bot can answer after a restart.
type Reply struct {
	MessageID string          `json:"messageId,omitempty"`
	Handle    json.RawMessage `json:"handle,omitempty"`
}

// Draft is a post before a platform has rendered it.
type Draft struct {
	// Key identifies the post. A retry has the same key, by which a platform can make repeating harmless.
	Key  string `json:"key"`
	Text string `json:"text"` // Markdown (CommonMark with tables)
	// Title is the post's title on platforms that have titles, such as the subject of a mail.
	Title string `json:"title,omitempty"`
	// List names the mailing list of a mail. Unsubscribe is the address at which its reader ends the subscription.
	List        string `json:"list,omitempty"`
	Unsubscribe string `json:"unsubscribe,omitempty"`
	// Tags are the names of the tags of a post in a forum.
	Tags      []string  `json:"tags,omitempty"`
	Cards     []Card    `json:"cards,omitempty"`
	Footer    string    `json:"footer,omitempty"` // one small last line, plain text
	Tools     []ToolRun `json:"tools,omitempty"`  // the tool calls behind an answer
	Buttons   []Button  `json:"buttons,omitempty"`
	Files     []File    `json:"files,omitempty"`
	Reply     Reply     `json:"reply,omitzero"`
	Ephemeral bool      `json:"ephemeral,omitempty"` // visible only to the asker, if the platform supports that
	Failed    bool      `json:"failed,omitempty"`    // the text is an error
	// Editable is true if another post will replace this one. A platform then posts in a way that allows edits.
	Editable bool `json:"editable,omitempty"`
	// Answers are further messages that it answers, in addition to the message in Reply.
	Answers []Reply `json:"answers,omitempty"`
	// Replaces are the posts that this one replaces. If a platform cannot edit or find them, it posts a new message.
	Replaces Ref `json:"replaces,omitzero"`
	// Notify names the recipients of a notification: role:ID (of Slack: a user group) or user:ID. Nobody else is
	// notified, whatever the text says. Platforms without notifications ignore it.
	Notify []string `json:"notify,omitempty"`
	// Owner is the ID of the user who receives the post by direct message if its place has become unreachable, such as
	// the author of a reminder. It is empty if nobody does.
	Owner string `json:"owner,omitempty"`
	// Partial is true for an unfinished answer, which a draft with the same Key will replace. The post shows that it
	// is unfinished.
	Partial bool `json:"-"`
	// Origin holds the sources of the post, for when it is quoted to a model. If it is nil, the sources are unknown,
	// and the post counts as foreign text.
	Origin *origin.Origin `json:"origin,omitempty"`
	// News is true for reports of other publishers' texts, such as a digest, in which no model has composed the
	// addresses.
	News bool `json:"news,omitempty"`
	// Again is true if an earlier attempt, perhaps before a restart, may have been posted. The adapter then searches
	// the platform for Key, if it can, before it sends.
	Again bool `json:"-"`
	// Since is the earliest possible time of the first attempt, which limits the search. It is zero if unknown.
	Since time.Time `json:"-"`
}

// For returns the IDs of all messages that the draft answers.
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
	// N is the number by which people and the post's text refer to it. It is 0 if there is none.
	N int `json:"n,omitempty"`
	// Image is the address of a picture, http or https.
	Image string `json:"image,omitempty"`
	// Minutes is the reading time of the whole article. It is 0 if unknown.
	Minutes int `json:"minutes,omitempty"`
	// Why is the reason for choosing the item, in a few words.
	Why string `json:"why,omitempty"`
}

// Notes returns the small print besides source and time, in plain text.
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

// Label returns the number in front of the title, such as "3. ", or "".
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

// ToolRun is a tool call in its displayed form.
type ToolRun struct {
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	State  RunState        `json:"state"`
	Args   json.RawMessage `json:"args,omitempty"`
	Result string          `json:"result,omitempty"`
	Note   string          `json:"note,omitempty"` // progress while it runs
	Took   time.Duration   `json:"took,omitempty"`
}

// RunState is the progress of a tool call.
type RunState string

const (
	Running RunState = "running"
	Done    RunState = "done"
	Failed  RunState = "failed"
)

// FailureMark begins a failed post on platforms that have no other way to mark it.
const FailureMark = "⚠️ "

// Ref is the platform's name of a post. IDs holds several in order if a draft was split.
type Ref struct {
	IDs []string `json:"ids"`
	// Repeated is true if an earlier attempt may be visible too, and the platform has no way to check. The post says
	// so itself.
	Repeated bool `json:"repeated,omitempty"`
}

// MayRepeat is the word that marks a post as a possible repeat.
const MayRepeat = "possibly a repeat: I was interrupted while posting this"

// Limits are the limits of a platform. Adapters split longer drafts themselves.
type Limits struct {
	Text  int // characters of text in one post
	Cards int // cards in one post
	// Edits is how often a post may be edited while its text is being written. If it is 0, answers appear when they
	// are complete.
	Edits time.Duration
}

// Platform is one chat system. Run and Post may be called concurrently. A Post before Run has connected fails or waits
// within ctx.
type Platform interface {
	Name() string
	// Run connects and stays connected until ctx ends, and passes every message in order to accept. A nil return of
	// accept means that the message is safe on disk. Only then can the platform get the acknowledgement. Run returns
	// early only on a permanent error (a *SetupError).
	Run(ctx context.Context, accept func(context.Context, Message) error) error
	// Post sends a draft. It returns a Ref only with the platform's id. A *PostError says whether a retry makes sense.
	Post(ctx context.Context, to Address, d Draft) (Ref, error)
	Limits() Limits
}

// Health is evidence of a live connection.
type Health struct {
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	Detail    string    `json:"detail,omitempty"` // cause of a fault, or the last event
	// RateLimited counts the platform's reports that it withholds events because there are too many.
	RateLimited int64 `json:"rateLimited,omitempty"`
	// Shards is the number of this process's sessions among ShardCount, if several processes divide the platform's
	// events.
	Shards     []int `json:"shards,omitempty"`
	ShardCount int   `json:"shardCount,omitempty"`
}

// Reporter is a Platform that reports whether it is really connected.
type Reporter interface {
	Health() Health
}

// Typist is a Platform that can show that an answer is being written. Typing is
// called again every few seconds while it lasts.
type Typist interface {
	Typing(ctx context.Context, to Address) error
}

// Historian is a Platform that can read earlier messages of a conversation.
type Historian interface {
	// History returns up to most messages, oldest first: the newest before the message with the given id, or the
	// newest of all for "". It may return fewer although there are more. A *SetupError has a text for people.
	History(ctx context.Context, at Address, before string, most int) ([]Said, error)
}

// Threader is a Platform on which a post can have a thread below it.
type Threader interface {
	// CanThread reports whether a post to a conversation can have a thread below it.
	CanThread(to Address) bool
	// Thread returns the address for replies to a post: the thread below it, which is opened under the title if it
	// does not exist. An address without a thread means that the post can have none. Errors can be retried.
	Thread(ctx context.Context, to Address, post Ref, title string) (Address, error)
}

// PlaceChecker is a Platform that can check in advance whether a place accepts a post.
type PlaceChecker interface {
	// CheckPost returns a *SetupError if a place does not accept a post with tags, which forums may need. It returns
	// another error if the check failed.
	CheckPost(ctx context.Context, to Address, tags []string) error
}

// OneWay is a Platform that gets no notices about undelivered posts, because a notice would fail in the same way.
type OneWay interface {
	Platform
	OneWay()
}

// Progress is a transient update about work under way. It is never stored and may be dropped. One of Text, Tool, Note,
// Reset and Ended is set.
type Progress struct {
	Message string   `json:"message"`        // ID of the message being answered
	Text    string   `json:"text,omitempty"` // more of the answer; append it
	Tool    *ToolRun `json:"tool,omitempty"`
	Note    string   `json:"note,omitempty"`  // cause of a wait, in a few words
	Reset   bool     `json:"reset,omitempty"` // drop the text shown so far: the model starts again
	Waits   bool     `json:"-"`               // the work waits for a person and must release its slot
	Ended   bool     `json:"ended,omitempty"` // the work has ended and leaves no post
}

// Reviser is a Platform that keeps its own record of messages.
type Reviser interface {
	// Revise applies an accepted edit or deletion to the record of a message. It is called before the change counts as
	// done, perhaps repeatedly, and never overwrites a later change.
	Revise(ctx context.Context, change Message) error
}

// Watcher is a Platform that shows work as it happens. Show must not block.
type Watcher interface {
	Show(to Address, p Progress)
}

// SetupError is a fault that needs a person: a refused credential, a missing permission. A retry within minutes is
// useless. Remedy tells the operator how to fix it.
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

// Unwrap returns the platform's error, or nil.
func (e *SetupError) Unwrap() error { return e.Err }

// PostError is a post that was refused or whose outcome is unknown.
type PostError struct {
	// Permanent: sending the same again cannot succeed.
	Permanent bool
	// Unreachable is true if the place accepts no post of the bot at all. Permanent is set, too. Reason has the cause
	// for people.
	Unreachable bool
	Reason      string
	// Maybe is true if the platform may have accepted the post although no answer came.
	Maybe bool
	// After is the wait that the platform requests. It is zero if it requests none.
	After time.Duration
	Err   error
}

// Error returns the text of the platform's error. The fields say whether a retry makes sense.
func (e *PostError) Error() string { return e.Err.Error() }

// Unwrap returns the platform's error.
func (e *PostError) Unwrap() error { return e.Err }

// ErrStopped is the cancellation cause of an answer that a person stopped.
var ErrStopped = errors.New("stopped by a user")

// ErrSuperseded is the cancellation cause of an unfinished answer's display, or of typing, when the complete answer is
// ready. A platform stops waiting to send, but finishes a started request: an aborted request may still take effect
// after the answer is shown.
var ErrSuperseded = errors.New("the whole answer is there")

// ErrBusy is returned by accept when the bot cannot take more work now.
var ErrBusy = errors.New("too much work is waiting")

// BusyError is an ErrBusy about a message that can be kept until its author gets a notice. A platform that notifies
// authors later keeps the message before it acknowledges it. Otherwise a crash in between would leave the author
// without a notice.
type BusyError struct {
	// Keep stores the message and returns the function that marks it as done. The next start answers messages that
	// were kept and are not done. done is nil if the message was accepted or kept before.
	Keep func(ctx context.Context) (done func(context.Context) error, err error)
}

// Error returns the text of ErrBusy.
func (*BusyError) Error() string { return ErrBusy.Error() }

// Unwrap returns ErrBusy.
func (*BusyError) Unwrap() error { return ErrBusy }
