package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/recall/document"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
	"ravenbot/internal/turn/invoke"
)

// memory keeps turns as they were saved.
type memory struct {
	mu    sync.Mutex
	turns map[chat.Address][]conversation.Turn
	sums  map[chat.Address]conversation.Summary
	words []store.Feedback

	called []store.ToolCall

	writes int // until crash is called
	crash  context.CancelCauseFunc
}

var errCrashed = errors.New("crashed")

// crashAfter makes the writes after the next n fail, and ends a context with the
// first of them. A negative n: none fails.
func (m *memory) crashAfter(n int, crash context.CancelCauseFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes, m.crash = n, crash
}

// write counts a write.
func (m *memory) write() error {
	if m.crash == nil {
		return nil
	}
	if m.writes--; m.writes < 0 {
		m.crash(errCrashed)
		return errCrashed
	}
	return nil
}

func (m *memory) Turns(_ context.Context, a chat.Address, r store.Range) ([]conversation.Turn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var turns []conversation.Turn
	for _, t := range m.turns[a] {
		if t.ID != "" && t.Seq > r.After && (r.Upto == 0 || t.Seq <= r.Upto) {
			turns = append(turns, t)
		}
	}
	return slices.Clone(turns[max(0, len(turns)-r.Newest):]), nil
}

func (m *memory) TurnOf(_ context.Context, subject string) (chat.Address, conversation.Turn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for a, turns := range m.turns {
		for _, t := range turns {
			if t.ID != "" && slices.Contains(t.Subjects(), subject) {
				t.Messages = slices.Clone(t.Messages)
				return a, t, nil
			}
		}
	}
	return chat.Address{}, conversation.Turn{}, store.ErrNotFound
}

func (m *memory) DeleteTurn(_ context.Context, a chat.Address, seq uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write(); err != nil {
		return err
	}
	m.turns[a][seq-1] = conversation.Turn{}
	return nil
}

func (m *memory) CountUsage(context.Context, store.Usage) error { return nil }

func (m *memory) ShownTurn(_ context.Context, _ chat.Address, id string) (store.ShownTurn, bool, error) {
	switch kind, _, _ := strings.Cut(id, "-"); kind {
	case "answer":
		return store.ShownTurn{Turn: "web/" + id}, true, nil
	case "poll":
		from := origin.User("web", "U2")
		return store.ShownTurn{Origin: &from}, true, nil
	}
	return store.ShownTurn{}, false, nil
}

func (m *memory) TurnsQuoting(_ context.Context, subject string) ([]store.TurnRef, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []store.TurnRef
	for a, turns := range m.turns {
		for _, t := range turns {
			if slices.Contains(t.Quotes(), subject) {
				list = append(list, store.TurnRef{Conversation: a, Seq: t.Seq})
			}
		}
	}
	return list, nil
}

func (m *memory) DeleteConversation(context.Context, chat.Address) error { return store.ErrNotFound }

// roster has one profile for all messages.
type roster struct {
	profile   func(chat.Message) agent.Profile
	models    map[string]agent.Model
	threshold int
}

func (r *roster) Route(m chat.Message) agent.Profile { return r.profile(m) }

func (r *roster) DiscoveryThreshold() int { return r.threshold }

func (r *roster) Model(name string) (agent.Model, bool) {
	m, ok := r.models[name]
	return m, ok
}

// files reads the files of messages by a function.
type files func(ctx context.Context, platform string, f chat.File, limit int64) ([]byte, error)

func (f files) Fetch(ctx context.Context, platform string, file chat.File, limit int64) ([]byte, error) {
	return f(ctx, platform, file, limit)
}

func (m *memory) SaveFeedback(_ context.Context, f store.Feedback) error {
	m.words = append(m.words, f)
	return nil
}

func (m *memory) Summary(_ context.Context, a chat.Address) (conversation.Summary, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sums[a], nil
}

func (m *memory) SaveSummary(_ context.Context, a chat.Address, s conversation.Summary) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write(); err != nil {
		return err
	}
	m.sums[a] = s
	return nil
}

func (m *memory) ToolResult(_ context.Context, id string) (store.ToolResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.called {
		if c.ResultID == id {
			return store.ToolResult{ID: id, Conversation: c.Conversation, Text: c.Whole}, nil
		}
	}
	return store.ToolResult{}, store.ErrNotFound
}

func (m *memory) SaveTurn(_ context.Context, a chat.Address, t *conversation.Turn, calls ...store.ToolCall) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write(); err != nil {
		return err
	}
	if t.Seq == 0 {
		m.turns[a] = append(m.turns[a], conversation.Turn{})
		t.Seq = uint64(len(m.turns[a]))
	}
	kept := *t
	kept.Messages = slices.Clone(t.Messages)
	m.turns[a][t.Seq-1] = kept
	m.called = append(m.called, calls...)
	return nil
}

// tools is a toolbox of functions by name.
type tools map[string]tool.Func

func (ts tools) List() []tool.Named {
	var list []tool.Named
	for name, t := range ts {
		list = append(list, tool.Named{Name: name, Tool: t})
	}
	return list
}

func does(fn func(ctx context.Context, args json.RawMessage) (tool.Result, error)) tool.Func {
	return tool.Func{Do: fn}
}

// bench is an engine with everything around it.
type bench struct {
	*agent.Engine
	options agent.Options
	memory  *memory
	log     *bytes.Buffer
	shown   []chat.Progress
}

func engine(ts tools, models ...llm.Model) *bench {
	b := &bench{memory: &memory{turns: map[chat.Address][]conversation.Turn{},
		sums: map[chat.Address]conversation.Summary{}}, log: &bytes.Buffer{}}
	p := agent.Profile{
		Agent:     "default",
		MaxSteps:  10,
		MaxResult: 200,
		Window:    conversation.DefaultWindow(),
		Uses:      func(tool.Named) bool { return true },
	}
	configured := map[string]agent.Model{}
	for _, m := range models {
		p.Models = append(p.Models, m.ID())
		configured[m.ID()] = agent.Model{Model: m, Timeout: 2 * time.Minute}
	}
	b.options = agent.Options{
		Roster:    &roster{profile: func(chat.Message) agent.Profile { return p }, models: configured},
		Tools:     ts,
		Store:     b.memory,
		Documents: document.NewReader(nil),
		Log:       slog.New(slog.NewTextHandler(b.log, nil)), Now: time.Now, Jitter: func() float64 { return 0 },
	}
	b.options.Calls = b.calls(func(_ tool.Caller, n tool.Named) (tool.Decision, string) {
		if n.Name == "forbidden" {
			return tool.Deny, "the rules of this channel deny it"
		}
		return tool.Allow, ""
	})
	b.Engine = agent.New(b.options)
	return b
}

// rules decide by a function, and have no hooks and no secrets.
type rules struct {
	decide func(tool.Caller, tool.Named) (tool.Decision, string)
}

func (r rules) Decide(in tool.Intent) (v tool.Verdict) {
	v.Decision, v.Reason = r.decide(in.Caller, in.Tool)
	return v
}

func (rules) Hooks() []tool.Hook { return nil }

func (rules) Mask(s string) string { return s }

// calls makes tool calls as the bot does, by some rules.
func (b *bench) calls(decide func(tool.Caller, tool.Named) (tool.Decision, string)) *invoke.Invoker {
	check := func(_, args json.RawMessage) (json.RawMessage, error) {
		if !json.Valid(args) {
			return nil, errors.New("not JSON")
		}
		return args, nil
	}
	return invoke.New(invoke.Options{Check: check, Rules: rules{decide}, Free: agent.FreeOfPolicy,
		Log: b.options.Log, Now: time.Now})
}

var room = chat.Address{Platform: "web", Channel: "general"}

func (b *bench) ask(t *testing.T, text string) chat.Draft {
	t.Helper()
	m := chat.Message{ID: text, Text: text, Conversation: room}
	turn, d := b.Answer(t.Context(), chat.Asked{Turn: m.Key(), Messages: []chat.Message{m}}, func(p chat.Progress) {
		b.shown = append(b.shown, p)
	})
	if d == nil {
		t.Fatal("no answer at all")
	}
	if turn != nil {
		if err := b.memory.SaveTurn(t.Context(), room, turn); err != nil {
			t.Fatal(err)
		}
	}
	return *d
}

func lastResults(r llm.Request) []llm.Result {
	var results []llm.Result
	for _, p := range r.Messages[len(r.Messages)-1].Parts {
		if p.Result != nil {
			results = append(results, *p.Result)
		}
	}
	return results
}

func TestToolsRunSideBySideAndAnswerInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := does(func(context.Context, json.RawMessage) (tool.Result, error) {
			time.Sleep(time.Minute)
			return tool.Text("slow"), nil
		})
		quick := does(func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text("quick"), nil })
		model := &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
			if n == 1 {
				return llmtest.Calls("slow", `{"a":1}`, "slow", `{"a":2}`, "quick", `{}`), nil
			}
			var got []string
			for _, res := range lastResults(r) {
				got = append(got, res.Content)
			}
			return llmtest.Says(strings.Join(got, " ")), nil
		}}
		began := time.Now()
		b := engine(tools{"slow": slow, "quick": quick}, model)
		if d := b.ask(t, "go"); d.Text != "slow slow quick" || len(d.Tools) != 3 {
			t.Errorf("answered %q with %d tool runs", d.Text, len(d.Tools))
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the calls took %v, want the 1m of the slowest", took)
		}
	})
}

func TestThereIsAlwaysAnAnswer(t *testing.T) {
	broken := does(func(context.Context, json.RawMessage) (tool.Result, error) {
		return tool.Result{}, errors.New("dial tcp 10.0.0.1: secret detail")
	})
	panics := does(func(context.Context, json.RawMessage) (tool.Result, error) { panic("secret detail") })
	ok := does(func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text("fine"), nil })
	box := tools{"broken": broken, "panics": panics, "ok": ok, "forbidden": ok}
	calling := func(name, args string) func(int, llm.Request) ([]llm.Chunk, error) {
		return func(n int, r llm.Request) ([]llm.Chunk, error) {
			if n == 1 {
				return llmtest.Calls(name, args), nil
			}
			return llmtest.Says("saw: " + lastResults(r)[0].Content), nil
		}
	}
	cases := []struct {
		name   string
		script func(int, llm.Request) ([]llm.Chunk, error)
		want   string
	}{
		{"tool broken", calling("broken", `{}`), `^saw: The tool broken could not be run \(reference [0-9a-f]{8}\)\.$`},
		{"tool panics", calling("panics", `{}`), `^saw: The tool panics could not be run`},
		{"unknown tool", calling("nonesuch", `{}`), `^saw: There is no tool "nonesuch"`},
		{"forbidden tool", calling("forbidden", `{}`), `^saw: forbidden was not run: the rules of this channel deny it\.$`},
		{"bad arguments", calling("ok", `{"a":`), `^saw: The arguments of ok do not fit`},
		{"endless calls", func(n int, r llm.Request) ([]llm.Chunk, error) {
			return llmtest.Calls("ok", fmt.Sprintf(`{"n":%d}`, n)), nil
		}, `^I could not finish this: I stopped after 10 rounds of tool calls`},
		{"the same call again and again", func(n int, r llm.Request) ([]llm.Chunk, error) {
			if len(r.Tools) > 0 {
				return llmtest.Calls("ok", `{"same": 1}`), nil
			}
			return llmtest.Says(fmt.Sprintf("gave up at request %d", n)), nil
		}, `^gave up at request 4$`},
		{"empty answers", func(int, llm.Request) ([]llm.Chunk, error) {
			return []llm.Chunk{{Finish: llm.FinishStop}}, nil
		}, `^The language model gave an empty answer; .* \(reference [0-9a-f]{8}\)\.$`},
		{"blocked", func(int, llm.Request) ([]llm.Chunk, error) {
			return nil, &llm.Error{Kind: llm.Blocked, Reason: "SAFETY"}
		}, `^The language model refuses to answer this`},
		{"server error", func(int, llm.Request) ([]llm.Chunk, error) {
			return nil, &llm.Error{Kind: llm.Unavailable, Reason: "500 secret detail"}
		}, `^The service of the language model failed`},
		{"no connection", func(int, llm.Request) ([]llm.Chunk, error) {
			return nil, &llm.Error{Kind: llm.Unavailable, Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
		}, `^The language model could not be reached; `},
		{"no descriptors", func(int, llm.Request) ([]llm.Chunk, error) {
			return nil, &llm.Error{Kind: llm.Unavailable, Err: &net.OpError{Err: os.NewSyscallError("socket", syscall.EMFILE)}}
		}, `^The bot has too many files and connections open; .* \(ulimit -n, LimitNOFILE\) \(reference`},
		{"foreign error", func(int, llm.Request) ([]llm.Chunk, error) {
			return nil, errors.New("secret detail")
		}, `^Something went wrong inside the bot; please try again \(reference`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := engine(box, &llmtest.Model{Script: c.script})
				d := b.ask(t, "go")
				if !regexp.MustCompile(c.want).MatchString(d.Text) || strings.Contains(d.Text, "secret") {
					t.Errorf("answered %q, want %s", d.Text, c.want)
				}
				ref := regexp.MustCompile(`reference ([0-9a-f]{8})`).FindStringSubmatch(d.Text)
				if ref != nil && !strings.Contains(b.log.String(), ref[1]) {
					t.Errorf("the log lacks reference %s:\n%s", ref[1], b.log)
				}
			})
		})
	}
}

// Every call has a record, also one that is not made.
func TestCallsThatAreNotMadeAreRecorded(t *testing.T) {
	ok := does(func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text("fine"), nil })
	b := engine(tools{"ok": ok}, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		switch {
		case n == 1:
			return llmtest.Calls("nonesuch", `{"password":"hidden"}`), nil
		case len(r.Tools) > 0:
			return llmtest.Calls("ok", `{}`), nil
		}
		return llmtest.Says("done"), nil
	}})
	b.ask(t, "go")
	var got []string
	for _, c := range b.memory.called {
		got = append(got, fmt.Sprintf("%s %s %.12s%.16s", c.Tool, c.Args, c.Result, c.Error))
		if c.Turn != "web/go" || c.ID == "" {
			t.Errorf("the record is %+v", c)
		}
	}
	want := []string{`nonesuch {"password":"***"} There is no tool`, "ok {} fine", "ok {} fine", "ok {} This very call w"}
	if !slices.Equal(got, want) {
		t.Errorf("the records are %q, want %q", got, want)
	}
}

func TestAnAnswerWhoseEndIsNeverToldIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
			chunks := llmtest.Says("all of it")
			if n <= 2 {
				chunks = llmtest.Calls("ok", `{}`)
			}
			for i := range chunks {
				chunks[i].Finish = ""
			}
			return chunks, nil
		}}
		ok := does(func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text("fine"), nil })
		b := engine(tools{"ok": ok}, model)
		if d := b.ask(t, "go"); d.Failed || d.Text != "all of it" || d.Footer != "the end of the answer may be missing" ||
			len(model.Requests()) != 4 {
			t.Errorf("answered %q, %q after %d requests; want it after one repeat of each", d.Text, d.Footer,
				len(model.Requests()))
		}
	})
}

func TestAPauseThatTheModelAsksForIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
			if n == 1 {
				return []llm.Chunk{{Parts: []llm.Part{{Text: "half an ans"}}}}, &llm.Error{Kind: llm.RateLimited,
					RetryAfter: 20 * time.Second}
			}
			return llmtest.Says("whole"), nil
		}}
		began := time.Now()
		b := engine(nil, model)
		if d := b.ask(t, "go"); d.Text != "whole" || time.Since(began) != 20*time.Second {
			t.Errorf("answered %q after %v, want the whole answer after 20s", d.Text, time.Since(began))
		}
		if !slices.ContainsFunc(b.shown, func(p chat.Progress) bool { return p.Reset }) {
			t.Error("the half answer was never taken back from view")
		}
	})
}

func TestAPauseLongerThanTheTimeoutIsToldToTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := engine(nil, &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) {
			return nil, &llm.Error{Kind: llm.RateLimited, RetryAfter: 10 * time.Minute}
		}})
		if d := b.ask(t, "go"); !strings.Contains(d.Text, "try again in about 10 minutes") {
			t.Errorf("answered %q, want the time to wait", d.Text)
		}
	})
}

// narrow understands nothing.
type narrow struct{ *llmtest.Model }

func (narrow) CanAnswer(llm.Request) bool { return false }

func TestAnotherModelStandsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := &llmtest.Model{Name: "down", Script: func(int, llm.Request) ([]llm.Chunk, error) {
			return nil, &llm.Error{Kind: llm.Denied, Reason: "bad key"}
		}}
		never := narrow{&llmtest.Model{Name: "narrow", Script: func(int, llm.Request) ([]llm.Chunk, error) {
			t.Error("a model was asked what it does not understand")
			return nil, nil
		}}}
		spare := &llmtest.Model{Name: "spare", Script: func(int, llm.Request) ([]llm.Chunk, error) {
			return llmtest.Says("here"), nil
		}}
		d := engine(nil, down, never, spare).ask(t, "go")
		if d.Text != "here" || !strings.Contains(d.Footer, "test/spare") {
			t.Errorf("answered %q with footer %q, want the spare model named", d.Text, d.Footer)
		}
	})
}

func TestATurnGoesOnWhereACrashCutIt(t *testing.T) {
	yes := true
	ran := map[string]int{}
	count := func(name string, hints tool.Hints) tool.Func {
		return tool.Func{Described: tool.Spec{Hints: hints}, Do: func(context.Context, json.RawMessage) (tool.Result, error) {
			ran[name]++
			return tool.Text(name + " done"), nil
		}}
	}
	box := tools{"read": count("read", tool.Hints{ReadOnly: &yes}), "pay": count("pay", tool.Hints{})}
	model := &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		var got []string
		for _, res := range lastResults(r) {
			got = append(got, res.Name+": "+res.Content)
		}
		return llmtest.Says(strings.Join(got, "; ")), nil
	}}
	b := engine(box, model)
	cut := conversation.Turn{ID: "web/go", State: conversation.Open, Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: "go"}}},
		{Role: llm.Assistant, Parts: []llm.Part{
			{Call: &llm.Call{ID: "1", Name: "pay", Args: json.RawMessage(`{}`)}},
			{Call: &llm.Call{ID: "2", Name: "read", Args: json.RawMessage(`{}`)}}}},
	}}
	if err := b.memory.SaveTurn(t.Context(), room, &cut); err != nil {
		t.Fatal(err)
	}
	d := b.ask(t, "go")
	if want := "pay: " + conversation.Interrupted + "; read: read done"; d.Text != want {
		t.Errorf("answered %q, want %q", d.Text, want)
	}
	if ran["pay"] != 0 || ran["read"] != 1 {
		t.Errorf("tools ran %v, want the read-only one alone", ran)
	}
	if turns := b.memory.turns[room]; len(turns) != 1 || turns[0].State != conversation.Answered {
		t.Errorf("stored turns %+v, want the one, answered", turns)
	} else if r := turns[0].Messages[2].Parts[0].Result; r == nil || r.ID != "1" ||
		r.Content != conversation.Interrupted || !r.IsError {
		t.Errorf("of the call that was not made again there is stored %+v", r)
	}
	if want := "I was interrupted: whether pay took effect is not known"; d.Footer != want || len(d.Tools) != 2 ||
		d.Tools[0].State != chat.Failed || d.Tools[1].State != chat.Done {
		t.Errorf("people see %q and %+v", d.Footer, d.Tools)
	}
}

func TestALargeResultIsReadInPages(t *testing.T) {
	long := ""
	for n := range 300 {
		long += fmt.Sprintf("line %d\n", n)
	}
	box := tools{"big": does(func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text(long), nil })}
	var read string
	model := &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if n == 1 {
			return llmtest.Calls("big", `{}`), nil
		}
		content := lastResults(r)[0].Content
		if len(content) > 300 {
			t.Errorf("shown %d bytes at once", len(content))
		}
		if n == 2 {
			id := regexp.MustCompile(`with id "(\w+)"`).FindStringSubmatch(content)
			if id == nil || !strings.HasPrefix(content, "line 0\n") || !strings.HasSuffix(content, "line 299\n") {
				t.Fatalf("shown %q", content)
			}
			return llmtest.Calls("result_read", fmt.Sprintf(`{"id":%q}`, id[1])), nil
		}
		more := regexp.MustCompile(`\n\[bytes .* call result_read with id "(\w+)" and offset (\d+)\]$`).FindStringSubmatchIndex(content)
		if more == nil {
			read += content
			return llmtest.Says("read"), nil
		}
		read += content[:more[0]]
		return llmtest.Calls("result_read", fmt.Sprintf(`{"id":%q,"offset":%s}`, content[more[2]:more[3]],
			content[more[4]:more[5]])), nil
	}}
	b := engine(box, model)
	box["result_read"] = invoke.Reader(b.memory).(tool.Func)
	b.options.Roster.(*roster).profile = func(chat.Message) agent.Profile {
		return agent.Profile{
			Agent:     "default",
			Models:    []string{model.ID()},
			MaxSteps:  40,
			MaxResult: 300,
			Uses:      func(tool.Named) bool { return true },
		}
	}
	b.Engine = b.over()
	b.ask(t, "go")
	if read != long {
		t.Errorf("%d of %d bytes were read in pages", len(read), len(long))
	}
}

func TestHistoryIsSentAndForgotten(t *testing.T) {
	model := &llmtest.Model{Script: func(_ int, r llm.Request) ([]llm.Chunk, error) {
		return llmtest.Says(fmt.Sprint(len(r.Messages))), nil
	}}
	b := engine(nil, model)
	b.ask(t, "one")
	if d := b.ask(t, "two"); d.Text != "3" {
		t.Errorf("the second request held %s messages, want 3", d.Text)
	}
	b.Forget(room)
	delete(b.memory.turns, room)
	if d := b.ask(t, "three"); d.Text != "1" {
		t.Errorf("after forgetting the request held %s messages, want 1", d.Text)
	}
}
