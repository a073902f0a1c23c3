// Package tool is the vocabulary of tools: what one is (Tool, Spec), what it
// gives back (Result), who asks for it (Caller) and the table of their names
// (Registry). Native packs live in folders below it; MCP servers bring the rest.
// It promises that a name is never split to find its owner: the registry maps
// safe names to tools. It leaves who may call what to policy.
package tool

import (
	"context"
	"encoding/json"

	"ravenbot/internal/chat"
)

// Spec describes a tool. Server is the name under which it is configured, or a
// native pack's name; Name is the tool's own name within it.
type Spec struct {
	Server      string
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments, as given; nil: no arguments
	Hints       Hints
	Native      bool
	// As is the safe name that models call it by, where a native tool's is not its
	// pack's with its own behind it.
	As string
	// ShowResult says that people are told of its results below the answer, whatever a model
	// says of them.
	ShowResult bool
}

// Hints are what a tool says of its own effects. They are claims, not authority;
// nil means not said.
type Hints struct {
	ReadOnly    *bool
	Destructive *bool
	Idempotent  *bool
	OpenWorld   *bool
}

// Class is the hint by which policy rules are written.
func (h Hints) Class() string {
	switch {
	case h.ReadOnly != nil && *h.ReadOnly:
		return "readOnly"
	case h.Destructive != nil && *h.Destructive:
		return "destructive"
	case h.ReadOnly != nil || h.Destructive != nil:
		return "write"
	}
	return "unknown"
}

// Repeatable reports whether running the tool twice is as good as once.
func (h Hints) Repeatable() bool {
	return h.ReadOnly != nil && *h.ReadOnly || h.Idempotent != nil && *h.Idempotent
}

// Result is what a tool said. IsError means that the tool itself failed and the
// model may try otherwise.
type Result struct {
	Text       string          // for the model and the reader
	Structured json.RawMessage // the same as data, where the tool gives it
	Files      []chat.File     // pictures, sound and other data, for people and for models that take them
	IsError    bool
}

// Tool is something that can be called. Call may be called concurrently, ends
// when ctx does, and returns an error only when the host failed to run it.
type Tool interface {
	Spec() Spec
	Call(ctx context.Context, args json.RawMessage) (Result, error)
}

// Caller is on whose behalf a tool runs.
type Caller struct {
	Conversation chat.Address
	User         chat.User
	Agent        string // that works on it; empty: none does
	Turn         string // the turn that called it; empty: no conversation did
	Call         string // the call's id in the turn
	Shown        int    // bytes of a result that are shown at once; 0: not said
	// Report takes a few words on how far the call is. It must not block. nil: nobody
	// watches.
	Report func(note string)
	// Revised is closed when what was asked has changed or is gone: what has not begun
	// by then need not begin. nil: it does not change.
	Revised <-chan struct{}
	// Servers tells which MCP servers may be reached by tools that reach several. nil:
	// all.
	Servers func(name string) bool
}

// Reaches reports whether tools may reach an MCP server for the caller.
func (c Caller) Reaches(server string) bool { return c.Servers == nil || c.Servers(server) }

type callerKey struct{}

// WithCaller returns a context that tells tools who asks.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom gives the Caller put there by WithCaller, or the zero Caller.
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

// Text is a successful result of plain text.
func Text(s string) Result { return Result{Text: s} }

// Failure is a result that tells the model what went wrong.
func Failure(s string) Result { return Result{Text: s, IsError: true} }
