package invoke

import (
	"context"
	"encoding/json"
	"fmt"

	"ravenbot/internal/store"
	"ravenbot/internal/tool"
)

// UnattendedCalls makes single calls for jobs that run by themselves, under the same rules as all calls.
type UnattendedCalls struct {
	Invoker *Invoker
	Tools   interface{ List() []tool.Named }
	Servers Servers
	Record  func(ctx context.Context, calls []store.ToolCall) error
}

// Call calls a tool by the name that models use. What the tool refuses, or the policy, is in the result. It returns an
// InputError where there is no such tool.
func (u *UnattendedCalls) Call(
	ctx context.Context,
	caller tool.Caller,
	name string,
	args json.RawMessage,
) (tool.Result, error) {
	defer u.Servers.Lease()()
	for _, n := range u.Tools.List() {
		if n.Name != name {
			continue
		}
		caller.Unattended = true
		out, record := u.Invoker.Call(ctx, tool.Intent{Tool: n, Args: args, Caller: caller}, 0)
		// The call was made, so it is recorded although the bot may be ending.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		defer cancel()
		return out.Result, u.Record(ctx, []store.ToolCall{record})
	}
	return tool.Result{}, InputError{fmt.Errorf("there is no tool %q", name)}
}
