package settings_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/chat"
	"ravenbot/internal/settings"
)

type kept map[string][]byte

func (k kept) Settings(context.Context) (map[string][]byte, error) { return k, nil }

func (k kept) SaveSetting(_ context.Context, scope string, layer []byte) error {
	if k[scope] = layer; layer == nil {
		delete(k, scope)
	}
	return nil
}

func book(t *testing.T, k kept) *settings.Book {
	t.Helper()
	b := settings.New(k, func() []string { return []string{"default", "fast"} })
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

var thread = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1", Thread: "1.2"}

func say(b *settings.Book, user chat.User, text string) chat.Draft {
	return b.Command(context.Background(), chat.Message{Conversation: thread, Author: user, Text: text})
}

func TestAUserBeatsTheChannelBeatsTheInstance(t *testing.T) {
	k := kept{}
	b := book(t, k)
	no, five := false, 5
	anna, root := chat.User{ID: "U1"}, chat.User{ID: "U9", Admin: true}
	if err := b.Set(t.Context(), settings.Instance, settings.Layer{Model: "default", Language: "English", Tools: settings.Tools{Enabled: &no}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		by   chat.User
		text string
	}{{root, "channel language Norwegian"}, {root, "channel steps 5"}, {anna, "model fast"}, {anna, "me language German"}} {
		if d := say(b, c.by, c.text); d.Failed {
			t.Fatalf("%q: %s", c.text, d.Text)
		}
	}
	b = book(t, k) // as after a restart
	want := settings.Layer{Model: "fast", Language: "German", Tools: settings.Tools{Enabled: &no, MaxSteps: &five}}
	if diff := cmp.Diff(want, b.For(thread, "U1")); diff != "" {
		t.Errorf("for anna (-want +got):\n%s", diff)
	}
	if got := b.For(thread.Base(), "U2"); got.Language != "Norwegian" || got.Model != "default" {
		t.Errorf("for somebody else %+v", got)
	}
	if got := b.For(chat.Address{Platform: "slack", Workspace: "T1", Channel: "C2"}, "U2"); got.Language != "English" {
		t.Errorf("in another channel %+v", got)
	}
	if text := say(b, anna, "").Text; !strings.Contains(text, "`language`: German (set by you)") || !strings.Contains(text, "`steps`: 5 (set for this channel)") {
		t.Errorf("shown as %s", text)
	}
	say(b, anna, "language default")
	if got := b.For(thread, "U1"); got.Language != "Norwegian" {
		t.Errorf("after taking back %+v", got)
	}
}

func TestWhatIsWrongIsRefusedWithTheRemedy(t *testing.T) {
	k := kept{}
	b := book(t, k)
	for text, want := range map[string]string{"model nonesuch": "there are: default, fast", "steps 0": "1 to 100", "steps many": "want a number",
		"tools maybe": "on or off", "colour red": "no key", "model": "a key and a value", "channel model fast": "Only administrators", "prompt " + strings.Repeat("x", 9000): "8192"} {
		if d := say(b, chat.User{ID: "U1"}, text); !d.Failed || !strings.Contains(d.Text, want) {
			t.Errorf("%.40q was answered %.200q, want %q in it", text, d.Text, want)
		}
	}
	if len(k) != 0 {
		t.Errorf("kept %v", k)
	}
}
