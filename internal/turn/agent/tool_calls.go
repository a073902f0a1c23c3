package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
)

const (
	// maxConcurrentCalls is how many calls of one message run at a time, and are asked about together.
	maxConcurrentCalls = 8
	// maxSameCalls is the number of identical calls, arguments included, at which a call is
	// refused and the turn may make no more calls.
	maxSameCalls = 3
	// maxShownResult is how much of a result is kept for people to look at, in bytes.
	maxShownResult = 4 << 10
)

// callAll makes calls concurrently and records each result immediately, so that a crash repeats no finished call. It
// returns when all have ended, even after an error of ctx or of storing a result. A failed call is a result with the
// failure, not an error.
func (r *run) callAll(ctx context.Context, calls []llm.Call) error {
	r.beginStep()
	var mu sync.Mutex // guards r.turn and failed
	var failed error
	record := func(res llm.Part, calls []store.ToolCall) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || failed != nil {
			return // an interrupted call may have taken effect: resume reports its outcome as unknown
		}
		r.addResult(res)
		failed = r.save(ctx, calls...)
	}
	// Refused calls are recorded here, in order; only real ones run concurrently.
	var real []unwrapped
	for _, c := range calls {
		// Refusals, counts and records concern the tool that is really run, not the discovery tool around it.
		inner, err := r.unwrap(c)
		if err != nil {
			record(r.refuseCall(ctx, c, err.Error()))
			continue
		}
		if r.countRepeat(inner) {
			res, calls := r.refuseCall(ctx, inner,
				"This very call was made before, with the result that you have. It was not run again.")
			res.Result.Name = c.Name
			record(res, calls)
			continue
		}
		if c.ID == r.cutCall {
			res, calls := r.refuseCall(ctx, inner, "Your message was cut at its length limit in the middle of this call, "+
				"so that arguments may be missing. It was not run. Make it again with less in it, in several calls if need be.")
			res.Result.Name = c.Name
			record(res, calls)
			continue
		}
		real = append(real, unwrapped{inner, c.Name})
	}
	for together := range slices.Chunk(real, maxConcurrentCalls) {
		var running, undecided sync.WaitGroup
		undecided.Add(len(together))
		for _, c := range together {
			running.Go(func() {
				decided := sync.OnceFunc(undecided.Done)
				defer decided()
				res, calls := r.makeCall(ctx, c.Call, decided, undecided.Wait)
				res.Result.Name = c.calledAs // providers match a result with the name that the model called
				record(res, calls)
			})
		}
		running.Wait()
	}
	return errors.Join(ctx.Err(), failed)
}

// unwrapped is a call with the name that the model called: its own, or the name of the enclosing tool.
type unwrapped struct {
	llm.Call
	calledAs string
}

// unwrap returns the call to be made: the inner one, where the model runs a tool through
// discovery.
func (r *run) unwrap(c llm.Call) (llm.Call, error) {
	if !r.usesDiscovery {
		return c, nil
	}
	name, args, err := r.engine.o.Discovery.Unwrap(c.Name, c.Args)
	c.Name, c.Args = name, args
	return c, err
}

// countRepeat counts a call, and reports whether it has been made too often in this run; no further
// calls are made then. White space in the arguments does not count.
func (r *run) countRepeat(c llm.Call) bool {
	var args bytes.Buffer // compact: models vary the white space
	if json.Compact(&args, c.Args) != nil {
		args.Write(c.Args) // Compact writes nothing if it fails
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

// FreeOfPolicy reports whether a tool only finds others. Such a tool needs no decision of
// the policy; the tools that it finds and runs do.
func FreeOfPolicy(s tool.Spec) bool { return s.Native && s.Server == discoveryServer }

// makeCall makes a call. Every failure becomes a result that the model can act on. decided and allDecided are what
// tool.Caller has of these names.
func (r *run) makeCall(
	ctx context.Context,
	c llm.Call,
	decided, allDecided func(),
) (llm.Part, []store.ToolCall) {
	n, ok := r.tools[c.Name]
	if !ok {
		return r.refuseCall(ctx, c, r.whyMissing(c.Name))
	}
	began := r.engine.o.Now()
	// Shown before it begins: a call may wait a quarter of an hour for its approval.
	seen := chat.ToolRun{ID: c.ID, Name: c.Name, State: chat.Running, Args: c.Args}
	r.showCall(seen)
	caller := r.caller(c)
	caller.Decided, caller.AllDecided = decided, allDecided
	caller.Waits = func() { r.showProgress(chat.Progress{Waits: true}) }
	caller.Report = func(note string) {
		running := seen // a copy: Report may be called after the call has ended
		running.Note = note
		r.showCall(running)
	}
	out, record := r.engine.o.Calls.Call(ctx, tool.Intent{Caller: caller, Tool: n, Args: c.Args}, r.profile.MaxResult)
	seen.Took, seen.Note = r.engine.o.Now().Sub(began), out.Note
	// Files are kept before the result is recorded, so that the next request has the images.
	if leftOut := r.keepFiles(c.Name, out.Result.Files); len(leftOut) > 0 {
		out.Shown += fmt.Sprintf("\n[%s: left out, since too many large files are being worked on. "+
			"Call the tool again later, or say so.]", strings.Join(leftOut, ", "))
	}
	return r.finishCall(c, seen, out, record)
}

// whyMissing returns the explanation of an unavailable tool for the model. The user gets one, too, if it can be made
// available.
func (r *run) whyMissing(name string) string {
	if r.engine.o.Servers != nil {
		server, why := r.engine.o.Servers.WhyMissing(name)
		if why != "" && (r.profile.Servers == nil || r.profile.Servers(server)) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if !slices.Contains(r.notes, why) {
				r.notes = append(r.notes, why)
			}
			return why + " Nothing was run."
		}
	}
	return fmt.Sprintf("There is no tool %q. The tools are: %s.", name, strings.Join(r.toolNames(), ", "))
}

// refuseCall returns the result and the record of a call that is not made.
func (r *run) refuseCall(ctx context.Context, c llm.Call, why string) (llm.Part, []store.ToolCall) {
	n, ok := r.tools[c.Name]
	if !ok {
		n.Name = c.Name
	}
	in := tool.Intent{Caller: r.caller(c), Tool: n, Args: c.Args}
	out, record := r.engine.o.Calls.Refuse(ctx, in, why, r.profile.MaxResult)
	return r.finishCall(c, chat.ToolRun{ID: c.ID, Name: c.Name, Args: c.Args}, out, record)
}

// finishCall shows the outcome of a call to the reader, and returns its result for the
// model and its record.
func (r *run) finishCall(
	c llm.Call,
	seen chat.ToolRun,
	out tool.Outcome,
	record store.ToolCall,
) (llm.Part, []store.ToolCall) {
	seen.State, seen.Result = chat.Done, conversation.Cut(out.Result.Text, maxShownResult)
	if out.Result.IsError {
		seen.State = chat.Failed
	}
	r.showCall(seen)
	res := llm.Result{ID: c.ID, Name: c.Name, IsError: out.Result.IsError, Content: out.Shown}
	return llm.Part{Result: &res, Origin: r.originOfResult(c, out.Result)}, []store.ToolCall{record}
}

// caller returns on whose behalf a call is made.
func (r *run) caller(c llm.Call) tool.Caller {
	var revised <-chan struct{}
	if r.asked.Revised != nil {
		revised = r.asked.Revised.Done()
	}
	return tool.Caller{
		Conversation:  r.message.Conversation,
		User:          r.asker(),
		Agent:         r.profile.Agent,
		Turn:          r.turn.ID,
		Call:          c.ID,
		Revised:       revised,
		Taint:         r.provenance.origin.Taint,
		Authors:       r.otherAuthors(),
		IsNamed:       r.provenance.isNamed,
		Unattended:    r.profile.Unattended,
		Granted:       r.profile.Granted,
		Servers:       r.profile.Servers,
		NumberSources: r.numberSources,
	}
}

// otherAuthors returns the people other than the asker whose words the request holds.
func (r *run) otherAuthors() []string {
	asker := r.userID()
	return slices.DeleteFunc(slices.Clone(r.provenance.origin.Authors), func(who string) bool { return who == asker })
}

// Files that tools return are posted with the answer, up to these limits.
const (
	maxFiles      = 10
	maxFilesBytes = 8 << 20
)

// smallFile is how many bytes of a tool's file are kept without asking whether there is memory for them.
const smallFile = 64 << 10

// keepFiles keeps the files of a tool for the answer, and its images for the model. It returns the names of the files
// without memory.
func (r *run) keepFiles(tool string, files []chat.File) (leftOut []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := int64(0)
	for _, f := range r.files {
		size += int64(len(f.Data))
	}
	isFull := false // the post's limits: people get the first files, and the result names all to the model
	for _, f := range files {
		isFull = isFull || len(r.files) == maxFiles || size+int64(len(f.Data)) > maxFilesBytes
		if isFull && !givesImage(f) {
			continue
		}
		if !r.holdFile(f) {
			leftOut = append(leftOut, f.Name)
			continue
		}
		r.keepImage(tool, f)
		if !isFull {
			r.files, size = append(r.files, f), size+int64(len(f.Data))
		}
	}
	r.releaseFiles(func(data []byte) bool { return !r.uses(data) })
	return leftOut
}

// heldFile is the memory that the data of a tool's file takes.
type heldFile struct {
	data    []byte
	release func()
}

// holdFile takes the memory of a file until releaseFiles, and reports whether there is any. It does not wait: who waits
// must hold nothing, and a run may hold the files of earlier calls. r.mu is held.
func (r *run) holdFile(f chat.File) bool {
	if len(f.Data) <= smallFile {
		return true
	}
	release, ok := r.engine.o.ResultMemory.TryTake(int64(len(f.Data)))
	if ok {
		r.held = append(r.held, heldFile{f.Data, release})
	}
	return ok
}

// uses reports whether data belongs to a file for the answer, or to an image for the model. r.mu must be held.
func (r *run) uses(data []byte) bool {
	isSame := func(other []byte) bool { return len(other) > 0 && &other[0] == &data[0] }
	return slices.ContainsFunc(r.files, func(f chat.File) bool { return isSame(f.Data) }) ||
		slices.ContainsFunc(r.toolImages, func(p llm.Part) bool { return p.Media != nil && isSame(p.Media.Data) })
}

// releaseFiles gives back the memory of the files that a function chooses. r.mu is held.
func (r *run) releaseFiles(which func(data []byte) bool) {
	r.held = slices.DeleteFunc(r.held, func(h heldFile) bool {
		if which(h.data) {
			h.release()
			return true
		}
		return false
	})
}

// asker returns the user on whose behalf tools run. Where several people are answered at
// once it is a user without an ID, who has the fewest rights.
func (r *run) asker() chat.User {
	for _, m := range r.asked.Messages {
		if m.Author.ID != r.message.Author.ID {
			return chat.User{Name: "several people"}
		}
	}
	return r.message.Author
}

// userID returns an ID of the asker that is unique over all platforms; empty: several
// people.
func (r *run) userID() string {
	u := r.asker()
	if u.ID == "" {
		return ""
	}
	return r.message.Conversation.Platform + "/" + u.ID
}

// toolNames returns the names of the tools that are declared to the model, at most
// maxDeclaredTools.
func (r *run) toolNames() []string {
	var names []string
	for _, s := range r.declared {
		names = append(names, s.Name)
	}
	return names
}
