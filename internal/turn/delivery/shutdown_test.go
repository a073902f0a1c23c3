package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/records"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/turn/delivery"
)

// readOnly stores no outcomes while it is full.
type readOnly struct {
	*records.Store
	full *atomic.Bool
}

func (s readOnly) SaveOutcomes(ctx context.Context, outcomes []store.Outcome, patience time.Duration) error {
	if s.full.Load() {
		return errors.New("no space left")
	}
	return s.Store.SaveOutcomes(ctx, outcomes, patience)
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
				wrap := func(db *records.Store) delivery.Store { return readOnly{db, &full} }
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
				if took := time.Since(began); took > 4*time.Second { // of which the grace is one
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
		db, err := storage.OpenFile(path, time.Now)
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

// Once the end has begun nothing new is worked on, however long the work under way takes: what is accepted or reacted
// to meanwhile is stored, and the next start does it, once.
func TestShutdown_WhatComesMeanwhile_IsLeftToTheNextStart(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		urgent := func(m chat.Message) bool { return m.ID == "urgent" }
		ended := make(chan struct{})
		hangs := answerer(func(ctx context.Context, m chat.Message) string {
			if m.ID == "hangs" {
				<-ended
			}
			return echo(ctx, m)
		})
		w := startWith(t, path, p, hangs, delivery.Options{Urgent: urgent})
		accept(t, w, said("a", "hangs", "hello"))
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { w.stop(); close(stopped) }()
		synctest.Wait()
		for _, m := range []chat.Message{said("a", "behind", "behind"), said("b", "beside", "beside"),
			said("b", "urgent", "urgent")} {
			accept(t, w, m)
		}
		reaction := said("a", "sign", "")
		reaction.Author.ID, reaction.Reaction = "U1", &chat.Reaction{Post: "unknown", Sign: "up", Good: true}
		accept(t, w, reaction)
		if err := w.Send(t.Context(), said("c", "", "").Conversation, chat.Draft{Key: "post", Text: "post"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		close(ended)
		<-stopped
		posted(t, p, "re: hello")
		w = startWith(t, path, p, hangs, delivery.Options{Urgent: urgent})
		defer w.stop()
		soon()
		got := p.texts()
		slices.Sort(got)
		want := []string{"post", "re: behind", "re: beside", "re: hello", "re: urgent"}
		if !slices.Equal(got, want) {
			t.Errorf("posted %q, want %q", got, want)
		}
	})
}

// The notice of a post that could not be sent says what it was: an answer, or a post that nobody asked for.
func TestUndelivered_NoticeSaysWhatItWas(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{fail: func(try int, _ chat.Draft) error {
			if try%2 == 1 { // the notice, which comes right behind, is taken
				return &chat.PostError{Permanent: true, Err: errors.New("too long")}
			}
			return nil
		}}
		w := start(t, path, p, answerer(echo))
		defer w.stop()
		accept(t, w, said("a", "1", "hello"))
		soon()
		if err := w.Send(t.Context(), said("b", "", "").Conversation, chat.Draft{Key: "digest/1", Text: "news"}); err != nil {
			t.Fatal(err)
		}
		soon()
		got := p.texts()
		if len(got) != 2 || !strings.HasPrefix(got[0],
			"My answer of 1 January 00:00 UTC could not be posted here (reference web/1).") ||
			!strings.HasPrefix(got[1], "A post of mine of 1 January 00:00 UTC could not be posted here (reference digest/1).") {
			t.Errorf("the notices are %q", got)
		}
	})
}

// A post that waits for its next attempt does not hold the end up: the next start sends it.
func TestShutdown_PostWaitsForItsNextAttempt_EndsAtOnce(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{fail: func(int, chat.Draft) error { return &chat.PostError{Err: errors.New("not now"), After: time.Hour} }}
		w := start(t, path, p, answerer(echo))
		accept(t, w, said("a", "1", "hello"))
		pass(time.Minute)
		began := time.Now()
		if w.stop(); time.Since(began) != 0 {
			t.Errorf("the end took %v", time.Since(began))
		}
	})
}
