// Package store defines the stored records, the errors and the Store interface. Implementations are in packages below
// it, version their records, and pass one test suite, storetest. A package that needs storage declares the few methods
// that it calls.
//
// Every method is one transaction. Changes that belong together are therefore one method: a turn with its post, a run
// with its posts and items, the outcome of several posts. Records of small features share two forms: Items (named JSON
// values of a kind, swapped only if unchanged) and Blobs.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/origin"
)

// ErrNotFound is returned if a named record does not exist.
var ErrNotFound = errors.New("not found")

// ErrExists is returned if a record exists and must not be replaced.
var ErrExists = errors.New("already there")

// ErrFull is returned if the limit of records is reached.
var ErrFull = errors.New("full")

// CursorError is returned for a cursor that no list has returned.
type CursorError struct{ Cursor string }

func (e CursorError) Error() string { return fmt.Sprintf("the cursor %.40q is damaged", e.Cursor) }

// BadInput reports true: the caller's cursor is wrong.
func (CursorError) BadInput() bool { return true }

// InUseError is returned if another process uses the store.
type InUseError struct {
	Path    string
	By      Replica // of a shared database; zero for a file
	Process int     // the id of the process that has a file open; 0 if unknown
}

func (e *InUseError) Error() string {
	if e.By.Name != "" {
		return fmt.Sprintf("store %s is in use by %s: ask that one, stop it first, or use a store of your own",
			e.Path, e.By.Name)
	}
	id := ""
	if e.Process != 0 {
		id = fmt.Sprintf(" (id %d)", e.Process)
	}
	return fmt.Sprintf("store %s is in use by another process%s: stop that one first, or give this one a store of its own",
		e.Path, id)
}

// DamagedError is returned for a damaged store. The file is left unchanged.
type DamagedError struct {
	Path   string
	What   string // the damage
	Remedy string // the operator's options
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("store %s is damaged: %s; it was left untouched: %s", e.Path, e.What, e.Remedy)
}

// SystemError is returned if the system prevents the use of the store. The records may be intact.
type SystemError struct {
	Path   string
	What   string // the fault
	Remedy string // the operator's options
	Err    error  // the original error
	Code   error  // the system's error, if Err has only its text
	// Passing is true for a fault that is likely to end without any action, such as a restart of a database.
	Passing bool
}

func (e *SystemError) Error() string {
	return fmt.Sprintf("store %s cannot be used: %s; %s (%v)", e.Path, e.What, e.Remedy, e.Err)
}

// Unwrap returns the original error and the system's error.
func (e *SystemError) Unwrap() []error { return []error{e.Err, e.Code} }

// NewerError is returned if a later version of ravenbot has written the store.
type NewerError struct {
	Path          string
	Format, Known int // versions of the store and of this program
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("store %s was made by a newer ravenbot (its format is %d, this version knows up to %d): "+
		"run that version again, or restore a backup from before the upgrade", e.Path, e.Format, e.Known)
}

// Received is an accepted message without an outcome.
type Received struct {
	Message chat.Message `json:"message"`
	At      time.Time    `json:"at"`
	Fresh   bool         `json:"-"` // it was stored for any process, and none has begun to answer it
}

// Post is a draft under way to a platform. Key is the draft's key and is unique: a second post with the same key is
// not stored.
type Post struct {
	Key   string       `json:"key"`
	Seq   uint64       `json:"seq"` // order in which posts were recorded
	To    chat.Address `json:"to"`
	Draft chat.Draft   `json:"draft"`
	// Message is the key of the message that this post answers, and Also has the keys of further ones. They are done
	// when the post has an outcome. Message is empty if the post answers nothing.
	Message string   `json:"message,omitempty"`
	Also    []string `json:"also,omitempty"`
	// Replaces is the key of the post that this one replaces.
	Replaces string `json:"replaces,omitempty"`
	// Below is the key of the post whose thread gets this one. That post is stored first. Title names the thread if
	// the platform needs a name.
	Below string `json:"below,omitempty"`
	Title string `json:"title,omitempty"`
	// Turn is the turn for feedback by reactions to the post. If it is empty, reactions are ignored.
	Turn     string    `json:"turn,omitempty"`
	At       time.Time `json:"at"`
	Error    string    `json:"error,omitempty"` // reason for giving up; empty while it waits
	Notified bool      `json:"told,omitempty"`  // the channel got a notice
}

// Messages returns the keys of all messages that the post answers.
func (p Post) Messages() []string {
	if p.Message == "" {
		return nil
	}
	return append([]string{p.Message}, p.Also...)
}

// Range selects the newest turns of a conversation, Newest at most, whose Seq is above After and, unless Upto is 0,
// not above Upto.
type Range struct {
	After, Upto uint64
	Newest      int
}

// Outcome is the outcome of a post: its place on its platform, or the reason for giving up.
type Outcome struct {
	Key   string
	Ref   chat.Ref
	Error string
	At    time.Time
}

// Feed is the state of a feed between fetches; Data is the record of package feed.
type Feed struct {
	URL  string          `json:"url"`
	Data json.RawMessage `json:"data"`
}

// Item is a feature's record, by kind and name, in the feature's own form.
type Item struct {
	Kind, Name string
	Data       json.RawMessage
}

// Run is one run of a digest. Due is its due time.
type Run struct {
	Digest string    `json:"digest"`
	Due    time.Time `json:"due"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended"`
	OK     bool      `json:"ok"`
	Posted int       `json:"posted"` // items
	Manual bool      `json:"manual,omitempty"`
	Note   string    `json:"note,omitempty"` // errors and omissions
}

// Subscription posts new items of a feed to a conversation.
type Subscription struct {
	To    chat.Address `json:"to"`
	URL   string       `json:"url"`
	Title string       `json:"title"` // of the feed
	At    time.Time    `json:"at"`
}

// Usage is the sum of a model's usage on a day, by one user in one channel.
type Usage struct {
	Day     string       `json:"day"` // 2006-01-02, in UTC
	Model   string       `json:"model"`
	Channel chat.Address `json:"channel"`
	User    string       `json:"user,omitempty"` // platform/id; empty for several people at once
	Turns   int          `json:"turns"`
	Tokens  llm.Usage    `json:"tokens"`
}

// Memory is a note for a channel or a user.
type Memory struct {
	Scope string `json:"scope"` // the scope, in the caller's form
	N     uint64 `json:"n"`     // counts up within the scope; restarts at 1 after all of it are removed at once
	Text  string `json:"text"`
	By    string `json:"by"` // name of the author
	// User is platform/id of the author. It is empty for an operator, several people at once, or a note of an older
	// version.
	User string    `json:"user,omitempty"`
	At   time.Time `json:"at"`
	// Origin holds the sources of the turn that stored it. It is zero in notes of older versions.
	Origin origin.Origin `json:"origin,omitzero"`
}

// Entry is one line of a web room: a person's message or a post of the bot.
type Entry struct {
	Seq   uint64      `json:"seq"`
	ID    string      `json:"id"` // unique in the room; an entry with the ID of another replaces it
	Room  string      `json:"room"`
	At    time.Time   `json:"at"`
	User  *chat.User  `json:"user,omitempty"`  // nil for the bot
	Text  string      `json:"text,omitempty"`  // a person's words
	Files []chat.File `json:"files,omitempty"` // a person's files, without their data
	Draft *chat.Draft `json:"draft,omitempty"`
	// Earlier are the texts of replaced answers, oldest first.
	Earlier []string `json:"earlier,omitempty"`
	// Revision orders the states of a line: a line with a higher one is never replaced by a lower one. It is 0 for the
	// original line.
	Revision int64 `json:"revision,omitempty"`
	Deleted  bool  `json:"deleted,omitempty"` // it has lost its content; a Draft keeps its references
}

// ConversationInfo names a conversation and its last change.
type ConversationInfo struct {
	Address chat.Address `json:"address"`
	Turns   int          `json:"turns"` // of stored turns
	Last    time.Time    `json:"last"`
}

// ToolCall is the record of one call of a tool, made or refused. Its secrets are masked.
type ToolCall struct {
	Seq          uint64          `json:"seq"`            // order in which calls ended
	ID           string          `json:"id"`             // of the call in its turn
	Turn         string          `json:"turn,omitempty"` // empty outside a conversation
	Conversation chat.Address    `json:"conversation,omitzero"`
	User         string          `json:"user,omitempty"` // platform/id; empty for several people at once
	Server       string          `json:"server"`
	Tool         string          `json:"tool"` // the name for models
	Args         json.RawMessage `json:"args,omitempty"`
	Result       string          `json:"result,omitempty"`   // its beginning
	ResultID     string          `json:"resultId,omitempty"` // key of the whole text, which is kept for a while
	Error        string          `json:"error,omitempty"`
	NotRun       bool            `json:"notRun,omitempty"` // it was refused, or nobody approved it
	Note         string          `json:"note,omitempty"`   // the rule or person behind the decision
	Began        time.Time       `json:"began"`
	Took         time.Duration   `json:"took"`             // without Waited
	Waited       time.Duration   `json:"waited,omitempty"` // for a person's decision
	Origin       origin.Origin   `json:"origin,omitzero"`  // sources that its turn had read before

	// Whole is the text to keep under ResultID, if that is not empty.
	Whole string `json:"-"`
}

// ToolResult is the text of a result too large to be shown at once.
type ToolResult struct {
	ID           string       `json:"id"` // sorts by time
	Conversation chat.Address `json:"conversation,omitzero"`
	At           time.Time    `json:"at,omitzero"` // start of the call; zero if not recorded
	Text         string       `json:"text"`
}

// Decision is the state of an Approval.
type Decision string

// The decisions. It is empty while undecided.
const (
	Approved Decision = "approved"
	Denied   Decision = "denied"
	Expired  Decision = "expired" // nobody decided in time
)

// TurnRef names a turn.
type TurnRef struct {
	Conversation chat.Address `json:"conversation"`
	Seq          uint64       `json:"seq"`
}

// Approval is a request to allow one tool call, with its decision.
type Approval struct {
	ID           string          `json:"id"`
	Turn         string          `json:"turn"` // with Call it names the call
	Call         string          `json:"call"`
	Tool         string          `json:"tool"`
	Server       string          `json:"server"`
	Args         json.RawMessage `json:"args"`
	Reason       string          `json:"reason,omitempty"`    // reason for asking
	Approvers    []string        `json:"approvers,omitempty"` // "roles:NAME", "users:ID"; empty: asker or administrator
	Conversation chat.Address    `json:"conversation"`
	Asker        chat.User       `json:"asker"` // zero for several people: then an administrator decides
	At           time.Time       `json:"at"`
	Expires      time.Time       `json:"expires"`
	Grantable    bool            `json:"grantable,omitempty"` // an approval may cover more calls
	Reading      bool            `json:"reading,omitempty"`   // the reading tools of its server may be approved
	Shared       bool            `json:"shared,omitempty"`    // an approval for its asker would not count: see tool.Verdict
	Origin       origin.Origin   `json:"origin,omitzero"`     // sources that the turn had read
	Line         string          `json:"line,omitempty"`      // of config.json that would avoid such questions
	Post         string          `json:"post,omitempty"`      // key of the post that asks, for several calls at once
	Decision     Decision        `json:"decision,omitempty"`
	By           string          `json:"by,omitempty"` // name of the approver
	// Started is true if the call was started. Its result shows the effect.
	Started bool `json:"begun,omitempty"`
}
