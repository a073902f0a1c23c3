package web

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// taking is a Web whose messages can be waited for.
func taking(t *testing.T, former chat.Former) (*Web, string, *http.Client, chan chat.Message) {
	t.Helper()
	got := make(chan chat.Message, 100)
	w, _ := begin(t, func(_ *Web, m chat.Message) error { got <- m; return nil })
	w.o.Former = former
	base, c := serve(t, w)
	return w, base, c, got
}

func next(t *testing.T, got chan chat.Message) chat.Message {
	t.Helper()
	select {
	case m := <-got:
		return m
	case <-time.After(10 * time.Second):
		t.Fatal("no message came")
		return chat.Message{}
	}
}

func TestAPressedButton(t *testing.T) {
	w, base, c, got := taking(t, nil)
	d := chat.Draft{Key: "k", Text: "It failed.", Failed: true, Reply: chat.Reply{MessageID: "room/asked"},
		Buttons: []chat.Button{
			{Label: "Try again", Value: chat.PressRetry + "turn", Style: chat.Primary}, {Label: "👍", Value: chat.PressGood + "turn"}}}
	ref, err := w.Post(t.Context(), general, d)
	if err != nil {
		t.Fatal(err)
	}
	_, _, page := request(t, c, "GET", base+"/chat/general", nil)
	if !strings.Contains(page, `<button class="action" name="value" value="retry turn">Try again</button>`) ||
		!strings.Contains(page, `name="post" value="`+ref.IDs[0]+`"`) {
		t.Errorf("the page lacks the buttons: %s", page)
	}
	if status, _, _ := request(t, c, "POST", base+"/chat/general/press", url.Values{
		"post":  ref.IDs,
		"value": {chat.PressRetry + "turn"},
	}, "HX-Request", "true"); status != 204 {
		t.Errorf("pressing gave %d", status)
	}
	m := next(t, got)
	if what, turn := m.Press(); what != chat.PressRetry || turn != "turn" || m.Author.ID != chat.Operator().ID ||
		!m.Author.Operator || m.Reply.MessageID != ref.IDs[0] || m.Conversation != general {
		t.Errorf("the press became %+v", m)
	}
	// The answer takes the place of the failure, for whoever looks on and for a reload.
	events, stop := w.Subscribe("general")
	defer stop()
	w.Show(general, chat.Progress{Message: m.ID, Text: "now"})
	if e := <-events; e.Progress == nil {
		t.Fatalf("event %+v", e)
	}
	again := chat.Draft{Key: m.Key(), Text: "Now it works.", Reply: chat.Reply{MessageID: ref.IDs[0]}, Replaces: ref}
	for range 2 {
		if after, err := w.Post(t.Context(), general, again); err != nil || after.IDs[0] != ref.IDs[0] {
			t.Fatal(after, err)
		}
	}
	e := <-events
	if e.Entry == nil || !e.Anew || e.Entry.Draft.Text != "Now it works." || cmp.Diff([]string{m.ID}, e.Ends) != "" ||
		e.Entry.Draft.For()[0] != "room/asked" {
		t.Errorf("shown as %+v, %+v", e, e.Entry.Draft)
	}
	if got := lines(t, w.o.Log); len(got) != 1 || !strings.Contains(got[0], "Now it works.") {
		t.Errorf("the room holds %q", got)
	}
	if left := w.room("general").currentWork(); len(left) != 0 {
		t.Errorf("still shown as being worked on: %+v", left)
	}
}

// What a press is answered with is a line of its own, and ends the work on it.
func TestAnAnswerToAPress(t *testing.T) {
	w, base, c, got := taking(t, nil)
	request(t, c, "POST", base+"/chat/general/press", url.Values{"value": {chat.PressStop}})
	m := next(t, got)
	if !m.Stops() {
		t.Errorf("the press became %+v", m)
	}
	w.Show(general, chat.Progress{Message: m.ID, Note: "stopping"})
	answer(w, m, "Stopped.")
	if left := w.room("general").currentWork(); len(left) != 0 || len(lines(t, w.o.Log)) != 1 {
		t.Errorf("left %+v, room %q", left, lines(t, w.o.Log))
	}
}

func everyField() *chat.Form {
	options := []chat.Option{{Value: "a", Label: "First"}, {Value: "b", Label: "Second"}}
	return &chat.Form{ID: "form/1", Title: "A form", Intro: "Some **words**.", Submit: "Save", Fields: []chat.Field{
		{Name: "line", Label: "Line", Kind: chat.Line, Value: "as it was", Required: true, Max: 20, Help: "help"}, {Name: "text", Label: "Text", Kind: chat.Text, Value: "\ntwo\nlines"},
		{Name: "number", Label: "Number", Kind: chat.Number, Value: "7"}, {Name: "toggle", Label: "Toggle", Kind: chat.Toggle, Value: "true"},
		{Name: "choice", Label: "Choice", Kind: chat.Choice, Value: "b", Options: options}, {Name: "choices", Label: "Choices", Kind: chat.Choices, Value: "a\nb", Options: options}}}
}

func TestAFormOnThePage(t *testing.T) {
	_, base, c, got := taking(t, func(_ context.Context, m chat.Message) (*chat.Form, error) {
		switch {
		case m.Command == "settings" && m.Text == "channel":
			return nil, errors.New("Only administrators may.")
		case m.Command == "settings", m.Text == "ask":
			return everyField(), nil
		}
		return nil, nil
	})
	say := func(text, htmx string) (int, string) {
		status, _, body := request(t, c, "POST", base+"/chat/general/messages", url.Values{"text": {text}},
			"HX-Request", htmx)
		return status, body
	}
	if status, body := say("/settings channel", "true"); status != 403 ||
		!strings.Contains(body, "Only administrators may.") {
		t.Errorf("a refused form gave %d %s", status, body)
	}
	if status, _ := say("/help", "true"); status != 204 || next(t, got).Command != "help" {
		t.Errorf("a command without a form gave %d", status)
	}
	for _, htmx := range []string{"", "true"} {
		status, body := say("/raven settings", htmx)
		once := regexp.MustCompile(`name="once" value="([a-z0-9]+)"`).FindStringSubmatch(body)
		if status != 200 || once == nil || strings.Contains(body, "hx-swap-oob") != (htmx != "") {
			t.Fatalf("the form came as %d %s", status, body)
		}
		sent := url.Values{"form": {"form/1"}, "once": {once[1]}, "post": {""}, "one:line": {"x"}, "one:text": {"a\r\nb"},
			"one:number": {""}, "one:toggle": {"false"},
			"one:choice": {"a"}, "several:choices": {"", "b"}}
		status, header, _ := request(t, c, "POST", base+"/chat/general/forms", sent, "HX-Request", htmx)
		if htmx == "" && (status != 303 || header.Get("Location") != "/chat/general") || htmx != "" && status != 200 {
			t.Errorf("sending the form gave %d", status)
		}
		m := next(t, got)
		want := map[string]string{"line": "x", "text": "a\nb", "number": "", "toggle": "false", "choice": "a", "choices": "b"}
		if diff := cmp.Diff(want, m.Values); diff != "" || m.Command != chat.Submitted || m.Text != "form/1" ||
			m.ID != "form/"+once[1] {
			t.Errorf("the form became %+v (-want +got):\n%s", m, diff)
		}
	}
	if status, _, body := request(t, c, "POST", base+"/chat/general/press", url.Values{"post": {"7"}, "value": {"ask"}},
		"HX-Request", "true"); status != 200 || !strings.Contains(body, `name="post" value="7"`) {
		t.Errorf("a button with a form gave %d %s", status, body)
	}
	for _, bad := range []url.Values{{}, {"form": {"x"}}, {"form": {strings.Repeat("x", 101)}, "once": {"a"}},
		{"form": {"x"}, "once": {"../a"}}} {
		if status, _, _ := request(t, c, "POST", base+"/chat/general/forms", bad, "HX-Request", "true"); status != 400 {
			t.Errorf("%v gave %d", bad, status)
		}
	}
	for _, bad := range []url.Values{{}, {"value": {strings.Repeat("x", 101)}}, {"value": {"x"}, "post": {"../1"}}} {
		if status, _, _ := request(t, c, "POST", base+"/chat/general/press", bad, "HX-Request", "true"); status != 400 {
			t.Errorf("%v gave %d", bad, status)
		}
	}
}

func TestNothingForeignBecomesActiveInForms(t *testing.T) {
	p := newPage((&Web{}).isCommand)
	parts := func(s string) []byte {
		form := &chat.Form{ID: s, Title: s, Intro: s, Submit: s}
		for _, kind := range []chat.FieldKind{chat.Line, chat.Text, chat.Number, chat.Toggle, chat.Choice, chat.Choices} {
			form.Fields = append(form.Fields, chat.Field{Name: s, Label: s, Help: s, Kind: kind, Value: s,
				Options: []chat.Option{{Value: "?" + s, Label: s}}})
		}
		post := store.Entry{Seq: 2, ID: s, Room: "general", Draft: &chat.Draft{Text: s,
			Buttons: []chat.Button{{Label: s, Value: s, Style: chat.Style(s)}}}}
		var all []byte
		for name, v := range map[string]any{"form": shownForm{Form: form, Room: "general", Post: s, Once: s}, "entry": post,
			"same-entry": post} {
			b, err := p.fragment(name, v)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b...)
		}
		return all
	}
	want := len(active(t, parts("harmless")))
	for n, s := range hostile(t) {
		if s == "" || n%8 > 0 && n > 200 { // nothing is shown of what is empty; the rest is the feeds of others
			continue
		}
		if got := active(t, parts(s)); len(got) != want {
			t.Errorf("with %q it holds %d active parts, want %d", s, len(got), want)
		}
	}
}

// A line that took another's place after the page was made, and before the browser
// began to listen, is shown all the same.
func TestAReplacedLineIsNotMissed(t *testing.T) {
	w, base, c, _ := taking(t, nil)
	ref, err := w.Post(t.Context(), general, chat.Draft{Key: "k", Text: "It failed."})
	if err != nil {
		t.Fatal(err)
	}
	_, _, page := request(t, c, "GET", base+"/chat/general", nil)
	events := regexp.MustCompile(`sse-connect="([^"]+)"`).FindStringSubmatch(page)
	look := func() string {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		q, err := http.NewRequestWithContext(ctx, "GET", base+strings.ReplaceAll(events[1], "&amp;", "&"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		first := ""
		for in := bufio.NewScanner(r.Body); in.Scan() && in.Text() != ""; {
			first += in.Text() + "\n"
		}
		return first
	}
	if got := look(); strings.Contains(got, "It failed.") {
		t.Errorf("what the page shows is sent again: %s", got)
	}
	if _, err := w.Post(t.Context(), general, chat.Draft{Key: "k2", Text: "Now it works.", Replaces: ref}); err != nil {
		t.Fatal(err)
	}
	if got := look(); !strings.Contains(got, "Now it works.") {
		t.Errorf("the stream begins with %s", got)
	}
}
