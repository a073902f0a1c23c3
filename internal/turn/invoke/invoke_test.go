package invoke_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/ops/measure"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/invoke"
)

// stage is an invoker whose parts a test sets.
type stage struct {
	invoke.Options
	ran   []string
	log   bytes.Buffer
	asked int
	begun int
	yes   bool
	words string
	wait  time.Duration // of an approval
	told  []string      // to those who watch
	rules rules
}

// rules allow everything unless decide says otherwise.
type rules struct {
	decide func(tool.Caller, tool.Named) (tool.Decision, string)
	hooks  []tool.Hook
}

func (r *rules) Decide(in tool.Intent) (v tool.Verdict) {
	if v.Decision = tool.Allow; r.decide != nil {
		v.Decision, v.Reason = r.decide(in.Caller, in.Tool)
	}
	return v
}

func (r *rules) Hooks() []tool.Hook { return r.hooks }

func (r *rules) Mask(t string) string { return strings.ReplaceAll(t, "hunter2", "***") }

func newStage() *stage {
	s := &stage{}
	s.Options = invoke.Options{
		Check: func(_, args json.RawMessage) (json.RawMessage, error) {
			if !json.Valid(args) || bytes.Contains(args, []byte("bad")) {
				return nil, errors.New("bad arguments")
			}
			return args, nil
		},
		Rules:     &s.rules,
		Approvals: s,
		Log:       slog.New(slog.NewTextHandler(&s.log, nil)), Now: time.Now,
	}
	return s
}

func (s *stage) Ask(context.Context, tool.Intent, tool.Verdict) (bool, string, error) {
	s.asked++
	time.Sleep(s.wait)
	return s.yes, s.words, nil
}

func (s *stage) Begin(context.Context, tool.Intent) error { s.begun++; return nil }

func (s *stage) call(t *testing.T, args string, result func() (tool.Result, error)) (tool.Outcome, store.ToolCall) {
	t.Helper()
	n := tool.Named{Name: "s_do", Tool: tool.Func{Described: tool.Spec{Server: "s", Name: "do"},
		Do: func(_ context.Context, args json.RawMessage) (tool.Result, error) {
			s.ran = append(s.ran, string(args))
			return result()
		}}}
	in := tool.Intent{Tool: n, Args: json.RawMessage(args),
		Caller: tool.Caller{Turn: "web/1", Call: "c1", User: chat.User{ID: "U1"},
			Conversation: chat.Address{Platform: "web", Channel: "general"},
			Report:       func(note string) { s.told = append(s.told, note) }}}
	return invoke.New(s.Options).Call(t.Context(), in, 100)
}

func fine() (tool.Result, error) { return tool.Text("fine"), nil }

// hooked is a hook made of two functions.
type hooked struct {
	before func(tool.Intent) (tool.Ruling, error)
	after  func(tool.Result) (tool.Result, error)
}

func (h hooked) Before(_ context.Context, in tool.Intent) (tool.Ruling, error) {
	if h.before == nil {
		return tool.Ruling{Decision: tool.Allow}, nil
	}
	return h.before(in)
}

func (h hooked) After(_ context.Context, _ tool.Intent, r tool.Result) (tool.Result, error) {
	if h.after == nil {
		return r, nil
	}
	return h.after(r)
}

func ruling(r tool.Ruling, err error) hooked {
	return hooked{before: func(tool.Intent) (tool.Ruling, error) { return r, err }}
}

func TestACallPassesPolicyHooksAndApproval(t *testing.T) {
	allow := tool.Ruling{Decision: tool.Allow}
	for name, c := range map[string]struct {
		policy tool.Decision
		hooks  []tool.Hook
		args   string
		yes    bool
		runs   []string
		asked  int
		says   string
	}{
		"allowed":                       {runs: []string{`{}`}, says: "fine"},
		"arguments that do not fit":     {args: `{"bad":1}`, says: "do not fit its schema: bad arguments. Nothing was run"},
		"denied":                        {policy: tool.Deny, says: "was not run: by the rules"},
		"a denial needs no hook":        {policy: tool.Deny, hooks: []tool.Hook{ruling(tool.Ruling{}, errors.New("never asked"))}, says: "was not run: by the rules"},
		"approved":                      {policy: tool.Ask, yes: true, asked: 1, runs: []string{`{}`}, says: "fine"},
		"not approved":                  {policy: tool.Ask, asked: 1, says: "was not run: "},
		"a hook denies":                 {hooks: []tool.Hook{ruling(tool.Ruling{Decision: tool.Deny, Reason: "on Sundays"}, nil)}, says: "denies it: on Sundays"},
		"a hook cannot lift a question": {policy: tool.Ask, hooks: []tool.Hook{ruling(allow, nil)}, asked: 1, says: "was not run"},
		"a hook asks":                   {hooks: []tool.Hook{ruling(tool.Ruling{Decision: tool.Ask}, nil), ruling(allow, nil)}, asked: 1, yes: true, runs: []string{`{}`}, says: "fine"},
		"hooks change arguments":        {hooks: []tool.Hook{ruling(tool.Ruling{Decision: tool.Allow, Args: json.RawMessage(`{"x":2}`)}, nil)}, runs: []string{`{"x":2}`}, says: "fine"},
		"changed ones have to fit":      {hooks: []tool.Hook{ruling(tool.Ruling{Decision: tool.Allow, Args: json.RawMessage(`{"bad":2}`)}, nil)}, says: "do not fit"},
		"a hook that fails":             {hooks: []tool.Hook{ruling(allow, errors.New("disk full of secrets"))}, says: "was not run, because a hook before it failed (reference "},
		"a hook changes the result": {hooks: []tool.Hook{hooked{after: func(r tool.Result) (tool.Result, error) {
			return tool.Text(r.Text + " indeed"), nil
		}}},
			runs: []string{`{}`}, says: "fine indeed"},
		"a hook keeps the result back": {hooks: []tool.Hook{hooked{after: func(r tool.Result) (tool.Result, error) {
			return r, errors.New("no")
		}}},
			runs: []string{`{}`}, says: "its result is withheld"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage()
			s.yes, s.rules.hooks = c.yes, c.hooks
			if c.policy != "" {
				s.rules.decide = func(tool.Caller, tool.Named) (tool.Decision, string) { return c.policy, "by the rules" }
			}
			if c.args == "" {
				c.args = "{}"
			}
			got, record := s.call(t, c.args, fine)
			if !strings.Contains(got.Shown, c.says) || strings.Contains(got.Shown, "secrets") {
				t.Errorf("the model is told %q, want %q in it", got.Shown, c.says)
			}
			if diff := cmp.Diff(c.runs, s.ran); diff != "" || s.asked != c.asked || c.asked > 0 && s.begun != len(c.runs) {
				t.Errorf("asked %d times, begun %d times; runs (-want +got):\n%s", s.asked, s.begun, diff)
			}
			if watched := slices.Contains(s.told, "waits for an approval"); watched != (c.asked > 0) || watched &&
				s.told[len(s.told)-1] != "" {
				t.Errorf("those who watch are told %q", s.told)
			}
			if failed := record.Error != ""; failed != got.Result.IsError || failed == (record.Result != "") {
				t.Errorf("recorded as %+v", record)
			}
			if n := strings.Count(s.log.String(), `msg="tool call" turn=web/1 call=c1 server=s tool=s_do ms=`); n != 1 {
				t.Errorf("%d lines of log: %s", n, &s.log)
			}
		})
	}
}

func TestWhatBreaksInAToolIsTold(t *testing.T) {
	s := newStage()
	for _, broken := range []func() (tool.Result, error){
		func() (tool.Result, error) { panic("at the disco") },
		func() (tool.Result, error) { return tool.Result{}, errors.New("at the disco") },
	} {
		got, record := s.call(t, "{}", broken)
		if !got.Result.IsError || !strings.Contains(got.Shown, "could not be run (reference ") ||
			strings.Contains(got.Shown, "disco") || record.Error == "" {
			t.Errorf("told %q, recorded %+v", got.Shown, record)
		}
	}
	if !strings.Contains(s.log.String(), "at the disco") {
		t.Errorf("the log lacks the cause: %s", &s.log)
	}
}

func TestARecordHoldsNoSecretAndTheBeginning(t *testing.T) {
	s := newStage()
	long := "hunter2 " + strings.Repeat("word\x1b[31m ", 50)
	got, record := s.call(t, `{"password":"p","deep":[{"api_key":"k"}],"text":"about hunter2"}`,
		func() (tool.Result, error) { return tool.Text(long), nil })
	want := `{"deep":[{"api_key":"***"}],"password":"***","text":"about ***"}`
	if string(record.Args) != want || len(record.Result) > 100 || !strings.HasPrefix(record.Result, "*** word") {
		t.Errorf("recorded %s → %q", record.Args, record.Result)
	}
	if record.ResultID == "" || strings.Contains(record.Whole, "\x1b") || !strings.Contains(got.Shown, record.ResultID) {
		t.Errorf("kept %q, shown %q", record.Whole, got.Shown)
	}
	if s.ran[0] != `{"password":"p","deep":[{"api_key":"k"}],"text":"about hunter2"}` {
		t.Errorf("the tool got %s", s.ran[0])
	}
}

// Pages are of use as a whole; a limit that was lowered for a small model still counts.
func TestCall_ToolWithALimitOfItsOwn_ShowsMore(t *testing.T) {
	long := strings.Repeat("0123456789", 1000)
	for _, c := range []struct{ own, limit, want int }{{0, 300, 300}, {2000, 600, 2000}, {2000, 300, 1500},
		{2000, 3000, 3000}} {
		n := tool.Named{Name: "s_do", Tool: tool.Func{Described: tool.Spec{Server: "s", Name: "do", MaxShown: c.own},
			Do: func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text(long), nil }}}
		out, record := invoke.New(newStage().Options).Call(t.Context(),
			tool.Intent{Tool: n, Args: json.RawMessage(`{}`)}, c.limit)
		if len(out.Shown) > c.want || len(out.Shown) < c.want-20 {
			t.Errorf("own limit %d, configured %d: %d bytes are shown, want %d", c.own, c.limit, len(out.Shown), c.want)
		}
		if record.ResultID == "" || len(record.Result) > c.limit {
			t.Errorf("recorded %d bytes with id %q", len(record.Result), record.ResultID)
		}
	}
}

// kept is one large result.
type kept store.ToolResult

func (k kept) ToolResult(_ context.Context, id string) (store.ToolResult, error) {
	if id != k.ID {
		return store.ToolResult{}, store.ErrNotFound
	}
	return store.ToolResult(k), nil
}

func TestALargeResultIsReadAndSearchedWhereItWasMade(t *testing.T) {
	here := chat.Address{Platform: "web", Channel: "general"}
	text := strings.Repeat("straw ", 500) + "a Needle in it " + strings.Repeat("strå ", 500)
	reader := invoke.Reader(kept{ID: "r1", Conversation: here, Text: text})
	read := func(where chat.Address, args string) tool.Result {
		t.Helper()
		r, err := reader.Call(tool.WithCaller(t.Context(), tool.Caller{Conversation: where, Shown: 1000}),
			json.RawMessage(args))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := read(here, `{"id":"r1","offset":3000}`); !strings.HasPrefix(r.Text, "a Needle") || len(r.Text) > 1000 ||
		!strings.Contains(r.Text, "and offset 39") {
		t.Errorf("page %q", r.Text)
	}
	if r := read(here, `{"id":"r1","search":"needle"}`); !strings.Contains(r.Text, "a Needle in it") ||
		!strings.Contains(r.Text, "[at byte 28") {
		t.Errorf("found %q", r.Text)
	}
	if r := read(here, `{"id":"r1","search":"straw"}`); len(r.Text) > 1100 || !strings.Contains(r.Text, "there are more") {
		t.Errorf("found %d bytes: %q", len(r.Text), r.Text)
	}
	if r := read(here, `{"id":"r1","search":"hay"}`); !strings.Contains(r.Text, `Nothing in it says "hay"`) {
		t.Errorf("found %q", r.Text)
	}
	if r := read(chat.Address{Platform: "web", Channel: "another"}, `{"id":"r1"}`); !r.IsError {
		t.Errorf("read elsewhere: %q", r.Text)
	}
}

// Calls are counted for the server of their tool; one that was ended with its turn has not failed.
func TestTotals_CountCallsByServer(t *testing.T) {
	s := newStage()
	i := invoke.New(s.Options)
	call := func(ctx context.Context, server, args string) {
		n := tool.Named{Name: server + "_do", Tool: tool.Func{Described: tool.Spec{Server: server, Name: "do"},
			Do: func(context.Context, json.RawMessage) (tool.Result, error) { return fine() }}}
		i.Call(ctx, tool.Intent{Tool: n, Args: json.RawMessage(args), Caller: tool.Caller{Turn: "web/1"}}, 100)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	call(t.Context(), "files", `{}`)
	call(t.Context(), "files", `{"bad":1}`)
	call(ended, "files", `{}`)
	call(t.Context(), "web", `{}`)
	got := i.Totals()
	for server, total := range got {
		if total.Seconds <= 0 {
			t.Errorf("the calls of %s took %g s", server, total.Seconds)
		}
		total.Seconds = 0
		got[server] = total
	}
	want := map[string]measure.Total{"files": {Count: 3, Failed: 1}, "web": {Count: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the totals (-want +got):\n%s", diff)
	}
}

func TestCall_WaitForApproval_IsApartFromTheTimeOfTheTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.yes, s.wait = true, 10*time.Minute
		s.rules.decide = func(tool.Caller, tool.Named) (tool.Decision, string) { return tool.Ask, "it writes" }
		_, record := s.call(t, `{}`, func() (tool.Result, error) {
			time.Sleep(2 * time.Second)
			return fine()
		})
		if record.Took != 2*time.Second || record.Waited != 10*time.Minute {
			t.Errorf("the call took %v and waited %v, want 2s and 10m", record.Took, record.Waited)
		}
	})
}
