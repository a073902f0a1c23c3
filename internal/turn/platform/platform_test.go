package platform_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/turn/platform"
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

// refusing is a platform that the first instances of are refused.
type refusing struct {
	plain
	is        bool
	connected *atomic.Bool
}

func (r refusing) Run(ctx context.Context, _ func(context.Context, chat.Message) error) error {
	if r.is {
		return &chat.SetupError{Reason: "the token is refused", Remedy: "check it"}
	}
	r.connected.Store(true)
	<-ctx.Done()
	return nil
}

func (r refusing) Health() chat.Health { return chat.Health{Connected: !r.is && r.connected.Load()} }

// One refusal heals by itself: the platform is made again and tried again, ever more slowly.
func TestSet_RefusedPlatform_IsTriedAgainInMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, connected := time.Now(), &atomic.Bool{}
		var tries []time.Duration
		remake := func(string) chat.Platform {
			tries = append(tries, time.Since(began))
			return refusing{is: len(tries) < 3, connected: connected}
		}
		s := platform.NewSet(slog.New(slog.DiscardHandler), remake, refusing{is: true, connected: connected})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx, nil); close(done) }()
		if _, refused, ok := s.WaitReady(ctx); refused != "plain" || !ok {
			t.Errorf("refused are %q", refused)
		}
		if h := s.Health()[0]; h.Connected || !strings.Contains(h.Detail, "the token is refused") ||
			!strings.Contains(h.Detail, "trying again") {
			t.Errorf("health %+v", h)
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if want := []time.Duration{time.Minute, 3 * time.Minute, 7 * time.Minute}; !slices.Equal(tries, want) {
			t.Errorf("tried again after %v, want %v", tries, want)
		}
		if h := s.Health()[0]; !h.Connected || h.Detail != "" {
			t.Errorf("health %+v", h)
		}
		cancel()
		<-done
	})
}

func TestSet_Context_IsZeroWhereThePlatformCannotTell(t *testing.T) {
	s := platform.NewSet(slog.New(slog.DiscardHandler), nil, plain{}, talkative{})
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
