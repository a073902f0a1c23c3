package delivery_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/delivery"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// fullStore takes no message.
type fullStore struct{ *bolt.DB }

func (fullStore) Accept(context.Context, store.Received) (bool, error) {
	return false, errors.New("no space left")
}

// Adapters acknowledge a message when Accept returns nil, and platforms send it again otherwise.
func TestAccept_MessageThatIsNotStored_IsAnError(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		db, err := bolt.Open(path, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		p := &platform{}
		s := delivery.New(delivery.Options{
			Store:    fullStore{db},
			Answerer: answerer(echo),
			Platform: among(map[string]chat.Platform{"web": p}),
			Admit:    func(context.Context, chat.Message, bool) (bool, string) { return true, "" },
			Log:      slog.New(slog.DiscardHandler),
			Now:      time.Now,
			Grace:    time.Second,
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		if err := s.Accept(ctx, said("general", "1", "hello")); err == nil {
			t.Error("a message that was not stored counts as accepted")
		}
		synctest.Wait()
		if c := s.Counts(); c.Accepted != 0 || len(p.texts()) != 0 {
			t.Errorf("%d messages were accepted and %q posted, want none", c.Accepted, p.texts())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestInterject_ReplacesTheNamedPostAlone(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, answerer(echo))
		defer w.stop()
		room := chat.Address{Platform: "web", Channel: "general"}
		for _, c := range []struct{ key, replaces string }{{"first", ""}, {"second", "first"}, {"third", ""}} {
			if err := w.Interject(t.Context(), room, chat.Draft{Key: c.key, Text: c.key}, c.replaces); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if got := strings.Join(p.texts(), " "); got != "first second third" {
			t.Fatalf("posted %q", got)
		}
		if first, second, third := p.at(0).Replaces.IDs, p.at(1).Replaces.IDs, p.at(2).Replaces.IDs; len(first) != 0 || len(second) != 1 ||
			second[0] != "1" || len(third) != 0 {
			t.Errorf("the posts replace %q, %q and %q, want the second to replace the first", first, second, third)
		}
	})
}

// doubting is a platform that cannot say whether a post is there already.
type doubting struct{ platform }

func (p *doubting) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	ref, err := p.platform.Post(ctx, to, d)
	ref.Repeated = d.Text == "re: perhaps"
	return ref, err
}

func TestCounts_PostsThatMayBeThereTwice(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		db, err := bolt.Open(path, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		p := &doubting{}
		s := delivery.New(delivery.Options{
			Store:    db,
			Answerer: answerer(echo),
			Platform: among(map[string]chat.Platform{"web": p}),
			Admit:    func(context.Context, chat.Message, bool) (bool, string) { return true, "" },
			Log:      slog.New(slog.DiscardHandler),
			Now:      time.Now,
			Grace:    time.Second,
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		for id, text := range map[string]string{"1": "surely", "2": "perhaps", "3": "certainly"} {
			if err := s.Accept(ctx, said("room"+id, id, text)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if c := s.Counts(); c.Posted != 3 || c.Repeated != 1 {
			t.Errorf("%d posts, of which %d may be there twice, want 3 and 1", c.Posted, c.Repeated)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestAnswer_MissedMessage_SaysHowLongAgoItWas(t *testing.T) {
	for age, want := range map[time.Duration]string{
		95 * time.Minute:             "asked 95 minutes ago",
		2*time.Hour + time.Minute:    "asked 2 hours ago",
		47*time.Hour + 5*time.Minute: "asked 47 hours ago",
		49 * time.Hour:               "asked 2 days ago",
	} {
		story(t, func(t *testing.T, path string) {
			p := &platform{}
			w := start(t, path, p, answerer(echo))
			defer w.stop()
			m := said("general", "1", "hello")
			m.Missed, m.Time = true, time.Now().Add(-age)
			accept(t, w, m)
			time.Sleep(time.Second)
			synctest.Wait()
			if len(p.texts()) != 1 || !strings.Contains(p.at(0).Footer, want) {
				t.Errorf("after %v: %q, want a footer with %q", age, p.texts(), want)
			}
		})
	}
}
