package delivery_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
		s, p := &sharedStore{}, &platform{}
		w := startOver(t, path, func(db *bolt.DB) delivery.Store {
			s.DB = db
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
