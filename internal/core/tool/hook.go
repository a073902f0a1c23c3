package tool

import (
	"context"
	"encoding/json"
	"time"
)

// Decision is the decision of a policy or a hook on a call.
type Decision string

const (
	Allow Decision = "allow"
	Ask   Decision = "ask" // a person must approve
	Deny  Decision = "deny"
)

// Intent is a planned or finished call. Its arguments fit the schema of the tool.
type Intent struct {
	Caller Caller
	Tool   Named
	Args   json.RawMessage
	// Waited is the time that the call has waited for a person's decision.
	Waited time.Duration
}

// Delegate is a tool of the bot whose calls an MCP server makes.
type Delegate interface {
	// DecidedAs returns the server's tool whose rules apply to the call.
	DecidedAs(args json.RawMessage) Named
}

// Decided returns the call that the policy decides on: for a Delegate the call of the server's tool.
func (in Intent) Decided() Intent {
	if d, ok := in.Tool.Tool.(Delegate); ok {
		in.Tool = d.DecidedAs(in.Args)
	}
	return in
}

// Verdict is the policy's decision on a call.
type Verdict struct {
	Decision Decision
	Reason   string // for people and the model; empty if the call is allowed
	// Approvers are the people who can approve: "roles:NAME" or "users:ID". If it is empty, the asker or an
	// administrator can.
	Approvers []string
	// Grantable is true if an approval may cover more calls of the tool.
	Grantable bool
	// Shared is true if a wider approval for only the asker would not apply, because the turn has read words of
	// others.
	Shared bool
	// ReadingGrantable is true if an administrator may allow the server's reading tools, including this one, even
	// after foreign text.
	ReadingGrantable bool
	// Line is the line of config.json that would avoid such questions. It is empty if there is none.
	Line string
}

// Stricter returns the stricter verdict, or the first of equal ones.
func Stricter(a, b Verdict) Verdict {
	if a.Decision == Deny || a.Decision == b.Decision || a.Decision == Ask && b.Decision == Allow {
		return a
	}
	return b
}

// Ruling is a hook's decision before a call. Args, if not nil, replace the arguments of the call and must fit the
// schema, too. Reason is shown to the user and the model.
type Ruling struct {
	Decision Decision
	Reason   string
	Args     json.RawMessage
}

// Outcome is the result of an Intent. Its texts are safe to show and to send.
type Outcome struct {
	Result Result
	Shown  string // for the model: the result, or its beginning and how to read on
	Note   string // for people, such as the name of the approver
}

// Hook runs before and after every call of a tool. It is called concurrently. An error stops the call, or withholds
// its result. A hook that returns nil on its own failure does neither.
type Hook interface {
	Before(ctx context.Context, in Intent) (Ruling, error)
	// After returns the result to use instead of r, or r itself.
	After(ctx context.Context, in Intent, r Result) (Result, error)
}
