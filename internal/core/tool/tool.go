// Package tool is the vocabulary of tools: the tool itself (Tool, Spec), its result (Result), the caller (Caller) and
// the table of names (Registry). Native packs are in internal/tools, and MCP servers provide the other tools. A name
// is never split to find its owner: the registry maps safe names to tools. Package policy decides who can call which
// tool.
package tool

import (
	"context"
	"encoding/json"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
)

// Spec describes a tool. Server is the name under which it is configured, or a
// native pack's name; Name is the tool's own name within it.
type Spec struct {
	Server      string
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments, as the server sent it; nil: no arguments
	Hints       Hints
	Native      bool
	// Unapproved: a server added the tool later, and nobody has approved it. Its description is foreign text.
	Unapproved bool
	// As is the safe name by which models call a native tool; empty: the pack's name followed by the tool's.
	As string
	// ShowResult shows the results of the tool to people below the answer, whatever the model says about them.
	ShowResult bool
	// MaxShown is how many bytes of a result may be shown to the model at once where that is more than the configured
	// limit; see invoke. 0: the limit.
	MaxShown int
}

// Hints are what a tool says about its own effects. They are claims of the server and prove nothing; nil means that
// the server does not say.
type Hints struct {
	ReadOnly    *bool
	Destructive *bool
	Idempotent  *bool
	OpenWorld   *bool
}

// Class returns the hint that policy rules name: readOnly, destructive, write or unknown.
func (h Hints) Class() string {
	switch {
	case h.ReadOnly != nil && *h.ReadOnly:
		return "readOnly"
	case h.Destructive != nil && !*h.Destructive:
		return "write"
	case h.Destructive != nil, h.ReadOnly != nil:
		return "destructive" // the default of destructiveHint (MCP 2025-11-25)
	}
	return "unknown"
}

// Repeatable reports whether running the tool twice has the same effect as running it once.
func (h Hints) Repeatable() bool {
	return h.ReadOnly != nil && *h.ReadOnly || h.Idempotent != nil && *h.Idempotent
}

// Result is the result of a call. IsError means that the tool itself failed, and that the model may try something
// else.
type Result struct {
	Text       string          // for the model and the reader
	Structured json.RawMessage // the same as JSON, where the tool returns it
	Files      []chat.File     // pictures, sound and other data, for people and for models that take them
	Sources    []chat.Link     // pages that the result is from
	Origin     origin.Origin   // whose words it holds, of tools for which ReadsForeign reports false
	IsError    bool
	NotRun     bool // a rule, a hook or a person refused the call, or nobody approved it: the tool has not failed
}

// Tool is something that can be called. Call may be called concurrently, ends when ctx does, and returns an error
// only when the host could not run the tool.
type Tool interface {
	Spec() Spec
	Call(ctx context.Context, args json.RawMessage) (Result, error)
}

// ownPacks are the native packs whose results hold nothing that strangers wrote.
var ownPacks = map[string]bool{"billing": true, "discovery": true, "memory": true, "skill": true}

// ReadsForeign reports whether results of the tool may hold text that no participant of a
// conversation wrote.
func (s Spec) ReadsForeign() bool { return !s.Native || !ownPacks[s.Server] }

// Caller is on whose behalf a tool runs.
type Caller struct {
	Conversation chat.Address
	User         chat.User
	Agent        string // agent that made the call; empty: none did
	Turn         string // turn that made the call; empty: it comes from no conversation
	Call         string // id of the call in the turn
	Shown        int    // bytes of a result that are shown to the model at once; 0: unknown
	// Report shows progress of the call in a few words. It must not block. nil: nobody watches.
	Report func(note string)
	// NumberSources keeps pages that a result is from, so that an answer may cite them, and returns the number of the
	// first. nil: nothing is cited.
	NumberSources func(links []chat.Link) int
	// Revised is closed when the question was edited or deleted: work that has not begun by then should not begin.
	// nil: the question cannot change.
	Revised <-chan struct{}
	// Taint names the foreign text that the turn has read, such as a page or a file; empty: all
	// that it has read was said by people who may use the bot.
	Taint []string
	// Authors are platform/id of the people, beside User, whose words the turn has read. An id is empty where it is not
	// known who it was.
	Authors []string
	// IsNamed reports whether an address may be used after foreign text: a participant, a search or a page that was
	// read named it to the letter. nil: nobody did.
	IsNamed func(address string) bool
	// Unattended: a scheduled task calls, and nobody can be asked. Granted are the tools that it
	// may use nevertheless, as names or patterns.
	Unattended bool
	Granted    []string
	// Waits is called before the call waits for a person. nil: nobody has to know.
	Waits func()
	// Decided is called once it is known whether a person has to be asked about the call; AllDecided waits until that is
	// known of all calls that the model made at once. nil: it made one.
	Decided    func()
	AllDecided func()
	// Servers reports which MCP servers may be used by tools that use several. nil: all.
	Servers func(name string) bool
}

// Reaches reports whether tools may use an MCP server for the caller.
func (c Caller) Reaches(server string) bool { return c.Servers == nil || c.Servers(server) }

// WaitForPerson shows that the call waits for a person, in a few words.
func (c Caller) WaitForPerson(note string) {
	if c.Waits != nil {
		c.Waits()
	}
	if c.Report != nil {
		c.Report(note)
	}
}

// MeetOthers marks the call as decided, and waits until all calls that the model made at once are.
func (c Caller) MeetOthers() {
	if c.Decided != nil {
		c.Decided()
		c.AllDecided()
	}
}

type callerKey struct{}

// WithCaller returns a context that carries the caller to the tools.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the Caller that WithCaller put into the context, or the zero Caller.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// Func is a Tool made of a Spec and a function.
type Func struct {
	Described Spec
	Do        func(ctx context.Context, args json.RawMessage) (Result, error)
}

// Spec returns the description.
func (f Func) Spec() Spec { return f.Described }

// Call runs the function.
func (f Func) Call(ctx context.Context, args json.RawMessage) (Result, error) {
	return f.Do(ctx, args)
}

// Origin returns whose words a turn has read in which the caller made a call: what the call stores keeps it.
func (c Caller) Origin() origin.Origin {
	o := origin.Origin{Taint: c.Taint, Authors: c.Authors}
	if c.User.ID != "" {
		o = o.With(origin.User(c.Conversation.Platform, c.User.ID))
	}
	return o
}

// Text returns a successful result of plain text.
func Text(s string) Result { return Result{Text: s} }

// Refusal returns a result that tells the model why the call was not made.
func Refusal(s string) Result { return Result{Text: s, IsError: true, NotRun: true} }

// Failure returns a result that tells the model what went wrong.
func Failure(s string) Result { return Result{Text: s, IsError: true} }
