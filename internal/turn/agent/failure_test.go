package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
)

// failingStore is a store in which one thing fails.
type failingStore struct {
	*memory
	failing string
}

func (s failingStore) fail(what string) error {
	if s.failing == what {
		return errUnreadable
	}
	return nil
}

func (s failingStore) TurnOf(ctx context.Context, subject string) (chat.Address, conversation.Turn, error) {
	if err := s.fail("turn"); err != nil {
		return chat.Address{}, conversation.Turn{}, err
	}
	a, t, err := s.memory.TurnOf(ctx, subject)
	if errors.Is(err, store.ErrNotFound) && strings.HasPrefix(subject, "web/") {
		a = room // as the store remembers of each message
	}
	return a, t, err
}

func (s failingStore) TurnsQuoting(ctx context.Context, subject string) ([]store.TurnRef, error) {
	if err := s.fail("quotes"); err != nil {
		return nil, err
	}
	return s.memory.TurnsQuoting(ctx, subject)
}

func (s failingStore) DeleteTurn(ctx context.Context, a chat.Address, seq uint64) error {
	if err := s.fail("delete"); err != nil {
		return err
	}
	return s.memory.DeleteTurn(ctx, a, seq)
}

func (s failingStore) Turns(ctx context.Context, a chat.Address, r store.Range) ([]conversation.Turn, error) {
	if err := s.fail("turns"); err != nil {
		return nil, err
	}
	return s.memory.Turns(ctx, a, r)
}

func (s failingStore) Summary(ctx context.Context, a chat.Address) (conversation.Summary, error) {
	if err := s.fail("summary"); err != nil {
		return conversation.Summary{}, err
	}
	return s.memory.Summary(ctx, a)
}

func (s failingStore) SaveSummary(ctx context.Context, a chat.Address, summary conversation.Summary) error {
	if err := s.fail("save summary"); err != nil {
		return err
	}
	return s.memory.SaveSummary(ctx, a, summary)
}

func (s failingStore) SaveFeedback(ctx context.Context, f store.Feedback) error {
	if err := s.fail("feedback"); err != nil {
		return err
	}
	return s.memory.SaveFeedback(ctx, f)
}

// fails returns an engine over the same conversations, in whose store one thing fails.
func (b *bench) fails(what string) *agent.Engine {
	o := b.options
	o.Store = failingStore{b.memory, what}
	return agent.New(o)
}

// Whoever deletes a message must not be told that it is gone while a part of it is left: delivery tries a removal
// that returned an error again.
func TestPurge_StoreFails_IsAnError(t *testing.T) {
	for _, what := range []string{"turn", "quotes", "delete", "turns", "summary", "save summary"} {
		t.Run(what, func(t *testing.T) {
			b := engine(nil, &llmtest.Model{Script: denied})
			b.store(t, [2]string{"The key is 4711.", "noted"}, [2]string{"The lock is 12.", "noted"})
			b.memory.sums[room] = conversation.Summary{Upto: 2, From: 1, Text: "4711 and 12"}
			if err := b.fails(what).Purge(t.Context(), "web/The key is 4711."); !errors.Is(err, errUnreadable) {
				t.Errorf("the removal returned %v", err)
			}
			if err := b.fails("nothing").Purge(t.Context(), "web/The key is 4711."); err != nil {
				t.Fatal(err)
			}
			if s := b.memory.sums[room]; strings.Contains(s.Text, "4711") || !strings.Contains(s.Text, "12") {
				t.Errorf("after the second attempt the summary is %+v", s)
			}
		})
	}
}

func TestForgetExpired_StoreFails_NamesTheConversation(t *testing.T) {
	b := engine(nil, recorder())
	err := b.fails("summary").ForgetExpired(t.Context(), []chat.Address{room})
	if !errors.Is(err, errUnreadable) || !strings.Contains(err.Error(), room.String()) {
		t.Errorf("returned %v", err)
	}
}

// A store that fails leads to a plain sentence, and never to an answer that ignores what is stored.
func TestAnswer_TurnUnreadable_IsAPlainError(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	m := asks("1", "hello")
	turn, d := b.fails("turn").Answer(t.Context(), one(m), func(chat.Progress) {})
	if turn != nil || d == nil || !d.Failed || strings.Contains(d.Text, "disk") || len(model.Requests()) != 0 {
		t.Errorf("answered %+v with %d requests", d, len(model.Requests()))
	}
	// The reference in the sentence finds the cause in the log.
	_, ref, _ := strings.Cut(d.Text, "(reference ")
	if ref, _, _ = strings.Cut(ref, ")"); ref == "" || !strings.Contains(b.log.String(), "reference="+ref) ||
		!strings.Contains(b.log.String(), errUnreadable.Error()) {
		t.Errorf("the reference %q is not in the log: %s", ref, b.log)
	}
}

// An edit of a message that a summary covers is stored before it is answered: the old words must be gone from the
// summary even if no answer comes.
func TestAnswer_EditUnderASummary_StoreFails_IsAnError(t *testing.T) {
	for _, what := range []string{"turns", "save summary"} {
		model := recorder()
		b := engine(nil, model)
		b.store(t, [2]string{"first", "one"}, [2]string{"second", "two"})
		b.memory.sums[room] = conversation.Summary{Upto: 2, From: 1, Text: "first and second"}
		e := b.fails(what)
		if _, d := e.Answer(t.Context(), edit("first", "other"), func(chat.Progress) {}); d == nil || !d.Failed {
			t.Errorf("%s: answered %+v", what, d)
		}
		if n := len(model.Requests()); n != 0 {
			t.Errorf("%s: the model was asked %d times", what, n)
		}
	}
}

// A prompt that a filter blocked would block every later request as well: it is not in the history, and no other
// model is used to get around the filter.
func TestBlockedPrompt_LeavesTheHistory(t *testing.T) {
	model := &llmtest.Model{Name: "first", Script: func(_ int, r llm.Request) ([]llm.Chunk, error) {
		if strings.Contains(wholeText(r), "forbidden") {
			return nil, &llm.Error{Kind: llm.Blocked, Reason: "violence"}
		}
		return llmtest.Says("fine"), nil
	}}
	second := recorder()
	b := engine(nil, model, second)
	d := b.answer(t, t.Context(), one(asks("1", "forbidden words")))
	if !d.Failed || !strings.Contains(d.Text, "violence") {
		t.Errorf("answered %+v", d)
	}
	if turn := b.memory.turns[room][0]; len(turn.Messages) != 0 || turn.State != conversation.Failed {
		t.Errorf("stored %+v", turn)
	}
	if d := b.answer(t, t.Context(), one(asks("2", "harmless words"))); d.Text != "fine" {
		t.Errorf("the next question is answered %+v", d)
	}
	if n := len(second.Requests()); n != 0 {
		t.Errorf("another model was asked %d times", n)
	}
}

// A model that fails is asked four times, after 1, 2 and 4 seconds, and then the next one.
func TestModelFails_IsAskedFourTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		down := &llmtest.Model{Name: "down", Script: func(int, llm.Request) ([]llm.Chunk, error) {
			at = append(at, time.Since(began))
			return nil, &llm.Error{Kind: llm.Unavailable, Reason: "502"}
		}}
		up := &llmtest.Model{Name: "up", Script: sayHere}
		b := engine(nil, down, up)
		d := b.ask(t, "hello")
		want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}
		if len(at) != len(want) {
			t.Fatalf("asked at %v, want at %v", at, want)
		}
		for i := range want {
			if at[i] != want[i] {
				t.Errorf("asked at %v, want at %v", at, want)
				break
			}
		}
		if d.Text != "here" || d.Footer != "answered by test/up because the model before it failed" {
			t.Errorf("answered %q with footer %q", d.Text, d.Footer)
		}
		resets := 0
		for _, p := range b.shown {
			if p.Reset && p.Note == "The model did not answer; trying again." {
				resets++
			}
		}
		if resets != 3 {
			t.Errorf("people were told %d times that it is tried again", resets)
		}
	})
}

// When all models failed, the next question begins with the first one again.
func TestAllModelsFail_TheNextQuestionBeginsWithTheFirst(t *testing.T) {
	first := &llmtest.Model{Name: "first", Script: denied}
	second := &llmtest.Model{Name: "second", Script: denied}
	b := engine(nil, first, second)
	for n := 1; n <= 2; n++ {
		if d := b.ask(t, strings.Repeat("x", n)); !d.Failed || !strings.Contains(d.Text, "did not accept the bot's key") {
			t.Errorf("answered %+v", d)
		}
		if len(first.Requests()) != n || len(second.Requests()) != n {
			t.Errorf("after %d questions: %d and %d requests", n, len(first.Requests()), len(second.Requests()))
		}
	}
}

func TestNoModelIsSwitchedOn_SaysSo(t *testing.T) {
	b := engine(nil)
	d := b.ask(t, "hello")
	if !d.Failed || !strings.Contains(d.Text, "No language model is switched on") {
		t.Errorf("answered %+v", d)
	}
	if got := b.Describe(asks("1", "")); got != "I answer with the agent `default` (no language model is switched on)" {
		t.Errorf("described as %q", got)
	}
	if got := engine(nil, recorder()).Describe(asks("1", "")); got != "I answer with the agent `default` (test/)" {
		t.Errorf("described as %q", got)
	}
}

// How an answer ends decides whether it is taken, asked for again, or refused.
func TestAnswer_ByItsFinish(t *testing.T) {
	words := func(text string, finish llm.Finish) []llm.Chunk {
		return []llm.Chunk{{Parts: []llm.Part{{Text: text}}, ServedBy: "test/served"},
			{Finish: finish, Usage: &llm.Usage{Input: 1}}}
	}
	for name, c := range map[string]struct {
		chunks   []llm.Chunk
		text     string
		footer   string
		requests int
	}{
		"cut":                {words("half", llm.FinishLength), "half", "cut at the model's length limit", 1},
		"too large":          {words("half", llm.FinishOversize), "half", "cut because it was longer than I read", 1},
		"too large, no word": {words("", llm.FinishOversize), "it sent too much without writing a word", "", 1},
		"blocked":            {words("half", llm.FinishBlocked), "its filter withheld the answer", "", 1},
		"malformed":          {words("half", llm.FinishMalformed), "wrote a tool call that cannot be read", "", 2},
		"no finish, empty":   {words("", ""), "answer of the language model was cut off", "", 4},
		"another reason":     {words("half", llm.FinishOther), "half", "the end of the answer may be missing", 1},
		"empty":              {words("", llm.FinishStop), "gave an empty answer", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) { return c.chunks, nil }}
				b := engine(nil, model)
				d := b.ask(t, "hello")
				if !strings.Contains(d.Text, c.text) || d.Footer != c.footer || len(model.Requests()) != c.requests {
					t.Errorf("answered %q with footer %q after %d requests", d.Text, d.Footer, len(model.Requests()))
				}
				turn := b.memory.turns[room][0]
				if c.footer != "" && turn.Served != "test/served" {
					t.Errorf("served by %q", turn.Served)
				}
				if turn.Usage.Input != c.requests || turn.Model == "" {
					t.Errorf("used %+v of the model %q", turn.Usage, turn.Model)
				}
			})
		})
	}
}

func TestPurge_QuotingTurnUnreadable_IsAnError(t *testing.T) {
	b := engine(nil, recorder())
	turn := conversation.Turn{ID: "web/1", State: conversation.Answered, Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: "The key is 4711.", Subject: "other/quoted"}}},
	}}
	if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
		t.Fatal(err)
	}
	if err := b.fails("turns").Purge(t.Context(), "other/quoted"); !errors.Is(err, errUnreadable) {
		t.Errorf("the removal returned %v", err)
	}
}

// A question that a summary covers was asked before everything that stands outside of it: when it is edited, it is
// answered without what was said later.
func TestAnswer_EditUnderASummary_SeesNothingLater(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	b.store(t, [2]string{"first", "one"}, [2]string{"second secret", "two"})
	b.memory.sums[room] = conversation.Summary{Upto: 1, From: 1, Text: "in short"}
	if d := b.answer(t, t.Context(), edit("first", "other")); d == nil || d.Failed {
		t.Fatalf("answered %+v", d)
	}
	if got := wholeText(model.Requests()[0]); !strings.Contains(got, "other") || strings.Contains(got, "secret") {
		t.Errorf("the request is %s", got)
	}
}

// restartingStore is a store whose database does not answer until back is closed.
type restartingStore struct {
	*memory
	back chan struct{}
}

func (s restartingStore) err() error {
	select {
	case <-s.back:
		return nil
	default:
		return &store.SystemError{What: "the database does not answer", Passing: true}
	}
}

func (s restartingStore) Turns(ctx context.Context, a chat.Address, r store.Range) ([]conversation.Turn, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.memory.Turns(ctx, a, r)
}

func (s restartingStore) SaveTurn(
	ctx context.Context, a chat.Address, t *conversation.Turn, calls ...store.ToolCall,
) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.memory.SaveTurn(ctx, a, t, calls...)
}

// A turn waits for a database that restarts, whether it is away when the question comes or when a tool has run.
func TestAnswer_DatabaseRestarts_Waits(t *testing.T) {
	for name, awayAt := range map[string]int{"when the question comes": 0, "when the tool has run": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := restartingStore{back: make(chan struct{})}
				var runs int
				away := func() {
					s.back = make(chan struct{})
					time.AfterFunc(time.Hour, func() { close(s.back) })
				}
				b := engine(tools{"pay": does(func(context.Context, json.RawMessage) (tool.Result, error) {
					if runs++; awayAt == 1 {
						away()
					}
					return tool.Text("paid"), nil
				})}, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
					if n == 1 {
						return llmtest.Calls("pay", `{}`), nil
					}
					return llmtest.Says(r.Messages[len(r.Messages)-1].Parts[0].Result.Content), nil
				}})
				close(s.back)
				if awayAt == 0 {
					away()
				}
				s.memory = b.memory
				b.options.Store = &s
				b.Engine = agent.New(b.options)
				began := time.Now()
				if d := b.answer(t, t.Context(), one(asks("1", "pay"))); d == nil || d.Failed || !strings.Contains(d.Text, "paid") {
					t.Errorf("answered %+v", d)
				}
				if waited := time.Since(began); waited < time.Hour || runs != 1 {
					t.Errorf("answered after %v, with %d runs of the tool", waited, runs)
				}
			})
		})
	}
}

// Where nothing passes by itself, the person is told at once.
func TestAnswer_StoreIsDamaged_SaysSoAtOnce(t *testing.T) {
	b := engine(nil, &llmtest.Model{Script: denied})
	turn, d := b.fails("turns").Answer(t.Context(), one(asks("1", "hello")), func(chat.Progress) {})
	if turn != nil || d == nil || !d.Failed {
		t.Errorf("answered %+v", d)
	}
}

// Whoever reads only that the model failed asks again, and has everything done twice.
func TestAnswer_ModelFailsAfterToolsRan_SaysWhichOnesRan(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		fault  *llm.Error
		failed bool
	}{
		"nothing":     {text: ""},
		"white space": {text: " \n"},
		"down":        {fault: &llm.Error{Kind: llm.Unavailable, Provider: "test"}, failed: true},
		"refused":     {fault: &llm.Error{Kind: llm.BadRequest, Provider: "test"}, failed: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ok := does(func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text("fine"), nil })
			b := engine(tools{"ok": ok}, &llmtest.Model{Name: "m", Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
				switch {
				case n == 1:
					return llmtest.Calls("ok", `{}`), nil
				case c.fault != nil:
					return nil, c.fault
				}
				return llmtest.Says(c.text), nil
			}})
			d := b.ask(t, "do it")
			if !strings.Contains(d.Text, "I ran ok") || !strings.Contains(d.Text, "instead of asking for it again") || d.Failed != c.failed {
				t.Errorf("%s: answered %q, failed %t", name, d.Text, d.Failed)
			}
			if strings.Contains(d.Footer, "the model before it") {
				t.Errorf("%s: footer %q", name, d.Footer)
			}
		})
	}
}
