package platform_test

import (
	"context"
	"log/slog"
	"testing"

	"ravenbot/internal/chat"
	"ravenbot/internal/platform"
)

// plain is a platform without optional abilities.
type plain struct{ chat.Platform }

func (plain) Name() string { return "plain" }

// talkative is one that tells what a message is about and what it shows.
type talkative struct{ chat.Platform }

func (talkative) Name() string { return "talkative" }

func (talkative) Context(_ context.Context, m chat.Message, _ chat.ContextQuery) chat.Context {
	return chat.Context{Zone: "Europe/Oslo", Place: chat.Place{Channel: m.Conversation.Channel}}
}

func (talkative) Formatting() string { return "It shows Markdown." }

func TestSet_Context_IsZeroWhereThePlatformCannotTell(t *testing.T) {
	s := platform.NewSet(slog.New(slog.DiscardHandler), plain{}, talkative{})
	for _, tt := range []struct{ name, zone, channel, formatting string }{
		{"talkative", "Europe/Oslo", "general", "It shows Markdown."},
		{"plain", "", "", ""},
		{"switched off", "", "", ""},
	} {
		m := chat.Message{Conversation: chat.Address{Platform: tt.name, Channel: "general"}}
		c := s.Context(t.Context(), m, chat.ContextQuery{})
		if c.Zone != tt.zone || c.Place.Channel != tt.channel || s.Formatting(tt.name) != tt.formatting {
			t.Errorf("%s: %+v, formatting %q", tt.name, c, s.Formatting(tt.name))
		}
	}
}
