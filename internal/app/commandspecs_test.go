package app

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/adapters/discord"
	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

// Discord limits how often a day a command may be changed, so what is registered must not
// change by accident.
func TestCommandSpecs_RegisterTheSameCommandOnDiscord(t *testing.T) {
	server, err := simdiscord.New(simdiscord.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	d := discord.New(discord.Options{Token: "token", APIBaseURL: server.URL(), Commands: CommandSpecs(),
		Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, func(context.Context, chat.Message) error { return nil }) }()
	registered, err := server.WaitRequest(ctx, func(r sim.Request) bool {
		return r.Method == "POST" && len(r.Body) > 0 && bytes.Contains(r.Body, []byte(`"name":"raven"`))
	})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ended
	const path = "testdata/discord-command.json"
	if os.Getenv("RAVENBOT_UPDATE") != "" {
		if err := os.WriteFile(path, registered.Body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(registered.Body)); diff != "" {
		t.Errorf("the command that is registered changed; RAVENBOT_UPDATE=1 writes %s:\n%s", path, diff)
	}
}

func TestCommandSpecs_KeepToTheLimitsOfMenus(t *testing.T) {
	for _, c := range CommandSpecs() {
		if len(c.Name) > 32 || c.Summary == "" || len(c.Summary) > 100 {
			t.Errorf("command %+v", c)
		}
		for _, o := range c.Options {
			if len(o.Name) > 32 || o.Summary == "" || len(o.Summary) > 100 || len(o.Choices) > 25 {
				t.Errorf("option of %s: %+v", c.Name, o)
			}
		}
	}
}

// deploy/slack-manifest.json is the manifest of the commands; RAVENBOT_UPDATE=1 writes it.
func TestCommandSpecs_AreThoseOfTheShippedSlackManifest(t *testing.T) {
	want, err := slack.Manifest("", CommandSpecs(), MessageCommands())
	if err != nil {
		t.Fatal(err)
	}
	const path = "../../deploy/slack-manifest.json"
	if os.Getenv("RAVENBOT_UPDATE") != "" {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
		t.Errorf("%s differs from the code (%v); RAVENBOT_UPDATE=1 writes it", path, err)
	}
	var known struct {
		Features struct {
			Commands []struct {
				Hint string `json:"usage_hint"`
			} `json:"slash_commands"`
		} `json:"features"`
	}
	if err := json.Unmarshal(want, &known); err != nil || len(known.Features.Commands) != 1 ||
		known.Features.Commands[0].Hint == "" {
		t.Errorf("manifest %s: %v", want, err)
	}
}
