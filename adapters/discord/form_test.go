package discord_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/adapters/discord"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

// allKinds is a form with every kind of field, and an intro.
func allKinds() *chat.Form {
	options := []chat.Option{{Value: "a", Label: "First"}, {Value: "b", Label: "Second"}}
	return &chat.Form{ID: "form/1", Title: strings.Repeat("A long title ", 5), Intro: "What **holds** for you.",
		Fields: []chat.Field{
			{Name: "line", Label: "A line", Help: strings.Repeat("help ", 40), Kind: chat.Line, Value: "as it was", Required: true, Max: 20},
			{Name: "toggle", Label: "On?", Kind: chat.Toggle, Value: "true"},
			{Name: "choice", Label: strings.Repeat("One of them ", 9), Kind: chat.Choice, Value: "b", Options: options, Required: true},
			{Name: "choices", Label: "Some", Kind: chat.Choices, Value: "a\nb", Options: options},
		}}
}

// former returns a form for /raven settings and for the button "ask".
func former(form *chat.Form) chat.Former {
	return func(_ context.Context, m chat.Message) (*chat.Form, error) {
		if m.Command == "settings" || m.Command == chat.Pressed && m.Text == "ask" {
			return form, nil
		}
		return nil, nil
	}
}

func (s *stage) opened(t *testing.T, interaction string) simdiscord.Callback {
	t.Helper()
	back, err := s.WaitCallback(within(t), interaction)
	if err != nil || back.Type != simdiscord.CallbackModal || back.After > 3*time.Second {
		t.Fatalf("answered with %d %s after %v: %v", back.Type, back.Data, back.After, err)
	}
	return back
}

func TestACommandIsAnsweredWithItsForm(t *testing.T) {
	t.Parallel()
	s := open(t, script{discord: discord.Options{Former: former(allKinds())}})
	in := s.interact(t, "settings", nil)
	s.opened(t, in.ID)
	sent, err := s.Fill(in.ID, map[string][]string{"line": {"words"}, "toggle": {"false"}, "choices": {}})
	if err != nil {
		t.Fatal(err)
	}
	m := receive(t, s.got)
	want := map[string]string{"line": "words", "toggle": "false", "choice": "b", "choices": ""}
	if m.ID != sent.ID || m.Command != chat.Submitted || m.Text != "form/1" || m.Conversation != s.address() ||
		m.Author.ID != s.ann.ID || m.Author.Admin {
		t.Errorf("the form became %+v", m)
	}
	if diff := cmp.Diff(want, m.Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	back, err := s.WaitCallback(within(t), sent.ID)
	if err != nil || back.Type != simdiscord.CallbackDeferred || !strings.Contains(string(back.Data), `"flags":64`) {
		t.Errorf("the form was acknowledged with %+v: %v", back, err)
	}
	s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Text: "Nothing was changed.", Failed: true, Reply: m.Reply})
	if p, err := s.WaitAnswer(within(t), sent.ID, anyPost); err != nil || !p.Ephemeral() ||
		!strings.Contains(p.Content, "Nothing was changed") {
		t.Errorf("the answer is %+v: %v", p, err)
	}
}

func TestAPressIsAnsweredWithItsForm(t *testing.T) {
	t.Parallel()
	s := open(t, script{discord: discord.Options{Former: former(allKinds())}})
	ref := s.post(t, s.address(), chat.Draft{Key: "k", Text: "questions",
		Buttons: []chat.Button{{Label: "Answer", Value: "ask"}, {Label: "Stop", Value: "stop"}}})
	in := s.Click(ref.IDs[0], s.ann, "ask")
	s.opened(t, in.ID)
	if m := s.press(t, ref.IDs[0], "stop"); m.Command != chat.Pressed { // asks for none, and the one before is no message
		t.Errorf("message %+v", m)
	}
	if _, err := s.Fill(in.ID, map[string][]string{"line": {"x"}}); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, s.got); m.Command != chat.Submitted || m.Values["choices"] != "a\nb" {
		t.Errorf("message %+v", m)
	}
}

// What does not fit is shown otherwise, or left as it is.
func TestFormsKeepTheLimits(t *testing.T) {
	t.Parallel()
	var many []chat.Option
	for n := range 40 {
		many = append(many, chat.Option{Value: string(rune('a'+n%26)) + strings.Repeat("x", n),
			Label: strings.Repeat("o", 120)})
	}
	form := &chat.Form{ID: strings.Repeat("f", 90), Title: "T", Intro: "Before all.", Fields: []chat.Field{
		{Name: "a", Label: "Too many", Kind: chat.Choice, Options: many, Value: "axxx"},
		{Name: "b", Label: "Too long", Kind: chat.Text, Value: strings.Repeat("ü", 4001)},
		{Name: "c", Label: "Number", Kind: chat.Number, Value: "7"},
		{Name: "d", Label: "Labels", Kind: chat.Choices, Options: many[:25], Required: true},
		{Name: "e", Label: "Empty", Kind: chat.Text, Max: 9000},
		{Name: "f", Label: "One too many", Kind: chat.Line},
	}}
	s := open(t, script{discord: discord.Options{Former: former(form)}})
	in := s.interact(t, "settings", nil)
	back := s.opened(t, in.ID)
	if !strings.Contains(string(back.Data), `"Before all."`) {
		t.Errorf("the form does not say what is before it: %s", back.Data)
	}
	if _, err := s.Fill(in.ID, map[string][]string{"d": {many[3].Value, many[1].Value}}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": "axxx", "c": "7", "d": many[1].Value + "\n" + many[3].Value, "e": ""}
	if diff := cmp.Diff(want, receive(t, s.got).Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestAFormThatCannotBeHad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		former chat.Former
		note   string // empty: the command goes its way
	}{
		"refused": {func(context.Context, chat.Message) (*chat.Form, error) {
			return nil, errors.New("Only administrators may.")
		}, "Only administrators may."},
		"none":      {func(context.Context, chat.Message) (*chat.Form, error) { return nil, nil }, ""},
		"hangs":     {func(ctx context.Context, _ chat.Message) (*chat.Form, error) { <-ctx.Done(); return allKinds(), nil }, ""},
		"lost":      {func(context.Context, chat.Message) (*chat.Form, error) { panic("lost") }, ""},
		"not taken": {func(context.Context, chat.Message) (*chat.Form, error) { return allKinds(), nil }, "could not open the form"},
	} {
		s := open(t, script{discord: discord.Options{Former: c.former}})
		if name == "not taken" {
			s.Fail(sim.Fault{Match: sim.MatchPath("POST", "/callback"), Times: 1, Status: 400})
		}
		in := s.interact(t, "settings", nil)
		back, err := s.WaitCallback(within(t), in.ID)
		var said struct{ Content string }
		if json.Unmarshal(back.Data, &said) != nil || err != nil || back.After > 3*time.Second {
			t.Errorf("%s: answered with %+v: %v", name, back, err)
		}
		switch {
		case c.note == "" && receive(t, s.got).ID != in.ID:
			t.Errorf("%s: the command did not go its way", name)
		case !strings.Contains(said.Content, c.note):
			t.Errorf("%s: answered %q, want %q in it", name, said.Content, c.note)
		}
		if name == "lost" {
			s.logged(t, "panic while making a form")
			s.log.forget()
		}
	}
}
