package elicit_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature"
	"ravenbot/internal/feature/elicit"
)

var (
	here = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1"}
	anna = chat.User{ID: "U1", Name: "anna"}
	bert = chat.User{ID: "U2", Name: "bert"}
)

// board keeps posts.
type board struct {
	mu    sync.Mutex
	posts []chat.Draft
}

func (b *board) post(_ context.Context, _ chat.Address, d chat.Draft, _ string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.posts = append(b.posts, d)
	return nil
}

func (b *board) last() chat.Draft {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.posts[len(b.posts)-1]
}

func newDesk() (*elicit.Service, *board) {
	b := &board{}
	return elicit.New(elicit.Options{
		Post:    b.post,
		Reaches: func(a chat.Address) bool { return a.Platform == "slack" },
		Log:     slog.New(slog.DiscardHandler),
		Now:     time.Now,
	}), b
}

type outcome struct {
	answer elicit.Answer
	err    error
}

func ask(ctx context.Context, d *elicit.Service, q elicit.Question) <-chan outcome {
	got := make(chan outcome, 1)
	ctx = tool.WithCaller(ctx, tool.Caller{Conversation: here, User: anna})
	go func() {
		a, err := d.Ask(ctx, q)
		got <- outcome{a, err}
	}()
	synctest.Wait()
	return got
}

func press(by chat.User, value string) chat.Message {
	return chat.Message{Conversation: here, Author: by, Command: chat.Pressed, Text: value}
}

const schema = `{"type":"object","required":["when","colour"],"properties":{
	"note":{"type":"string","title":"A note","maxLength":5},
	"colour":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"b","title":"Blue"}]},
	"many":{"type":"array","items":{"enum":["x","y","z"]},"maxItems":2},
	"when":{"type":"string","format":"date"},
	"mail":{"type":"string","format":"email"},
	"n":{"type":"integer","minimum":1,"default":3},
	"sure":{"type":"boolean","default":true}}}`

func TestAFormIsFilledInByWhoeverAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b := newDesk()
		got := ask(t.Context(), d, elicit.Question{Server: "shop", Tool: "buy", Message: "Which **one**?",
			Schema: json.RawMessage(schema)})
		asked := b.last()
		if strings.Contains(asked.Text, "Which") || !strings.Contains(asked.Text, "anna") || len(asked.Buttons) != 2 {
			t.Errorf("everybody sees %+v", asked)
		}
		value := asked.Buttons[0].Value
		if _, err := d.OpenForm(t.Context(), press(bert, value)); err == nil || !strings.Contains(err.Error(), "only anna") {
			t.Errorf("somebody else was given the form: %v", err)
		}
		form, err := d.OpenForm(t.Context(), press(anna, value))
		if err != nil || form == nil || !strings.Contains(form.Intro, "Which **one**?") || len(form.Fields) != 7 {
			t.Fatalf("the form is %+v (%v)", form, err)
		}
		if f := form.Fields; f[0].Name != "colour" || f[1].Name != "when" || f[0].Options[1].Label != "Blue" ||
			f[2].Label != "A note" || f[5].Value != "3" || f[6].Value != "true" {
			t.Errorf("the fields are %+v", f)
		}
		sent := chat.Message{Conversation: here, Author: anna, Command: chat.Submitted, Text: form.ID}
		for fault, values := range map[string]map[string]string{
			"colour is missing":         {"when": "2026-01-31"},
			"want a date":               {"colour": "r", "when": "tomorrow"},
			"colour may be r, b":        {"colour": "green", "when": "2026-01-31"},
			"A note has 6 characters":   {"colour": "r", "when": "2026-01-31", "note": "abcdef"},
			"want an e-mail address":    {"colour": "r", "when": "2026-01-31", "mail": "Anna <a@example.org>"},
			"want a whole number":       {"colour": "r", "when": "2026-01-31", "n": "1.5"},
			"n is below 1":              {"colour": "r", "when": "2026-01-31", "n": "0"},
			`many may not be "w"`:       {"colour": "r", "when": "2026-01-31", "many": "x\nw"},
			"many has 3 choices":        {"colour": "r", "when": "2026-01-31", "many": "x\ny\nz"},
			`sure is "perhaps", want y`: {"colour": "r", "when": "2026-01-31", "sure": "perhaps"},
		} {
			sent.Values = values
			if r, ok := handled(t.Context(), d, sent); !ok || !r.Failed || !strings.Contains(r.Text, fault) {
				t.Errorf("%v was answered %q, want %q", values, r.Text, fault)
			}
		}
		sent.Values = map[string]string{"colour": "b", "when": "2026-01-31", "many": "x\nz", "n": "7",
			"sure": "false", "note": ""}
		sent.Author = bert
		if r, _ := handled(t.Context(), d, sent); !r.Failed {
			t.Errorf("somebody else answered: %+v", r)
		}
		sent.Author = anna
		if r, ok := handled(t.Context(), d, sent); !ok || r.Failed || !r.Ephemeral {
			t.Errorf("answered %+v", r)
		}
		a := <-got
		if want := `{"colour":"b","many":["x","z"],"n":7,"sure":false,"when":"2026-01-31"}`; a.err != nil ||
			a.answer.Action != elicit.Accept || string(a.answer.Content) != want {
			t.Errorf("the server hears %s %s (%v), want %s", a.answer.Action, a.answer.Content, a.err, want)
		}
		synctest.Wait()
		if r, ok := handled(t.Context(), d, sent); !ok || !strings.Contains(r.Text, "over") {
			t.Errorf("afterwards %+v, %t", r, ok)
		}
		if !strings.Contains(b.last().Text, "Answered") {
			t.Errorf("the question became %q", b.last().Text)
		}
	})
}

func TestALinkIsShownToWhoeverAskedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b := newDesk()
		got := ask(t.Context(), d, elicit.Question{Server: "bank", Tool: "pay", Message: "Confirm",
			URL: "https://bank.example/confirm"})
		value := b.last().Buttons[0].Value
		if r, _ := handled(t.Context(), d, press(bert, value)); strings.Contains(r.Text, "bank.example") {
			t.Errorf("somebody else sees the link: %q", r.Text)
		}
		if f, err := d.OpenForm(t.Context(), press(anna, value)); f != nil || err != nil {
			t.Errorf("a form for a link: %+v, %v", f, err)
		}
		// The host is shown first: until it is accepted the server hears nothing.
		shown, _ := handled(t.Context(), d, press(anna, value))
		if !shown.Ephemeral || strings.Contains(shown.Text, "/confirm") ||
			!strings.Contains(shown.Text, "**bank.example**") || len(shown.Buttons) != 2 {
			t.Fatalf("answered %+v", shown)
		}
		if len(got) != 0 {
			t.Error("the server was told yes before the host was accepted")
		}
		if r, _ := handled(t.Context(), d, press(bert, shown.Buttons[0].Value)); strings.Contains(r.Text, "bank.example") {
			t.Errorf("somebody else sees the link: %q", r.Text)
		}
		if r, _ := handled(t.Context(), d, press(anna, shown.Buttons[0].Value)); !r.Ephemeral ||
			!strings.Contains(r.Text, "<https://bank.example/confirm>") {
			t.Errorf("answered %+v", r)
		}
		if a := <-got; a.answer.Action != elicit.Accept || a.answer.Content != nil {
			t.Errorf("the server hears %+v", a)
		}
		caller := tool.Caller{Conversation: here, User: anna}
		if err := d.Offer(t.Context(), caller, elicit.Question{
			Server:  "bank",
			URL:     "https://bank.example/in",
			Message: "Sign in",
		}, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		value = b.last().Buttons[0].Value
		for range 2 { // as often as they like
			if r, _ := handled(t.Context(), d, press(anna, value)); !strings.Contains(r.Text, "bank.example/in") {
				t.Errorf("answered %+v", r)
			}
		}
		time.Sleep(time.Hour)
		if r, _ := handled(t.Context(), d, press(anna, value)); r.Text != "This question is over." {
			t.Errorf("after its time it is answered %+v", r)
		}
	})
}

func TestWordsAnswerWhereThereAreNoButtons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDesk()
		says := func(by chat.User, text string) bool {
			_, ours := handled(t.Context(), d, chat.Message{Conversation: here, Author: by, Text: text})
			return ours
		}
		one := elicit.Question{
			Server: "shop",
			Tool:   "buy",
			Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
		}
		got := ask(t.Context(), d, one)
		if says(bert, "answer 5") || says(anna, "the answer is 5") || !says(anna, "answer 5") {
			t.Error("words were taken wrongly")
		}
		if a := <-got; string(a.answer.Content) != `{"n":5}` {
			t.Errorf("the server hears %s", a.answer.Content)
		}
		synctest.Wait()
		if says(anna, "decline") {
			t.Error("a word without a question was taken")
		}
		got = ask(t.Context(), d, one)
		if !says(anna, "Decline") {
			t.Error("the word was not taken")
		}
		if a := <-got; a.answer.Action != elicit.Decline {
			t.Errorf("the server hears %+v", a)
		}
		ctx, end := context.WithCancel(t.Context())
		got = ask(ctx, d, one)
		end()
		if a := <-got; a.err == nil {
			t.Errorf("the end of the call gives %+v", a)
		}
	})
}

// Words reach a server only where it asked, and only if they can be meant for no other.
func TestWords_ElsewhereOrAmbiguous_ReachNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDesk()
		one := elicit.Question{
			Server: "shop",
			Tool:   "buy",
			Schema: json.RawMessage(`{"type":"object","properties":{"s":{"type":"string"}}}`),
		}
		got := ask(t.Context(), d, one)
		for _, at := range []chat.Address{
			{Platform: "slack", Workspace: "T1", Channel: "C2"},
			{Platform: "slack", Workspace: "T1", Channel: "C1", Thread: "1.2"},
		} {
			m := chat.Message{Conversation: at, Author: anna, Text: "answer me this: what is the plan?"}
			if _, ours := handled(t.Context(), d, m); ours || d.Urgent(m) {
				t.Errorf("words in %s were taken for an answer", at)
			}
		}
		other := ask(t.Context(), d, one)
		m := chat.Message{Conversation: here, Author: anna, Text: "answer blue"}
		if r, ours := handled(t.Context(), d, m); !ours || !strings.Contains(r.Text, "Several questions") {
			t.Errorf("with two questions open: %+v", r)
		}
		if len(got) != 0 || len(other) != 0 {
			t.Error("a server was answered")
		}
	})
}

func TestWhoCannotBeAskedIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b := newDesk()
		for name, q := range map[string]elicit.Question{
			"a nested object": {Schema: json.RawMessage(`{"properties":{"x":{"type":"object"}}}`)},
			"no schema":       {Schema: json.RawMessage(`7`)},
			"a bad address":   {URL: "javascript:alert(1)"},
		} {
			if o := <-ask(t.Context(), d, q); o.err == nil {
				t.Errorf("%s: %+v", name, o)
			}
		}
		if _, err := d.Ask(tool.WithCaller(t.Context(), tool.Caller{Conversation: here}),
			elicit.Question{URL: "https://x.example"}); err == nil {
			t.Error("nobody in particular was asked")
		}
		if len(b.posts) != 0 {
			t.Errorf("posted %+v", b.posts)
		}
	})
}

// handled returns what a feature answers to a message; false: the message is not for it.
func handled(ctx context.Context, f feature.Feature, m chat.Message) (chat.Draft, bool) {
	d, err := f.Handle(ctx, m)
	if d == nil || err != nil {
		return chat.Draft{}, false
	}
	return *d, true
}

// Offers that nobody took up do not keep servers from asking for ever.
func TestOffers_ThatHaveExpired_TakeNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDesk()
		offer := elicit.Question{Server: "bank", URL: "https://bank.example/in"}
		caller := tool.Caller{Conversation: here, User: anna}
		for n := 0; ; n++ {
			if err := d.Offer(t.Context(), caller, offer, time.Now().Add(time.Hour)); err != nil {
				if n != 200 {
					t.Errorf("after %d offers: %v", n, err)
				}
				break
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		if got := ask(ctx, d, offer); len(got) != 1 {
			t.Error("a question was asked although too many are open")
		}
		time.Sleep(time.Hour)
		got := ask(ctx, d, offer)
		if len(got) != 0 {
			t.Errorf("the question was not asked: %v", (<-got).err)
		}
		cancel()
		synctest.Wait()
	})
}
