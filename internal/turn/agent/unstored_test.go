package agent_test

import (
	"context"
	"testing"
	"testing/synctest"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/testing/llmtest"
)

// A message that cannot be stored comes again: until it is stored, nothing may have been done about it.
func TestAnswer_BeforeTheMessageIsStored_AsksNoModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) { return llmtest.Says("hello"), nil }}
		b := engine(tools{}, m)
		stored := make(chan struct{})
		q := one(asks("1", "hi"))
		q.Stored = stored
		answered := make(chan *chat.Draft, 1)
		go func() {
			_, d := b.Answer(t.Context(), q, func(chat.Progress) {})
			answered <- d
		}()
		synctest.Wait()
		if n := len(m.Requests()); n != 0 {
			t.Errorf("the model was asked %d times before the message was stored", n)
		}
		close(stored)
		if d := <-answered; d == nil || d.Text != "hello" || len(m.Requests()) != 1 {
			t.Errorf("answered %+v after %d requests, want one answer", d, len(m.Requests()))
		}
	})
}

func TestAnswer_StoppedBeforeTheMessageIsStored_AsksNoModel(t *testing.T) {
	m := &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) { return llmtest.Says("hello"), nil }}
	b := engine(tools{}, m)
	q := one(asks("1", "hi"))
	q.Stored = make(chan struct{})
	ctx, stop := context.WithCancelCause(t.Context())
	stop(chat.ErrStopped)
	turn, d := b.Answer(ctx, q, func(chat.Progress) {})
	if turn == nil || turn.State != conversation.Answered || d == nil || d.Text != "Stopped." || len(m.Requests()) != 0 {
		t.Errorf("answered %+v after %d requests, want that it was stopped", d, len(m.Requests()))
	}
}
