package poll

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

var (
	news = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1"}
	anna = chat.User{ID: "U1", Name: "anna"}
	bert = chat.User{ID: "U2", Name: "bert"}
	root = chat.User{ID: "U3", Name: "root", Admin: true}
)

// world keeps items, and shows posts as a platform does.
type world struct {
	mu    sync.Mutex
	items map[string]json.RawMessage
	posts map[string]chat.Draft // by id
	edits int
	keys  map[string]string // key → id
	fail  error             // of the next write
	lost  error             // what posting fails with
}

func (w *world) SwapItem(
	_ context.Context,
	_, name string,
	was, now json.RawMessage,
	_ []store.Post,
) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil || !bytes.Equal(w.items[name], was) {
		return false, w.fail
	}
	w.items[name] = now
	return true, nil
}

func (w *world) Item(_ context.Context, _, name string) (json.RawMessage, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	item, ok := w.items[name]
	if !ok {
		return nil, store.ErrNotFound
	}
	return item, nil
}

func (w *world) Items(context.Context, string) (map[string]json.RawMessage, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	items := map[string]json.RawMessage{}
	for k, v := range w.items {
		items[k] = v
	}
	return items, nil
}

func (w *world) DeleteItem(_ context.Context, _, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.items[name]; !ok {
		return store.ErrNotFound
	}
	delete(w.items, name)
	return nil
}

func (*world) SaveItem(context.Context, string, string, json.RawMessage, bool) error {
	return errors.ErrUnsupported
}

func (w *world) Interject(_ context.Context, _ chat.Address, d chat.Draft, replaces string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost != nil {
		return w.lost
	}
	id := w.keys[replaces]
	if len(d.Replaces.IDs) > 0 {
		id = d.Replaces.IDs[0]
	}
	if id == "" {
		id = fmt.Sprint("post", len(w.posts)+1)
	} else {
		w.edits++
	}
	w.posts[id], w.keys[d.Key] = d, id
	return nil
}

func (w *world) PostRef(_ context.Context, key string) (chat.Ref, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, ok := w.keys[key]
	return chat.Ref{IDs: []string{id}}, ok, nil
}

func (w *world) post(id string) chat.Draft {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.posts[id]
}

func newWorld() *world {
	return &world{items: map[string]json.RawMessage{}, posts: map[string]chat.Draft{}, keys: map[string]string{}}
}

// run starts a service on what the world holds; stop ends it.
func (w *world) run(t *testing.T) (s *Service, stop func()) {
	t.Helper()
	s = New(Options{Store: w, Poster: w, CanPost: func(a chat.Address) bool { return a.Platform == "slack" },
		CheckPost: func(_ context.Context, to chat.Address, _ []string) error {
			if to.Platform != "slack" {
				return &chat.SetupError{Reason: "invite the bot"}
			}
			return nil
		},
		Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	return s, func() { cancel(); <-done }
}

func handle(t *testing.T, s *Service, m chat.Message) chat.Draft {
	t.Helper()
	d, err := s.Handle(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Ephemeral {
		t.Errorf("the answer %q is for everybody", d.Text)
	}
	return *d
}

func start(t *testing.T, s *Service, by chat.User, words string) chat.Draft {
	t.Helper()
	return handle(t, s, chat.Message{ID: words, Conversation: news, Author: by, Command: commandName, Text: words})
}

// press presses a button below post1.
func press(t *testing.T, s *Service, w *world, by chat.User, button int) chat.Draft {
	t.Helper()
	value := w.post("post1").Buttons[button].Value
	m := chat.Message{Conversation: news, Author: by, Command: chat.Pressed, Text: value,
		Reply: chat.Reply{MessageID: "post1"}}
	if !s.Urgent(m) {
		t.Errorf("the press %q is not urgent", value)
	}
	return handle(t, s, m)
}

func TestPoll_VotesAreCountedMovedAndTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, stop := w.run(t)
		defer stop()
		if d := start(t, s, anna, "Lunch? | Pizza | *Soup* | closes 2h"); d.Failed {
			t.Fatal(d.Text)
		}
		first := w.post("post1")
		if len(first.Buttons) != 3 || first.Buttons[1].Label != "*Soup*" ||
			!strings.Contains(first.Text, `2. \*Soup\*: 0 (0 %)`) {
			t.Fatalf("posted %+v", first)
		}
		for _, step := range []struct {
			by       chat.User
			button   int
			told     string
			counts   string
			question string
		}{
			{anna, 0, "Your vote: **Pizza**", "1. Pizza: ▇▇▇▇▇▇▇▇▇▇ 1 (100 %)", ""},
			{bert, 1, `Your vote: **\*Soup\***`, "1. Pizza: ▇▇▇▇▇ 1 (50 %)", ""},
			{anna, 1, `Your vote: **\*Soup\***`, "1. Pizza: 0 (0 %)", "moved"},
			{anna, 1, "taken back", "1 (100 %)", "taken back"},
		} {
			if d := press(t, s, w, step.by, step.button); d.Failed || !strings.Contains(d.Text, step.told) {
				t.Errorf("%s was told %q, want %q", step.by.Name, d.Text, step.told)
			}
			time.Sleep(2 * editPause)
			synctest.Wait()
			if got := w.post("post1"); !strings.Contains(got.Text, step.counts) {
				t.Errorf("the post shows %q, want %q", got.Text, step.counts)
			}
		}
		if len(w.posts) != 1 {
			t.Errorf("there are %d posts, want the one that is edited", len(w.posts))
		}
	})
}

func TestPoll_ManyVotesAtOnce_MakeFewEdits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, stop := w.run(t)
		defer stop()
		start(t, s, anna, "Lunch? | Pizza | Soup")
		var all sync.WaitGroup
		for n := range 200 {
			all.Go(func() { press(t, s, w, chat.User{ID: fmt.Sprint("V", n)}, n%2) })
		}
		all.Wait()
		time.Sleep(10 * editPause)
		synctest.Wait()
		if got := w.post("post1"); !strings.Contains(got.Text, "1. Pizza: ▇▇▇▇▇ 100 (50 %)") ||
			!strings.Contains(got.Footer, "200 votes") {
			t.Errorf("the post shows %q, %q", got.Text, got.Footer)
		}
		if w.edits > 3 {
			t.Errorf("200 votes made %d edits", w.edits)
		}
	})
}

// One person cannot use up the polls of a channel.
func TestPoll_TooManyOfOnePerson_AreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, stop := w.run(t)
		defer stop()
		for range maxOpenOfUser {
			if d := start(t, s, anna, "Lunch? | Pizza | Soup"); d.Failed {
				t.Fatal(d.Text)
			}
		}
		if d := start(t, s, anna, "Lunch? | Pizza | Soup"); !d.Failed || !strings.Contains(d.Text, "You have 5 open polls") {
			t.Errorf("one more was answered %q", d.Text)
		}
		if d := start(t, s, bert, "Dinner? | Pizza | Soup"); d.Failed {
			t.Errorf("another person was answered %q", d.Text)
		}
	})
}

func TestPoll_GoesOnAfterARestart_AndClosesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, stop := w.run(t)
		start(t, s, anna, "Lunch? | Pizza | Soup | closes 2h")
		press(t, s, w, anna, 0)
		stop() // before the vote is shown, perhaps
		s, stop = w.run(t)
		press(t, s, w, bert, 1)
		time.Sleep(2 * editPause)
		synctest.Wait()
		if got := w.post("post1"); !strings.Contains(got.Footer, "2 votes · asked by anna · closes ") {
			t.Errorf("after the restart the post shows %q", got.Footer)
		}
		stop()
		time.Sleep(3 * time.Hour) // the time is over while the bot is down
		s, stop = w.run(t)
		defer stop()
		time.Sleep(2 * editPause)
		synctest.Wait()
		got := w.post("post1")
		if len(got.Buttons) != 0 || got.Footer != "2 votes · asked by anna · closed" {
			t.Errorf("the closed poll shows %+v, %q", got.Buttons, got.Footer)
		}
		m := chat.Message{Conversation: news, Author: bert, Command: chat.Pressed,
			Text: wordVote + " " + strings.TrimPrefix(w.pollKey(), "poll/") + " 0"}
		if d := handle(t, s, m); !d.Failed || d.Text != "This poll is closed." {
			t.Errorf("a late vote is told %q", d.Text)
		}
		time.Sleep(keepClosed + time.Hour)
		synctest.Wait()
		if len(w.items) != 0 {
			t.Errorf("%d polls are kept after they were closed for so long", len(w.items))
		}
	})
}

// pollKey returns the key of the first post.
func (w *world) pollKey() string {
	for key := range w.keys {
		if strings.Count(key, "/") == 1 {
			return key
		}
	}
	return ""
}

func TestPoll_IsClosedByItsAuthorOrAnAdministrator(t *testing.T) {
	for _, c := range []struct {
		by   chat.User
		may  bool
		told string
	}{{bert, false, "Only the person who started"}, {anna, true, "closed by anna"}, {root, true, "closed by root"}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			s, stop := w.run(t)
			defer stop()
			start(t, s, anna, "Lunch? | Pizza | Soup")
			d := press(t, s, w, c.by, 2)
			time.Sleep(2 * editPause)
			synctest.Wait()
			if got := w.post("post1"); d.Failed == c.may || !strings.Contains(d.Text+got.Footer, c.told) ||
				(len(got.Buttons) == 0) != c.may {
				t.Errorf("%s: told %q, shown %q", c.by.Name, d.Text, got.Footer)
			}
		})
	}
}

func TestPoll_VoteThatCannotBeStored_IsNotConfirmed(t *testing.T) {
	w := newWorld()
	s := New(Options{
		Store:     w,
		Poster:    w,
		CanPost:   func(chat.Address) bool { return true },
		CheckPost: func(context.Context, chat.Address, []string) error { return nil },
		Log:       slog.New(slog.DiscardHandler),
		Now:       time.Now,
	})
	start(t, s, anna, "Lunch? | Pizza | Soup")
	w.fail = errors.New("disk full")
	_, err := s.Handle(t.Context(), chat.Message{Conversation: news, Author: anna, Command: chat.Pressed,
		Text: w.post("post1").Buttons[0].Value})
	if err == nil {
		t.Error("the vote was confirmed")
	}
	w.fail = nil
	if d := press(t, s, w, anna, 0); strings.Contains(d.Text, "taken back") {
		t.Error("the vote that failed was counted")
	}
}

func TestPoll_PostThatCannotBeStored_IsNoPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, stop := w.run(t)
		defer stop()
		w.lost = errors.New("disk full")
		m := chat.Message{ID: "1", Conversation: news, Author: anna, Command: commandName, Text: "Lunch? | Pizza | Soup"}
		if d, err := s.Handle(t.Context(), m); err == nil {
			t.Fatalf("told %+v although the poll was not posted", d)
		}
		if len(w.items) != 0 {
			t.Errorf("%d polls are open that nobody sees", len(w.items))
		}
		w.lost = nil
		time.Sleep(defaultDuration + time.Hour)
		synctest.Wait()
		if len(w.posts) != 0 {
			t.Errorf("posted %+v at the end of a poll that nobody saw", w.posts)
		}
	})
}

// The platform may refuse the post for good after it was stored.
func TestPoll_PostWasRefusedByThePlatform_IsNotPostedAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, stop := w.run(t)
		defer stop()
		start(t, s, anna, "Lunch? | Pizza | Soup | closes 2h")
		w.mu.Lock()
		clear(w.posts)
		clear(w.keys)
		w.mu.Unlock()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if len(w.posts) != 0 {
			t.Errorf("posted %+v at the end of a poll that nobody saw", w.posts)
		}
	})
}

func TestParseRequest(t *testing.T) {
	for words, want := range map[string]request{
		"Lunch? | Pizza | Soup":                             {"Lunch?", []string{"Pizza", "Soup"}, defaultDuration},
		"Lunch?\nOptions: Pizza | Soup\nCloses: 2h":         {"Lunch?", []string{"Pizza", "Soup"}, 2 * time.Hour},
		" Lunch? |Pizza||  hot   Soup | Closes in 3 days |": {"Lunch?", []string{"Pizza", "hot Soup"}, 72 * time.Hour},
		"Lunch? | a | b | closes 30 min":                    {"Lunch?", []string{"a", "b"}, 30 * time.Minute},
		"The shop: | closes early | closes late":            {"The shop:", []string{"closes early", "closes late"}, defaultDuration},
		"The shop: | closes early | closes late | is open":  {"The shop:", []string{"closes early", "closes late", "is open"}, defaultDuration},
		"The shop: | closes early | is open | closes 2h":    {"The shop:", []string{"closes early", "is open"}, 2 * time.Hour},
		"The shop:\nOptions: is open | closes 2h":           {"The shop:", []string{"is open", "closes 2h"}, defaultDuration},
	} {
		got, err := parseRequest(words)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(request{})); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", words, err, diff)
		}
	}
	for words, want := range map[string]string{
		"":               "Say for example",
		"Lunch?":         "Say for example",
		"Lunch? | Pizza": "Say for example",
		"Lunch? | a | A": "twice",
		"Lunch? |" + strings.Repeat("|x", 2) + strings.Repeat("|y", 2): "twice",
		"Lunch?" + manyOptions(11):                                     "at most 10",
		"Lunch? | a | " + strings.Repeat("b", 81):                      "longer than 80",
		strings.Repeat("?", 301) + " | a | b":                          "longer than 300",
		"Lunch? | a | b | closes tomorrow":                             "do not understand",
		"Lunch? | a | b | closes 31d":                                  "do not understand",
		"Lunch? | a | b | closes 9999999999999d":                       "do not understand",
		"Lunch? | a | b | closes 0m":                                   "do not understand",
	} {
		if _, err := parseRequest(words); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", words, err, want)
		}
	}
}

func manyOptions(n int) (s string) {
	for i := range n {
		s += fmt.Sprint(" | option ", i)
	}
	return s
}

func FuzzParseRequest(f *testing.F) {
	f.Add("Lunch? | Pizza | Soup | closes 2h")
	f.Add("Lunch?\nOptions: a | b\nCloses: 3d")
	f.Fuzz(func(t *testing.T, words string) {
		q, err := parseRequest(words)
		var fault inputError
		switch {
		case err != nil && !errors.As(err, &fault):
			t.Errorf("%q: %v is not for its author", words, err)
		case err == nil && (q.question == "" || len(q.options) < minOptions || len(q.options) > maxOptions ||
			q.duration < minDuration || q.duration > maxDuration):
			t.Errorf("%q became %+v", words, q)
		}
	})
}

// Replicas share a store: each counts the votes that reach it, and one of them closes the poll.
func TestPoll_SeveralProcesses_LoseNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		services := make([]*Service, 3)
		for n := range services {
			s, stop := w.run(t)
			defer stop()
			services[n] = s
		}
		start(t, services[0], anna, "Lunch? | Pizza | Soup | closes 2h")
		var all sync.WaitGroup
		for n := range 90 {
			all.Go(func() {
				if d := press(t, services[n%3], w, chat.User{ID: fmt.Sprint("V", n)}, n%2); d.Failed {
					t.Errorf("vote %d: %s", n, d.Text)
				}
			})
			if n%10 == 0 {
				all.Go(func() {
					if err := services[n%3].Reload(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		reload := func() {
			t.Helper()
			for _, s := range services {
				if err := s.Reload(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		reload()
		time.Sleep(2 * editPause)
		synctest.Wait()
		if got := w.post("post1"); !strings.Contains(got.Footer, "90 votes") {
			t.Errorf("the post shows %q", got.Footer)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		reload()
		time.Sleep(2 * editPause)
		synctest.Wait()
		got := w.post("post1")
		if len(got.Buttons) != 0 || got.Footer != "90 votes · asked by anna · closed" {
			t.Errorf("the closed poll shows %+v, %q", got.Buttons, got.Footer)
		}
	})
}

// An edit that was under way while another process closed the poll does not bring its buttons back.
func TestPoll_ClosedElsewhereAfterAnEdit_StaysClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		here, stopHere := w.run(t)
		defer stopHere()
		there, stopThere := w.run(t)
		defer stopThere()
		start(t, here, anna, "Lunch? | Pizza | Soup")
		open := w.post("post1")
		press(t, here, w, bert, 0)
		time.Sleep(2 * editPause)
		press(t, there, w, root, 2)
		time.Sleep(2 * editPause)
		synctest.Wait()
		w.mu.Lock()
		w.posts["post1"] = open // as a late edit shows it
		w.mu.Unlock()
		if err := here.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * editPause)
		synctest.Wait()
		if got := w.post("post1"); len(got.Buttons) != 0 || !strings.Contains(got.Footer, "closed by root") {
			t.Errorf("the closed poll shows %+v, %q", got.Buttons, got.Footer)
		}
	})
}
