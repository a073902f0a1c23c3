package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
)

// Models vary the white space of arguments: a call that was made twice is refused the third time, however it is
// written, and the turn ends with what there is.
func TestRepeatedCall_WithOtherWhiteSpace_IsRefused(t *testing.T) {
	ran := 0
	box := tools{"look": does(func(context.Context, json.RawMessage) (tool.Result, error) {
		ran++
		return tool.Text("seen"), nil
	})}
	written := []string{`{"at":1}`, `{ "at": 1 }`, "{\n\"at\":1}"}
	model := &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if len(r.Tools) == 0 {
			return llmtest.Says("that is all: " + lastResults(r)[0].Content), nil
		}
		return llmtest.Calls("look", written[(n-1)%len(written)]), nil
	}}
	d := engine(box, model).ask(t, "look")
	if ran != 2 || !strings.Contains(d.Text, "This very call was made before") {
		t.Errorf("the tool ran %d times, answered %q; want two runs and a refusal", ran, d.Text)
	}
	if !strings.Contains(d.Footer, "the same tool call was asked for again and again") {
		t.Errorf("the footer is %q", d.Footer)
	}
}

// Calls with other arguments are other calls, and those whose arguments are not JSON are told apart as well.
func TestCallsWithOtherArguments_AreNoRepetition(t *testing.T) {
	var args []string
	box := tools{"look": does(func(_ context.Context, a json.RawMessage) (tool.Result, error) {
		args = append(args, string(a))
		return tool.Text("seen"), nil
	})}
	model := &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		switch {
		case n <= 3:
			return llmtest.Calls("look", fmt.Sprintf(`{"at":%d}`, n)), nil
		case n <= 6:
			return llmtest.Calls("look", fmt.Sprintf(`not JSON %d`, n)), nil
		}
		return llmtest.Says(fmt.Sprint(len(r.Tools))), nil
	}}
	if d := engine(box, model).ask(t, "look"); len(args) != 3 || d.Text != "1" || d.Footer != "" {
		t.Errorf("ran with %q, answered %q with footer %q; want three runs and tools to the end", args, d.Text, d.Footer)
	}
}

// A message of very many calls does not start them all at once, and runs them all.
func TestManyCalls_RunEightAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, mostAtOnce, ran := 0, 0, 0
		guard := make(chan struct{}, 1)
		gate := make(chan struct{})
		box := tools{"wait": does(func(context.Context, json.RawMessage) (tool.Result, error) {
			guard <- struct{}{}
			running++
			ran++
			mostAtOnce = max(mostAtOnce, running)
			<-guard
			<-gate
			guard <- struct{}{}
			running--
			<-guard
			return tool.Text("done"), nil
		})}
		var calls []string
		for n := range 20 {
			calls = append(calls, "wait", fmt.Sprintf(`{"n":%d}`, n))
		}
		b := engine(box, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
			if n == 1 {
				return llmtest.Calls(calls...), nil
			}
			return llmtest.Says(fmt.Sprint(len(lastResults(r)), " results")), nil
		}})
		answered := make(chan string, 1)
		go func() { answered <- b.ask(t, "go").Text }()
		synctest.Wait()
		if running != 8 {
			t.Errorf("%d calls run at a time, want 8", running)
		}
		close(gate)
		if text := <-answered; text != "20 results" || ran != 20 || mostAtOnce != 8 {
			t.Errorf("answered %q after %d calls, %d at a time", text, ran, mostAtOnce)
		}
	})
}

// What a tool failed to do is shown as failed, and only what people have to see stands below the answer.
func TestResultsToShow_StandBelowTheAnswer(t *testing.T) {
	bill := func(res tool.Result) tool.Func {
		return tool.Func{
			Described: tool.Spec{ShowResult: true},
			Do:        func(context.Context, json.RawMessage) (tool.Result, error) { return res, nil },
		}
	}
	box := tools{
		"bill":   bill(tool.Text("RM 20\nfor 40 kWh")),
		"failed": bill(tool.Failure("no tariff")),
		"quiet":  does(func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text("hush"), nil }),
	}
	d := engine(box, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if n == 1 {
			return llmtest.Calls("bill", `{}`, "failed", `{}`, "quiet", `{}`), nil
		}
		return llmtest.Says("twenty"), nil
	}}).ask(t, "what does it cost?")
	if d.Footer != "RM 20 for 40 kWh" {
		t.Errorf("the footer is %q, want the one result that has to be seen, on one line", d.Footer)
	}
}

// A model may send ids that it has sent before, or none: each call has its own result all the same.
func TestCallIDs_AreUniqueInATurn(t *testing.T) {
	box := tools{"look": does(func(_ context.Context, a json.RawMessage) (tool.Result, error) {
		return tool.Text("result of " + string(a)), nil
	})}
	call := func(id, args string) llm.Part {
		return llm.Part{Call: &llm.Call{ID: id, Name: "look", Args: []byte(args)}}
	}
	model := &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if fault := llmtest.Malformed(r.Messages); fault != "" {
			t.Error(fault)
		}
		switch n {
		case 1:
			return []llm.Chunk{{Parts: []llm.Part{call("a", `1`), call("a", `2`), call("", `3`), call("call-4", `4`)}},
				{Finish: llm.FinishStop}}, nil
		case 2:
			return []llm.Chunk{{Parts: []llm.Part{call("a", `5`)}}, {Finish: llm.FinishStop}}, nil
		}
		return llmtest.Says("done"), nil
	}}
	b := engine(box, model)
	b.ask(t, "go")
	args, results := map[string]string{}, 0
	for _, m := range b.memory.turns[room][0].Messages {
		for _, c := range m.Calls() {
			if args[c.ID] != "" {
				t.Errorf("the id %q stands twice", c.ID)
			}
			args[c.ID] = string(c.Args)
		}
		for _, p := range m.Parts {
			if p.Result != nil {
				results++
				if want := "result of " + args[p.Result.ID]; p.Result.Content != want {
					t.Errorf("the call %q has %q, want %q", p.Result.ID, p.Result.Content, want)
				}
			}
		}
	}
	if len(args) != 5 || results != 5 || args["a"] != "1" || args["call-1"] != "2" || args["call-2"] != "3" {
		t.Errorf("%d calls %v with %d results; want 5, the first with the id that it came with", len(args), args, results)
	}
}

// What a model thinks, says and calls are parts of their own, in their order, however they are cut into pieces.
func TestAnswer_ThoughtsWordsAndCalls_StayApart(t *testing.T) {
	box := tools{"look": does(func(context.Context, json.RawMessage) (tool.Result, error) {
		return tool.Text("seen"), nil
	})}
	b := engine(box, &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
		if n > 1 {
			return llmtest.Says("done"), nil
		}
		return []llm.Chunk{
			{Parts: []llm.Part{{Text: "I should ", Thought: true}, {Text: "look", Thought: true}, {Text: "I "}}},
			{Parts: []llm.Part{{Text: "look."}, {Call: &llm.Call{ID: "1", Name: "look", Args: []byte(`{}`)}}, {Text: "So."}}},
			{Finish: llm.FinishStop},
		}, nil
	}})
	b.ask(t, "go")
	var got []string
	for _, p := range b.memory.turns[room][0].Messages[1].Parts {
		got = append(got, fmt.Sprintf("%s %v %v", p.Text, p.Thought, p.Call != nil))
	}
	want := []string{"I should look true false", "I look. false false", " false true", "So. false false"}
	if !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
}

// Who has no tools is not told that there were no rounds left for them.
func TestMaxSteps_WithoutTools_IsNotMentioned(t *testing.T) {
	for box, footer := range map[string]string{"": "", "look": "stopped after 0 rounds of tool calls"} {
		list := tools{}
		if box != "" {
			list[box] = does(func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text("seen"), nil })
		}
		b := engine(list, &llmtest.Model{Script: sayHere})
		inProfile(b, func(p *agent.Profile) { p.MaxSteps = 0 })
		if d := b.ask(t, "hello"); d.Text != "here" || d.Footer != footer {
			t.Errorf("with %q: answered %q with footer %q", box, d.Text, d.Footer)
		}
	}
}

// An answer that is stopped while its calls run shows no words that the model said before them: they are no answer.
func TestStop_DuringCalls_ShowsNoWordsBeforeThem(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	box := tools{"look": does(func(context.Context, json.RawMessage) (tool.Result, error) {
		stop(chat.ErrStopped)
		return tool.Text("seen"), nil
	})}
	b := engine(box, &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) {
		return append([]llm.Chunk{{Parts: []llm.Part{{Text: "I look."}}}}, llmtest.Calls("look", `{}`)...), nil
	}})
	if d := b.answer(t, ctx, one(asks("1", "go"))); d.Text != "Stopped." {
		t.Errorf("answered %q", d.Text)
	}
}

// Files go with an answer as long as all of them have at most 8 MiB, over all calls of the turn.
func TestFilesOfTools_FillThePost(t *testing.T) {
	for last, want := range map[int]int{1 << 20: 3, 1<<20 + 1: 2} {
		sizes := []int{4 << 20, 3 << 20, last}
		box := tools{"draw": does(func(_ context.Context, args json.RawMessage) (tool.Result, error) {
			var n int
			if err := json.Unmarshal(args, &n); err != nil {
				return tool.Result{}, err
			}
			return tool.Result{Text: "drawn", Files: []chat.File{{Name: "a.bin", Data: make([]byte, sizes[n])}}}, nil
		})}
		b := engine(box, &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
			if n <= len(sizes) {
				return llmtest.Calls("draw", fmt.Sprint(n-1)), nil
			}
			return llmtest.Says("there"), nil
		}})
		if d := b.answer(t, t.Context(), one(asks("1", "draw"))); len(d.Files) != want {
			t.Errorf("a last file of %d bytes: %d files are posted, want %d", last, len(d.Files), want)
		}
	}
}

// A call that cannot be stored is not made: nobody would know of it after a crash.
func TestCall_ThatCannotBeStored_IsNotMade(t *testing.T) {
	var runs atomic.Int32
	model := &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) {
		return llmtest.Calls("look", `{}`),
			nil
	}}
	b := engine(tools{"look": counting(&runs)}, model)
	b.memory.crashAfter(0, func(error) {}) // the process goes on
	_, d := b.Answer(t.Context(), one(asks("1", "go")), func(chat.Progress) {})
	if !d.Failed || runs.Load() != 0 || len(model.Requests()) != 1 {
		t.Errorf("answered %+v after %d calls and %d requests", d, runs.Load(), len(model.Requests()))
	}
}

// People see a call when it begins, what it reports, and how it ended, how long it took and with how much of its
// result; calls keep their order.
func TestCalls_AreShownWhileTheyRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := tools{
			"slow": does(func(ctx context.Context, _ json.RawMessage) (tool.Result, error) {
				tool.CallerFrom(ctx).Report("half done")
				time.Sleep(time.Minute)
				return tool.Text(strings.Repeat("x", 5000)), nil
			}),
			"quick": does(func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Failure("no"), nil }),
		}
		b := engine(box, &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
			if n == 1 {
				return llmtest.Calls("slow", `{}`, "quick", `{}`), nil
			}
			return llmtest.Says("done"), nil
		}})
		d := b.ask(t, "go")
		shown := map[string][]string{}
		for _, p := range b.shown {
			if r := p.Tool; r != nil {
				shown[r.Name] = append(shown[r.Name], fmt.Sprintf("%s %q %v %d", r.State, r.Note, r.Took, len(r.Result)))
			}
		}
		want := map[string][]string{
			"slow": {`running "" 0s 0`, `running "half done" 0s 0`,
				fmt.Sprintf(`done "" 1m0s %d`, len(conversation.Cut(strings.Repeat("x", 5000), 4<<10)))},
			"quick": {`running "" 0s 0`, `failed "" 0s 2`},
		}
		if diff := cmp.Diff(want, shown); diff != "" {
			t.Errorf("shown (-want +got):\n%s", diff)
		}
		if len(d.Tools) != 2 || d.Tools[0].State == chat.Running || d.Tools[1].State == chat.Running {
			t.Errorf("the answer has the calls %+v", d.Tools)
		}
	})
}

// A result that people have to see stands below the answer with 300 characters at most.
func TestResultsToShow_AreShort(t *testing.T) {
	b := engine(tools{"bill": tool.Func{Described: tool.Spec{ShowResult: true},
		Do: func(context.Context, json.RawMessage) (tool.Result, error) {
			return tool.Text(strings.Repeat("x", 301)), nil
		}}},
		callThen("twenty", "bill", `{}`))
	if d := b.ask(t, "go"); d.Footer != strings.Repeat("x", 299)+"…" {
		t.Errorf("the footer has %d bytes: %s", len(d.Footer), d.Footer)
	}
}

// Tools run for whoever asked; where several people are answered at once for nobody, who has the fewest rights.
func TestCaller_OfSeveralPeople_IsNobody(t *testing.T) {
	for other, want := range map[string]chat.User{"U1": {ID: "U1"}, "U2": {Name: "several people"}} {
		b := engine(tools{"look": reads("memory", true, "seen")}, callThen("done", "look", `{}`))
		var got chat.User
		b.options.Calls = b.calls(func(c tool.Caller, _ tool.Named) (tool.Decision, string) {
			got = c.User
			return tool.Allow, ""
		})
		b.Engine = b.over()
		first, second := asks("1", "one"), asks("2", "two")
		second.Author.ID = other
		b.answer(t, t.Context(), chat.Asked{Turn: first.Key(), Messages: []chat.Message{first, second}})
		user := "web/U1"
		if other != "U1" {
			user = ""
		}
		if !cmp.Equal(got, want) || b.memory.turns[room][0].User != user {
			t.Errorf("with a message of %s: the caller is %+v, the turn of %q", other, got, b.memory.turns[room][0].User)
		}
	}
}
