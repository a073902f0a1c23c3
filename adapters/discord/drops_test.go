package discord_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ravenbot/adapters/discord"
	"ravenbot/internal/core/chat"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

// taken stores messages as delivery does: each once, and it knows the last.
type taken struct {
	got chan chat.Message

	mu   sync.Mutex
	once map[string]bool
	last chat.LastSeen
}

func (s *taken) accept(_ context.Context, m chat.Message) error {
	s.mu.Lock()
	known := s.once[m.Key()]
	s.once[m.Key()] = true
	if !known {
		s.last = chat.LastSeen{Conversation: m.Conversation, Message: m.ID, Time: m.Time}
	}
	s.mu.Unlock()
	if !known {
		s.got <- m
	}
	return nil
}

func (s *taken) heard(context.Context) ([]chat.LastSeen, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.Message == "" {
		return nil, nil
	}
	return []chat.LastSeen{s.last}, nil
}

// talk says ten numbered things a second until stop, which tells how many.
func (s *stage) talk() (stop func() int) {
	over, said := make(chan struct{}), make(chan int)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			s.Say(s.general.ID, s.ann, s.Mention()+strconv.Itoa(n))
			select {
			case <-tick.C:
			case <-over:
				said <- n + 1
				return
			}
		}
	}()
	return func() int { close(over); return <-said }
}

// Connections end in every way that does not end the bot, while people talk. With
// RAVENBOT_DROPS=100 it is a hundred times.
func TestNothingIsLostHoweverOftenConnectionsEnd(t *testing.T) {
	t.Parallel()
	drops := 4
	if n, err := strconv.Atoi(os.Getenv("RAVENBOT_DROPS")); err == nil && n > 0 {
		drops = n
	}
	store := &taken{got: make(chan chat.Message, 100_000), once: map[string]bool{}}
	s := open(t, script{discord: discord.Options{CatchUp: time.Hour, LastSeen: store.heard}, accept: store.accept})
	stop := s.talk()
	began, fresh := time.Now(), 0
	for i := range drops {
		switch i % 4 {
		case 0:
			s.Drop(0, 0)
		case 1:
			s.AskReconnect()
		case 2:
			s.InvalidateSessions(true)
		case 3:
			s.InvalidateSessions(false)
			fresh++
		}
		s.connected(t, i+2)
	}
	said := stop()
	for i := range said {
		if m := receive(t, store.got); m.Text != strconv.Itoa(i) {
			t.Fatalf("message %d is %q", i, m.Text)
		}
	}
	ids, resumes := s.Identifies(), s.Resumes()
	if len(ids) != 1+fresh {
		t.Errorf("%d identifies for %d sessions", len(ids), 1+fresh)
	}
	for i := range len(ids) - 1 {
		if apart := ids[i+1].At.Sub(ids[i].At); apart < 5*time.Second-100*time.Millisecond {
			t.Errorf("identified again after %v", apart)
		}
	}
	t.Logf("%d drops in %v: %d said, none lost, %d identifies, %d resumes", drops, time.Since(began).Round(time.Second),
		said, len(ids), len(resumes))
}

// While nothing can be stored, no more than so many messages wait in memory: the connection is ended, and what was said
// then is read again, whether Discord still knows the session or not.
func TestTooManyMessagesWait_ConnectionIsEnded(t *testing.T) {
	t.Parallel()
	for name, isForgotten := range map[string]bool{"session resumed": false, "session forgotten": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &taken{got: make(chan chat.Message, 100), once: map[string]bool{}}
			var isFull atomic.Bool
			s := open(t, script{
				sim:        simdiscord.Options{HeartbeatInterval: 100 * time.Millisecond},
				discord:    discord.Options{LastSeen: store.heard, CatchUp: time.Hour},
				maxWaiting: 5,
				accept: func(ctx context.Context, m chat.Message) error {
					if isFull.Load() {
						return errors.New("no space left")
					}
					return store.accept(ctx, m)
				},
			})
			const part = 10
			said := 0
			say := func(n int) {
				for range n {
					s.Say(s.general.ID, s.ann, s.Mention()+strconv.Itoa(said))
					said++
				}
			}
			say(1)
			receive(t, store.got)
			isFull.Store(true)
			say(part)
			eventually(t, "the connection is ended", func() bool { return s.Connections() == 0 })
			say(part)
			if n := discord.Kept(s.d); n > part+2 {
				t.Errorf("%d things are kept", n)
			}
			if detail := s.d.Health().Detail; !strings.Contains(detail, "too many messages wait") {
				t.Errorf("health says %q", detail)
			}
			if isForgotten {
				s.Outage()()
			}
			isFull.Store(false)
			for n := 1; n < said; n++ {
				if m := receive(t, store.got); !strings.HasSuffix(m.Text, strconv.Itoa(n)) {
					t.Errorf("%q came instead of number %d", m.Text, n)
				}
			}
			if resumes := len(s.Resumes()); isForgotten == (resumes > 0 && len(s.Identifies()) == 1) {
				t.Errorf("%d times resumed, %d sessions", resumes, len(s.Identifies()))
			}
		})
	}
}
