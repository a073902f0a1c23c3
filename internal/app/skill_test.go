package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	simmodel "ravenbot/internal/testing/sim/model"
)

// A skill is named in the prompt of the agent that has it, and read when the model asks for it.
func TestSkills_AreToldOfAndRead(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		if results := r.Last().Results; len(results) > 0 {
			return simmodel.Say("read: " + results[0].Content)
		}
		if !strings.Contains(r.System, "- brew-tea: Makes tea.") || !r.Declares("skill_read") {
			return simmodel.Say("I have no skills")
		}
		return simmodel.CallTool("skill_read", `{"name":"brew-tea","file":"times.md"}`)(r)
	})
	folder := filepath.Join(w.dir, "skills", "brew-tea")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"SKILL.md": "---\nname: brew-tea\ndescription: Makes tea.\n---\nSee " +
		"times.md.", "times.md": "Green: two minutes."} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settings := w.base()
	b := w.run(settings)
	if text := answerIn(t, b.ask("general", "tea?")); text != "I have no skills" {
		t.Errorf("without skills: %q", text)
	}
	settings["agents"] = map[string]any{"default": map[string]any{"systemPrompt": "You are a test.",
		"skills": []string{"skills/*"}, "tools": []string{"web.*"}}}
	b.stop()
	b = w.run(settings)
	if text := answerIn(t, b.ask("general", "tea?")); !strings.Contains(text, "read: ") ||
		!strings.Contains(text, "Green: two minutes.") {
		t.Errorf("with a skill: %q", text)
	}
}
