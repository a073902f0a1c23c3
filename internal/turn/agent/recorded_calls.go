package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
)

// RecordedCall is a call of a tool and its result.
type RecordedCall struct {
	Tool    string
	Args    json.RawMessage // nil: any
	Text    string
	IsError bool
}

// RecordedCalls answers tool calls with recorded results instead of making them. Only tools that
// find others are run. It is safe for concurrent use.
type RecordedCalls struct {
	// list is only read, and so needs no lock.
	list []RecordedCall

	mu      sync.Mutex // guards missing
	missing []string
}

// NewRecordedCalls returns a RecordedCalls. Of calls of the same tool and arguments the first counts.
func NewRecordedCalls(list []RecordedCall) *RecordedCalls { return &RecordedCalls{list: list} }

// Call returns the recorded result of the call with the same tool and arguments, or an error result if there is no
// record.
func (c *RecordedCalls) Call(ctx context.Context, in tool.Intent, _ int) (tool.Outcome, store.ToolCall) {
	if spec := in.Tool.Tool.Spec(); FreeOfPolicy(spec) {
		res, err := in.Tool.Tool.Call(tool.WithCaller(ctx, in.Caller), in.Args)
		if err != nil {
			res = tool.Failure(err.Error())
		}
		return tool.Outcome{Result: res, Shown: res.Text}, store.ToolCall{}
	}
	args := compactJSON(in.Args)
	i := slices.IndexFunc(c.list, func(r RecordedCall) bool {
		return r.Tool == in.Tool.Name && (r.Args == nil || compactJSON(r.Args) == args)
	})
	if i < 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.missing = append(c.missing, in.Tool.Name+" "+args)
		res := tool.Failure(fmt.Sprintf("There is no record of a call of %s with these arguments, and nothing was run.",
			in.Tool.Name))
		return tool.Outcome{Result: res, Shown: res.Text}, store.ToolCall{}
	}
	res := tool.Result{Text: c.list[i].Text, IsError: c.list[i].IsError}
	return tool.Outcome{Result: res, Shown: res.Text}, store.ToolCall{}
}

// Refuse returns a result with the reason of a refusal.
func (c *RecordedCalls) Refuse(_ context.Context, _ tool.Intent, why string, _ int) (tool.Outcome, store.ToolCall) {
	res := tool.Failure(why)
	return tool.Outcome{Result: res, Shown: res.Text}, store.ToolCall{}
}

// Missing returns the calls that had no record, as name and arguments.
func (c *RecordedCalls) Missing() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.missing)
}

// compactJSON returns JSON without white space and with sorted keys, since models vary both. What is
// not JSON is returned as it is.
func compactJSON(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // large integers keep their digits
	if d.Decode(&v) != nil {
		return string(raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(out)
}
