package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/agent"
)

// What another process has changed in the store is read again by whoever is told of it, and by nobody else: reading
// all conversations again would cost a read of each.
func TestHistory_ChangedByAnotherProcess_IsReadAgain(t *testing.T) {
	other := chat.Address{Platform: "web", Channel: "other"}
	for name, c := range map[string]struct {
		tell            func(*agent.Engine)
		general, others bool // whether the change is seen
	}{
		"nobody is told": {func(*agent.Engine) {}, false, false},
		"a conversation": {func(e *agent.Engine) { e.Forget(room) }, true, false},
		"a channel":      {func(e *agent.Engine) { e.ForgetChannel(room) }, true, false},
		"all": {func(e *agent.Engine) {
			if err := e.Reload(t.Context()); err != nil {
				t.Error(err)
			}
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			model := recorder()
			b := engine(nil, model)
			ask := func(in chat.Address, id string) string {
				m := asks(id, "and?")
				m.Conversation = in
				turn, _ := b.Answer(t.Context(), one(m), func(chat.Progress) {})
				if err := b.memory.SaveTurn(t.Context(), in, turn); err != nil {
					t.Fatal(err)
				}
				requests := model.Requests()
				return wholeText(requests[len(requests)-1])
			}
			for n, in := range []chat.Address{room, other} {
				ask(in, fmt.Sprint("first", n))
				turn := conversation.Turn{ID: fmt.Sprint("web/theirs", n), State: conversation.Answered}
				turn.Messages = append(turn.Messages, says(llm.User, "said elsewhere"), says(llm.Assistant, "noted"))
				if err := b.memory.SaveTurn(t.Context(), in, &turn); err != nil {
					t.Fatal(err)
				}
			}
			c.tell(b.Engine)
			for n, in := range []chat.Address{room, other} {
				want := []bool{c.general, c.others}[n]
				if got := strings.Contains(ask(in, fmt.Sprint("second", n)), "said elsewhere"); got != want {
					t.Errorf("the change in %s is seen: %v, want %v", in, got, want)
				}
			}
		})
	}
}

// erasing is a store that deletes conversations.
type erasing struct{ *memory }

func (e erasing) DeleteConversation(_ context.Context, a chat.Address) error {
	delete(e.turns, a)
	return nil
}

// What is to be forgotten is in no later request, although the history was in memory.
func TestForget_NextQuestion_KnowsNothingOfIt(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	b.options.Store = erasing{b.memory}
	b.Engine = agent.New(b.options)
	b.answer(t, t.Context(), one(asks("1", "the key is 4711")))
	m := asks("2", "")
	m.Command, m.Author.Admin = "forget", true
	if d, err := (agent.Control{Engine: b.Engine}).Handle(t.Context(), m); err != nil || d.Failed {
		t.Fatalf("answered %+v, %v", d, err)
	}
	b.answer(t, t.Context(), one(asks("3", "which key?")))
	if words := wholeText(model.Requests()[1]); strings.Contains(words, "4711") {
		t.Errorf("the model is told what was to be forgotten:\n%s", words)
	}
}

// lookups counts how often each turn is looked for in the store.
type lookups struct {
	*memory
	of map[string]int
}

func (l lookups) TurnOf(ctx context.Context, subject string) (chat.Address, conversation.Turn, error) {
	l.of[subject]++
	return l.memory.TurnOf(ctx, subject)
}

// The cost of a question must not grow with the conversation: a turn that was found in the store is looked for no more.
func TestHistory_TurnIsStored_IsConfirmedOnce(t *testing.T) {
	b := engine(nil, recorder())
	counted := lookups{b.memory, map[string]int{}}
	b.options.Store = counted
	b.Engine = agent.New(b.options)
	for n := range 5 {
		b.answer(t, t.Context(), one(asks(fmt.Sprint(n), "and?")))
	}
	for n := range 4 {
		// As its own question, and for the question behind it.
		if key := fmt.Sprint("web/", n); counted.of[key] != 2 {
			t.Errorf("turn %s was looked for %d times, want 2", key, counted.of[key])
		}
	}
}

// A conversation that outgrows its window by results of tools alone needs no summary: the older ones are cut.
func TestHistory_OldResultsFillTheWindow_AreCut(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	for n, size := range []int{5000, 100, 100, 100, 100} {
		id := fmt.Sprint("c", n)
		turn := conversation.Turn{ID: fmt.Sprint("web/", n), State: conversation.Answered, Messages: []llm.Message{
			says(llm.User, "look"),
			{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.Call{ID: id, Name: "look", Args: []byte(`{}`)}}}},
			{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.Result{ID: id, Content: strings.Repeat("r", size)}}}},
			says(llm.Assistant, "seen"),
		}}
		if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
			t.Fatal(err)
		}
	}
	inProfile(b, func(p *agent.Profile) { p.Window = conversation.Window{MaxTurns: 10, MaxBytes: 5600} })
	for n, isCut := range []bool{false, false, false, true} {
		b.answer(t, t.Context(), one(asks(fmt.Sprint("q", n), strings.Repeat("w", 60))))
		first := model.Requests()[n].Messages[2].Parts[0].Result.Content
		if got := len(first) < 5000; got != isCut {
			t.Errorf("at question %d the first result has %d bytes", n, len(first))
		}
	}
}

// Reading one conversation again and again drops none of the others from the cache.
func TestHistory_ForgottenOften_OthersStay(t *testing.T) {
	b := engine(nil, recorder())
	reads := 0
	other := chat.Address{Platform: "web", Channel: "other"}
	b.options.Store = readCounter{b.memory, other, &reads}
	b.Engine = agent.New(b.options)
	ask := func(in chat.Address, id string) {
		m := asks(id, "and?")
		m.Conversation = in
		turn, _ := b.Answer(t.Context(), one(m), func(chat.Progress) {})
		if err := b.memory.SaveTurn(t.Context(), in, turn); err != nil {
			t.Fatal(err)
		}
	}
	ask(other, "first")
	for n := range 300 {
		b.Forget(room)
		ask(room, fmt.Sprint(n))
	}
	if ask(other, "second"); reads != 1 {
		t.Errorf("the other conversation was read %d times, want once", reads)
	}
}

// readCounter counts how often the turns of a conversation are read.
type readCounter struct {
	*memory
	of    chat.Address
	reads *int
}

func (c readCounter) Turns(ctx context.Context, a chat.Address, r store.Range) ([]conversation.Turn, error) {
	if a == c.of {
		*c.reads++
	}
	return c.memory.Turns(ctx, a, r)
}
