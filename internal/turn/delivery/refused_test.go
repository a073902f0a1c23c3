package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/turn/delivery"
)

// refuse has a service that has no room refuse a message, and returns what the error offers.
func refuse(t *testing.T, w world, m chat.Message) *chat.BusyError {
	t.Helper()
	err := w.Accept(t.Context(), m)
	busy, ok := errors.AsType[*chat.BusyError](err)
	if !ok || !errors.Is(err, chat.ErrBusy) {
		t.Fatalf("accept returned %v, want that there is no room", err)
	}
	return busy
}

// What was refused and acknowledged is answered by the next start, unless its author was told.
func TestAccept_RefusedMessageIsKept_IsAnsweredUnlessDone(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, hold := &platform{}, make(chan struct{})
		w := startWith(t, path, p, answerer(func(ctx context.Context, m chat.Message) string {
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return "answer " + m.ID
		}), delivery.Options{Limits: delivery.Limits{MaxPerUser: 1}})
		accept(t, w, from("anna", "a", "first"))
		var done []func(context.Context) error
		for _, id := range []string{"told", "untold"} {
			mark, err := refuse(t, w, from("anna", "a", id)).Keep(t.Context())
			if err != nil || mark == nil {
				t.Fatalf("not kept: %v", err)
			}
			done = append(done, mark)
		}
		if mark, err := refuse(t, w, from("anna", "a", "untold")).Keep(t.Context()); err != nil || mark != nil {
			t.Errorf("a repeat is to be told of once more: %v", err)
		}
		refuse(t, w, from("anna", "a", "synchronous")) // whoever waits for the error needs nothing kept
		if err := done[0](t.Context()); err != nil {
			t.Fatal(err)
		}
		w.stop()
		close(hold)
		w = start(t, path, p, answerer(func(_ context.Context, m chat.Message) string { return "answer " + m.ID }))
		defer w.stop()
		synctest.Wait()
		if got := fmt.Sprint(slices.Sorted(slices.Values(p.texts()))); got != "[answer first answer untold]" {
			t.Errorf("posted %s, want answers to what was accepted and to what nobody was told of", got)
		}
	})
}
