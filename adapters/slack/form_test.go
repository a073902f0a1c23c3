package slack_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simslack "ravenbot/internal/testing/sim/slack"
)

// allKinds is a form with every kind of field but a number, and an intro.
func allKinds() *chat.Form {
	list := []chat.Option{{Value: "a", Label: "First"}, {Value: "b", Label: "Second"}}
	return &chat.Form{ID: "form/1", Title: strings.Repeat("A long title ", 5), Intro: "What holds for <!channel>.",
		Submit: "Save", Fields: []chat.Field{
			{Name: "line", Label: "A line", Help: "a few words", Kind: chat.Line, Value: "as it was", Required: true, Max: 20},
			{Name: "toggle", Label: "On?", Kind: chat.Toggle, Value: "true"},
			{Name: "choice", Label: strings.Repeat("One of them ", 30), Kind: chat.Choice, Value: "b", Options: list, Required: true},
			{Name: "choices", Label: "Some", Kind: chat.Choices, Value: "a\nb", Options: list},
			{Name: "text", Label: "Words", Kind: chat.Text},
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

// newView waits for a view that is none of those known.
func newView(t *testing.T, b *bot, known ...simslack.View) simslack.View {
	t.Helper()
	v, err := b.sim.WaitView(deadline(t), func(v simslack.View) bool {
		return !slices.ContainsFunc(known, func(k simslack.View) bool { return k.ID == v.ID })
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestFormsGoAndComeBack(t *testing.T) {
	for _, mode := range []string{"socket", "http"} {
		b := start(t, simslack.Options{}, slack.Options{Mode: mode, SigningSecret: "signing-secret",
			Former: former(allKinds())})
		if mode == "http" {
			door := httptest.NewServer(b.Handler())
			t.Cleanup(door.Close)
			b.sim.DeliverHTTP(door.URL)
		} else {
			up(t, b)
		}
		channel, anna := b.sim.AddChannel("general").ID, b.sim.AddAdmin("anna")
		at := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel}
		call := b.sim.Slash(channel, anna, "/raven", "settings")
		shown := newView(t, b)
		if d, err := b.sim.WaitAck(deadline(t), call.EventID); err != nil || len(d.Answer) != 0 {
			t.Errorf("%s: the command was acknowledged with %s, %v", mode, d.Answer, err)
		}
		sent, err := b.sim.FillView(shown, anna, map[string][]string{"line": {"words"}, "toggle": {}, "choices": {}})
		if err != nil {
			t.Fatal(err)
		}
		m := b.wait(t, 1)[0]
		if m.Command != chat.Submitted || m.Text != "form/1" || m.Conversation != at || m.Author.ID != anna.ID ||
			m.Author.Name != "anna" || !m.Author.Admin || !strings.HasPrefix(m.ID, "form/"+shown.ID+"/") {
			t.Errorf("%s: the form became %+v", mode, m)
		}
		want := map[string]string{"line": "words", "toggle": "false", "choice": "b", "choices": "", "text": ""}
		if diff := cmp.Diff(want, m.Values); diff != "" {
			t.Errorf("%s: values (-want +got):\n%s", mode, diff)
		}
		if d, err := b.sim.WaitAck(deadline(t), sent.EventID); err != nil || len(d.Answer) != 0 {
			t.Errorf("%s: the form was acknowledged with %s, %v", mode, d.Answer, err)
		}
		if _, err := b.Post(deadline(t), at, chat.Draft{
			Key:    "k",
			Text:   "Nothing was changed.",
			Failed: true,
			Reply:  m.Reply,
		}); err != nil {
			t.Fatal(err)
		}
		if a, err := b.sim.WaitAnswer(deadline(t), call, func(a simslack.Answer) bool {
			return true
		}); err != nil || a.InChannel {
			t.Errorf("%s: answered with %+v, %v", mode, a, err)
		}
		press(t, b, at, anna)
	}
}

// press has a form opened by a button in a thread, and sent.
func press(t *testing.T, b *bot, at chat.Address, by simslack.User) {
	t.Helper()
	root := b.sim.Say(at.Channel, by, "a question")
	at.Thread = root.TS
	n := len(b.wait(t, 2))
	ref, err := b.Post(deadline(t), at, chat.Draft{Key: "q", Text: "questions",
		Buttons: []chat.Button{{Label: "Answer", Value: "ask"}, {Label: "Stop", Value: "stop"}}})
	if err != nil {
		t.Fatal(err)
	}
	known := b.sim.Views()
	b.sim.Click(at.Channel, ref.IDs[0], by, "ravenbot-0")
	if _, err := b.sim.FillView(newView(t, b, known...), by, map[string][]string{"line": {"x"}}); err != nil {
		t.Fatal(err)
	}
	m := b.wait(t, n+1)[n]
	if m.Command != chat.Submitted || m.Conversation != at || m.Reply.MessageID != ref.IDs[0] ||
		m.Values["toggle"] != "true" {
		t.Errorf("the form became %+v", m)
	}
	b.sim.Click(at.Channel, ref.IDs[0], by, "ravenbot-1")
	if m := b.wait(t, n+2)[n+1]; m.Command != chat.Pressed || m.Text != "stop" {
		t.Errorf("a button without a form became %+v", m)
	}
}

func TestFormsKeepTheLimits(t *testing.T) {
	var many []chat.Option
	for n := range 120 {
		many = append(many, chat.Option{Value: strings.Repeat("x", n%70) + string(rune('a'+n/70)),
			Label: strings.Repeat("o", 120)})
	}
	form := &chat.Form{ID: strings.Repeat("f", 90), Title: "T", Fields: []chat.Field{
		{Name: "a", Label: "Too many", Kind: chat.Choice, Options: many, Value: "xxa"},
		{Name: "b", Label: "Too long", Kind: chat.Text, Value: strings.Repeat("ü", 3001)},
		{Name: "c", Label: "Number", Kind: chat.Number, Value: "7"},
		{Name: "d", Label: "Labels", Help: strings.Repeat("h", 4000), Kind: chat.Choices, Options: many[:100], Required: true},
		{Name: "e", Label: "Nothing yet", Kind: chat.Number},
		{Name: "f", Label: "One too many", Kind: chat.Line},
	}}
	b := start(t, simslack.Options{}, slack.Options{Former: former(form)})
	up(t, b)
	anna := b.sim.AddUser("anna")
	b.sim.Slash(b.sim.AddChannel("general").ID, anna, "/raven", "settings")
	if _, err := b.sim.FillView(newView(t, b), anna,
		map[string][]string{"d": {many[1].Value, many[3].Value}, "c": {"8.5"}}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": "xxa", "c": "8.5", "d": many[1].Value + "\n" + many[3].Value, "e": ""}
	if diff := cmp.Diff(want, b.wait(t, 1)[0].Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestAFormThatCannotBeHad(t *testing.T) {
	for name, c := range map[string]struct {
		former chat.Former
		word   string // empty: the command goes its way
	}{
		"refused": {func(context.Context, chat.Message) (*chat.Form, error) {
			return nil, errors.New("Only administrators may.")
		}, "Only administrators may."},
		"none":      {func(context.Context, chat.Message) (*chat.Form, error) { return nil, nil }, ""},
		"hangs":     {func(ctx context.Context, _ chat.Message) (*chat.Form, error) { <-ctx.Done(); return allKinds(), nil }, ""},
		"lost":      {func(context.Context, chat.Message) (*chat.Form, error) { panic("lost") }, ""},
		"not taken": {former(allKinds()), ""},
	} {
		b := start(t, simslack.Options{}, slack.Options{Former: c.former})
		up(t, b)
		if name == "not taken" {
			b.sim.Fail(sim.Fault{Match: sim.MatchPath("", "/api/views.open"), Times: 1, Status: 500})
		}
		call := b.sim.Slash(b.sim.AddChannel("general").ID, b.sim.AddUser("anna"), "/raven", "settings")
		if c.word == "" {
			if m := b.wait(t, 1)[0]; m.Command != "settings" {
				t.Errorf("%s: %+v", name, m)
			}
			continue
		}
		a, err := b.sim.WaitAnswer(deadline(t), call, func(simslack.Answer) bool { return true })
		if err != nil || a.InChannel || !strings.Contains(a.Text, c.word) {
			t.Errorf("%s: answered %+v, want %q: %v", name, a, c.word, err)
		}
	}
}

// Slack is asked once who somebody is, whatever they say and however often.
func TestAdministratorsAreKnown(t *testing.T) {
	var log bytes.Buffer
	for name, granted := range map[string][]string{"granted": nil,
		"not granted": {"chat:write", "app_mentions:read", "commands"}} {
		b := start(t, simslack.Options{Scopes: granted}, slack.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		up(t, b)
		channel, anna, root := b.sim.AddChannel("general").ID, b.sim.AddUser("anna"), b.sim.AddAdmin("root")
		if granted == nil {
			anna = b.sim.AddOutsider("anna", "T0OTHER") // an administrator there
		}
		for n := range 10 {
			b.sim.Mention(channel, root, "words")
			b.sim.Slash(channel, root, "/raven", "ask something")
			b.wait(t, 3*(n+1)) // a mention comes as two events
		}
		asked := func() (n int) {
			for _, r := range b.sim.Requests() {
				if strings.HasSuffix(r.Path, "/users.info") {
					n++
				}
			}
			return n
		}
		for range 3 {
			for _, u := range []simslack.User{anna, root} {
				n := len(b.wait(t, 30))
				b.sim.Slash(channel, u, "/raven", "settings channel language Norwegian")
				if m := b.wait(t, n+1)[n]; m.Author.Admin != (u == root && granted == nil) {
					t.Errorf("%s: %s is an administrator: %v", name, u.Name, m.Author.Admin)
				}
			}
		}
		if asked() != 2 {
			t.Errorf("%s: Slack was asked %d times about two people", name, asked())
		}
		if granted == nil {
			continue
		}
		if n := strings.Count(log.String(), "refuses user look-ups"); n != 1 {
			t.Errorf("the missing scope is told of %d times:\n%s", n, log.String())
		}
		lost := ""
		for _, f := range b.Check(deadline(t)) {
			lost += f.Problem + ": " + f.Lost + "\n"
		}
		if !strings.Contains(lost, "users:read: the model is not told who speaks, and nobody counts as an administrator") {
			t.Errorf("doctor says:\n%s", lost)
		}
	}
}
