package delivery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/turn/delivery"
)

// tell has a service hear what others tell, which are numbered from 1.
func tell(t *testing.T, to *delivery.Service, others ...*delivery.Service) {
	t.Helper()
	told := map[int64]json.RawMessage{}
	for i, s := range others {
		text, err := s.Told()
		if err != nil {
			t.Fatal(err)
		}
		told[int64(i+1)] = text
	}
	if err := to.Hear(told); err != nil {
		t.Fatal(err)
	}
}

func TestLimits_OfAUserCountInAllProcesses(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		release := make(chan struct{})
		answer := answerer(func(context.Context, chat.Message) string { <-release; return "ok" })
		// At most one at work, so that the limits are in force from the first message that waits.
		o := delivery.Options{MaxTurns: 1, Limits: delivery.Limits{RelaxedBelow: 1, MaxPerUser: 30}}
		here, there := startWith(t, path, &platform{}, answer, o), startWith(t, path+"2", &platform{}, answer, o)
		defer here.stop()
		defer there.stop()
		count := 0
		// say returns how many of n messages were accepted.
		say := func(w *delivery.Service, user string, n int) (taken int) {
			for range n {
				count++
				err := w.Accept(t.Context(), from(user, user, fmt.Sprint(user, count)))
				if err == nil {
					taken++
				} else if !errors.Is(err, chat.ErrBusy) {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			return taken
		}
		share := func() {
			tell(t, there.Service, here.Service)
			tell(t, here.Service, there.Service)
		}
		check := func(when string, got, want int) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %d were accepted, want %d", when, got, want)
			}
		}
		say(there.Service, "berit", 1)
		say(here.Service, "berit", 1)
		check("anna here", say(here.Service, "anna", 8), 8)
		share()
		check("anna there, after eight here", say(there.Service, "anna", 8), 2)
		share()
		share() // what is told again does not count again
		check("anna here, after ten in all", say(here.Service, "anna", 5), 0)
		time.Sleep(31 * time.Second)
		share()
		check("anna half a minute later", say(there.Service, "anna", 12), 10)
		share()
		time.Sleep(31 * time.Second)
		check("anna here half a minute after that", say(here.Service, "anna", 12), 10)
		time.Sleep(31 * time.Second)
		share()
		check("anna with thirty that are not answered", say(there.Service, "anna", 1)+say(here.Service, "anna", 1), 0)
		if err := here.Hear(map[int64]json.RawMessage{1: json.RawMessage(`[]`)}); err == nil ||
			!strings.Contains(err.Error(), "replica 1") {
			t.Errorf("what cannot be read: %v", err)
		}
		close(release)
		time.Sleep(2 * time.Minute)
		told, err := here.Told()
		if err != nil || string(told) != "{}" {
			t.Errorf("when all is answered it tells %s, %v", told, err)
		}
		share()
		check("anna when all is answered", say(here.Service, "anna", 1), 1)
	})
}
