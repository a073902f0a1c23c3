package tool

import (
	"context"
	"encoding/json"
	"time"
)

// Decision is what a policy or a hook decides about a call.
type Decision string

// The decisions.
const (
	Allow Decision = "allow"
	Ask   Decision = "ask" // a person has to approve
	Deny  Decision = "deny"
)

// Intent is a call that is about to be made, or was made. Its arguments fit the schema of the tool.
type Intent struct {
	Caller Caller
	Tool   Named
	Args   json.RawMessage
	// Waited is how long the call has waited for a person's decision.
	Waited time.Duration
}

// Delegate is a tool of the bot whose calls are made by an MCP server.
type Delegate interface {
	// DecidedAs returns the tool of the server that a call is decided as.
	DecidedAs(args json.RawMessage) Named
}

// Decided returns the call as it is decided and approved: that of a Delegate counts as a call of the server's tool.
func (in Intent) Decided() Intent {
	if d, ok := in.Tool.Tool.(Delegate); ok {
		in.Tool = d.DecidedAs(in.Args)
	}
	return in
}

// Verdict is what the policy decides about a call.
type Verdict struct {
	Decision Decision
	Reason   string // for people and the model; empty where it is allowed
	// Approvers are who may approve: "roles:NAME" or "users:ID". Empty: the asker or an
	// administrator.
	Approvers []string
	// Grantable says that an approval may count for more calls of the tool than this one.
	Grantable bool
	// Shared says that a wider approval for its asker alone would not count, because words of others are in the turn.
	Shared bool
	// ReadingGrantable says that an administrator may let the reading tools of the server run, this one included, also
	// after foreign text.
	ReadingGrantable bool
	// Line is the line of config.json that would end such questions; empty: none would.
	Line string
}

// Stricter returns the verdict that lets less through; of equal ones, the first.
func Stricter(a, b Verdict) Verdict {
	if a.Decision == Deny || a.Decision == b.Decision || a.Decision == Ask && b.Decision == Allow {
		return a
	}
	return b
}

// Ruling is what a hook decides before a call. Args, if not nil, replace the arguments of the call; they must fit the
// schema too. Reason is shown to the user and the model.
type Ruling struct {
	Decision Decision
	Reason   string
	Args     json.RawMessage
}

// Outcome is the result of an Intent. Its texts are safe to show and to send.
type Outcome struct {
	Result Result
	Shown  string // what the model sees: the result, or its beginning and how to read on
	Note   string // for people, such as who approved the call
}

// Hook runs before and after every call of a tool. It is called concurrently. An error stops the call, or withholds
// its result; a hook whose own failure should not do so returns nil.
type Hook interface {
	Before(ctx context.Context, in Intent) (Ruling, error)
	// After returns the result to use instead of r, or r itself.
	After(ctx context.Context, in Intent, r Result) (Result, error)
}
