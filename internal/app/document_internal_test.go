package app

import (
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/ops/config"
)

var update = flag.Bool("update", false, "write docs/commands.md")

// newLocal returns a bot of the smallest configuration that does not run.
func newLocal(t *testing.T) *App {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{"store":"raven.db"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Config: c, Log: slog.New(slog.DiscardHandler), Now: time.Now, Local: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func TestFeatures_Document_IsUpToDate(t *testing.T) {
	const path = "../../docs/commands.md"
	got := newLocal(t).features.Document()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is out of date; go test ./internal/app -run Document -update writes it:\n%s", path, diff)
	}
}

// Every command is in the menus, in the help, and answered by a feature; only a question goes
// to the agent.
func TestFeatures_EveryCommand_HasAHandlerHelpAndMenuEntry(t *testing.T) {
	a := newLocal(t)
	if diff := cmp.Diff(CommandSpecs(), a.features.Commands()); diff != "" {
		t.Errorf("modules declare other commands (-) than they register (+):\n%s", diff)
	}
	from := chat.Message{ID: "1", Conversation: chat.Address{Platform: "web", Channel: "general"},
		Author: chat.User{ID: "U1", Admin: true}}
	help := a.features.Help(from).Text
	for _, c := range a.features.Commands() {
		if c.Summary == "" || c.Help == "" || !strings.Contains(help, "/raven "+c.Name) {
			t.Errorf("the command %q lacks a summary, help, or its line in /raven help", c.Name)
		}
		m := from
		m.Command = c.Name
		answered := a.features.Handle(t.Context(), m) != nil
		if want := c.Name != chat.CommandAsk && c.Name != chat.CommandStop; answered != want { // delivery carries out a stop
			t.Errorf("the command %q is answered by a feature: %v, want %v", c.Name, answered, want)
		}
	}
}

// Every button that the bot makes is declared, and none is declared for nothing.
func TestFeatures_EveryButton_IsDeclared(t *testing.T) {
	a := newLocal(t)
	from := chat.Message{ID: "1", Conversation: chat.Address{Platform: "web", Channel: "general"},
		Author: chat.User{ID: "U1"}, Command: chat.Pressed}
	var words []string
	for _, b := range a.features.Buttons() {
		if b.Who == "" || b.Does == "" {
			t.Errorf("the button %q lacks who may press it, or what it does", b.Word)
		}
		words = append(words, b.Word)
		m := from
		m.Text = b.Word + " unknown"
		d := a.features.Handle(t.Context(), m)
		if passes := b.Word == chat.PressStop || b.Word == strings.TrimSpace(chat.PressRetry); d == nil && !passes {
			t.Errorf("a press of %q is not handled", b.Word)
		}
	}
	for _, value := range []string{chat.PressStop, chat.PressRetry, chat.PressGood, chat.PressBad, chat.PressTools} {
		if !slices.Contains(words, strings.TrimSpace(value)) {
			t.Errorf("the button %q is declared by no feature", value)
		}
	}
	m := from
	m.Text = "nobody's button"
	if d := a.features.Handle(t.Context(), m); d == nil || !d.Failed {
		t.Errorf("an unknown button is answered %+v", d)
	}
}
