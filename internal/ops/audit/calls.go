package audit

import (
	"cmp"
	"context"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
)

// RecordDecision records who let a call be made, or refused it.
func (l *Log) RecordDecision(ctx context.Context, a store.Approval) {
	e := Entry{Action: "call " + string(a.Decision), Target: a.Tool,
		Changes: []Change{{Field: "decision", Old: "pending", New: string(a.Decision)}}}
	// Without an actor, the approval has expired or the asker has stopped the work.
	if !hasActor(ctx) {
		e.Who = cmp.Or(a.By, "nobody, in time")
	}
	if !a.Conversation.IsZero() {
		e.From = a.Conversation.String()
	}
	l.Record(ctx, e)
}

// RecordCall records a call of a tool that may change something: every one but those of the bot's own tools that
// only read, because what a server says about its own tools proves nothing.
func (l *Log) RecordCall(ctx context.Context, in tool.Intent, c store.ToolCall) {
	if in.Tool.Tool == nil {
		return
	}
	if spec := in.Tool.Tool.Spec(); spec.Native && spec.Hints.Class() == "readOnly" {
		return
	}
	e := Entry{Who: Identity(in.Caller.Conversation, in.Caller.User), Action: "tool called", Target: c.Tool}
	// Arguments may hold words of anybody.
	e.Changes = diff(nil, c.Args, func(string) bool { return true })
	switch {
	case !in.Caller.Conversation.IsZero():
		e.From = in.Caller.Conversation.String()
	case c.Turn != "":
		e.From = c.Turn
	}
	if c.Error != "" {
		e.Action = "tool call failed"
	}
	// The call was made, so it is recorded even when its context has ended.
	l.Record(context.WithoutCancel(ctx), e)
}
