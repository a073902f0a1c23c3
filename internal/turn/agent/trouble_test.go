package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/model/offline"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
)

// tooLong refuses requests with more than a number of bytes of text.
func tooLong(maxBytes int) func(int, llm.Request) ([]llm.Chunk, error) {
	return func(_ int, r llm.Request) ([]llm.Chunk, error) {
		if size := (conversation.Turn{Messages: r.Messages}).Size(); size > maxBytes {
			return nil, &llm.Error{Kind: llm.ContextTooLong, Reason: "secret detail"}
		}
		return llmtest.Says("fine"), nil
	}
}

func TestContextTooLong_AsksOnceMoreWithTheNewerHalf(t *testing.T) {
	model := &llmtest.Model{Script: tooLong(4000)}
	b := engine(nil, model)
	for n := range 6 {
		turn := conversation.Turn{ID: fmt.Sprint("web/", n), State: conversation.Answered, Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{{Text: fmt.Sprintf("question %d", n)}}},
			{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.Call{ID: fmt.Sprint(n), Name: "look", Args: []byte(`{}`)}}}},
			{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.Result{
				ID: fmt.Sprint(n), Name: "look", Content: strings.Repeat("r", 1000),
			}}}},
			{Role: llm.Assistant, Parts: []llm.Part{{Text: fmt.Sprintf("answer %d", n)}}},
		}}
		if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
			t.Fatal(err)
		}
	}
	d := b.ask(t, "and now")
	if d.Text != "fine" || !strings.Contains(d.Footer, "only the newer part of this conversation") {
		t.Errorf("answered %q with footer %q", d.Text, d.Footer)
	}
	asked := model.Requests()
	if len(asked) != 2 {
		t.Fatalf("the model got %d requests, want one and its repetition", len(asked))
	}
	// Whole turns are left out, the oldest first.
	repeated := asked[1].Messages
	if fault := llmtest.Malformed(repeated); fault != "" {
		t.Errorf("the shorter request is malformed: %s", fault)
	}
	if first := repeated[0].Parts[0].Text; first != "question 4" && first != "question 3" {
		t.Errorf("the shorter request begins with %q, want about half of six turns", first)
	}
	if last := repeated[len(repeated)-1].Parts; last[len(last)-1].Text != "and now" {
		t.Errorf("the shorter request ends with %+v, want the question", last)
	}
}

// Where the turn itself is too long, the results of its earlier steps are shortened.
func TestContextTooLong_ResultsOfTheTurnAreShortened(t *testing.T) {
	var sizes []int
	model := &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		sizes = append(sizes, conversation.Turn{Messages: r.Messages}.Size())
		if n <= 3 {
			return llmtest.Calls("big", fmt.Sprintf(`{"n":%d}`, n)), nil
		}
		return tooLong(9000)(n, r)
	}}
	b := engine(tools{"big": does(func(context.Context, json.RawMessage) (tool.Result, error) {
		return tool.Text(strings.Repeat("r", 5000)), nil
	})}, model)
	p := b.options.Roster.Route(chat.Message{})
	p.MaxResult = 6000
	b.options.Roster.(*roster).profile = func(chat.Message) agent.Profile { return p }
	if d := b.ask(t, "go"); d.Text != "fine" || len(sizes) != 5 || sizes[4] > 9000 || sizes[4] < 5000 {
		t.Errorf("answered %q after requests of %v bytes, want the last result whole", d.Text, sizes)
	}
}

func TestContextTooLong_NothingToLeaveOut_SaysWhatToDo(t *testing.T) {
	model := &llmtest.Model{Script: tooLong(10)}
	d := engine(nil, model).ask(t, "a question of more than ten bytes")
	want := "Send less at once, or start a new conversation"
	if !d.Failed || !strings.Contains(d.Text, want) || strings.Contains(d.Text, "secret") {
		t.Errorf("answered %q", d.Text)
	}
	if n := len(model.Requests()); n != 1 {
		t.Errorf("the model got %d requests for one that cannot be shortened", n)
	}
}

func TestAnswerEmptyAtItsLimit_IsSaidAndNotPaidAgain(t *testing.T) {
	for name, chunks := range map[string][]llm.Chunk{
		"nothing":  {{Finish: llm.FinishLength}},
		"thoughts": {{Parts: []llm.Part{{Text: "hm, hm", Thought: true}}}, {Finish: llm.FinishLength}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := &llmtest.Model{Name: "m", Script: func(int, llm.Request) ([]llm.Chunk, error) { return chunks, nil }}
				d := engine(nil, model).ask(t, "go")
				want := "raise models.test/m.maxOutputTokens. Ask for less at once"
				if !d.Failed || !strings.Contains(d.Text, want) {
					t.Errorf("answered %q, want the reason and what to do", d.Text)
				}
				if n := len(model.Requests()); n != 1 {
					t.Errorf("the model got %d requests, want one", n)
				}
			})
		})
	}
}

func TestOversizedAnswer_IsShownWithANote(t *testing.T) {
	model := &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) {
		return []llm.Chunk{{Parts: []llm.Part{{Text: "so far"}}, Finish: llm.FinishOversize}}, nil
	}}
	if d := engine(nil, model).ask(t, "go"); d.Text != "so far" || d.Footer != "cut because it was longer than I read" {
		t.Errorf("answered %q with footer %q", d.Text, d.Footer)
	}
}

func TestFailure_TellsWhenToTryAgain(t *testing.T) {
	for _, c := range []struct {
		fault *llm.Error
		want  string
	}{
		{&llm.Error{Kind: llm.RateLimited, RetryAfter: time.Second}, "try again in about a minute ("},
		{&llm.Error{Kind: llm.RateLimited}, "try again in about a minute ("},
		{&llm.Error{Kind: llm.Unavailable, RetryAfter: 61 * time.Second}, "try again in about 2 minutes ("},
		{&llm.Error{Kind: llm.TimedOut, Reason: "secret detail"}, "not answer in time; please try again in about a minute ("},
		{&llm.Error{Kind: llm.RateLimited, RetryAfter: 59 * time.Minute}, "try again in about 59 minutes ("},
		{&llm.Error{Kind: llm.RateLimited, RetryAfter: time.Hour}, "try again in about an hour ("},
		{&llm.Error{Kind: llm.RateLimited, RetryAfter: 61 * time.Minute}, "try again in about 2 hours ("},
		{&llm.Error{Kind: llm.Unavailable, CircuitOpen: true, RetryAfter: 90 * time.Second}, "again in about 2 minutes ("},
	} {
		synctest.Test(t, func(t *testing.T) {
			model := &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) { return nil, c.fault }}
			if d := engine(nil, model).ask(t, "go"); !strings.Contains(d.Text, c.want) || strings.Contains(d.Text, "secret") {
				t.Errorf("%v: answered %q, want %q in it", c.fault, d.Text, c.want)
			}
		})
	}
}

func sayHere(int, llm.Request) ([]llm.Chunk, error) { return llmtest.Says("here"), nil }

// A model that is not asked costs its fallback no pause, and no line of the log for each message.
func TestCircuitOpen_FallbackAnswersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := &llmtest.Model{Name: "down", Script: func(int, llm.Request) ([]llm.Chunk, error) {
			return nil, &llm.Error{Kind: llm.Unavailable, CircuitOpen: true, RetryAfter: time.Minute, Err: errors.New("503")}
		}}
		spare := &llmtest.Model{Name: "spare", Script: sayHere}
		b := engine(nil, down, spare)
		began := time.Now()
		d := b.ask(t, "go")
		note := "answered by test/spare because the model before it is not answering"
		if d.Text != "here" || d.Footer != note || time.Since(began) != 0 {
			t.Errorf("answered %q, %q after %v", d.Text, d.Footer, time.Since(began))
		}
		if len(down.Requests()) != 1 || strings.Contains(b.log.String(), "level=WARN") {
			t.Errorf("after %d requests the log says\n%s", len(down.Requests()), b.log)
		}
	})
}

// A long pause that the provider asks for is waited for only where nobody else can answer.
func TestRateLimit_LongPause_FallbackAnswersAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		pause    time.Duration
		fallback llm.Model
		want     string
		after    time.Duration
	}{
		"fallback":                         {40 * time.Second, &llmtest.Model{Name: "spare", Script: sayHere}, "here", 0},
		"fallback that cannot answer this": {40 * time.Second, offline.Model{}, "first", 40 * time.Second},
		"fallback that is not asked now":   {40 * time.Second, &refusing{}, "first", 40 * time.Second},
		"fallback that is switched off":    {40 * time.Second, nil, "first", 40 * time.Second},
		"pause that is not long": {
			10 * time.Second, &llmtest.Model{Name: "spare", Script: sayHere}, "first", 10 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limited := &llmtest.Model{Name: "limited", Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
					if n == 1 {
						return nil, &llm.Error{Kind: llm.RateLimited, RetryAfter: c.pause}
					}
					return llmtest.Says("first"), nil
				}}
				b := engine(nil, limited)
				if c.fallback != nil {
					b = engine(nil, limited, c.fallback)
				} else {
					inProfile(b, func(p *agent.Profile) { p.Models = append(p.Models, "off") })
				}
				began := time.Now()
				d := b.ask(t, "go")
				if took := time.Since(began); d.Text != c.want || took != c.after {
					t.Errorf("answered %q after %v, want %q after %v", d.Text, took, c.want, c.after)
				}
			})
		})
	}
}

// refusing is a model with an open circuit.
type refusing struct{ llmtest.Model }

func (*refusing) CanAnswer(llm.Request) bool { return false }

// The limit of a request is the model's failure, and another model is asked.
func TestWholeTimeout_FallbackAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spare := &llmtest.Model{Name: "spare", Script: sayHere}
		began := time.Now()
		d := engine(nil, hanging{}, spare).ask(t, "go")
		if d.Text != "here" || time.Since(began) != 2*time.Minute {
			t.Errorf("answered %q after %v, want the fallback after 2m", d.Text, time.Since(began))
		}
	})
}

// hanging is a model that never answers.
type hanging struct{}

func (hanging) ID() string { return "test/hanging" }

func (hanging) Generate(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		<-ctx.Done()
		yield(llm.Chunk{}, ctx.Err())
	}
}

func TestCutAnswer_ItsUnfinishedCallIsNotRun(t *testing.T) {
	call := func(args string) llm.Part {
		return llm.Part{Call: &llm.Call{Name: "pay", Args: json.RawMessage(args)}}
	}
	for name, c := range map[string]struct {
		parts []llm.Part
		paid  []string
		asks  string // what the model is told of the last call
	}{
		"the call is last": {
			[]llm.Part{{Text: "paying"}, call(`{"to":"ann"}`), call(`{}`)}, []string{`{"to":"ann"}`}, "arguments may be missing",
		},
		"text was cut behind the call": {
			[]llm.Part{call(`{"to":"ann"}`), {Text: "and th"}}, []string{`{"to":"ann"}`}, "paid",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var paid []string
			box := tools{"pay": does(func(_ context.Context, args json.RawMessage) (tool.Result, error) {
				paid = append(paid, string(args))
				return tool.Text("paid"), nil
			})}
			var told string
			model := &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
				if n == 1 {
					return []llm.Chunk{{Parts: c.parts, Finish: llm.FinishLength}}, nil
				}
				for _, res := range lastResults(r) {
					if res.ID == lastCall(r).ID {
						told = res.Content
					}
				}
				return llmtest.Says("done"), nil
			}}
			d := engine(box, model).ask(t, "go")
			if !slices.Equal(paid, c.paid) || !strings.Contains(told, c.asks) {
				t.Errorf("ran %v and told the model %q, want %v and %q", paid, told, c.paid, c.asks)
			}
			if d.Text != "done" || strings.Contains(d.Footer, "cut") {
				t.Errorf("answered %q with footer %q, want no word of the earlier cut", d.Text, d.Footer)
			}
		})
	}
}

// lastCall returns the last call that the conversation has.
func lastCall(r llm.Request) llm.Call {
	var last llm.Call
	for _, m := range r.Messages {
		if calls := m.Calls(); len(calls) > 0 {
			last = calls[len(calls)-1]
		}
	}
	return last
}
