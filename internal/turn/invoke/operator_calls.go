package invoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
)

// InputError is a mistake of the sender of a request.
type InputError struct{ Err error }

func (e InputError) Error() string { return e.Err.Error() }
func (e InputError) Unwrap() error { return e.Err }

// BadInput marks the error as the sender's to correct.
func (InputError) BadInput() bool { return true }

// Servers are the MCP servers, as OperatorCalls sees them.
type Servers interface {
	// Lease keeps the tools that there are now until release is called.
	Lease() (release func())
	// WhyMissing returns the source of a tool that is not offered now, and what to tell the
	// caller; both are empty where no source has such a tool.
	WhyMissing(name string) (server, why string)
}

// OperatorCalls makes single calls for the operator, under the same rules as all calls.
type OperatorCalls struct {
	Calls   Recorded
	Tools   interface{ List() []tool.Named }
	Servers Servers
	Shown   func() int // bytes of a result that are shown at once
	// At is the conversation that the calls count for. Nobody can be asked there.
	At chat.Address
}

// Call calls a tool of an MCP server, by the name that the server or the models use, and stores the record of the
// call. It returns an InputError for an unknown tool. A failed call is a result with IsError. Any other error means
// that the record was not stored, and the result is still valid.
func (o *OperatorCalls) Call(ctx context.Context, server, name string, args json.RawMessage) (tool.Result, error) {
	defer o.Servers.Lease()()
	for _, n := range o.Tools.List() {
		if spec := n.Tool.Spec(); spec.Native || spec.Server != server || spec.Name != name && n.Name != name {
			continue
		}
		in := tool.Intent{Tool: n, Args: args, Caller: tool.Caller{User: chat.Operator(), Conversation: o.At}}
		out, record := o.Calls.Call(ctx, in, o.Shown())
		return out.Result, o.Calls.SaveCalls(ctx, []store.ToolCall{record})
	}
	for _, full := range []string{name, tool.SafeName(server, name)} {
		if owner, why := o.Servers.WhyMissing(full); owner == server && why != "" {
			return tool.Result{}, InputError{errors.New(why)}
		}
	}
	return tool.Result{}, InputError{fmt.Errorf("MCP server %s offers no tool %q", server, name)}
}
