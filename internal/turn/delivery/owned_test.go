package delivery_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store/records"
	"ravenbot/internal/turn/delivery"
)

// sharedStore is a store that another process can take over.
type sharedStore struct {
	*records.Store
	isTaken atomic.Bool
}

func (s *sharedStore) Owned() error {
	if s.isTaken.Load() {
		return errors.New("taken over")
	}
	return nil
}

func (s *sharedStore) IsShared() bool { return true }

func TestNothingIsSentWhileAnotherProcessOwnsTheStore(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		s, p := &sharedStore{}, &platform{}
		w := startOver(t, path, func(db *records.Store) delivery.Store {
			s.Store = db
			return s
		}, p, answerer(echo), delivery.Options{})
		defer w.stop()
		s.isTaken.Store(true)
		accept(t, w, said("general", "1", "hello"))
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
	})
}

// asksLate is a platform that asks for permission only when a post has waited for the pace of the platform, after which
// another process owns the store.
type asksLate struct {
	platform
	store *sharedStore
	asked atomic.Int32
}

func (p *asksLate) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	if p.asked.Add(1) == 1 {
		p.store.isTaken.Store(true)
	}
	if err := chat.MayAct(ctx); err != nil {
		return chat.Ref{}, &chat.PostError{Err: err}
	}
	return p.platform.Post(ctx, to, d)
}

func TestPost_StoreIsTakenOverWhileItWaits_IsNotSent(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		s := &sharedStore{}
		p := &asksLate{store: s}
		w := startOver(t, path, func(db *records.Store) delivery.Store {
			s.Store = db
			return s
		}, p, answerer(echo), delivery.Options{})
		defer w.stop()
		accept(t, w, said("general", "1", "hello"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := p.texts(); len(got) != 0 || p.asked.Load() != 1 {
			t.Errorf("posted %q, tried %d times, though another process had taken over meanwhile", got, p.asked.Load())
		}
	})
}
