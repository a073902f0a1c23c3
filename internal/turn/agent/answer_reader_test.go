package agent_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/testing/llmtest"
)

// People see the words of an answer as they come, and nothing of what the model thinks.
func TestAnswer_WhileItComes_ShowsItsWords(t *testing.T) {
	b := engine(nil, &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) {
		return append([]llm.Chunk{
			{Parts: []llm.Part{{Text: "hm, hm", Thought: true}}},
			{Parts: []llm.Part{{Raw: json.RawMessage(`{"signature":1}`)}}},
			{Parts: []llm.Part{{Text: "It is "}}},
		}, llmtest.Says("a raven.")...), nil
	}})
	b.ask(t, "what is it?")
	var words []string
	for _, p := range b.shown {
		words = append(words, p.Text)
	}
	if got := strings.Join(words, "|"); got != "It is |a raven." {
		t.Errorf("shown %q, want the words as they came", got)
	}
}

// breaking is a model whose first answer breaks off, and whose second one lasts until the request ends.
type breaking struct {
	asked   *int
	writing func()
}

func (breaking) ID() string { return "test/breaking" }

func (m breaking) Generate(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if *m.asked++; *m.asked == 1 {
			yield(llm.Chunk{Parts: []llm.Part{{Text: "half of it"}}}, nil)
			yield(llm.Chunk{}, &llm.Error{Kind: llm.Unavailable})
			return
		}
		yield(llm.Chunk{Parts: []llm.Part{{Text: "once more"}}}, nil)
		m.writing()
		<-ctx.Done()
		yield(llm.Chunk{}, ctx.Err())
	}
}

// What stays of an answer that somebody stops are the words of the last attempt.
func TestStop_SecondAttempt_KeepsItsWordsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		asked := 0
		b := engine(nil, breaking{&asked, func() { stop(chat.ErrStopped) }})
		d := b.answer(t, ctx, one(asks("1", "go")))
		if want := "once more\n\n*(stopped)*"; d == nil || d.Text != want {
			t.Errorf("answered %+v, want %q", d, want)
		}
	})
}

// A call that is all of a cut answer lacks arguments as well.
func TestCutAnswer_OfACallAlone_IsNotRun(t *testing.T) {
	ran := 0
	box := tools{"pay": does(func(context.Context, json.RawMessage) (tool.Result, error) {
		ran++
		return tool.Text("paid"), nil
	})}
	b := engine(box, &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
		if n == 1 {
			return []llm.Chunk{{Parts: []llm.Part{{Call: &llm.Call{Name: "pay", Args: json.RawMessage(`{}`)}}},
				Finish: llm.FinishLength}}, nil
		}
		return llmtest.Says("done"), nil
	}})
	if b.ask(t, "pay"); ran != 0 {
		t.Errorf("a cut call was made %d times", ran)
	}
}
