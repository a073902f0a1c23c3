package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/turn/delivery"
)

// from is said in a thread of its own, as on Slack.
func from(user, room, id string) chat.Message {
	m := said(room, id, "from "+user)
	m.Author.ID, m.Conversation.Thread = user, id
	return m
}

func TestASurplusIsRefusedOnlyWhereOthersWait(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, release := &platform{}, make(chan struct{})
		w := startWith(t, path, p, answerer(func(ctx context.Context, m chat.Message) string { <-release; return "ok" }),
			delivery.Options{MaxTurns: 4, Limits: delivery.Limits{RelaxedBelow: 20}})
		defer w.stop()
		taken := map[string]int{}
		say := func(user, room string, n int) {
			for i := range n {
				err := w.Accept(t.Context(), from(user, room, fmt.Sprint(user, room, i)))
				switch {
				case err == nil:
					taken[user]++
				case !errors.Is(err, chat.ErrBusy):
					t.Fatal(err)
				}
				synctest.Wait()
			}
		}
		say("anna", "a", 20) // nobody else waits
		say("anna", "b", 20)
		say("berit", "c", 20)
		if taken["anna"] > 25 || taken["anna"] < 20 || taken["berit"] != 10 {
			t.Errorf("taken %v, want what there was room for, and then of each what everybody may say at once", taken)
		}
		time.Sleep(31 * time.Second)
		say("berit", "d", 20)
		if taken["berit"] != 20 {
			t.Errorf("taken %v, want ten more half a minute later", taken)
		}
		stop := said("a", "stop", "stop")
		stop.Author.ID, stop.Command = "anna", "stop"
		if err := w.Accept(t.Context(), stop); err != nil {
			t.Errorf("stop was answered %v", err)
		}
		close(release)
		time.Sleep(time.Minute)
		if n := w.Counts(); int(n.Busy) != 80-taken["anna"]-taken["berit"] || w.Load().Waiting != 0 {
			t.Errorf("counts %+v, load %+v", n, w.Load())
		}
		say("anna", "e", 1)
		if w.Counts().Posted == 0 {
			t.Error("nothing was posted")
		}
	})
}

// However much waits in some channels, a question in another one is answered as
// soon as if it was alone.
func TestACrowdLeavesOthersTheirShare(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := startWith(t, path, p, answerer(func(_ context.Context, m chat.Message) string {
			time.Sleep(time.Second)
			return m.Text
		}), delivery.Options{MaxTurns: 16, MaxBacklog: 400})
		defer w.stop()
		busy := 0
		for n := range 600 {
			if errors.Is(w.Accept(t.Context(), from(fmt.Sprint("user", n), fmt.Sprint("crowd", n%4),
				fmt.Sprint(n))), chat.ErrBusy) {
				busy++
			}
		}
		if busy < 150 || busy > 250 {
			t.Errorf("%d of 600 were refused, want what is over the backlog", busy)
		}
		for n := range 5 {
			began := time.Now()
			if err := w.Accept(t.Context(), from("quiet", fmt.Sprint("quiet", n), fmt.Sprint("q", n))); err != nil {
				t.Fatal(err)
			}
			for !strings.Contains(strings.Join(p.texts(), " "), "quiet") {
				time.Sleep(10 * time.Millisecond)
			}
			if took := time.Since(began); took > 1100*time.Millisecond {
				t.Errorf("the answer in a quiet channel took %v, want a second", took)
			}
			p.mu.Lock()
			p.posts = nil
			p.mu.Unlock()
		}
	})
}
