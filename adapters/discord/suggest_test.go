package discord_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ravenbot/adapters/discord"
	"ravenbot/internal/core/chat"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

// typing returns what is offered to somebody who types a digest's name.
func (s *stage) typing(t *testing.T, text string) ([]string, time.Duration) {
	t.Helper()
	if err := s.WaitCommand(within(t), "raven"); err != nil {
		t.Fatal(err)
	}
	in, err := s.Type(s.general.ID, s.ann, "raven", "digest", "name", text)
	if err != nil {
		t.Fatal(err)
	}
	back, err := s.WaitCallback(within(t), in.ID)
	if err != nil || back.Type != simdiscord.CallbackAutocomplete {
		t.Fatalf("callback %+v: %v", back, err)
	}
	var d struct {
		Choices []struct{ Name, Value string }
	}
	if err := json.Unmarshal(back.Data, &d); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range d.Choices {
		names = append(names, c.Value)
	}
	return names, back.After
}

func TestNamesAreCompleted(t *testing.T) {
	t.Parallel()
	s := open(t, script{discord: discord.Options{Suggest: func(_ context.Context, at chat.Address,
		command, option, prefix string) []string {
		list := []string{at.Platform + " " + command + " " + option + " " + prefix, "", strings.Repeat("x", 101)}
		for i := range 40 {
			list = append(list, strconv.Itoa(i))
		}
		return list
	}}})
	got, _ := s.typing(t, "mor")
	if len(got) != 25 || got[0] != "discord digest name mor" || slices.Contains(got, "") || got[24] != "23" {
		t.Errorf("offered %q", got)
	}
}

func TestCompletionThatFails(t *testing.T) {
	for name, suggest := range map[string]func(context.Context, chat.Address, string, string, string) []string{
		"nobody to ask": nil,
		"nothing":       func(context.Context, chat.Address, string, string, string) []string { return nil },
		"hangs": func(ctx context.Context, _ chat.Address, _, _, _ string) []string {
			<-ctx.Done()
			return []string{"too late"}
		},
		"lost": func(context.Context, chat.Address, string, string, string) []string { panic("lost") },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, script{discord: discord.Options{Suggest: suggest}})
			got, after := s.typing(t, "m")
			if len(got) > 0 || after > 3*time.Second {
				t.Errorf("offered %q after %v", got, after)
			}
			if name == "lost" {
				s.logged(t, "panic while completing")
				s.log.forget()
			}
		})
	}
}
