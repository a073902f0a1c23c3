package settings_test

import (
	"log/slog"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/feature/settings"
)

// What administrators lock, a member neither sets nor has from before, by no way in; administrators go on setting it
// for the channel.
func TestLocked_MemberSetsIt_KeepsTheChannelsValue(t *testing.T) {
	k := kept{}
	rules := settings.MemberRules{}
	b := settings.New(k, func() []string {
		return []string{"default", "fast", "dear"}
	}, func() settings.MemberRules { return rules }, slog.New(slog.DiscardHandler))
	anna, root := chat.User{ID: "U1"}, chat.User{ID: "U9", Admin: true}
	for _, text := range []string{"tools on", "steps 100", "model dear", "language Malay"} {
		if d := say(b, anna, text); d.Failed {
			t.Fatalf("%s, unlocked: %s", text, d.Text)
		}
	}
	rules = settings.MemberRules{Locked: []string{"tools.enabled", "tools.maxSteps"}, Models: []string{"default", "fast"}}
	for _, text := range []string{"channel tools off", "channel steps 1", "channel model dear"} {
		if d := say(b, root, text); d.Failed {
			t.Fatalf("an administrator's %s: %s", text, d.Text)
		}
	}
	for text, want := range map[string]string{
		"tools on":   "tools.enabled is locked",
		"steps 100":  "tools.maxSteps is locked",
		"model dear": `cannot choose the model "dear" yourself; open to you: default, fast`,
	} {
		if d := say(b, anna, text); !d.Failed || !strings.Contains(d.Text, want) {
			t.Errorf("%s is answered %q, want %q in it", text, d.Text, want)
		}
	}
	got := b.Effective(thread, "U1")
	if *got.Tools.Enabled || *got.Tools.MaxSteps != 1 || got.Model != "dear" || got.Language != "Malay" {
		t.Errorf("in effect %+v with %d steps, want the channel's, and the member's language", got, *got.Tools.MaxSteps)
	}
	// What is not locked can still be set beside values from before.
	if d := say(b, anna, "model fast"); d.Failed || b.Effective(thread, "U1").Model != "fast" ||
		!strings.Contains(d.Text, "set only by administrators") {
		t.Errorf("an open model: %s", d.Text)
	}
	seven := 7
	if err := b.Check(settings.User("slack", "U1"), settings.Layer{Tools: settings.Tools{MaxSteps: &seven}}); err == nil {
		t.Error("a member's layer from elsewhere may set what is locked")
	}
	if got := strings.Join(b.Suggest("model"), "; "); strings.Contains(got, "dear") {
		t.Errorf("suggested: %s", got)
	}
}

func TestLocked_Form_ShowsWhatMaySet(t *testing.T) {
	rules := settings.MemberRules{Locked: []string{"tools.enabled", "tools.maxSteps"}, Models: []string{"fast"}}
	b := settings.New(kept{}, func() []string {
		return []string{"default", "fast"}
	}, func() settings.MemberRules { return rules }, slog.New(slog.DiscardHandler))
	m := chat.Message{Conversation: thread, Author: chat.User{ID: "U1"}, Command: "settings"}
	f, err := b.Form(t.Context(), m)
	if err != nil || len(f.Fields) != 3 || len(f.Fields[0].Options) != 2 ||
		!strings.Contains(f.Intro, "Only administrators set: tools, steps.") {
		t.Fatalf("form %+v, %v", f, err)
	}
	// A form that was opened before the lock, or was made up.
	m.Command, m.Text, m.Values = chat.Submitted, f.ID, map[string]string{"steps": "100"}
	if d, _ := b.HandleForm(t.Context(), m); !d.Failed || !strings.Contains(d.Text, "Tools.maxSteps is locked") {
		t.Errorf("a forged form: %s", d.Text)
	}
	rules.Locked = append(rules.Locked, "model", "language", "tools.systemPrompt")
	m.Command, m.Text, m.Values = "settings", "", nil
	if _, err := b.Form(t.Context(), m); err == nil || !strings.Contains(err.Error(), "administrators set all") {
		t.Errorf("a form without fields: %v", err)
	}
}
