package delivery_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/delivery"
	"ravenbot/internal/store/bolt"
)

// sharedStore is a store that another process can take over.
type sharedStore struct {
	*bolt.DB
	isTaken atomic.Bool
}

func (s *sharedStore) Owned() error {
	if s.isTaken.Load() {
		return errors.New("taken over")
	}
	return nil
}

func TestNothingIsSentWhileAnotherProcessOwnsTheStore(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		db, err := bolt.Open(path, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		s, p := &sharedStore{DB: db}, &platform{}
		service := delivery.New(delivery.Options{
			Store:    s,
			Answerer: answerer(echo),
			Platform: among(map[string]chat.Platform{"web": p}),
			Admit:    func(context.Context, chat.Message, bool) (bool, string) { return true, "" },
			Log:      slog.New(slog.DiscardHandler),
			Now:      time.Now,
			Grace:    time.Second,
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- service.Run(ctx) }()
		s.isTaken.Store(true)
		if err := service.Accept(ctx, said("general", "1", "hello")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := p.texts(); len(got) != 0 {
			t.Errorf("posted %q while another process owned the store", got)
		}
		s.isTaken.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := p.texts(); len(got) != 1 || got[0] != "re: hello" {
			t.Errorf("posted %q once the store was owned again, want the answer once", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
