package app_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	simdiscord "ravenbot/internal/testing/sim/discord"
)

func TestNamesAreCompletedWhereTheyAreTaken(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	settings := w.base()
	digest := func(feeds ...string) map[string]any {
		// Members are offered what is posted where they ask.
		return map[string]any{"schedule": "0 8 * * *", "feeds": feeds,
			"post": []string{"discord:" + w.guild.ID + "/" + w.news.ID}}
	}
	settings["digests"] = map[string]any{"morning": digest("bundled:feeds-primer", "https://birds.example/atom.xml"),
		"evening": digest("https://birds.example/?key=secret")}
	w.run(settings)
	if err := w.discord.WaitCommand(deadline(t), "raven"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sub, option, typed string
		want               []string
	}{
		{"digest", "name", "", []string{"evening", "morning"}},
		{"digest", "name", "mor", []string{"morning"}},
		{"ask", "feed", "", []string{"bundled:feeds-primer", "https://birds.example/atom.xml"}},
		{"ask", "feed", "Birds", []string{"https://birds.example/atom.xml"}},
		{"ask", "zone", "oslo", []string{"Europe/Oslo"}},
		{"ask", "zone", "new york", []string{"America/New_York"}},
		{"ask", "zone", "utc", []string{"UTC"}},
		{"settings", "text", "model o", []string{"model offline"}},
		{"settings", "text", "channel too", []string{"channel tools on", "channel tools off", "channel tools default"}},
		{"ask", "text", "what", nil},
	} {
		in := must(w.discord.Type(w.news.ID, w.anna, "raven", c.sub, c.option, c.typed))
		back := must(w.discord.WaitCallback(deadline(t), in.ID))
		var d struct{ Choices []struct{ Value string } }
		if err := json.Unmarshal(back.Data, &d); err != nil || back.Type != simdiscord.CallbackAutocomplete {
			t.Fatal(err, back)
		}
		var got []string
		for _, choice := range d.Choices {
			got = append(got, choice.Value)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("/raven %s %s:%s offers %q, want %q", c.sub, c.option, c.typed, got, c.want)
		}
	}
	in := must(w.discord.Slash(w.news.ID, w.anna, "raven", "ask",
		map[string]any{"text": "what is new?", "feed": "bundled:feeds-primer", "zone": "Europe/Oslo"}))
	if p := must(w.discord.WaitAnswer(deadline(t), in.ID, inDiscord("you said"))); !strings.Contains(p.Content,
		"what is new?\nFeed: bundled:feeds-primer\nTime zone: Europe/Oslo") {
		t.Errorf("asked with a feed and a zone: %q", p.Content)
	}
	in = must(w.discord.Slash(w.news.ID, w.anna, "raven", "digest",
		map[string]any{"action": "explain", "name": "morning"}))
	if p := must(w.discord.WaitAnswer(deadline(t), in.ID, inDiscord("as it would be now"))); !p.Ephemeral() ||
		!strings.Contains(p.Content, "*posted*") {
		t.Errorf("explained as %q", p.Content)
	}
}

func TestEveryZoneThatIsOfferedIsThere(t *testing.T) {
	for name := range strings.FieldsSeq(string(must(os.ReadFile("../news/schedule/zones.txt")))) {
		if _, err := time.LoadLocation(name); err != nil {
			t.Error(err)
		}
	}
}
