// Package hook runs the operator's commands around tool calls.
//
// It promises that a command gets the call as JSON on its standard input and only a short list of harmless environment
// variables; that it ends at its timeout with all processes that it started; that its output is limited; and that a
// failed command has the configured effect: deny the call, or allow it.
//
// A command before a call may answer with {"decision":"allow"|"ask"|"deny", "reason":"…","args":{…}}, all optional. No
// output and status 0 allow the unchanged call. Status 2 denies it, with the text on standard error as the reason. A
// command after a call may answer with {"result":"…"} to replace the result that the model sees. Any other status,
// output that is not such an object, and a timeout are failures.
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

	"ravenbot/internal/core/tool"
)

const (
	maxOutput = 1 << 20 // bytes of an answer
	maxStderr = 4 << 10 // bytes of standard error that are kept
	// outputWait is how long the output of a killed command stays open for processes that inherited it.
	outputWait = time.Second
	// denyStatus is the exit status by which a command denies a call.
	denyStatus = 2
)

// The times at which a command runs.
const (
	Before = "before"
	After  = "after"
)

// Command is one command of the configuration. It implements tool.Hook.
type Command struct {
	When         string                // Before, After
	Matches      func(tool.Named) bool // the tools that it applies to
	Command      []string              // the program and its arguments; no shell is involved
	Dir          string                // working folder; "": the bot's
	Timeout      time.Duration
	AllowOnError bool // when the command fails, the call or its result passes unchanged
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

// Caller says on whose behalf the call is made.
type Caller struct {
	Channel string `json:"channel,omitempty"` // the address of the conversation
	User    string `json:"user,omitempty"`    // the platform's id
	Name    string `json:"name,omitempty"`
	Admin   bool   `json:"admin,omitempty"`
	Turn    string `json:"turn,omitempty"`
	Call    string `json:"call,omitempty"`
}

// Result is the result of the call.
type Result struct {
	Text    string `json:"text"`
	IsError bool   `json:"isError,omitempty"`
}

// Before runs a command before a call and returns its decision. It allows tools that the command does not apply to.
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
	// No output means that the command has no objection.
	switch answer.Decision {
	case "":
		answer.Decision = tool.Allow
	case tool.Allow, tool.Ask, tool.Deny:
	default:
		err = fmt.Errorf("its decision is %.40q, not allow, ask or deny", string(answer.Decision))
	}
	if err != nil {
		return pass, c.handleFailure(in, err)
	}
	return tool.Ruling{Decision: answer.Decision, Reason: answer.Reason, Args: answer.Args}, nil
}

// After runs a command after a call and returns the result, or the command's replacement.
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
	if answer.Result != nil { // structured content and files may repeat what the command has removed from the text
		r.Text, r.Structured, r.Files = *answer.Result, nil, nil
	}
	return r, nil
}

// newInput returns what a command reads about a call.
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

// handleFailure returns the error of a command that failed, or nil where the operator allows failures.
func (c Command) handleFailure(in tool.Intent, err error) error {
	err = fmt.Errorf("hook %s: %w", c.Command[0], err)
	if c.AllowOnError {
		c.Log.Warn("hook failed; ignoring it as configured", "tool", in.Tool.Name, "turn", in.Caller.Turn, "error", err)
		return nil
	}
	return err
}

// deniedError says that the command denied the call.
type deniedError struct{ reason string }

func (e deniedError) Error() string { return "it denied the call: " + e.reason }

// run runs the command and returns its output.
func (c Command) run(ctx context.Context, about Input) ([]byte, error) {
	in, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it took longer than %v", c.Timeout))
	defer cancel()
	out, stderr := &limitedBuffer{limit: maxOutput}, &limitedBuffer{limit: maxStderr}
	cmd := exec.CommandContext(ctx, c.Command[0], c.Command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, safeEnvironment(), bytes.NewReader(in), out, stderr
	cmd.WaitDelay = outputWait
	// A process that the command started may keep its output open; Wait gives up on it after this time.
	setProcessGroup(cmd)
	err = cmd.Run()
	// A context that ends kills the group, too; a command that exits normally may leave processes behind.
	killGroup(cmd)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	// After a call there is nothing left to deny, so status 2 is a failure there.
	case errors.As(err, &exit) && exit.ExitCode() == denyStatus && about.When == Before:
		return nil, deniedError{strings.TrimSpace(stderr.kept.String())}
	case err != nil:
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.kept.String()))
	case out.over:
		return nil, fmt.Errorf("it wrote more than %d bytes", maxOutput)
	}
	return bytes.TrimSpace(out.kept.Bytes()), nil
}

// safeEnvironment returns the variables of the bot's environment that a command gets. None of them holds a secret.
func safeEnvironment() []string {
	var env []string
	names := []string{
		"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "SystemRoot", "TEMP", "TERM", "TMPDIR", "TZ", "USER",
	}
	for _, name := range names {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// limitedBuffer keeps the beginning of the data written to it.
type limitedBuffer struct {
	kept  bytes.Buffer
	limit int
	over  bool // something was dropped
}

// Write keeps what there is room for. It takes the rest as well, so that the command is not blocked
// by its output.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := b.limit - b.kept.Len(); len(p) > room {
		b.over = true
		b.kept.Write(p[:room])
		return len(p), nil
	}
	return b.kept.Write(p)
}
