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

// Spec describes a tool. Server is the configured name of the server, or the name of a native pack. Name is the tool's
// own name within it.
type Spec struct {
	Server      string
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments, as the server sent it; nil for no arguments
	Hints       Hints
	Native      bool
	// Unapproved is true if a server added the tool later, and nobody has approved it. Its description is foreign
	// text.
	Unapproved bool
	// As is the safe name by which models call a native tool. If it is empty, the name is the pack's name followed by
	// the tool's.
	As string
	// ShowResult shows the results of the tool below the answer, independent of the model's text.
	ShowResult bool
	// MaxShown is the number of bytes of a result that the model sees at once, if that exceeds the configured limit
	// (see invoke). 0 means the limit.
	MaxShown int
}

// Hints are a tool's claims about its own effects. They prove nothing. A nil hint means that the server does not say.
type Hints struct {
	ReadOnly    *bool
	Destructive *bool
	Idempotent  *bool
	OpenWorld   *bool
}

// Class returns the class for policy rules: readOnly, destructive, write or unknown.
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

// Result is the result of a call. IsError means that the tool itself failed, and that the model can try something
// else.
type Result struct {
	Text       string          // for the model and the reader
	Structured json.RawMessage // the same as JSON, if the tool returns it
	Files      []chat.File     // pictures, sound and other data, for people and for models that support them
	Sources    []chat.Link     // source pages of the result
	Origin     origin.Origin   // the sources of the result, for tools for which ReadsForeign reports false
	IsError    bool
	NotRun     bool // a rule, a hook or a person refused the call, or nobody approved it
}

// Tool is a callable tool. Call may be called concurrently, ends when ctx does, and returns an error only if the host
// could not run the tool.
type Tool interface {
	Spec() Spec
	Call(ctx context.Context, args json.RawMessage) (Result, error)
}

// ownPacks are the native packs whose results hold no text of strangers.
var ownPacks = map[string]bool{"billing": true, "discovery": true, "memory": true, "skill": true}

// ReadsForeign reports whether results of the tool may hold text from outside the conversation.
func (s Spec) ReadsForeign() bool { return !s.Native || !ownPacks[s.Server] }

// Caller identifies the person, agent and turn of a call.
type Caller struct {
	Conversation chat.Address
	User         chat.User
	Agent        string // agent that made the call; empty if there is none
	Turn         string // turn that made the call; empty outside a conversation
	Call         string // id of the call in the turn
	Shown        int    // bytes of a result that are shown to the model at once; 0 if unknown
	// Report shows progress of the call in a few words. It must not block. It is nil if nobody watches.
	Report func(note string)
	// NumberSources registers source pages of a result for citations, and returns the number of the first. It is nil
	// if nothing is cited.
	NumberSources func(links []chat.Link) int
	// Revised is closed when the question was edited or deleted. Work that has not begun by then should not begin. It
	// is nil if the question cannot change.
	Revised <-chan struct{}
	// Taint names the foreign text that the turn has read, such as a page or a file. It is empty if the turn has read
	// only words of people who may use the bot.
	Taint []string
	// Authors are platform/id of the people other than User whose words the turn has read. An id is empty if unknown.
	Authors []string
	// IsNamed reports whether an address may be used after foreign text, because a participant, a search or a page
	// contained it literally. If it is nil, none did.
	IsNamed func(address string) bool
	// Unattended is true for scheduled tasks, in which nobody can be asked. Granted are the names or patterns of
	// tools that are allowed anyway.
	Unattended bool
	Granted    []string
	// Waits is called before the call waits for a person. It may be nil.
	Waits func()
	// Decided marks the call's approval question as settled. AllDecided waits until that is true for all calls of the
	// same step. Both are nil for a single call.
	Decided    func()
	AllDecided func()
	// Servers reports which MCP servers may be used by tools that use several. Nil allows all.
	Servers func(name string) bool
}

// Reaches reports whether tools may use an MCP server for the caller.
func (c Caller) Reaches(server string) bool { return c.Servers == nil || c.Servers(server) }

// WaitForPerson shows in a few words that the call waits for a person.
func (c Caller) WaitForPerson(note string) {
	if c.Waits != nil {
		c.Waits()
	}
	if c.Report != nil {
		c.Report(note)
	}
}

// MeetOthers marks the call as decided, and waits for all calls of the same step.
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

func (f Func) Spec() Spec { return f.Described }

func (f Func) Call(ctx context.Context, args json.RawMessage) (Result, error) {
	return f.Do(ctx, args)
}

// Origin returns the sources that the caller's turn has read. Data that the call stores keeps it.
func (c Caller) Origin() origin.Origin {
	o := origin.Origin{Taint: c.Taint, Authors: c.Authors}
	if c.User.ID != "" {
		o = o.With(origin.User(c.Conversation.Platform, c.User.ID))
	}
	return o
}

// Text returns a successful result of plain text.
func Text(s string) Result { return Result{Text: s} }

// Refusal returns a result that tells the model why the call was refused.
func Refusal(s string) Result { return Result{Text: s, IsError: true, NotRun: true} }

// Failure returns a result that describes the error to the model.
func Failure(s string) Result { return Result{Text: s, IsError: true} }
