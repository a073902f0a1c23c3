package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
)

// An answered question that is answered again brings the results of its calls along, so that nothing is done twice, and
// the new answer takes the place of the old one.
func TestAnswerAgain_CallsAreNotRepeated(t *testing.T) {
	made := 0
	pay := does(func(context.Context, json.RawMessage) (tool.Result, error) {
		made++
		return tool.Text("paid"), nil
	})
	model := &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
		return [][]llm.Chunk{llmtest.Calls("pay", `{}`), llmtest.Says("first"), llmtest.Says("second")}[n-1], nil
	}}
	b := engine(tools{"pay": pay}, model)
	b.answer(t, t.Context(), one(asks("1", "pay the bill")))
	if d := b.press(t, chat.PressRetry+"web/1"); d == nil || d.Text != "second" || len(d.Tools) != 1 {
		t.Errorf("answered %+v", d)
	}
	last := last(model.Requests())
	if text := wholeText(last); strings.Contains(text, "first") {
		t.Errorf("the old answer is in the request:\n%s", text)
	}
	if results := last.Messages[len(last.Messages)-1].Parts; made != 1 || results[0].Result == nil {
		t.Errorf("the call was made %d times, the request ends with %+v", made, results)
	}
	if turn := b.memory.turns[room][0]; turn.Messages[len(turn.Messages)-1].Text() != "second" {
		t.Errorf("kept: %+v", turn.Messages)
	}
}

// Where no new answer comes the old one stays, in what is remembered as on the platform.
func TestAnswerAgain_FailsOrIsStopped_TheAnswerStays(t *testing.T) {
	for name, c := range map[string]struct {
		fails llm.Model // the second time
		stop  bool
		says  string
	}{
		"the model fails":    {&llmtest.Model{Script: fault(llm.Denied)}, false, "did not accept the bot's key"},
		"the model refuses":  {&llmtest.Model{Script: fault(llm.Blocked)}, false, "refuses to answer this"},
		"somebody says stop": {hanging{}, true, "Stopped."},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := engine(tools{"look": reads("memory", true, "seen")}, &llmtest.Model{
				Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
					if n == 1 {
						return llmtest.Calls("look", `{}`), nil
					}
					return llmtest.Says("the answer"), nil
				}})
			b.answer(t, t.Context(), one(asks("1", "what is there?")))
			before := b.memory.turns[room][0].Messages
			second := engine(nil, c.fails)
			second.options.Store = b.memory
			second.memory = b.memory
			second.Engine = agent.New(second.options)
			ctx, stop := context.WithCancelCause(t.Context())
			if c.stop {
				time.AfterFunc(time.Second, func() { stop(chat.ErrStopped) })
			}
			m := asks("press", chat.PressRetry+"web/1")
			m.Command = chat.Pressed
			d := second.answer(t, ctx, chat.Asked{Messages: []chat.Message{m}})
			stop(nil)
			if d == nil || !d.Failed || !strings.Contains(d.Text, c.says) ||
				!strings.HasSuffix(d.Text, " The answer from before stays.") {
				t.Errorf("%s: answered %+v", name, d)
			}
			turn := b.memory.turns[room][0]
			if turn.State != conversation.Answered || len(turn.Messages) != len(before) ||
				turn.Messages[len(before)-1].Text() != "the answer" {
				t.Errorf("%s: the turn is %+v", name, turn)
			}
			b.answer(t, t.Context(), one(asks("2", "and then?")))
		})
	}
}

func fault(kind llm.Kind) func(int, llm.Request) ([]llm.Chunk, error) {
	return func(int, llm.Request) ([]llm.Chunk, error) { return nil, &llm.Error{Kind: kind} }
}

// What an earlier answer used does not count against a limit for one answer.
func TestAnswerAgain_LimitOfTokens_CountsAnew(t *testing.T) {
	model := &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
		if n == 2 {
			return llmtest.Calls("look", `{}`), nil
		}
		return append(llmtest.Says("done"), llm.Chunk{Usage: &llm.Usage{Input: 900, Output: 200}}), nil
	}}
	b := engine(tools{"look": reads("memory", true, "seen")}, model)
	inProfile(b, func(p *agent.Profile) { p.MaxTokens = 1000 })
	b.answer(t, t.Context(), one(asks("1", "what is there?")))
	b.press(t, chat.PressRetry+"web/1")
	if requests := model.Requests(); len(requests) != 3 || len(requests[1].Tools) == 0 {
		t.Errorf("%d requests; with tools in the second: %v", len(requests), len(requests[1].Tools) > 0)
	}
}
