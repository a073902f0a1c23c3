package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/delivery"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// readOnly stores no outcomes while it is full.
type readOnly struct {
	*bolt.DB
	full *atomic.Bool
}

func (s readOnly) SaveOutcomes(ctx context.Context, outcomes []store.Outcome) error {
	if s.full.Load() {
		return errors.New("no space left")
	}
	return s.DB.SaveOutcomes(ctx, outcomes)
}

// Whoever stops the bot kills it when it takes long. Outcomes that cannot be stored are found by the next start.
func TestShutdown_OutcomesCannotBeStored_EndsAllTheSame(t *testing.T) {
	for name, maxTurns := range map[string]int{"the channel has room": 256, "the channel is full": 1} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, path string) {
				const posts = 4
				var full atomic.Bool
				full.Store(true)
				p := &platform{}
				wrap := func(db *bolt.DB) delivery.Store { return readOnly{db, &full} }
				w := startOver(t, path, wrap, p, answerer(echo), delivery.Options{MaxTurns: maxTurns})
				for n := range posts {
					room := chat.Address{Platform: "web", Channel: fmt.Sprint(n)}
					if err := w.Send(t.Context(), room, chat.Draft{Key: fmt.Sprint(n)}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := len(p.texts()); got != posts {
					t.Fatalf("%d posts were sent, want %d", got, posts)
				}
				began := time.Now()
				w.stop()
				if took := time.Since(began); took > 6*time.Second { // the grace is a second
					t.Errorf("the shutdown took %v", took)
				}
				full.Store(false)
				w = start(t, path, p, answerer(echo))
				synctest.Wait()
				w.stop()
				if got := len(p.texts()); got != 2*posts || !p.at(posts).Again {
					t.Errorf("%d posts after the next start, the first again: %v; want %d that are marked",
						got-posts, p.at(posts).Again, posts)
				}
			})
		})
	}
}

// What goes on when Run has ended, such as a request over HTTP, may still post.
func TestInterject_AfterTheEnd_IsLeftToTheNextStart(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		db, err := bolt.Open(path, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		s := delivery.New(delivery.Options{Store: db, Answerer: answerer(echo), Log: slog.New(slog.DiscardHandler),
			Platform: among(map[string]chat.Platform{"web": p}), Now: time.Now, Grace: time.Second})
		ctx, end := context.WithCancel(t.Context())
		end()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		room := chat.Address{Platform: "web", Channel: "general"}
		if err := s.Interject(t.Context(), room, chat.Draft{Key: "over"}, "question"); err != nil {
			t.Fatal(err)
		}
		if left, err := db.PendingPosts(t.Context()); err != nil || len(left) != 1 || len(p.texts()) != 0 {
			t.Errorf("%d posts are left, and %q were sent: %v; want one for the next start", len(left), p.texts(), err)
		}
	})
}
