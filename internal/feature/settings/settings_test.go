package settings_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/feature/settings"
)

type kept map[string][]byte

func (k kept) Settings(context.Context) (map[string][]byte, error) { return k, nil }

func (k kept) SwapSetting(_ context.Context, scope string, was, now []byte) (bool, error) {
	if !bytes.Equal(k[scope], was) {
		return false, nil
	}
	if k[scope] = now; now == nil {
		delete(k, scope)
	}
	return true, nil
}

func book(t *testing.T, k kept) *settings.Repository {
	t.Helper()
	b := settings.New(k, func() []string { return []string{"default", "fast"} }, nil, slog.New(slog.DiscardHandler))
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

var thread = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1", Thread: "1.2"}

func say(b *settings.Repository, user chat.User, text string) chat.Draft {
	return b.Command(context.Background(), chat.Message{Conversation: thread, Author: user, Text: text})
}

func TestAUserBeatsTheChannelBeatsTheInstance(t *testing.T) {
	k := kept{}
	b := book(t, k)
	no, five := false, 5
	anna, root := chat.User{ID: "U1"}, chat.User{ID: "U9", Admin: true}
	if err := b.Set(t.Context(), settings.Instance, settings.Layer{
		Model:    "default",
		Language: "English",
		Tools:    settings.Tools{Enabled: &no},
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		by   chat.User
		text string
	}{{root, "channel language Norwegian"}, {root, "channel steps 5"}, {root, "channel timezone Europe/Oslo"}, {anna,
		"model fast"}, {anna, "me language German"}} {
		if d := say(b, c.by, c.text); d.Failed {
			t.Fatalf("%q: %s", c.text, d.Text)
		}
	}
	b = book(t, k) // as after a restart
	want := settings.Layer{Model: "fast", Language: "German", Timezone: "Europe/Oslo",
		Tools: settings.Tools{Enabled: &no, MaxSteps: &five}}
	if diff := cmp.Diff(want, b.Effective(thread, "U1")); diff != "" {
		t.Errorf("for anna (-want +got):\n%s", diff)
	}
	if got := b.Effective(thread.Base(), "U2"); got.Language != "Norwegian" || got.Model != "default" {
		t.Errorf("for somebody else %+v", got)
	}
	if got := b.Effective(chat.Address{
		Platform:  "slack",
		Workspace: "T1",
		Channel:   "C2",
	}, "U2"); got.Language != "English" {
		t.Errorf("in another channel %+v", got)
	}
	if text := say(b, anna, "").Text; !strings.Contains(text, "`language`: German (set by you)") ||
		!strings.Contains(text, "`steps`: 5 (set for this channel)") {
		t.Errorf("shown as %s", text)
	}
	if d := say(b, anna, "timezone Mars/Olympus"); !d.Failed || !strings.Contains(d.Text, "want an IANA name") {
		t.Errorf("an unknown time zone: %s", d.Text)
	}
	say(b, anna, "language default")
	if got := b.Effective(thread, "U1"); got.Language != "Norwegian" {
		t.Errorf("after taking back %+v", got)
	}
}

func TestWhatIsWrongIsRefusedWithTheRemedy(t *testing.T) {
	k := kept{}
	b := book(t, k)
	for text, want := range map[string]string{"model nonesuch": "there are: default, fast", "steps 0": "1 to 100",
		"steps many":  "want a number",
		"tools maybe": "on or off", "colour red": "no key", "model": "a key and a value",
		"channel model fast": "Only administrators", "prompt " + strings.Repeat("x", 9000): "8192"} {
		if d := say(b, chat.User{ID: "U1"}, text); !d.Failed || !strings.Contains(d.Text, want) {
			t.Errorf("%.40q was answered %.200q, want %q in it", text, d.Text, want)
		}
	}
	if len(k) != 0 {
		t.Errorf("kept %v", k)
	}
}

// filled gives what a form would bring back, with some fields filled in anew.
func filled(f *chat.Form, with map[string]string) map[string]string {
	values := map[string]string{}
	for _, field := range f.Fields {
		values[field.Name] = field.Value
	}
	for name, value := range with {
		values[name] = value
	}
	return values
}

func TestAFormSetsALayerAsAWhole(t *testing.T) {
	k := kept{}
	b := book(t, k)
	anna, root := chat.User{ID: "U1"}, chat.User{ID: "U9", Admin: true}
	open := func(by chat.User, text string) *chat.Form {
		f, err := b.Form(t.Context(), chat.Message{Conversation: thread, Author: by, Command: "settings", Text: text})
		if err != nil || f == nil {
			t.Fatalf("%q opens %v, %v", text, f, err)
		}
		return f
	}
	send := func(by chat.User, f *chat.Form, with map[string]string) chat.Draft {
		d, ours := b.HandleForm(t.Context(), chat.Message{Conversation: thread, Author: by, Command: chat.Submitted,
			Text: f.ID, Values: filled(f, with)})
		if !ours || !d.Ephemeral {
			t.Fatalf("form %s: ours %v, draft %+v", f.ID, ours, d)
		}
		return d
	}
	send(root, open(root, "channel"), map[string]string{"language": "Norwegian", "steps": "7",
		"prompt": "Be kind.\nBe brief."})
	mine := open(anna, "")
	if d := send(anna, mine, map[string]string{"model": "fast", "tools": "off"}); d.Failed ||
		!strings.Contains(d.Text, "`language`: Norwegian (set for this channel)") {
		t.Errorf("answered %s", d.Text)
	}
	no, seven, words := false, 7, "Be kind.\nBe brief."
	want := settings.Layer{Model: "fast", Language: "Norwegian",
		Tools: settings.Tools{Enabled: &no, MaxSteps: &seven, SystemPrompt: &words}}
	if diff := cmp.Diff(want, b.Effective(thread, "U1")); diff != "" {
		t.Errorf("for anna (-want +got):\n%s", diff)
	}
	again := open(anna, "me")
	if diff := cmp.Diff(map[string]string{"model": "fast", "language": "", "tools": "off", "steps": "", "prompt": ""},
		filled(again, nil)); diff != "" {
		t.Errorf("the form shows (-want +got):\n%s", diff)
	}
	send(anna, again, map[string]string{"model": "default", "tools": "default"})
	if _, set := k["user/slack/U1"]; set {
		t.Errorf("kept %s although all was taken back", k["user/slack/U1"])
	}
}

func TestAFormTellsWhatIsWrong(t *testing.T) {
	k := kept{}
	b := book(t, k)
	anna := chat.User{ID: "U1"}
	m := chat.Message{Conversation: thread, Author: anna, Command: "settings", Text: "channel"}
	if f, err := b.Form(t.Context(), m); f != nil || err == nil || !strings.Contains(err.Error(), "Only administrators") {
		t.Errorf("somebody else opens %v, %v", f, err)
	}
	for _, other := range []chat.Message{{Command: "settings", Text: "model fast"}, {Command: "help"},
		{Text: "settings"}} {
		if f, err := b.Form(t.Context(), other); f != nil || err != nil {
			t.Errorf("%+v opens %v, %v", other, f, err)
		}
	}
	m.Command, m.Text = chat.Submitted, "settings/me"
	for _, c := range []struct{ field, value, want string }{{"steps", "many", `Steps are "many", want a number`},
		{"steps", "0", "want 1 to 100"},
		{"model", "nonesuch", "there are: default, fast"}, {"language", strings.Repeat("x", 61), "at most 60"}, {"colour", "red", "no field"}} {
		m.Values = map[string]string{c.field: c.value, "tools": "perhaps"}
		if c.field != "steps" || c.value != "many" {
			delete(m.Values, "tools")
		}
		d, _ := b.HandleForm(t.Context(), m)
		if !d.Failed || !d.Ephemeral || !strings.Contains(strings.ToLower(d.Text), strings.ToLower(c.want)) ||
			m.Values["tools"] != "" && !strings.Contains(d.Text, "ools are") {
			t.Errorf("%s %q is answered %q, want %q in it", c.field, c.value, d.Text, c.want)
		}
	}
	m.Text, m.Values = "settings/channel", map[string]string{"model": "fast"}
	if d, _ := b.HandleForm(t.Context(), m); !strings.Contains(d.Text, "Only administrators") {
		t.Errorf("somebody else sets the channel: %s", d.Text)
	}
	if _, ours := b.HandleForm(t.Context(), chat.Message{Text: "elicit/1"}); ours {
		t.Error("another's form is taken")
	}
	if len(k) != 0 {
		t.Errorf("kept %v", k)
	}
}

func TestAPromptTooLongToBeShownStays(t *testing.T) {
	b := book(t, kept{})
	long := strings.Repeat("ü", 3001)
	if err := b.Set(t.Context(), settings.User("slack", "U1"),
		settings.Layer{Tools: settings.Tools{SystemPrompt: &long}}); err != nil {
		t.Fatal(err)
	}
	m := chat.Message{Conversation: thread, Author: chat.User{ID: "U1"}, Command: "settings"}
	f, err := b.Form(t.Context(), m)
	if err != nil || len(f.Fields) != 4 || !strings.Contains(f.Intro, "too long") {
		t.Fatalf("form %+v, %v", f, err)
	}
	m.Text, m.Values = f.ID, filled(f, map[string]string{"language": "German"})
	if _, ours := b.HandleForm(t.Context(), m); !ours || *b.Effective(thread, "U1").Tools.SystemPrompt != long ||
		b.Effective(thread, "U1").Language != "German" {
		t.Errorf("became %+v", b.Effective(thread, "U1").Language)
	}
}

// Two administrators change different keys of a channel at once: both count.
func TestCommand_TwoKeysAtOnce_BothAreSet(t *testing.T) {
	var b *settings.Repository
	root := chat.User{ID: "U9", Admin: true}
	var other sync.WaitGroup
	first := true
	b = settings.New(kept{}, func() []string {
		// The names of models are asked for while the first change is checked. The second one is done then, or waits.
		if first {
			first = false
			done := make(chan struct{})
			other.Go(func() {
				defer close(done)
				if d := say(b, root, "channel language Norwegian"); d.Failed {
					t.Error(d.Text)
				}
			})
			select {
			case <-done:
			case <-time.After(200 * time.Millisecond):
			}
		}
		return []string{"default", "fast"}
	}, nil, slog.New(slog.DiscardHandler))
	if d := say(b, root, "channel model fast"); d.Failed {
		t.Fatal(d.Text)
	}
	other.Wait()
	if l := b.Layer(settings.Channel(thread)); l.Model != "fast" || l.Language != "Norwegian" {
		t.Errorf("set are %+v, want both keys", l)
	}
}

// Two processes share a store. Each changes a key of the layer as it knew it before the other's change.
func TestChange_AfterAnotherProcess_KeepsBothKeys(t *testing.T) {
	k := kept{}
	a, b := book(t, k), book(t, k)
	root := chat.User{ID: "U9", Admin: true}
	for _, step := range []struct {
		in   *settings.Repository
		text string
	}{{a, "channel language Norwegian"}, {b, "channel model fast"}, {a, "channel steps 5"}, {b, "channel model default"}} {
		if d := say(step.in, root, step.text); d.Failed {
			t.Fatalf("%q: %s", step.text, d.Text)
		}
	}
	five := 5
	want := settings.Layer{Language: "Norwegian", Tools: settings.Tools{MaxSteps: &five}}
	for name, r := range map[string]*settings.Repository{"the last writer": b, "a later reader": book(t, k)} {
		if diff := cmp.Diff(want, r.Layer(settings.Channel(thread))); diff != "" {
			t.Errorf("what %s knows (-want +got):\n%s", name, diff)
		}
	}
}

func TestCommand_Prompt_KeepsItsLines(t *testing.T) {
	b := book(t, kept{})
	if d := say(b, chat.User{ID: "U1"}, " me  prompt   Be kind.\n\n- Be brief.\n  - And  clear. \n"); d.Failed {
		t.Fatal(d.Text)
	}
	got, want := b.Effective(thread, "U1").Tools.SystemPrompt, "Be kind.\n\n- Be brief.\n  - And  clear."
	if got == nil || *got != want {
		t.Errorf("the prompt is %v, want %q", got, want)
	}
}

// One layer that cannot be read, as an import may bring it, must not keep the others from counting.
func TestLoad_LayerThatCannotBeRead_IsSkipped(t *testing.T) {
	b := book(t, kept{"instance": []byte(`{"model":7}`), "user/slack/U1": []byte(`{"language":"German"}`)})
	if l := b.Effective(thread, "U1"); l.Language != "German" || l.Model != "" {
		t.Errorf("set are %+v, want the language alone", l)
	}
}
