package delivery_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store/records"
	"ravenbot/internal/turn/delivery"
)

// patient waits for a person before it answers what begins with "ask", until decided is closed.
type patient struct {
	answerer
	decided chan struct{}
}

func (a patient) Answer(ctx context.Context, q chat.Asked, show func(chat.Progress)) (*conversation.Turn, *chat.Draft) {
	if strings.HasPrefix(q.Messages[0].Text, "ask") {
		show(chat.Progress{Waits: true})
		select {
		case <-a.decided:
		case <-ctx.Done():
		}
	}
	return a.answerer.Answer(ctx, q, show)
}

func saidBy(by, id, text string) chat.Message {
	m := said("a", id, text)
	m.Author = chat.User{ID: by, Name: by}
	return m
}

// An answer that waits for a person holds up neither other people in its conversation nor, by its place among the
// workers, other conversations. What its author says meanwhile waits.
func TestAnswer_ThatWaitsForAPerson_HoldsUpItsAuthorAlone(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, patient{answerer(echo), make(chan struct{})}
		w := startOver(t, path, func(db *records.Store) delivery.Store { return db }, p, a, delivery.Options{MaxTurns: 1})
		defer w.stop()
		accept(t, w, saidBy("anna", "1", "ask first"))
		soon()
		accept(t, w, saidBy("anna", "2", "and this"))
		accept(t, w, saidBy("berit", "3", "hello"))
		accept(t, w, saidBy("carl", "4", "ask me, too"))
		accept(t, w, saidBy("dora", "5", "good morning"))
		accept(t, w, said("b", "6", "elsewhere"))
		soon()
		got := p.texts()
		slices.Sort(got)
		if want := []string{"re: elsewhere", "re: good morning", "re: hello"}; !slices.Equal(got, want) {
			t.Errorf("while two wait, answered: %q, want %q", got, want)
		}
		close(a.decided)
		later()
		got = p.texts()[3:]
		isInOrder := slices.Index(got, "re: ask first") < slices.Index(got, "re: and this")
		if slices.Sort(got); !isInOrder || !slices.Equal(got, []string{"re: and this", "re: ask first", "re: ask me, too"}) {
			t.Errorf("then answered: %q, those of one author in order: %v", got, isInOrder)
		}
	})
}

// A bot that ends while an answer waits for a person takes it up again, and what waits behind it.
func TestAnswer_ThatWaitsForAPerson_GoesOnAfterARestart(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, patient{answerer(echo), make(chan struct{})}
		w := start(t, path, p, a)
		accept(t, w, saidBy("anna", "1", "ask first"))
		accept(t, w, saidBy("anna", "2", "and this"))
		soon()
		w.stop()
		w = start(t, path, p, a)
		defer w.stop()
		soon() // what is resumed waits again
		accept(t, w, saidBy("berit", "3", "hello"))
		soon()
		posted(t, p, "re: hello")
		close(a.decided)
		later()
		if n := len(p.texts()); n < 2 || n > 3 { // the two of one person may be answered together
			t.Errorf("posted %q", p.texts())
		}
	})
}
