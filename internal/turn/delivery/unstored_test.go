package delivery_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/store/records"
	"ravenbot/internal/turn/delivery"
)

// slowDisk takes a minute to store the message named "1", as often as it comes, and then fails as it is told.
type slowDisk struct {
	*records.Store
	fail error
}

func (d *slowDisk) Accept(ctx context.Context, r store.Received) (bool, error) {
	if r.Message.ID == "1" && r.Message.Change == "" {
		time.Sleep(time.Minute)
		if d.fail != nil {
			return false, d.fail
		}
	}
	return d.Store.Accept(ctx, r)
}

// preparer notes when it is asked, waits until what it is asked is stored, and answers.
type preparer struct {
	mu           sync.Mutex
	asked, acted []string // texts that the work was begun for, and that it acted upon
	purged       []string
}

func (a *preparer) Answer(ctx context.Context, q chat.Asked, _ func(chat.Progress)) (*conversation.Turn, *chat.Draft) {
	words := q.Last().Text
	a.note(func() { a.asked = append(a.asked, words) })
	err := q.AwaitStored(ctx)
	switch {
	case q.IsRevised():
		return nil, nil
	case err != nil:
		return nil, &chat.Draft{Text: "Stopped."}
	}
	a.note(func() { a.acted = append(a.acted, words) })
	turn := &conversation.Turn{ID: cmp.Or(q.Turn, q.Last().Subject()), Of: []string{q.Last().Subject()}}
	return turn, &chat.Draft{Text: "re: " + words}
}

func (a *preparer) Purge(_ context.Context, subject string) error {
	a.note(func() { a.purged = append(a.purged, subject) })
	return nil
}

func (a *preparer) note(what func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	what()
}

// noted returns what the work was begun for, what it acted upon, and what was purged.
func (a *preparer) noted() (asked, acted, purged []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked), slices.Clone(a.acted), slices.Clone(a.purged)
}

// tellSlowly tells a story in which message "1" takes a minute to be stored.
func tellSlowly(t *testing.T, fail error, tell func(t *testing.T, w world, p *platform, a *preparer, d *slowDisk)) {
	t.Helper()
	story(t, func(t *testing.T, path string) {
		p, a, d := &platform{}, &preparer{}, &slowDisk{fail: fail}
		w := startOver(t, path, func(db *records.Store) delivery.Store {
			d.Store = db
			return d
		}, p, a, delivery.Options{Limits: delivery.Limits{MaxPerUser: 1}})
		tell(t, w, p, a, d)
		w.stop()
	})
}

// acceptLater accepts a message, and returns a channel with the outcome.
func acceptLater(t *testing.T, w world, m chat.Message) <-chan error {
	t.Helper()
	outcome := make(chan error, 1)
	go func() { outcome <- w.Accept(t.Context(), m) }()
	synctest.Wait()
	return outcome
}

func TestAccept_WhileTheMessageIsBeingStored_ItsWorkIsPrepared(t *testing.T) {
	tellSlowly(t, nil, func(t *testing.T, w world, p *platform, a *preparer, _ *slowDisk) {
		outcome := acceptLater(t, w, said("a", "1", "hello"))
		if asked, acted, _ := a.noted(); !slices.Equal(asked, []string{"hello"}) || len(acted) != 0 {
			t.Errorf("before it is stored the work was begun for %q and acted upon %q, want the former alone", asked, acted)
		}
		if err := <-outcome; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		asked, _, _ := a.noted()
		if got := p.texts(); !slices.Equal(got, []string{"re: hello"}) || len(asked) != 1 {
			t.Errorf("posted %q after %d tries, want one answer", got, len(asked))
		}
	})
}

func TestAccept_MessageOfWhichWorkBeganCannotBeStored_IsAnsweredWhenItComesAgain(t *testing.T) {
	tellSlowly(t, errors.New("no space left"), func(t *testing.T, w world, p *platform, a *preparer, d *slowDisk) {
		m := said("a", "1", "hello")
		m.Author.ID = "ann"
		if err := <-acceptLater(t, w, m); err == nil {
			t.Error("a message that was not stored counts as accepted")
		}
		synctest.Wait()
		if _, acted, purged := a.noted(); len(acted) != 0 || len(p.texts()) != 0 || len(purged) != 0 {
			t.Errorf("it was acted upon: %q, posted %q, purged %q", acted, p.texts(), purged)
		}
		if load := w.Load(); load.Conversations != 0 || w.Working(said("a", "1", "").Conversation) {
			t.Errorf("work is left: %+v", load)
		}
		d.fail = nil
		// Ann may have one message that is not answered, and has none.
		other := said("b", "2", "and here?")
		other.Author.ID = "ann"
		accept(t, w, other)
		synctest.Wait() // or the other question may be the one that is not answered
		if err := <-acceptLater(t, w, m); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := p.texts(); !slices.Equal(got, []string{"re: and here?", "re: hello"}) {
			t.Errorf("posted %q, want an answer to each", got)
		}
		if c := w.Counts(); c.Accepted != 2 || c.Repeats != 0 {
			t.Errorf("%d messages were accepted and %d came again, want 2 and 0", c.Accepted, c.Repeats)
		}
	})
}

func TestAccept_RepeatOfWhichWorkBegan_IsNotAnsweredAgain(t *testing.T) {
	tellSlowly(t, nil, func(t *testing.T, w world, p *platform, a *preparer, _ *slowDisk) {
		for range 2 {
			if err := <-acceptLater(t, w, said("a", "1", "hello")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		_, acted, _ := a.noted()
		if got := p.texts(); !slices.Equal(got, []string{"re: hello"}) || len(acted) != 1 {
			t.Errorf("posted %q, acted %d times, want one answer", got, len(acted))
		}
		if c := w.Counts(); c.Accepted != 1 || c.Repeats != 1 {
			t.Errorf("%d messages were accepted and %d came again, want 1 and 1", c.Accepted, c.Repeats)
		}
	})
}

// The repeat is withdrawn, and what was said about the message meanwhile is not.
func TestAccept_EditWhileARepeatIsBeingStored_ChangesTheAnswer(t *testing.T) {
	tellSlowly(t, nil, func(t *testing.T, w world, p *platform, a *preparer, _ *slowDisk) {
		if err := <-acceptLater(t, w, said("a", "1", "hello")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		repeat := acceptLater(t, w, said("a", "1", "hello"))
		accept(t, w, changed("a", "1", chat.Edited, "2", "good morning"))
		if err := <-repeat; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		_, _, purged := a.noted()
		if got := p.texts(); !slices.Equal(got, []string{"re: hello", "re: good morning"}) || len(purged) != 0 {
			t.Errorf("posted %q, purged %q, want the answer and its change", got, purged)
		}
		if p.at(1).Replaces.IDs == nil {
			t.Error("the change is a post of its own")
		}
	})
}

func TestAccept_StopWhileTheMessageIsBeingStored_StopsIt(t *testing.T) {
	tellSlowly(t, nil, func(t *testing.T, w world, p *platform, a *preparer, _ *slowDisk) {
		outcome := acceptLater(t, w, said("a", "1", "hello"))
		accept(t, w, said("a", "2", "stop"))
		if err := <-outcome; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		// One for the question, and one for whoever said stop.
		_, acted, _ := a.noted()
		if got := p.texts(); !slices.Equal(got, []string{"Stopped.", "Stopped."}) || len(acted) != 0 {
			t.Errorf("posted %q, acted upon %q, want that both are stopped", got, acted)
		}
	})
}

// The answer to the word stop must not stand where that of the message belongs.
func TestAccept_StopBeforeTheMessageFailsToBeStored_LeavesItsAnswerOpen(t *testing.T) {
	tellSlowly(t, errors.New("no space left"), func(t *testing.T, w world, p *platform, _ *preparer, d *slowDisk) {
		outcome := acceptLater(t, w, said("a", "1", "hello"))
		accept(t, w, said("a", "2", "stop"))
		if err := <-outcome; err == nil {
			t.Error("a message that was not stored counts as accepted")
		}
		d.fail = nil
		if err := <-acceptLater(t, w, said("a", "1", "hello")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := p.texts(); !slices.Equal(got, []string{"Stopped.", "re: hello"}) {
			t.Errorf("posted %q, want the answer to stop and that to the message, which came again", got)
		}
	})
}
