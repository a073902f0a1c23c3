package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/records"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/turn/delivery"
)

// left is what another process has left in the store of a service.
type left struct {
	t        *testing.T
	db       *records.Store
	messages []store.Received
}

// message stores a message without an outcome.
func (l *left) message(m chat.Message) {
	l.t.Helper()
	r := store.Received{Message: m, At: time.Now()}
	if isNew, err := l.db.Accept(l.t.Context(), r); !isNew || err != nil {
		l.t.Fatal(isNew, err)
	}
	l.messages = append(l.messages, r)
}

// posts returns stored posts without an outcome, and those that were given up without a notice.
func (l *left) posts(posts ...store.Post) []store.Post {
	l.t.Helper()
	err := l.db.SavePosts(l.t.Context(), posts)
	var outcomes []store.Outcome
	for _, p := range posts {
		if p.Error != "" {
			outcomes = append(outcomes, store.Outcome{Key: p.Key, Error: p.Error, At: time.Now()})
		}
	}
	if err == nil && len(outcomes) > 0 {
		err = l.db.SaveOutcomes(l.t.Context(), outcomes, 0)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return posts
}

// startBeside starts a service, and returns what another process can leave in its store.
func startBeside(t *testing.T, path string, p *platform, a delivery.Answerer) (world, *left) {
	t.Helper()
	l := &left{t: t}
	isUrgent := func(m chat.Message) bool { return m.Text == "urgent" }
	w := startOver(t, path, func(db *records.Store) delivery.Store { l.db = db; return db }, p, a,
		delivery.Options{Urgent: isUrgent})
	<-w.Ready()
	return w, l
}

// post returns a post to a channel with its key as the text.
func post(room, key string) store.Post {
	to := said(room, "", "").Conversation
	return store.Post{Key: key, To: to, Draft: chat.Draft{Key: key, Text: key}, At: time.Now()}
}

func TestResume_WorkOfAnotherProcess_GoesOnBesideOtherWork(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w, l := startBeside(t, path, p, a)
		defer w.stop()
		accept(t, w, said("b", "10", "live"))
		soon()

		answer := post("a", "web/1")
		answer.Message, answer.Also = "web/1", []string{"web/2"}
		given := post("a", "given up")
		given.Error = "refused"
		l.message(said("a", "1", "one"))
		l.message(said("a", "2", "two"))
		l.message(said("a", "3", "three"))
		l.message(said("a", "4", "fuor"))
		l.message(changed("a", "4", chat.Edited, "1", "four"))
		l.message(said("c", "5", "five"))
		w.take(l.posts(given, answer, post("a", "digest")), l.messages)
		soon()
		if got := p.texts(); len(got) != 3 || got[0] != "web/1" || !strings.Contains(got[1], "(reference given up)") ||
			got[2] != "digest" {
			t.Errorf("posted %q, want the posts and the notice at once", got)
		}
		if !p.at(0).Again || !p.at(2).Again {
			t.Error("the posts are not marked as perhaps sent before")
		}
		later()
		answers := map[string]bool{}
		for n := 3; n < len(p.texts()); n++ {
			answers[p.at(n).Text] = p.at(n).Again
		}
		want := map[string]bool{"re: live": false, "re: three+four": true, "re: five": true}
		if !maps.Equal(answers, want) {
			t.Errorf("answers, and whether the other process may have begun to show them: %v, want %v", answers, want)
		}
		if waiting, err := l.db.Unanswered(t.Context()); err != nil || len(waiting) > 0 {
			t.Errorf("%d messages still wait (%v)", len(waiting), err)
		}
	})
}

// What Run has read at its start, and what was inherited before, may be passed to Resume once more.
func TestResume_Again_IsSkipped(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w, l := startBeside(t, path, p, &thinker{})
		defer w.stop()
		l.message(said("a", "1", "one"))
		given := post("b", "given up")
		given.Error = "refused"
		posts := l.posts(post("a", "digest"), given)
		accept(t, w, said("c", "2", "live"))
		live := append(l.messages, store.Received{Message: said("c", "2", "live")})
		for range 3 {
			w.take(posts, live)
			soon()
		}
		later()
		w.take(posts, l.messages)
		pass(time.Hour)
		got := p.texts()
		if len(got) != 4 || got[0] != "digest" || !strings.Contains(got[3], "(reference given up)") ||
			got[1]+got[2] != "re: livere: one" && got[1]+got[2] != "re: onere: live" {
			t.Errorf("posted %q, want each once", got)
		}
	})
}

func TestResume_WhatRunHasRead_IsSkipped(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		db, err := storage.OpenFile(path, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		l := &left{t: t, db: db}
		l.message(said("a", "1", "one"))
		posts := l.posts(post("a", "digest"))
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		w := start(t, path, p, &thinker{})
		defer w.stop()
		synctest.Wait()
		w.take(posts, l.messages)
		later()
		posted(t, p, "digest", "re: one")
	})
}

// What another process left in a conversation is older than what waits there.
func TestResume_InAConversationAtWork_ComesBeforeWhatWaits(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w, l := startBeside(t, path, p, &thinker{})
		defer w.stop()
		accept(t, w, said("a", "10", "running"))
		soon()
		accept(t, w, said("a", "11", "waiting"))
		l.message(said("a", "1", "older"))
		w.take(l.posts(post("a", "digest")), l.messages)
		later()
		posted(t, p, "re: running", "digest", "re: older+waiting")
	})
}

// A stop that the other process did not come to is about what that one was doing.
func TestResume_Stop_StopsWhatTheOtherProcessDid(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w, l := startBeside(t, path, p, &thinker{})
		defer w.stop()
		thread := said("a", "10", "live")
		thread.Conversation.Thread = "t"
		accept(t, w, thread)
		soon()
		stop := said("a", "2", "stop")
		stop.Command = "stop"
		l.message(said("a", "1", "one"))
		l.message(stop)
		w.take(nil, l.messages)
		later()
		got := p.texts()
		if len(got) != 3 || got[0] != "Stopped." || got[1] != "Stopped." || got[2] != "re: live" {
			t.Errorf("posted %q, want that one and its stop are answered, and the live question as well", got)
		}
		if len(got) == 3 && (!p.at(0).Again || !p.at(1).Again) {
			t.Error("the answers are not marked as perhaps sent before")
		}
	})
}

// A stop without anything to stop in what was left stops nothing else.
func TestResume_StopAlone_StopsNoOtherWork(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w, l := startBeside(t, path, p, &thinker{})
		defer w.stop()
		thread := said("a", "10", "live")
		thread.Conversation.Thread = "t"
		accept(t, w, thread)
		soon()
		stop := said("a", "2", "stop")
		stop.Command = "stop"
		l.message(stop)
		w.take(nil, l.messages)
		later()
		posted(t, p, "I am not working on anything here just now.", "re: live")
	})
}

// What comes for a conversation after what was resumed there waits for it.
func TestResume_LaterMessages_Wait(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w, l := startBeside(t, path, p, &thinker{})
		defer w.stop()
		l.message(said("a", "1", "one"))
		w.take(nil, l.messages)
		soon()
		accept(t, w, said("a", "2", "two"))
		pass(time.Minute)
		posted(t, p, "re: one")
		later()
		posted(t, p, "re: one", "re: two")
	})
}

// A command is answered beside the one that is at work, also where both were there before the process.
func TestResume_Command_IsAnsweredBesideAnother(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w, l := startBeside(t, path, p, &thinker{})
		defer w.stop()
		command := func(id string) chat.Message {
			m := said("a", id, id)
			m.Command = chat.CommandAsk
			return m
		}
		accept(t, w, command("1"))
		soon()
		l.message(command("2"))
		w.take(nil, l.messages)
		pass(time.Minute)
		posted(t, p, "re: 1", "re: 2")
	})
}

func TestResume_UrgentMessage_IsAnsweredOnceAndAtOnce(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w, l := startBeside(t, path, p, &thinker{})
		defer w.stop()
		accept(t, w, said("a", "10", "live"))
		soon()
		l.message(said("a", "1", "urgent"))
		w.take(nil, l.messages)
		l.message(said("b", "2", "two"))
		w.take(nil, l.messages)
		pass(time.Minute)
		later()
		got := p.texts()
		slices.Sort(got)
		if !slices.Equal(got, []string{"re: live", "re: two", "re: urgent"}) {
			t.Errorf("posted %q, want each once", got)
		}
	})
}

// Of very many posts that were given up, the newest are told.
func TestResume_ManyGivenUp_TheNewestAreTold(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w, l := startBeside(t, path, p, &thinker{})
		defer w.stop()
		var lost []store.Post
		for n := range 1005 {
			given := post("a", fmt.Sprint("given up ", n))
			given.Error = "refused"
			lost = append(lost, given)
		}
		w.take(append(lost, l.posts(post("a", "digest"))...), nil)
		later()
		texts := p.texts()
		if len(texts) != 1001 || !strings.Contains(texts[1], "(reference given up 5)") {
			t.Errorf("%d posts, want the digest and 1000 notices from number 5 on", len(texts))
		}
	})
}

// unreadable is a store that cannot list one kind of what was left.
type unreadable struct {
	*records.Store
	what string
}

var errUnreadable = errors.New("the disk failed")

func (s unreadable) err(what string) error {
	if s.what == what {
		return errUnreadable
	}
	return nil
}

func (s unreadable) PendingPosts(context.Context) ([]store.Post, error) { return nil, s.err("posts") }

func (s unreadable) Unanswered(context.Context) ([]store.Received, error) {
	return nil, s.err("messages")
}

func (s unreadable) Unnotified(context.Context) ([]store.Post, error) { return nil, s.err("notices") }

// A service that cannot read what was left ends with the error, and accepts nothing: what was left would wait for good.
func TestRun_CannotReadWhatWasLeft_Fails(t *testing.T) {
	for _, what := range []string{"posts", "messages", "notices"} {
		t.Run(what, func(t *testing.T) {
			story(t, func(t *testing.T, path string) {
				db, err := storage.OpenFile(path, time.Now)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				s := delivery.New(delivery.Options{
					Store: unreadable{db, what}, Answerer: &thinker{}, Platform: among(nil),
					Log: slog.New(slog.DiscardHandler), Now: time.Now,
				})
				if err := s.Run(t.Context()); !errors.Is(err, errUnreadable) {
					t.Errorf("Run returned %v", err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := s.Accept(ctx, said("a", "1", "hello")); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Accept returned %v", err)
				}
			})
		})
	}
}

// take queues work that was taken.
func (w world) take(posts []store.Post, messages []store.Received) {
	_ = w.Take(func() (store.Taken, error) { return store.Taken{Posts: posts, Messages: messages}, nil }) // no error
}
