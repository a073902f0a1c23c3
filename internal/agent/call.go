package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/failpoint"
	"ravenbot/internal/llm"
	"ravenbot/internal/tool"
)

const (
	// callTimeout is the longest that any tool may take; servers have shorter
	// limits of their own.
	callTimeout = 5 * time.Minute
	// atOnce is how many calls of one message run at a time.
	atOnce = 8
	// tooOften is the time at which the same call with the same arguments is not
	// run again but ends the turn's tool calls.
	tooOften = 3
	// shownResult is how much of a result is kept for people to look at, in bytes.
	shownResult = 4 << 10
)

// callAll runs calls side by side and records each result when it is there, so
// that a crash meanwhile repeats none that has finished.
func (r *run) callAll(ctx context.Context, calls []llm.Call) error {
	var mu sync.Mutex // guards the turn
	var failed error
	record := func(res llm.Result) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || failed != nil {
			return // what was cut off may have taken effect: it is of unknown outcome
		}
		r.result(res)
		failed = r.save(ctx)
	}
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for _, c := range calls {
		meant, err := r.meant(c)
		if err != nil {
			record(llm.Result{ID: c.ID, Name: c.Name, IsError: true, Content: err.Error()})
			continue
		}
		if r.repeated(meant) {
			record(llm.Result{ID: c.ID, Name: c.Name, IsError: true,
				Content: "This very call was made before, with the result that you have. It was not run again."})
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			res := r.call(ctx, meant)
			res.Name = c.Name
			record(res)
		})
	}
	wg.Wait()
	return errors.Join(ctx.Err(), failed)
}

// meant is the call that is to be run: the one inside, where the model runs a tool
// that it has found.
func (r *run) meant(c llm.Call) (llm.Call, error) {
	if !r.finds {
		return c, nil
	}
	name, args, err := r.e.o.Discovery.Unwrap(c.Name, c.Args)
	c.Name, c.Args = name, args
	return c, err
}

// repeated counts a call and reports that it has come too often.
func (r *run) repeated(c llm.Call) bool {
	var args bytes.Buffer
	if json.Compact(&args, c.Args) != nil {
		args.Reset()
		args.Write(c.Args)
	}
	key := c.Name + " " + args.String()
	r.times[key]++
	if r.times[key] < tooOften {
		return false
	}
	r.stopped = "stopped because the same tool call was asked for again and again"
	return true
}

func (r *run) call(ctx context.Context, c llm.Call) llm.Result {
	began := r.e.o.Now()
	seen := chat.ToolRun{ID: c.ID, Name: c.Name, State: chat.Running, Args: c.Args}
	r.ran(seen)
	res := r.perform(ctx, c)
	text := clean(res.Text)
	seen.State, seen.Took = chat.Done, r.e.o.Now().Sub(began)
	if res.IsError {
		seen.State = chat.Failed
	}
	seen.Result = conversation.Cut(text, shownResult)
	r.ran(seen)
	return llm.Result{ID: c.ID, Name: c.Name, IsError: res.IsError,
		Content: r.e.results.page(r.m.Conversation, text, r.p.MaxResult)}
}

// finderServer is the Server of tools that find others: what they find is decided
// on, not that they look.
const finderServer = "discovery"

// perform runs a call if it is one, its arguments fit and it is allowed. Whatever
// is wrong becomes a result that the model can act on.
func (r *run) perform(ctx context.Context, c llm.Call) (res tool.Result) {
	n, ok := r.tools[c.Name]
	if !ok {
		return tool.Failure(fmt.Sprintf("There is no tool %q. The tools are: %s.", c.Name, strings.Join(r.names(), ", ")))
	}
	spec := n.Tool.Spec()
	args, err := r.e.o.Check(spec.Schema, c.Args)
	if err != nil {
		return tool.Failure(fmt.Sprintf("The arguments of %s do not fit its schema: %v. Nothing was run; correct them and call again.", c.Name, err))
	}
	caller := tool.Caller{Conversation: r.m.Conversation, User: r.asker()}
	if v := r.e.o.Decide(caller, n); !v.Allowed && !(r.finds && spec.Server == finderServer) {
		return tool.Failure(fmt.Sprintf("%s was not run: %s.", c.Name, v.Reason))
	}
	defer func() {
		if p := recover(); p != nil {
			res = r.broken(c, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	ctx, cancel := context.WithTimeout(tool.WithCaller(ctx, caller), callTimeout)
	defer cancel()
	failpoint.Here(failpoint.ToolStarted)
	res, err = n.Tool.Call(ctx, args)
	failpoint.Here(failpoint.ToolDone)
	if err != nil {
		return r.broken(c, err)
	}
	return res
}

// asker is the user on whose behalf tools run. Where several people are answered
// together it is nobody in particular, who may do the least.
func (r *run) asker() chat.User {
	for _, m := range r.q.Messages {
		if m.Author.ID != r.m.Author.ID {
			return chat.User{Name: "several people"}
		}
	}
	return r.m.Author
}

// user names the asker over all platforms; empty: several people.
func (r *run) user() string {
	u := r.asker()
	if u.ID == "" {
		return ""
	}
	return r.m.Conversation.Platform + "/" + u.ID
}

// broken is the result of a tool that could not be run. The chain of causes is
// for the log alone.
func (r *run) broken(c llm.Call, err error) tool.Result {
	ref := reference()
	r.e.o.Log.Error("tool not run", "reference", ref, "tool", c.Name, "message", r.m.Key(), "error", err)
	return tool.Failure(fmt.Sprintf("The tool %s could not be run (reference %s).", c.Name, ref))
}

func (r *run) names() []string {
	var names []string
	for _, s := range r.specs {
		names = append(names, s.Name)
	}
	return names
}

// clean makes a tool's text safe to show and to send: valid UTF-8, without
// control characters, terminal sequences or characters that hide text.
func clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\t':
			return c
		case unicode.IsControl(c), '\u202A' <= c && c <= '\u202E', '\u2066' <= c && c <= '\u2069', 0xE0000 <= c && c <= 0xE007F:
			return -1
		}
		return c
	}, s)
}
