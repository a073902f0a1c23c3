// Package hook runs the operator's commands around tool calls. It promises that a
// command gets the call as JSON on its standard input and nothing of the bot's
// environment but a short list of harmless variables, that it ends with all that it
// started when its time is over, that what it writes is bounded, and that a command
// which fails does what the operator said it should: deny, or let pass.
//
// A command before a call may answer with {"decision":"allow"|"ask"|"deny",
// "reason":"…","args":{…}}, all optional; nothing, and status 0, lets the call pass
// as it is. Status 2 denies it, with what is on standard error as the reason. A
// command after a call may answer with {"result":"…"} to change what the model
// sees. Any other status, an answer that is no such object, and the end of its time
// are failures.
package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"ravenbot/internal/tool"
)

const (
	maxOutput = 1 << 20 // bytes of an answer
	maxStderr = 4 << 10 // bytes of standard error that are kept
	// outputWait is how long the output of a command that was ended stays open.
	outputWait = time.Second
	// denyStatus is the exit status by which a command denies a call.
	denyStatus = 2
)

// The times at which a command runs.
const (
	Before = "before"
	After  = "after"
)

// Command is one command of the configuration: a tool.Hook.
type Command struct {
	When         string                // Before, After
	Matches      func(tool.Named) bool // the tools that it is about
	Command      []string              // the program and its arguments; no shell reads them
	Dir          string                // working folder; "": the bot's
	Timeout      time.Duration
	AllowOnError bool // where it fails, the call or its result passes
	Log          *slog.Logger
}

// Input is what a command reads from its standard input.
type Input struct {
	When   string          `json:"when"`
	Tool   string          `json:"tool"` // the name that models call it by
	Server string          `json:"server"`
	Name   string          `json:"name"` // within its server
	Args   json.RawMessage `json:"args"`
	Caller Caller          `json:"caller"`
	Result *Result         `json:"result,omitempty"` // after the call
}

// Caller is on whose behalf the call is made.
type Caller struct {
	Channel string `json:"channel,omitempty"` // the address of the conversation
	User    string `json:"user,omitempty"`    // the platform's id
	Name    string `json:"name,omitempty"`
	Admin   bool   `json:"admin,omitempty"`
	Turn    string `json:"turn,omitempty"`
	Call    string `json:"call,omitempty"`
}

// Result is what the call gave.
type Result struct {
	Text    string `json:"text"`
	IsError bool   `json:"isError,omitempty"`
}

// Before asks a command that runs before calls.
func (c Command) Before(ctx context.Context, in tool.Intent) (tool.Ruling, error) {
	pass := tool.Ruling{Decision: tool.Allow}
	if c.When == After || !c.Matches(in.Tool) {
		return pass, nil
	}
	out, err := c.run(ctx, newInput(Before, in))
	var denied deniedError
	if errors.As(err, &denied) {
		return tool.Ruling{Decision: tool.Deny, Reason: denied.reason}, nil
	}
	var answer struct {
		Decision tool.Decision   `json:"decision"`
		Reason   string          `json:"reason"`
		Args     json.RawMessage `json:"args"`
	}
	if err == nil && len(out) > 0 {
		err = json.Unmarshal(out, &answer)
	}
	switch answer.Decision {
	case "":
		answer.Decision = tool.Allow
	case tool.Allow, tool.Ask, tool.Deny:
	default:
		err = fmt.Errorf("its decision is %.40q, want allow, ask or deny", string(answer.Decision))
	}
	if err != nil {
		return pass, c.handleFailure(in, err)
	}
	return tool.Ruling{Decision: answer.Decision, Reason: answer.Reason, Args: answer.Args}, nil
}

// After tells a command that runs after calls.
func (c Command) After(ctx context.Context, in tool.Intent, r tool.Result) (tool.Result, error) {
	if c.When != After || !c.Matches(in.Tool) {
		return r, nil
	}
	about := newInput(After, in)
	about.Result = &Result{Text: r.Text, IsError: r.IsError}
	out, err := c.run(ctx, about)
	var answer struct {
		Result *string `json:"result"`
	}
	if err == nil && len(out) > 0 {
		err = json.Unmarshal(out, &answer)
	}
	if err != nil {
		return r, c.handleFailure(in, err)
	}
	if answer.Result != nil { // what else the tool gave may hold what was taken out
		r.Text, r.Structured, r.Files = *answer.Result, nil, nil
	}
	return r, nil
}

func newInput(when string, in tool.Intent) Input {
	spec, c := in.Tool.Tool.Spec(), in.Caller
	about := Input{When: when, Tool: in.Tool.Name, Server: spec.Server, Name: spec.Name, Args: in.Args,
		Caller: Caller{User: c.User.ID, Name: c.User.Name, Admin: c.User.Admin, Turn: c.Turn, Call: c.Call}}
	if !c.Conversation.IsZero() {
		about.Caller.Channel = c.Conversation.String()
	}
	if len(about.Args) == 0 {
		about.Args = json.RawMessage("{}")
	}
	return about
}

// handleFailure gives the error of a command that failed, unless it may.
func (c Command) handleFailure(in tool.Intent, err error) error {
	err = fmt.Errorf("hook %s: %w", c.Command[0], err)
	if c.AllowOnError {
		c.Log.Warn("hook failed and was passed over", "tool", in.Tool.Name, "turn", in.Caller.Turn, "error", err)
		return nil
	}
	return err
}

// deniedError says that the command denied the call.
type deniedError struct{ reason string }

func (e deniedError) Error() string { return "it denied the call: " + e.reason }

// run runs the command and gives what it wrote.
func (c Command) run(ctx context.Context, about Input) ([]byte, error) {
	in, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it took longer than %v", c.Timeout))
	defer cancel()
	out, told := &limitedBuffer{limit: maxOutput}, &limitedBuffer{limit: maxStderr}
	cmd := exec.CommandContext(ctx, c.Command[0], c.Command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, safeEnvironment(), bytes.NewReader(in), out, told
	cmd.WaitDelay = outputWait
	setProcessGroup(cmd)
	err = cmd.Run()
	killGroup(cmd)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &exit) && exit.ExitCode() == denyStatus && about.When == Before:
		return nil, deniedError{strings.TrimSpace(told.kept.String())}
	case err != nil:
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(told.kept.String()))
	case out.over:
		return nil, fmt.Errorf("it wrote more than %d bytes", maxOutput)
	}
	return bytes.TrimSpace(out.kept.Bytes()), nil
}

// safeEnvironment is what a command gets of ours.
func safeEnvironment() []string {
	var env []string
	for _, name := range []string{"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "SystemRoot", "TEMP", "TERM", "TMPDIR", "TZ", "USER"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct {
	kept  bytes.Buffer
	limit int
	over  bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := b.limit - b.kept.Len(); len(p) > room {
		b.over = true
		b.kept.Write(p[:room])
		return len(p), nil
	}
	return b.kept.Write(p)
}
