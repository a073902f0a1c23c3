package feature_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/feature"
)

// dice is a feature whose command says nothing of itself about who sees its answer.
type dice struct{ public bool }

func (d dice) Commands() []chat.CommandSpec {
	return []chat.CommandSpec{{Name: "roll", Summary: "Rolls dice", Help: "Rolls dice.", Public: d.public,
		PublicActions: []string{"loudly"}}}
}

func (dice) Handle(context.Context, chat.Message) (*chat.Draft, error) {
	return &chat.Draft{Text: "You rolled 9"}, nil
}

// registry returns the registry of one module with one feature.
func registry(t *testing.T, f feature.Feature) *feature.Registry {
	t.Helper()
	r := feature.New(slog.New(slog.DiscardHandler))
	if err := r.Register(feature.Module{Features: []feature.Feature{f}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// All platforms must show an answer to the same people: Discord decides by the command before there is a draft, Slack by
// the draft.
func TestHandle_Command_DecidesWhoSeesTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		public bool
		text   string
		want   bool // visible to the asker only
	}{
		"private": {false, "2d6", true}, "public": {true, "2d6", false}, "public action": {false, "loudly 2d6", false},
	} {
		r := registry(t, dice{c.public})
		m := chat.Message{Command: "roll", Text: c.text}
		if d := r.Handle(t.Context(), m); d == nil || d.Ephemeral != c.want {
			t.Errorf("%s: %+v, want Ephemeral %t", name, d, c.want)
		}
	}
}

// quick has a command that it does not understand.
type quick struct{}

func (quick) Commands() []chat.CommandSpec { return []chat.CommandSpec{{Name: "roll", Spoken: true}} }

func (quick) Handle(context.Context, chat.Message) (*chat.Draft, error) { return nil, nil }

// listener is an agent that keeps what it is asked.
type listener struct{ asked string }

func (l *listener) Answer(
	_ context.Context,
	q chat.Asked,
	_ func(chat.Progress),
) (*conversation.Turn, *chat.Draft) {
	l.asked = q.Last().Text
	if !q.Last().IsQuestion() {
		l.asked = "no question"
	}
	return nil, &chat.Draft{}
}

func TestRouter_SpokenCommandNotUnderstood_GoesToTheAgentWhole(t *testing.T) {
	r := registry(t, quick{})
	agent := &listener{}
	m := chat.Message{ID: "1", Command: "roll", Text: "me the dice"}
	feature.Router{Registry: r, Agent: agent}.Answer(t.Context(), chat.Asked{Messages: []chat.Message{m}}, nil)
	if agent.asked != "roll me the dice" {
		t.Errorf("the agent is asked %q", agent.asked)
	}
}

func TestHandle_UnknownCommand_NamesTheNearest(t *testing.T) {
	r := registry(t, quick{})
	d := r.Handle(t.Context(), chat.Message{Command: "rol"})
	if d == nil || !d.Failed || !strings.Contains(d.Text, "Did you mean `/raven roll`?") {
		t.Errorf("answered %+v", d)
	}
}
