package access_test

import (
	"context"
	"log/slog"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/turn/access"
)

// memory is what a Gate asks: which conversations are remembered, and what features follow.
type memory struct{ known bool }

func (m memory) HasConversation(context.Context, chat.Address) (bool, error) { return m.known, nil }

func TestAdmit_WhoIsSpokenTo(t *testing.T) {
	for _, tt := range []struct {
		name      string
		respondTo string
		reach     chat.Reach
		forOther  bool
		memory    memory
		want      bool
	}{
		{"a mention", "mentions", chat.Addressed, false, memory{}, true},
		{"chatter", "mentions", chat.Overheard, false, memory{}, false},
		{"a thread of the bot", "mentions", chat.Followed, false, memory{known: true}, true},
		{"somebody else in a thread of the bot", "mentions", chat.Followed, true, memory{known: true}, false},
		{"a thread of others", "mentions", chat.Followed, false, memory{}, false},
		{"chatter where all is answered", "all", chat.Overheard, false, memory{}, true},
		{"somebody else where all is answered", "all", chat.Overheard, true, memory{}, false},
		{"somebody else in a thread where all is answered", "all", chat.Followed, true, memory{known: true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conf := &config.Config{Channels: []config.Channel{
				{Match: "slack:T1/C1", AllowUsers: []string{"*"}, RespondTo: tt.respondTo},
			}}
			g := access.NewGate(func() *config.Config { return conf }, tt.memory, slog.New(slog.DiscardHandler))
			m := chat.Message{
				Conversation: chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1"},
				Author:       chat.User{ID: "U1"},
				Reach:        tt.reach,
				ForOther:     tt.forOther,
			}
			if ok, _ := g.Admit(t.Context(), m, false); ok != tt.want {
				t.Errorf("admitted: %v, want %v", ok, tt.want)
			}
		})
	}
}

// A display name is everybody's free choice: only the account's own name admits.
func TestAdmit_AllowedByName_CountsTheHandleAlone(t *testing.T) {
	conf := &config.Config{Channels: []config.Channel{{Match: "discord:G/C", AllowUsers: []string{"@Boss"}}}}
	g := access.NewGate(func() *config.Config { return conf }, memory{}, slog.New(slog.DiscardHandler))
	at := chat.Address{Platform: "discord", Workspace: "G", Channel: "C"}
	for user, want := range map[string]bool{"boss": true, "mallory": false} {
		m := chat.Message{
			Conversation: at,
			Reach:        chat.Addressed,
			Author:       chat.User{ID: "1", Name: "boss", Handle: user},
		}
		if ok, _ := g.Admit(t.Context(), m, false); ok != want {
			t.Errorf("the account %s is admitted: %v", user, ok)
		}
	}
}
