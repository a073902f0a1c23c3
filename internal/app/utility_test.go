package app_test

import (
	"strings"
	"testing"

	"ravenbot/adapters/slack"
	simdiscord "ravenbot/internal/testing/sim/discord"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// cheaply tells which model was asked for what.
func cheaply(r simmodel.Request) simmodel.Reply {
	switch {
	case strings.HasPrefix(r.System, "You keep the memory"):
		return simmodel.Say("Much was said (" + r.Model + ").")
	case strings.HasPrefix(r.System, "You name chats"):
		return simmodel.Say("\"News, by " + r.Model + "\"\n\nIs that what you wanted?")
	}
	return simmodel.Say("answered by " + r.Model)
}

// withCheaper is a configuration with a second model under a name.
func (w *world) withCheaper(name string) map[string]any {
	settings := w.base()
	settings["models"].(map[string]any)[name] = map[string]any{"provider": "openai", "model": "gpt-sim", "apiKey": "key",
		"baseURL": w.model.OpenAIURL()}
	return settings
}

// asked counts the requests to a model whose system prompt begins with some words.
func (w *world) asked(model, system string) (n int) {
	for _, r := range w.model.Asked() {
		if r.Model == model && strings.HasPrefix(r.System, system) {
			n++
		}
	}
	return n
}

func TestACheaperModelNamesThreadsAndSumsUp(t *testing.T) {
	for name, entry := range map[string]map[string]any{
		"utility": {"systemPrompt": "You are a test."},
		"small":   {"systemPrompt": "You are a test.", "utilityModel": "small"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, simslack.Options{Scopes: slack.Scopes()}, simdiscord.Options{})
			w.model.SetScript(cheaply)
			settings := w.withCheaper(name)
			settings["agents"] = map[string]any{"default": entry}
			b := w.run(settings)
			e := w.slack.DM(w.berit, "what is new?")
			within(t, "the thread has a name", func() bool {
				return w.slack.Assistant(e.Channel, e.TS).Title == "News, by gpt-sim"
			})
			within(t, "the conversation outgrows its window", func() bool {
				if text := answerIn(t, b.ask("general", strings.Repeat("many words ",
					1500))); text != "answered by gemini-3.8-flash" {
					t.Errorf("the answer is %q", text)
				}
				return w.asked("gpt-sim", "You keep the memory") > 0
			})
			if n := w.asked("gemini-3.8-flash", "You keep") + w.asked("gemini-3.8-flash", "You name"); n > 0 {
				t.Errorf("the agent's own model was asked for small work %d times", n)
			}
		})
	}
}

// Where the cheaper model fails the agent's own does the work; where there is none,
// threads are named after their questions and cost nothing.
func TestSmallWorkWithoutTheCheaperModel(t *testing.T) {
	w := newWorldWith(t, simslack.Options{Scopes: slack.Scopes()}, simdiscord.Options{})
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		if r.Model == "gpt-sim" {
			return simmodel.Reply{Status: 401, Message: "no such key"}
		}
		return cheaply(r)
	})
	b := w.run(w.withCheaper("utility"))
	e := w.slack.DM(w.berit, "what is new?")
	within(t, "the thread has a name", func() bool {
		return w.slack.Assistant(e.Channel, e.TS).Title == "News, by gemini-3.8-flash"
	})
	b.stop()
	w.run(w.base())
	before := w.asked("gemini-3.8-flash", "You name")
	e = w.slack.DM(w.berit, "and what else?")
	within(t, "the thread has a name", func() bool { return w.slack.Assistant(e.Channel, e.TS).Title == "and what else?" })
	within(t, "the question is answered", func() bool { return w.asked("gemini-3.8-flash", "You are a test.") > 1 })
	if n := w.asked("gemini-3.8-flash", "You name"); n != before {
		t.Errorf("a model was asked for a title %d times more", n-before)
	}
}
