package app_test

import (
	"strings"
	"testing"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simslack "ravenbot/internal/testing/sim/slack"
)

func TestSettingsAreAFormOnDiscord(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	w.run(w.base())
	if err := w.discord.WaitCommand(deadline(t), "raven"); err != nil {
		t.Fatal(err)
	}
	boss := w.discord.AddManager("boss")
	fill := func(by simdiscord.User, text string, fields map[string][]string) string {
		in := must(w.discord.Slash(w.news.ID, by, "raven", "settings", map[string]any{"text": text}))
		if back, err := w.discord.WaitCallback(deadline(t), in.ID); err != nil || back.Type != simdiscord.CallbackModal {
			return string(back.Data)
		}
		sent := must(w.discord.Fill(in.ID, fields))
		p := must(w.discord.WaitAnswer(deadline(t), sent.ID, func(simdiscord.Post) bool { return true }))
		if !p.Ephemeral() {
			t.Errorf("all can see %q", p.Content)
		}
		return p.Content
	}
	if got := fill(w.anna, "", map[string][]string{"language": {"German"}, "steps": {"4"}}); !strings.Contains(got,
		"German (set by you)") || !strings.Contains(got, "4 (set by you)") {
		t.Errorf("answered %q", got)
	}
	if got := fill(w.anna, "channel", nil); !strings.Contains(got, "Only administrators") {
		t.Errorf("somebody else is answered %q", got)
	}
	if got := fill(boss, "channel", map[string][]string{"tools": {"off"}}); !strings.Contains(got,
		"off (set for this channel)") {
		t.Errorf("an administrator is answered %q", got)
	}
	// What was filled in comes back when the form is opened again.
	in := must(w.discord.Slash(w.news.ID, w.anna, "raven", "settings", nil))
	must(w.discord.WaitCallback(deadline(t), in.ID))
	sent := must(w.discord.Fill(in.ID, map[string][]string{"steps": {"9999"}, "language": {"Norwegian"}}))
	refused := must(w.discord.WaitAnswer(deadline(t), sent.ID, inDiscord("Nothing was changed")))
	if !strings.Contains(refused.Content, "want 1 to") {
		t.Errorf("a fault is answered %q", refused.Content)
	}
	press := w.discord.Click(refused.ID, w.anna, buttonID(t, refused.Components, "Open the form again", "custom_id"))
	again := must(w.discord.WaitCallback(deadline(t), press.ID))
	if again.Type != simdiscord.CallbackModal || !strings.Contains(string(again.Data), `"Norwegian"`) ||
		!strings.Contains(string(again.Data), `"9999"`) {
		t.Errorf("the form that opens again is %d %s", again.Type, again.Data)
	}
	sent = must(w.discord.Fill(press.ID, map[string][]string{"steps": {"3"}}))
	must(w.discord.WaitAnswer(deadline(t), sent.ID, inDiscord("Norwegian (set by you)")))
}

func TestSettingsAreAFormOnSlack(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	w.run(w.base())
	root := w.slack.AddAdmin("root")
	views := 0
	fill := func(by simslack.User, text string, fields map[string][]string) string {
		call := w.slack.Slash(w.channel.ID, by, "/raven", "settings "+text)
		within(t, "the form is there, or an answer", func() bool {
			return len(w.slack.Views()) > views || len(w.slack.Answers(call)) > 0
		})
		if all := w.slack.Views(); len(all) > views {
			views = len(all)
			must(w.slack.FillView(all[views-1], by, fields))
		}
		a := must(w.slack.WaitAnswer(deadline(t), call, func(simslack.Answer) bool { return true }))
		if a.InChannel {
			t.Errorf("all can see %q", a.Text)
		}
		return a.Text + string(a.Blocks)
	}
	if got := fill(w.berit, "", map[string][]string{"language": {"German"}, "model": {"offline"}}); !strings.Contains(got,
		"German (set by you)") {
		t.Errorf("answered %q", got)
	}
	if got := fill(w.berit, "channel", nil); !strings.Contains(got, "Only administrators") {
		t.Errorf("somebody else is answered %q", got)
	}
	if got := fill(root, "channel", map[string][]string{"tools": {"off"}, "prompt": {"Be kind."}}); !strings.Contains(got,
		"off (set for this channel)") {
		t.Errorf("an administrator is answered %q", got)
	}
	w.slack.Slash(w.channel.ID, w.berit, "/raven", "settings")
	within(t, "the form is there", func() bool { return len(w.slack.Views()) > views })
	shown := w.slack.Views()[views]
	views++
	bad := must(w.slack.FillView(shown, w.berit, map[string][]string{"steps": {"9999"}}))
	if d := must(w.slack.WaitAck(deadline(t), bad.EventID)); !strings.Contains(string(d.Answer),
		`"response_action":"errors"`) || !strings.Contains(string(d.Answer), `"steps":"Tools.maxSteps is 9999, want 1 to`) {
		t.Errorf("the form is told %s", d.Answer)
	}
	if got := fill(root, "channel language Norwegian", nil); !strings.Contains(got, "Norwegian (set for this channel)") {
		t.Errorf("the words are answered %q", got)
	}
}

// A command shows its sender that it is worked on: whoever may not use the bot has to
// be told, and is told nothing else.
func TestACommandOfWhoMayNotUseTheBotIsRefused(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	set := w.base()
	set["channels"] = []any{map[string]any{"match": "*:*/*", "allowUsers": []string{"nobody"}}}
	w.run(set)
	if err := w.discord.WaitCommand(deadline(t), "raven"); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"ask", "help"} {
		in := must(w.discord.Slash(w.news.ID, w.anna, "raven", sub, map[string]any{"text": "a secret question"}))
		p := must(w.discord.WaitAnswer(deadline(t), in.ID, func(simdiscord.Post) bool { return true }))
		if !strings.Contains(p.Content, "You may not use me here") {
			t.Errorf("%s on Discord was answered %q", sub, p.Content)
		}
		call := w.slack.Slash(w.channel.ID, w.berit, "/raven", sub+" a secret question")
		a := must(w.slack.WaitAnswer(deadline(t), call, func(simslack.Answer) bool { return true }))
		if !strings.Contains(a.Text, "You may not use me here") || a.InChannel {
			t.Errorf("%s on Slack was answered %+v", sub, a)
		}
	}
	if n := len(w.model.Asked()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}
