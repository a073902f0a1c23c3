package invoke

import (
	"context"
	"encoding/json"
	"fmt"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
)

// UnattendedCalls makes single calls for jobs that run by themselves, under the same rules as all calls.
type UnattendedCalls struct {
	Calls   Recorded
	Tools   interface{ List() []tool.Named }
	Servers Servers
}

// Call calls a tool by the name that models use. A refusal by the tool or the policy is in the result. It returns an
// InputError for an unknown tool.
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
		out, record := u.Calls.Call(ctx, tool.Intent{Tool: n, Args: args, Caller: caller}, 0)
		return out.Result, u.Calls.SaveCalls(ctx, []store.ToolCall{record})
	}
	return tool.Result{}, InputError{fmt.Errorf("there is no tool %q", name)}
}
