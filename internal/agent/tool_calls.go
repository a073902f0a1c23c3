package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/tool"
)

const (
	// maxConcurrentCalls is how many calls of one message run at a time.
	maxConcurrentCalls = 8
	// maxSameCalls is the time at which the same call with the same arguments is not
	// run again but ends the turn's tool calls.
	maxSameCalls = 3
	// maxShownResult is how much of a result is kept for people to look at, in bytes.
	maxShownResult = 4 << 10
)

// callAll runs calls side by side and records each result when it is there, so
// that a crash meanwhile repeats none that has finished.
func (r *run) callAll(ctx context.Context, calls []llm.Call) error {
	var mu sync.Mutex // guards the turn
	var failed error
	record := func(res llm.Result, calls []store.ToolCall) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || failed != nil {
			return // what was cut off may have taken effect: it is of unknown outcome
		}
		r.addResult(res)
		failed = r.save(ctx, calls...)
	}
	slots := make(chan struct{}, maxConcurrentCalls)
	var wg sync.WaitGroup
	for _, c := range calls {
		meant, err := r.unwrap(c)
		if err != nil {
			record(r.refuseCall(ctx, c, err.Error()))
			continue
		}
		if r.countRepeat(meant) {
			res, calls := r.refuseCall(ctx, meant, "This very call was made before, with the result that you have. It was not run again.")
			res.Name = c.Name
			record(res, calls)
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			res, calls := r.makeCall(ctx, meant)
			res.Name = c.Name
			record(res, calls)
		})
	}
	wg.Wait()
	return errors.Join(ctx.Err(), failed)
}

// unwrap is the call that is to be run: the one inside, where the model runs a tool
// that it has found.
func (r *run) unwrap(c llm.Call) (llm.Call, error) {
	if !r.usesDiscovery {
		return c, nil
	}
	name, args, err := r.engine.o.Discovery.Unwrap(c.Name, c.Args)
	c.Name, c.Args = name, args
	return c, err
}

// countRepeat counts a call and reports that it has come too often.
func (r *run) countRepeat(c llm.Call) bool {
	var args bytes.Buffer
	if json.Compact(&args, c.Args) != nil {
		args.Reset()
		args.Write(c.Args)
	}
	key := c.Name + " " + args.String()
	r.callCounts[key]++
	if r.callCounts[key] < maxSameCalls {
		return false
	}
	r.stopReason = "stopped because the same tool call was asked for again and again"
	return true
}

// discoveryServer is the Server of the native tools that find others.
const discoveryServer = "discovery"

// FreeOfPolicy reports that a tool only finds others: what it finds is decided on,
// not that it looks.
func FreeOfPolicy(s tool.Spec) bool { return s.Native && s.Server == discoveryServer }

// makeCall makes a call. Whatever is wrong becomes a result that the model can act on.
func (r *run) makeCall(ctx context.Context, c llm.Call) (llm.Result, []store.ToolCall) {
	n, ok := r.tools[c.Name]
	if !ok {
		return r.refuseCall(ctx, c, fmt.Sprintf("There is no tool %q. The tools are: %s.", c.Name, strings.Join(r.toolNames(), ", ")))
	}
	began := r.engine.o.Now()
	seen := chat.ToolRun{ID: c.ID, Name: c.Name, State: chat.Running, Args: c.Args}
	r.showCall(seen)
	caller := r.caller(c)
	caller.Report = func(note string) {
		running := seen
		running.Note = note
		r.showCall(running)
	}
	out, record := r.engine.o.Calls.Call(ctx, tool.Intent{Caller: caller, Tool: n, Args: c.Args}, r.profile.MaxResult)
	seen.Took, seen.Note = r.engine.o.Now().Sub(began), out.Note
	r.keepFiles(c.Name, out.Result.Files)
	return r.finishCall(c, seen, out, record)
}

// refuseCall answers a call that is not made.
func (r *run) refuseCall(ctx context.Context, c llm.Call, why string) (llm.Result, []store.ToolCall) {
	n, ok := r.tools[c.Name]
	if !ok {
		n.Name = c.Name
	}
	in := tool.Intent{Caller: r.caller(c), Tool: n, Args: c.Args}
	out, record := r.engine.o.Calls.Refuse(ctx, in, why, r.profile.MaxResult)
	return r.finishCall(c, chat.ToolRun{ID: c.ID, Name: c.Name, Args: c.Args}, out, record)
}

// finishCall shows what became of a call, and gives what the model and the record are told.
func (r *run) finishCall(c llm.Call, seen chat.ToolRun, out tool.Outcome, record store.ToolCall) (llm.Result, []store.ToolCall) {
	seen.State, seen.Result = chat.Done, conversation.Cut(out.Result.Text, maxShownResult)
	if out.Result.IsError {
		seen.State = chat.Failed
	}
	r.showCall(seen)
	return llm.Result{ID: c.ID, Name: c.Name, IsError: out.Result.IsError, Content: out.Shown}, []store.ToolCall{record}
}

func (r *run) caller(c llm.Call) tool.Caller {
	return tool.Caller{Conversation: r.message.Conversation, User: r.asker(), Agent: r.profile.Agent, Turn: r.turn.ID, Call: c.ID, Revised: r.asked.Revised, Servers: r.profile.Servers}
}

// Files that tools give are shown below the answer, up to these limits.
const (
	maxFiles      = 10
	maxFilesBytes = 8 << 20
)

// keepFiles keeps files that a tool gave for the answer, and its images for the model.
func (r *run) keepFiles(tool string, files []chat.File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := 0
	for _, f := range r.files {
		size += len(f.Data)
	}
	for _, f := range files {
		r.keepImage(tool, f)
	}
	for _, f := range files {
		if size += len(f.Data); len(r.files) == maxFiles || size > maxFilesBytes {
			return // the model was told of them all; people see the first
		}
		r.files = append(r.files, f)
	}
}

// asker is the user on whose behalf tools run. Where several people are answered
// together it is nobody in particular, who may do the least.
func (r *run) asker() chat.User {
	for _, m := range r.asked.Messages {
		if m.Author.ID != r.message.Author.ID {
			return chat.User{Name: "several people"}
		}
	}
	return r.message.Author
}

// userID names the asker over all platforms; empty: several people.
func (r *run) userID() string {
	u := r.asker()
	if u.ID == "" {
		return ""
	}
	return r.message.Conversation.Platform + "/" + u.ID
}

func (r *run) toolNames() []string {
	var names []string
	for _, s := range r.declared {
		names = append(names, s.Name)
	}
	return names
}
