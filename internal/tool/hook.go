package tool

import (
	"context"
	"encoding/json"
)

// Decision is what a policy or a hook says of a call.
type Decision string

// The decisions.
const (
	Allow Decision = "allow"
	Ask   Decision = "ask" // somebody has to approve
	Deny  Decision = "deny"
)

// Intent is a call that is about to be made, or has been. Its arguments fit the
// tool's schema.
type Intent struct {
	Caller Caller
	Tool   Named
	Args   json.RawMessage
}

// Ruling is what a hook says before a call. Args, where given, take the place of
// the call's; they have to fit the schema as any do. Reason is for the user and the
// model.
type Ruling struct {
	Decision Decision
	Reason   string
	Args     json.RawMessage
}

// Outcome is what became of an Intent. The texts are safe to show and to send.
type Outcome struct {
	Result Result
	Shown  string // what the model is told: the result, or its beginning and how to read on
	Note   string // for the reader: who approved it, say
}

// Hook is asked before every call of a tool and told after it. It is called
// concurrently. What an error means is the hook's own to say: it returns one only
// where the call, or its result, is not to pass.
type Hook interface {
	Before(ctx context.Context, in Intent) (Ruling, error)
	// After may change the result.
	After(ctx context.Context, in Intent, r Result) (Result, error)
}
