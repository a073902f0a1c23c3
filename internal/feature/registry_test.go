package feature_test

import (
	"context"
	"log/slog"
	"testing"

	"ravenbot/internal/chat"
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
		r, err := feature.New(slog.New(slog.DiscardHandler), func(chat.Message) string { return "" }, dice{c.public})
		if err != nil {
			t.Fatal(err)
		}
		m := chat.Message{Command: "roll", Text: c.text}
		if d := r.Handle(t.Context(), m); d == nil || d.Ephemeral != c.want {
			t.Errorf("%s: %+v, want Ephemeral %t", name, d, c.want)
		}
	}
}
