package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
)

// fakeBudget is a budget that notes what is reserved and counted, and refuses models by name.
type fakeBudget struct {
	refused  string
	reserved []store.Usage
	counted  []llm.Usage
}

func (p *fakeBudget) Reserve(_ context.Context, on store.Usage, _ llm.Request) (func(llm.Usage), error) {
	if on.Model == p.refused {
		return nil, &llm.Error{Kind: llm.Capped, Reason: "The budget of today is used up."}
	}
	p.reserved = append(p.reserved, on)
	return func(u llm.Usage) { p.counted = append(p.counted, u) }, nil
}

// broken answers a part and breaks off, and the second time answers whole; both cost tokens.
func broken(n int, _ llm.Request) ([]llm.Chunk, error) {
	if n == 1 {
		return []llm.Chunk{{Parts: []llm.Part{{Text: "he"}}, Usage: &llm.Usage{Input: 3, Output: 1}}},
			&llm.Error{Kind: llm.Unavailable, Reason: "reset"}
	}
	return llmtest.Says("here"), nil
}

// Every request is reserved for whoever asked, and counted with what it used, also where the answer broke off.
func TestBudget_CountsEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := engine(nil, &llmtest.Model{Name: "m", Script: broken})
		p := &fakeBudget{}
		b.options.Budget = p
		b.Engine = b.over()
		if d := b.answer(t, t.Context(), one(asks("1", "hello"))); d.Text != "here" || d.Footer != "" {
			t.Errorf("answered %q, %q", d.Text, d.Footer)
		}
		on := store.Usage{Model: "test/m", Channel: room, User: "web/U1"}
		if diff := cmp.Diff([]store.Usage{on, on}, p.reserved); diff != "" {
			t.Errorf("reserved (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]llm.Usage{{Input: 3, Output: 1}, {Input: 10, Output: 5}}, p.counted); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
		turn := b.memory.turns[room][0]
		if want := (llm.Usage{Input: 13, Output: 6}); turn.Usage != want || turn.Model != "test/m" ||
			turn.User != "web/U1" {
			t.Errorf("the turn of %s with %s used %+v, want %+v", turn.User, turn.Model, turn.Usage, want)
		}
	})
}

// A model whose budget is used up is not asked; its fallback answers, and says why.
func TestBudget_UsedUp_FallbackAnswers(t *testing.T) {
	dear, cheap := &llmtest.Model{Name: "dear", Script: sayHere}, &llmtest.Model{Name: "cheap", Script: sayHere}
	b := engine(nil, dear, cheap)
	b.options.Budget = &fakeBudget{refused: "test/dear"}
	b.Engine = b.over()
	d := b.answer(t, t.Context(), one(asks("1", "hello")))
	if d.Text != "here" || d.Footer != "answered by test/cheap because today's budget is used up" ||
		len(dear.Requests()) != 0 {
		t.Errorf("answered %q, %q after %d requests", d.Text, d.Footer, len(dear.Requests()))
	}
	b = engine(nil, dear)
	b.options.Budget = &fakeBudget{refused: "test/dear"}
	b.Engine = b.over()
	if d := b.answer(t, t.Context(), one(asks("1", "hello"))); !d.Failed || d.Text != "The budget of today is used up." {
		t.Errorf("without a fallback: answered %q", d.Text)
	}
}

// What a model used before it failed has its own price, not that of the model that answered.
func TestFallback_EachModelIsCountedForWhatItUsed(t *testing.T) {
	first, second := &llmtest.Model{Name: "dear", Script: brokenAndDenied}, &llmtest.Model{Name: "cheap", Script: sayHere}
	synctest.Test(t, func(t *testing.T) {
		var used []store.Usage
		b := engine(nil, first, second)
		b.options.Store = uncounted{b.memory, nil, &used}
		b.Engine = agent.New(b.options)
		b.answer(t, t.Context(), one(asks("1", "hello")))
		want := []store.Usage{{Model: "test/dear", Channel: room, User: "web/U1", Tokens: llm.Usage{Input: 3, Output: 1}}}
		if diff := cmp.Diff(want, used); diff != "" {
			t.Errorf("counted at once (-want +got):\n%s", diff)
		}
		turn := b.memory.turns[room][0]
		if turn.Model != "test/cheap" || turn.Usage.Sub(turn.Counted) != (llm.Usage{Input: 10, Output: 5}) {
			t.Errorf("left to count: %+v of %+v for %s", turn.Counted, turn.Usage, turn.Model)
		}
	})
}

// What a model has shown of an answer that it could not end must not stand before that of the next model.
func TestFallback_AfterHalfAnAnswer_BeginsAgainForTheReader(t *testing.T) {
	half := func(int, llm.Request) ([]llm.Chunk, error) {
		return []llm.Chunk{{Parts: []llm.Part{{Text: "he"}}}}, &llm.Error{Kind: llm.Exhausted}
	}
	first, second := &llmtest.Model{Name: "dear", Script: half}, &llmtest.Model{Name: "cheap", Script: sayHere}
	synctest.Test(t, func(t *testing.T) {
		b := engine(nil, first, second)
		seen := ""
		b.Answer(t.Context(), one(asks("1", "hello")), func(p chat.Progress) {
			if p.Reset {
				seen = ""
			}
			seen += p.Text
		})
		if seen != "here" {
			t.Errorf("the reader sees %q, want the second model's words alone", seen)
		}
	})
}

// A turn that has used the tokens that it may use answers with what it has.
func TestMaxTokens_UsedUp_TheModelAnswers(t *testing.T) {
	for limit, want := range map[int]int{0: 4, 30: 3, 31: 4} { // requests, of 15 tokens each
		model := &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
			if n > 3 || len(r.Tools) == 0 {
				return llmtest.Says("here"), nil
			}
			used := llm.Chunk{Usage: &llm.Usage{Input: 10, Output: 5}}
			return append([]llm.Chunk{used}, llmtest.Calls("look", `{"n":`+strings.Repeat("1", n)+`}`)...), nil
		}}
		b := engine(tools{"look": reads("memory", true, "seen")}, model)
		inProfile(b, func(p *agent.Profile) { p.MaxTokens = limit })
		d := b.answer(t, t.Context(), one(asks("1", "go")))
		if n := len(model.Requests()); n != want || d.Text != "here" || strings.Contains(d.Footer,
			"stopped after 30 tokens") != (n == 3) {
			t.Errorf("with %d tokens: answered %q, %q after %d requests, want %d", limit, d.Text, d.Footer, n, want)
		}
	}
}

// Conversations that failed together do not ask again together: the pause is up to a tenth longer than asked for, and
// no longer than the time that is left.
func TestRetry_PauseHasJitterAndFitsTheTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		asked  time.Duration
		pauses []time.Duration
	}{
		"first waits": {0, []time.Duration{0, 1050 * time.Millisecond, 3150 * time.Millisecond,
			7350 * time.Millisecond}},
		"as long as asked":  {40 * time.Second, []time.Duration{0, 42 * time.Second, 84 * time.Second}},
		"until the timeout": {80 * time.Second, []time.Duration{0, 84 * time.Second}},
		"too long":          {116 * time.Second, []time.Duration{0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var at []time.Duration
			b := engine(nil, &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) {
				at = append(at, time.Since(began))
				return nil, &llm.Error{Kind: llm.RateLimited, RetryAfter: c.asked}
			}})
			b.options.Jitter = func() float64 { return 0.5 }
			b.Engine = b.over()
			b.ask(t, "hello")
			if diff := cmp.Diff(c.pauses, at); diff != "" {
				t.Errorf("%s: asked after (-want +got):\n%s", name, diff)
			}
			for _, p := range b.shown {
				if c.asked == 40*time.Second && p.Note != "The model asks for a pause of 42s." {
					t.Errorf("people were told %q", p.Note)
				}
			}
		})
	}
}

// A model that is not switched on is passed over without a word, and one that answers only what it understands is asked
// where it comes first.
func TestChain_ModelsThatAreNotThere_ArePassedOver(t *testing.T) {
	model := narrow{&llmtest.Model{Name: "m", Script: sayHere}}
	b := engine(nil, model)
	inProfile(b, func(p *agent.Profile) { p.Models = []string{"test/off", "test/m"} })
	if d := b.ask(t, "hello"); d.Text != "here" || d.Footer != "" {
		t.Errorf("answered %q, %q", d.Text, d.Footer)
	}
	if got := b.Describe(asks("1", "")); got != "I answer with the agent `default` (test/m)" {
		t.Errorf("described as %q", got)
	}
}

// A stop while a pause is waited for ends it.
func TestRetry_StopEndsThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		b := engine(nil, &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) {
			time.AfterFunc(10*time.Second, func() { stop(chat.ErrStopped) })
			return nil, &llm.Error{Kind: llm.RateLimited, RetryAfter: time.Minute}
		}})
		began := time.Now()
		d := b.answer(t, ctx, one(asks("1", "hello")))
		if took := time.Since(began); took != 10*time.Second || d.Text != "Stopped." {
			t.Errorf("answered %q after %v", d.Text, took)
		}
	})
}

// uncounted is a store that notes the usage outside of turns, and may fail to.
type uncounted struct {
	*memory
	err  error
	used *[]store.Usage
}

func (u uncounted) CountUsage(ctx context.Context, on store.Usage) error {
	if ctx.Err() == nil {
		*u.used = append(*u.used, on)
	}
	return u.err
}

// What is asked outside of conversations counts for its channel and user, also where it fails, and where nobody waits
// for the answer any more. That it could not be counted is logged and hurts nobody.
func TestComplete_CountsWhatItUsed(t *testing.T) {
	for name, c := range map[string]struct {
		script  func(int, llm.Request) ([]llm.Chunk, error)
		store   error
		used    llm.Usage
		isError bool
	}{
		"an answer":             {script: sayHere, used: llm.Usage{Input: 10, Output: 5}},
		"counted by nobody":     {script: sayHere, used: llm.Usage{Input: 10, Output: 5}, store: errors.New("no space")},
		"refused":               {script: denied, isError: true},
		"broke off and refused": {script: brokenAndDenied, used: llm.Usage{Input: 3, Output: 1}, isError: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var used []store.Usage
			b := engine(nil, &llmtest.Model{Name: "m", Script: c.script})
			b.options.Store = uncounted{b.memory, c.store, &used}
			b.Engine = agent.New(b.options)
			on := store.Usage{Channel: room, User: "web/U1"}
			done, err := b.CompleteRequest(t.Context(), on, []string{"test/m"}, llm.Request{})
			if (err != nil) != c.isError || done.Usage != c.used {
				t.Errorf("%s: %+v, %v", name, done, err)
			}
			if err == nil && (done.Text != "here" || done.Model != "test/m" || done.Served != "test/m" ||
				done.Finish != llm.FinishStop) {
				t.Errorf("%s: %+v", name, done)
			}
			if c.used == (llm.Usage{}) {
				if len(used) != 0 {
					t.Errorf("%s: counted %+v", name, used)
				}
			} else if len(used) != 1 || used[0].Tokens != c.used || used[0].Channel != room || used[0].User != "web/U1" {
				t.Errorf("%s: counted %+v", name, used)
			}
			if logged := strings.Contains(b.log.String(), "failed to count usage"); logged != (c.store != nil) {
				t.Errorf("%s: logged as not counted: %v", name, logged)
			}
		})
	}
}

// brokenAndDenied breaks off once, and is denied then.
func brokenAndDenied(n int, r llm.Request) ([]llm.Chunk, error) {
	if n == 1 {
		return broken(n, r)
	}
	return denied(n, r)
}

// Tokens are counted even where the caller has gone meanwhile.
func TestComplete_CallerGone_StillCounts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var used []store.Usage
	b := engine(nil, &llmtest.Model{Name: "m", Script: func(int, llm.Request) ([]llm.Chunk, error) {
		cancel()
		return llmtest.Says("here"), nil
	}})
	b.options.Store = uncounted{b.memory, nil, &used}
	b.Engine = agent.New(b.options)
	if _, err := b.CompleteRequest(ctx, store.Usage{Channel: room}, []string{"test/m"}, llm.Request{}); err != nil ||
		len(used) != 1 {
		t.Errorf("%v, counted %+v", err, used)
	}
}
