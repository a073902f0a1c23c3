package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/store/records"
	"ravenbot/internal/turn/delivery"
)

// An answer that a process before this one may have begun to post is looked for on its platform. To
// look for others only costs requests, and an answer to a command is posted as a whole.
func TestAnswer_IsLookedForWhereItMayBePostedAlready(t *testing.T) {
	command := byCommand("a", "1", "anna")
	command.Reply.Handle = []byte(`{}`)
	for name, c := range map[string]struct {
		m       chat.Message
		restart bool
		want    bool
	}{
		"a new message":           {said("a", "1", "hello"), false, false},
		"a message taken up":      {said("a", "1", "hello"), true, true},
		"a command":               {command, false, false},
		"a command that is, too":  {command, true, false},
		"a command of no handles": {byCommand("a", "1", "anna"), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, path string) {
				p, a := &platform{}, &thinker{}
				w := start(t, path, p, a)
				accept(t, w, c.m)
				soon()
				if c.restart {
					w.stop()
					w = start(t, path, p, a)
				}
				defer w.stop()
				later()
				if n := len(p.texts()); n != 1 || p.at(0).Again != c.want {
					t.Errorf("posted %q, to be looked for: %v, want %v", p.texts(), p.at(0).Again, c.want)
				}
			})
		})
	}
}

// The place of a beginning that is known is not looked for.
func TestAnswer_BegunByAnEarlierProcess_IsNotLookedFor(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{edits: 2 * time.Second}
		w := start(t, path, p, writer{})
		accept(t, w, said("a", "1", "60"))
		pass(10 * time.Second)
		w.stop()
		w = start(t, path, p, answerer(echo))
		defer w.stop()
		later()
		last := p.at(len(p.texts()) - 1)
		if last.Text != "re: 60" || last.Again || !slices.Equal(last.Replaces.IDs, []string{"1"}) {
			t.Errorf("the last post is %+v", last)
		}
	})
}

// An answer that is ready while its beginning is still on the way to the platform replaces it there.
func TestAnswer_ReadyWhileItsBeginningIsPosted_ReplacesIt(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{edits: 2 * time.Second, fail: func(_ int, d chat.Draft) error {
			if d.Partial {
				<-time.After(10 * time.Second)
			}
			return nil
		}}
		w := start(t, path, p, writer{})
		defer w.stop()
		accept(t, w, said("a", "1", "3"))
		later()
		posted(t, p, "0 ", "0 1 2 done")
		if got := p.at(1).Replaces.IDs; !slices.Equal(got, []string{"1"}) {
			t.Errorf("the answer replaces %q, want its beginning", got)
		}
	})
}

// A handle is good for one answer of its own. What changes an earlier post must not use it up.
func TestAnswer_ThatChangesAPost_UsesNoHandle(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, &thinker{})
		defer w.stop()
		accept(t, w, said("a", "1", "helo"))
		later()
		edit := changed("a", "1", chat.Edited, "1", "hello")
		edit.Reply.Handle = []byte(`{"token":"t"}`)
		accept(t, w, edit)
		later()
		posted(t, p, "re: helo", "re: hello")
		if d := p.at(1); len(d.Replaces.IDs) != 1 || len(d.Reply.Handle) > 0 {
			t.Errorf("the new answer replaces %q with the handle %q", d.Replaces.IDs, d.Reply.Handle)
		}
	})
}

// worker answers with the tools that it used.
type worker struct{ answerer }

func (worker) Answer(_ context.Context, q chat.Asked, _ func(chat.Progress)) (*conversation.Turn, *chat.Draft) {
	return &conversation.Turn{ID: q.Turn}, &chat.Draft{Text: "done", Tools: []chat.ToolRun{{ID: "1", Name: "look"}}}
}

// window is a platform that shows tools itself.
type window struct{ platform }

func (*window) Show(chat.Address, chat.Progress) {}

func TestAnswer_WithTools_HasAButtonWhereThePlatformDoesNotShowThem(t *testing.T) {
	plain, shows := &platform{}, &window{}
	for _, c := range []struct {
		on     chat.Platform
		posted *platform
		want   []string
	}{
		{plain, plain, []string{"👍", "👎", "What I did"}},
		{shows, &shows.platform, []string{"👍", "👎"}},
	} {
		story(t, func(t *testing.T, path string) {
			w := startOver(t, path, func(db *records.Store) delivery.Store { return db }, c.on, worker{}, delivery.Options{})
			defer w.stop()
			accept(t, w, said("a", "1", "look"))
			later()
			var got []string
			for _, b := range c.posted.at(0).Buttons {
				got = append(got, b.Label)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("on %T the buttons are %q, want %q", c.on, got, c.want)
			}
		})
	}
}

// named is a worker whose turns have a name of its own.
type named struct {
	worker
	turn string
}

func (a named) Answer(
	ctx context.Context,
	q chat.Asked,
	show func(chat.Progress),
) (*conversation.Turn, *chat.Draft) {
	turn, draft := a.worker.Answer(ctx, q, show)
	turn.ID = a.turn
	return turn, draft
}

// The value of a button takes 90 bytes: an answer whose turn has a longer name has no buttons.
func TestAnswer_NameOfItsTurnIsTooLong_HasNoButtons(t *testing.T) {
	for length, want := range map[int]int{90 - len(chat.PressRetry): 3, 91 - len(chat.PressRetry): 0} {
		story(t, func(t *testing.T, path string) {
			p := &platform{}
			w := start(t, path, p, named{turn: strings.Repeat("x", length)})
			defer w.stop()
			accept(t, w, said("a", "1", "look"))
			later()
			if got := p.at(0).Buttons; len(got) != want {
				t.Errorf("a name of %d bytes: %d buttons, want %d", length, len(got), want)
			}
		})
	}
}

// The answer to an edited question replaces the one before as a whole: a beginning in its place would
// take away what can be read.
func TestAnswer_OfAnEdit_IsNotShownWhileItIsMade(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{edits: 2 * time.Second}
		w := start(t, path, p, &showing{})
		defer w.stop()
		accept(t, w, said("a", "1", "helo"))
		later()
		accept(t, w, changed("a", "1", chat.Edited, "1", "hello"))
		later()
		posted(t, p, "so far", "re: helo", "re: hello")
	})
}

// showing shows a beginning, and then thinks.
type showing struct{ thinker }

func (s *showing) Answer(
	ctx context.Context,
	q chat.Asked,
	show func(chat.Progress),
) (*conversation.Turn, *chat.Draft) {
	show(chat.Progress{Text: "so far"})
	return s.thinker.Answer(ctx, q, show)
}

// toolUser shows a tool that runs and ends, and then thinks.
type toolUser struct{ thinker }

func (u *toolUser) Answer(
	ctx context.Context,
	q chat.Asked,
	show func(chat.Progress),
) (*conversation.Turn, *chat.Draft) {
	show(chat.Progress{Tool: &chat.ToolRun{ID: "1", Name: "look", State: chat.Running}})
	<-time.After(10 * time.Second)
	show(chat.Progress{Tool: &chat.ToolRun{ID: "1", Name: "look", State: chat.Done}})
	return u.thinker.Answer(ctx, q, show)
}

func TestAnswer_WhileAToolRuns_ShowsIt(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{edits: 2 * time.Second}
		w := start(t, path, p, &toolUser{})
		defer w.stop()
		accept(t, w, said("a", "1", "look"))
		later()
		posted(t, p, "", "", "re: look")
		for n, want := range []chat.RunState{chat.Running, chat.Done} {
			if runs := p.at(n).Tools; len(runs) != 1 || runs[0].Name != "look" || runs[0].State != want {
				t.Errorf("post %d shows %+v, want the tool as %s", n, runs, want)
			}
		}
	})
}

// What is said waits for a command before it, as it may be about its answer.
func TestCommand_OneIsAnswered_WhatIsSaidWaits(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, &thinker{})
		defer w.stop()
		accept(t, w, byCommand("a", "1", "anna"))
		soon()
		accept(t, w, said("a", "2", "plain"))
		pass(90 * time.Second) // each answer takes a minute
		posted(t, p, "re: 1")
		later()
		posted(t, p, "re: 1", "re: plain")
	})
}

// slow is a platform that takes its time for news.
type slow struct{ platform }

func (p *slow) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	if d.Text == "news" {
		<-time.After(5 * time.Second)
	}
	return p.platform.Post(ctx, to, d)
}

// While a post is on its way to a channel nothing is answered in it: a stop there is about the threads.
func TestStop_BesideAPost_ReachesOnesOwnThreads(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &slow{}
		w := startOver(t, path, func(db *records.Store) delivery.Store { return db }, p, &thinker{}, delivery.Options{})
		defer w.stop()
		m := said("a", "1", "hello")
		m.Conversation.Thread, m.Author.ID = "t1", "anna"
		accept(t, w, m)
		soon()
		sent := make(chan error, 1)
		go func() {
			sent <- w.Send(t.Context(), chat.Address{Platform: "web", Channel: "a"}, chat.Draft{Key: "n", Text: "news"})
		}()
		soon()
		stop := said("a", "2", "")
		stop.Command, stop.Author.ID = "stop", "anna"
		accept(t, w, stop)
		later()
		if got := p.texts(); slices.Contains(got, "re: hello") || !slices.Contains(got, "Stopped.") {
			t.Errorf("posted %q, want the question in the thread stopped", got)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
}

// tallied counts how often outcomes are stored.
type tallied struct {
	*records.Store
	times int
}

func (s *tallied) SaveOutcomes(ctx context.Context, list []store.Outcome, patience time.Duration) error {
	s.times++
	return s.Store.SaveOutcomes(ctx, list, patience)
}

// Posts that are sent at the same time cost one transaction for their outcomes.
func TestOutcomes_OfOneMoment_AreStoredTogether(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		s, p := &tallied{}, &platform{}
		w := startOver(t, path, func(db *records.Store) delivery.Store { s.Store = db; return s }, p, &thinker{}, delivery.Options{})
		for n := range 4 {
			accept(t, w, said(fmt.Sprint("room", n), fmt.Sprint(n), "hello"))
		}
		later()
		w.stop()
		if len(p.texts()) != 4 || s.times != 1 {
			t.Errorf("the outcomes of %d posts were stored in %d transactions, want 4 in one", len(p.texts()), s.times)
		}
	})
}

// One of several commands that are answered beside one another is done: the others can be stopped.
func TestStop_ReachesWhatRunsBesideAnAnswerThatIsDone(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		defer w.stop()
		accept(t, w, byCommand("a", "1", "anna"))
		pass(30 * time.Second)
		accept(t, w, byCommand("a", "2", "bob"))
		pass(40 * time.Second)
		posted(t, p, "re: 1")
		stop := said("a", "3", "stop")
		stop.Author.ID = "bob"
		accept(t, w, stop)
		later()
		posted(t, p, "re: 1", "Stopped.")
	})
}

// reader keeps what it was asked, and looks at it when the question is revised.
type reader struct {
	answerer
	read []string
}

func (r *reader) Answer(_ context.Context, q chat.Asked, _ func(chat.Progress)) (*conversation.Turn, *chat.Draft) {
	if len(r.read) == 0 {
		<-q.Revised.Done()
	}
	r.read = append(r.read, q.Last().Text)
	return &conversation.Turn{ID: q.Turn}, &chat.Draft{Text: fmt.Sprint("re: ", q.Last().Text)}
}

// A question does not change under whoever is answering it.
func TestAnswer_RevisedMeanwhile_KeepsTheQuestionAsItWasAsked(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, r := &platform{}, &reader{}
		w := start(t, path, p, r)
		defer w.stop()
		accept(t, w, said("a", "1", "helo"))
		soon()
		accept(t, w, changed("a", "1", chat.Edited, "1", "hello"))
		later()
		posted(t, p, "re: hello")
		if want := []string{"helo", "hello"}; !slices.Equal(r.read, want) {
			t.Errorf("it read %q, want %q", r.read, want)
		}
		if n := w.Counts().Revised; n != 1 {
			t.Errorf("%d questions were revised, want 1", n)
		}
	})
}

// Where a part of an answer can be read, something has to replace it.
func TestAnswer_MessageDeletedWhileItIsShown_SaysSo(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{edits: 2 * time.Second}
		w := start(t, path, p, &showing{})
		defer w.stop()
		accept(t, w, said("a", "1", "hello"))
		pass(5 * time.Second)
		accept(t, w, changed("a", "1", chat.Deleted, "", ""))
		later()
		posted(t, p, "so far", "The message that I was answering was deleted.")
		if got := p.at(1).Replaces.IDs; !slices.Equal(got, []string{"1"}) {
			t.Errorf("it replaces %q, want what could be read", got)
		}
	})
}

// loser fails after it has used a tool.
type loser struct{ worker }

func (a loser) Answer(
	ctx context.Context,
	q chat.Asked,
	show func(chat.Progress),
) (*conversation.Turn, *chat.Draft) {
	turn, draft := a.worker.Answer(ctx, q, show)
	draft.Failed = true
	return turn, draft
}

// What was done before an answer failed can be looked at, too.
func TestAnswer_FailedWithTools_CanBeTriedAgainAndLookedAt(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, loser{})
		defer w.stop()
		accept(t, w, said("a", "1", "look"))
		later()
		var got []string
		for _, b := range p.at(0).Buttons {
			got = append(got, b.Label)
		}
		if want := []string{"Try again", "What I did"}; !slices.Equal(got, want) {
			t.Errorf("the buttons are %q, want %q", got, want)
		}
	})
}

// A press of a button is answered as a change of the turn that it names, in the place of its post.
func TestAnswer_OfAPress_ReplacesThePost(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, named{turn: "web/1"})
		defer w.stop()
		accept(t, w, said("a", "1", "look"))
		later()
		press := said("a", "2", chat.PressRetry+"web/1")
		press.Command = chat.Pressed
		accept(t, w, press)
		later()
		if posted(t, p, "done", "done"); !slices.Equal(p.at(1).Replaces.IDs, []string{"1"}) {
			t.Errorf("the new answer replaces %q", p.at(1).Replaces.IDs)
		}
	})
}
