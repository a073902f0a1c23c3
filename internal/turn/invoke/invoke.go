// Package invoke makes all tool calls: for a turn of the agent, for another host over the bot's own MCP endpoint, and
// for the operator. It promises that no call has invalid arguments, that the policy, the hooks and, if needed, a
// person's approval come first, that a tool that fails, hangs or panics becomes a result that a model can use, and
// that every call, even a refused one, produces one record and one log line. The policy, the hooks and package
// approval make the decisions.
//
// Invoker.Call checks and corrects the arguments (package schema), asks the policy, lets hooks tighten the decision or
// change the arguments, asks a person if the decision requires it, runs the tool, passes the result to the hooks, cuts
// it to its limit, and returns it with its record. The caller stores the record: a turn with itself, other callers
// through package invoke's wrappers (recorded.go).
package invoke

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/ops/measure"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/failpoint"
)

// timeout is the longest time that any tool may take. It leaves room for the 15 minutes
// that an MCP server may wait for a person's answer; all tools have shorter limits of their
// own. Waiting for an approval does not count.
const timeout = 20 * time.Minute

// Approvals asks people whether a call may be made.
type Approvals interface {
	// Ask returns when a permitted approver has decided. It returns an error only when ctx ends. words names the
	// approver, or the reason for the refusal.
	Ask(ctx context.Context, in tool.Intent, v tool.Verdict) (ok bool, words string, err error)
	// Begin records that an approved call is about to be made.
	Begin(ctx context.Context, in tool.Intent) error
}

// Rules are the operator's rules, as configured now.
type Rules interface {
	// Decide returns whether a call may be made.
	Decide(in tool.Intent) tool.Verdict
	// Hooks returns what runs around calls, in order.
	Hooks() []tool.Hook
	// Mask replaces known secrets in a text.
	Mask(s string) string
}

// Options are what an Invoker needs. All functions may be called concurrently.
type Options struct {
	Rules Rules
	// Check returns the corrected arguments, or an error that describes the invalid ones.
	Check func(schema, args json.RawMessage) (json.RawMessage, error)
	// Free reports whether a tool needs no decision of the policy, because it only finds others.
	Free      func(tool.Spec) bool
	Approvals Approvals
	// Called is invoked after each call, even a refused one. It may be nil.
	Called func(ctx context.Context, in tool.Intent, c store.ToolCall)
	Log    *slog.Logger
	Now    func() time.Time
}

// Invoker makes calls. It is safe for concurrent use.
type Invoker struct {
	o     Options
	ended measure.Table[Ending]
}

// Ending is the server of a tool and the end of its call: "done", "failed", "refused" if it was not made, or "ended"
// with its turn. The bot's own tools have the name of their pack, such as "web". An unknown tool has no server.
type Ending struct{ Server, Outcome string }

// outcomeFailed is the outcome of a call that failed.
const outcomeFailed = "failed"

// New returns an Invoker.
func New(o Options) *Invoker { return &Invoker{o: o} }

// Ended returns the calls that have ended, refused ones included.
func (i *Invoker) Ended() map[Ending]measure.Sum { return i.ended.Sums() }

// Totals returns the calls that have ended by the name of their server, as in Ending. A call that was ended with its
// turn has not failed.
func (i *Invoker) Totals() map[string]measure.Total {
	totals := map[string]measure.Total{}
	for of, sum := range i.ended.Sums() {
		one := measure.Total{Count: sum.Count, Seconds: sum.Seconds}
		if of.Outcome == outcomeFailed {
			one.Failed = sum.Count
		}
		totals[of.Server] = totals[of.Server].Plus(one)
	}
	return totals
}

// Call makes a call, if it is allowed, and returns its outcome and the record to be stored. shown is how much of a
// result is shown at once, in bytes (0: the default of 5 KiB); the record keeps the whole of a longer one under an id.
// Call never fails: what goes wrong is a result with IsError. It may wait for a person, as long as Approvals does, and
// then runs the tool for up to 20 minutes; when ctx ends it returns soon.
func (i *Invoker) Call(ctx context.Context, in tool.Intent, shown int) (tool.Outcome, store.ToolCall) {
	if shown <= 0 {
		shown = defaultPage
	}
	// Outside of turns the ID of a call is ours: by it the approval of this very call is found.
	if in.Caller.Turn == "" {
		in.Caller.Call = "call-" + text.RandomID(idBytes)
	}
	began := i.o.Now()
	atOnce := shownAtOnce(in.Tool.Tool.Spec(), shown)
	in.Caller.Shown = atOnce
	res, note := i.callAllowed(ctx, &in)
	res.Text = text.Clean(res.Text)
	record := i.record(in, res, note, began, shown)
	i.logCall(ctx, record)
	if i.o.Called != nil {
		i.o.Called(ctx, in, record)
	}
	return tool.Outcome{Result: res, Note: note, Shown: Head(res.Text, record.ResultID, atOnce)}, record
}

// maxShownFactor is how many times the configured limit a tool may show at once: a page is of little use by its
// beginning, and a limit that was lowered for a small model still counts.
const maxShownFactor = 5

// shownAtOnce returns how many bytes of a tool's result are shown at once where the configured limit is shown.
func shownAtOnce(s tool.Spec, shown int) int {
	return max(shown, min(s.MaxShown, maxShownFactor*shown))
}

// Refuse returns the outcome and the record of a call that is not made, for example because there is no such tool:
// in.Tool may have only a name. why is the reason for the model.
func (i *Invoker) Refuse(
	ctx context.Context,
	in tool.Intent,
	why string,
	shown int,
) (tool.Outcome, store.ToolCall) {
	if shown <= 0 {
		shown = defaultPage
	}
	res := tool.Failure(why)
	record := i.record(in, res, "", i.o.Now(), shown)
	i.logCall(ctx, record)
	return tool.Outcome{Result: res, Shown: Head(res.Text, record.ResultID, shown)}, record
}

// logCall counts a call, and writes the one line that the log has of it. A call whose turn was ended has not failed.
func (i *Invoker) logCall(ctx context.Context, c store.ToolCall) {
	outcome := "done"
	switch {
	case ctx.Err() != nil:
		outcome = "ended"
	case c.NotRun:
		outcome = "refused"
	case c.Error != "":
		outcome = outcomeFailed
	}
	i.ended.Add(Ending{Server: c.Server, Outcome: outcome}, c.Took)
	i.o.Log.Info("tool call", "turn", c.Turn, "call", c.ID, "server", c.Server, "tool", c.Tool,
		"ms", c.Took.Milliseconds(), "outcome", outcome)
}

// callAllowed makes a call if the rules, the hooks and a person allow it. It changes in to
// the call that was made: hooks may change arguments.
func (i *Invoker) callAllowed(ctx context.Context, in *tool.Intent) (res tool.Result, note string) {
	if fault := i.checkArgs(in, in.Args); fault != nil {
		return *fault, ""
	}
	v := tool.Verdict{Decision: tool.Allow}
	if spec := in.Tool.Tool.Spec(); i.o.Free == nil || !i.o.Free(spec) {
		v = i.o.Rules.Decide(*in)
	}
	// Hooks can only make the decision stricter: one that allows does not overrule the
	// policy. A hook that fails stops the call.
	hooks := i.o.Rules.Hooks()
	for _, h := range hooks {
		if v.Decision == tool.Deny {
			break
		}
		ruling, err := h.Before(ctx, *in)
		switch {
		case ctx.Err() != nil:
			return endedResult(in), ""
		case err != nil:
			return i.hostFailure(*in, "was not run, because a hook before it failed", err), ""
		case ruling.Decision == tool.Deny, ruling.Decision == tool.Ask && v.Decision == tool.Allow:
			v = tool.Verdict{Decision: ruling.Decision, Reason: "a hook of the operator's " + describeRuling(ruling)}
		}
		// Changed arguments are checked again, before the next hook and the person see them. The
		// rules may decide otherwise about them, but never more freely.
		if len(ruling.Args) > 0 && v.Decision != tool.Deny {
			if fault := i.checkArgs(in, ruling.Args); fault != nil {
				return *fault, ""
			}
			if i.o.Free == nil || !i.o.Free(in.Tool.Tool.Spec()) {
				v = tool.Stricter(v, i.o.Rules.Decide(*in))
			}
		}
	}
	if v.Decision != tool.Ask && in.Caller.Decided != nil {
		in.Caller.Decided()
	}
	switch v.Decision {
	case tool.Deny:
		return tool.Refusal(fmt.Sprintf("%s was not run: %s.", in.Tool.Name, v.Reason)), v.Reason
	case tool.Ask:
		in.Caller.WaitForPerson("waits for an approval")
		asked := i.o.Now()
		ok, words, err := i.o.Approvals.Ask(ctx, *in, v)
		in.Waited = i.o.Now().Sub(asked)
		if in.Caller.Report != nil {
			in.Caller.Report("")
		}
		switch {
		case err != nil:
			return endedResult(in), ""
		case !ok:
			return tool.Refusal(fmt.Sprintf("%s was not run: %s.", in.Tool.Name, words)), words
		}
		note = words
		// Recorded before the call: after a crash an approval must not allow it twice.
		if err := i.o.Approvals.Begin(ctx, *in); err != nil {
			return i.hostFailure(*in, "was not run, because its approval could not be noted", err), note
		}
	}
	res = i.runTool(ctx, *in)
	for _, h := range hooks {
		changed, err := h.After(ctx, *in, res)
		if err != nil {
			return i.hostFailure(*in, "was run, but a hook after it failed and its result is withheld", err), note
		}
		res = changed
	}
	return res, note
}

// describeRuling returns a hook's decision in words, with the hook's reason.
func describeRuling(r tool.Ruling) string {
	word := "denies it"
	if r.Decision == tool.Ask {
		word = "wants an approval for it"
	}
	if reason := text.Clean(strings.TrimSpace(r.Reason)); reason != "" {
		word += ": " + reason
	}
	return word
}

// checkArgs sets the arguments of an intent in the form that the tool's schema requires. It returns a result with the
// error if they are invalid, otherwise nil.
func (i *Invoker) checkArgs(in *tool.Intent, args json.RawMessage) *tool.Result {
	fitting, err := i.o.Check(in.Tool.Tool.Spec().Schema, args)
	if err != nil {
		r := tool.Failure(fmt.Sprintf("The arguments of %s do not fit its schema: %v. "+
			"Nothing was run; correct them and call again.", in.Tool.Name, err))
		return &r
	}
	in.Args = fitting
	return nil
}

// endedResult returns the result of a call that was given up before it was made.
func endedResult(in *tool.Intent) tool.Result {
	return tool.Failure(fmt.Sprintf("%s was not run: the work was ended first.", in.Tool.Name))
}

// runTool runs the tool. A panic becomes a result: one bad tool must not end the bot.
func (i *Invoker) runTool(ctx context.Context, in tool.Intent) (res tool.Result) {
	defer func() {
		if p := recover(); p != nil {
			res = i.hostFailure(in, "", fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	ctx, cancel := context.WithTimeout(tool.WithCaller(ctx, in.Caller), timeout)
	defer cancel()
	failpoint.Here(failpoint.ToolStarted)
	res, err := in.Tool.Tool.Call(ctx, in.Args)
	failpoint.Here(failpoint.ToolDone)
	if err != nil {
		return i.hostFailure(in, "", err)
	}
	return res
}

// hostFailure returns the result of a call that failed on our side. The error goes only to
// the log, under the reference that the result names.
func (i *Invoker) hostFailure(in tool.Intent, what string, err error) tool.Result {
	if what == "" {
		what = "could not be run"
	}
	ref := text.RandomID(idBytes)
	i.o.Log.Error("tool was not run", "reference", ref, "turn", in.Caller.Turn, "call", in.Caller.Call,
		"tool", in.Tool.Name, "error", err)
	return tool.Failure(fmt.Sprintf("The tool %s %s (reference %s).", in.Tool.Name, what, ref))
}
