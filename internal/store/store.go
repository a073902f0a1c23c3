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

// ErrNotFound is returned where a named record does not exist.
var ErrNotFound = errors.New("not found")

// ErrExists is returned where a record exists and must not be replaced.
var ErrExists = errors.New("already there")

// ErrFull is returned where the limit of records is reached.
var ErrFull = errors.New("full")

// CursorError is returned for a cursor that no list has given.
type CursorError struct{ Cursor string }

func (e CursorError) Error() string { return fmt.Sprintf("the cursor %.40q is damaged", e.Cursor) }

// BadInput reports true: the caller's cursor is wrong.
func (CursorError) BadInput() bool { return true }

// InUseError is returned where another process has the store.
type InUseError struct {
	Path    string
	By      Replica // of a database that replicas share; zero: of a file
	Process int     // the id of the process that has a file open; 0: not known
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

// DamagedError is returned where the store cannot be trusted. The file is left unchanged.
type DamagedError struct {
	Path   string
	What   string // what was found
	Remedy string // what the operator can do
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("store %s is damaged: %s; it was left untouched: %s", e.Path, e.What, e.Remedy)
}

// SystemError is returned where the system keeps the store from working. The records may be whole.
type SystemError struct {
	Path   string
	What   string // what is the matter
	Remedy string // what the operator can do
	Err    error  // as it was returned
	Code   error  // of the system, which Err may have as text only
	// Passing: it is likely to pass without anybody doing anything, such as a database that restarts.
	Passing bool
}

func (e *SystemError) Error() string {
	return fmt.Sprintf("store %s cannot be used: %s; %s (%v)", e.Path, e.What, e.Remedy, e.Err)
}

// Unwrap returns the error as it was returned, and the system's own.
func (e *SystemError) Unwrap() []error { return []error{e.Err, e.Code} }

// NewerError is returned where a later version of ravenbot has written the store.
type NewerError struct {
	Path          string
	Format, Known int // of the store, and the newest that this version knows
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

// Post is a draft on its way to a platform. Key is the draft's and is unique: a second post
// with the same key is not stored.
type Post struct {
	Key   string       `json:"key"`
	Seq   uint64       `json:"seq"` // order in which posts were recorded
	To    chat.Address `json:"to"`
	Draft chat.Draft   `json:"draft"`
	// Message is the key of the message that this post answers, Also the keys of further
	// ones. They are done when the post has an outcome. Empty: the post answers nothing.
	Message string   `json:"message,omitempty"`
	Also    []string `json:"also,omitempty"`
	// Replaces is the key of the post that this one replaces.
	Replaces string `json:"replaces,omitempty"`
	// Below is the key of the post in whose thread this one belongs; it is stored first. Title
	// names the thread where the platform needs a name.
	Below string `json:"below,omitempty"`
	Title string `json:"title,omitempty"`
	// Turn is the turn that reactions to the post are feedback on; empty: they are ignored.
	Turn     string    `json:"turn,omitempty"`
	At       time.Time `json:"at"`
	Error    string    `json:"error,omitempty"` // why it was given up; empty while it waits
	Notified bool      `json:"told,omitempty"`  // the channel knows that it was given up
}

// Messages returns the keys of all messages that the post answers.
func (p Post) Messages() []string {
	if p.Message == "" {
		return nil
	}
	return append([]string{p.Message}, p.Also...)
}

// Range selects turns of a conversation: the newest ones, Newest at most, whose Seq is
// above After and, unless Upto is 0, not above Upto.
type Range struct {
	After, Upto uint64
	Newest      int
}

// Outcome is what became of a post: where it is on its platform, or why it was given up.
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

// Item is what features keep, by kind and name, in a form of their own.
type Item struct {
	Kind, Name string
	Data       json.RawMessage
}

// Run is one run of a digest. Due is the instant that it was for.
type Run struct {
	Digest string    `json:"digest"`
	Due    time.Time `json:"due"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended"`
	OK     bool      `json:"ok"`
	Posted int       `json:"posted"` // items
	Manual bool      `json:"manual,omitempty"`
	Note   string    `json:"note,omitempty"` // what went wrong or was left out
}

// Subscription has new items of a feed posted to a conversation.
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
	User    string       `json:"user,omitempty"` // platform/id; empty: several people at once
	Turns   int          `json:"turns"`
	Tokens  llm.Usage    `json:"tokens"`
}

// Memory is a note that somebody asked the bot to remember, for a channel or a user.
type Memory struct {
	Scope string `json:"scope"` // whose it is, in the words of whoever keeps it
	N     uint64 `json:"n"`     // counts up within the scope, from 1 again when all of it were removed at once
	Text  string `json:"text"`
	By    string `json:"by"` // name of who asked
	// User is platform/id of who asked; empty: an operator, several people at once, or a note of an older version.
	User string    `json:"user,omitempty"`
	At   time.Time `json:"at"`
	// Origin says whose words the turn had read in which it was stored; zero in notes of older versions.
	Origin origin.Origin `json:"origin,omitzero"`
}

// Entry is one line of a web room: a person's message or a post of the bot.
type Entry struct {
	Seq   uint64      `json:"seq"`
	ID    string      `json:"id"` // unique in the room; an entry with the ID of another replaces it
	Room  string      `json:"room"`
	At    time.Time   `json:"at"`
	User  *chat.User  `json:"user,omitempty"`  // nil: the bot
	Text  string      `json:"text,omitempty"`  // a person's words
	Files []chat.File `json:"files,omitempty"` // a person's files, without their data
	Draft *chat.Draft `json:"draft,omitempty"`
	// Earlier are the texts of answers that were asked for again, oldest first.
	Earlier []string `json:"earlier,omitempty"`
	// Revision tells the states of a line apart: a line with a higher one stays, whatever is written in its place. 0: it
	// is as it was said.
	Revision int64 `json:"revision,omitempty"`
	Deleted  bool  `json:"deleted,omitempty"` // it has lost its content; of a Draft what it answered is left
}

// ConversationInfo names a conversation and says when it last changed.
type ConversationInfo struct {
	Address chat.Address `json:"address"`
	Turns   int          `json:"turns"` // that are kept
	Last    time.Time    `json:"last"`
}

// ToolCall is the record of one call of a tool, made or refused. Secrets are masked in it.
type ToolCall struct {
	Seq          uint64          `json:"seq"`            // order in which calls ended
	ID           string          `json:"id"`             // of the call in its turn
	Turn         string          `json:"turn,omitempty"` // empty: no conversation made it
	Conversation chat.Address    `json:"conversation,omitzero"`
	User         string          `json:"user,omitempty"` // platform/id; empty: several people at once
	Server       string          `json:"server"`
	Tool         string          `json:"tool"` // the name that models call it by
	Args         json.RawMessage `json:"args,omitempty"`
	Result       string          `json:"result,omitempty"`   // its beginning
	ResultID     string          `json:"resultId,omitempty"` // under which the rest is kept for a while
	Error        string          `json:"error,omitempty"`
	NotRun       bool            `json:"notRun,omitempty"` // it was refused, or nobody approved it
	Note         string          `json:"note,omitempty"`   // who or what let it pass, or did not
	Began        time.Time       `json:"began"`
	Took         time.Duration   `json:"took"`             // without Waited
	Waited       time.Duration   `json:"waited,omitempty"` // for a person's decision
	Origin       origin.Origin   `json:"origin,omitzero"`  // whose words its turn had read before

	// Whole is the text to keep under ResultID, where that is not empty.
	Whole string `json:"-"`
}

// ToolResult is the text of a result too large to be shown at once.
type ToolResult struct {
	ID           string       `json:"id"` // sorts by time
	Conversation chat.Address `json:"conversation,omitzero"`
	At           time.Time    `json:"at,omitzero"` // when the call began; zero: it was not recorded
	Text         string       `json:"text"`
}

// Decision is the state of an Approval.
type Decision string

// The decisions; empty: not decided yet.
const (
	Approved Decision = "approved"
	Denied   Decision = "denied"
	Expired  Decision = "expired" // nobody decided in time: denied
)

// TurnRef names a turn.
type TurnRef struct {
	Conversation chat.Address `json:"conversation"`
	Seq          uint64       `json:"seq"`
}

// Approval is a request to allow one tool call, and the decision on it.
type Approval struct {
	ID           string          `json:"id"`
	Turn         string          `json:"turn"` // with Call it names the call
	Call         string          `json:"call"`
	Tool         string          `json:"tool"`
	Server       string          `json:"server"`
	Args         json.RawMessage `json:"args"`
	Reason       string          `json:"reason,omitempty"`    // why it is asked for
	Approvers    []string        `json:"approvers,omitempty"` // "roles:NAME", "users:ID"; empty: asker or administrator
	Conversation chat.Address    `json:"conversation"`
	Asker        chat.User       `json:"asker"` // zero: several people; then an administrator decides
	At           time.Time       `json:"at"`
	Expires      time.Time       `json:"expires"`
	Grantable    bool            `json:"grantable,omitempty"` // may be approved for more calls than this one
	Reading      bool            `json:"reading,omitempty"`   // the reading tools of its server may be approved
	Shared       bool            `json:"shared,omitempty"`    // an approval for its asker alone would not count: see tool.Verdict
	Origin       origin.Origin   `json:"origin,omitzero"`     // whose words the turn had read
	Line         string          `json:"line,omitempty"`      // of config.json that would end such questions
	Post         string          `json:"post,omitempty"`      // key of the post that asks, of several calls at once
	Decision     Decision        `json:"decision,omitempty"`
	By           string          `json:"by,omitempty"` // name of who decided
	// Started: the call was allowed to run. Whether it took effect is for its result to say.
	Started bool `json:"begun,omitempty"`
}
