package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/store/records"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/turn/delivery"
)

// platform remembers what was posted and fails as it is told.
type platform struct {
	mu    sync.Mutex
	posts []chat.Draft
	tries int
	fail  func(try int, d chat.Draft) error
	edits time.Duration
}

func (p *platform) Name() string        { return "web" }
func (p *platform) Limits() chat.Limits { return chat.Limits{Edits: p.edits} }
func (p *platform) Run(context.Context, func(context.Context, chat.Message) error) error {
	return nil
}

func (p *platform) Post(_ context.Context, _ chat.Address, d chat.Draft) (chat.Ref, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tries++
	if p.fail != nil {
		if err := p.fail(p.tries, d); err != nil {
			return chat.Ref{}, err
		}
	}
	p.posts = append(p.posts, d)
	if len(d.Replaces.IDs) > 0 {
		return d.Replaces, nil
	}
	return chat.Ref{IDs: []string{fmt.Sprint(len(p.posts))}}, nil
}

func (p *platform) texts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var texts []string
	for _, d := range p.posts {
		texts = append(texts, d.Text)
	}
	return texts
}

func (p *platform) at(n int) chat.Draft {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.posts[n]
}

type answerer func(ctx context.Context, m chat.Message) string

func (a answerer) Answer(ctx context.Context, q chat.Asked, _ func(chat.Progress)) (*conversation.Turn, *chat.Draft) {
	var texts []string
	for _, m := range q.Messages {
		texts = append(texts, a(ctx, m))
	}
	return &conversation.Turn{ID: q.Turn}, &chat.Draft{Text: strings.Join(texts, "; ")}
}

func (a answerer) Purge(context.Context, string) error { return nil }

func echo(_ context.Context, m chat.Message) string { return "re: " + m.Text }

func said(room, id, text string) chat.Message {
	return chat.Message{ID: id, Text: text, Reach: chat.Addressed,
		Conversation: chat.Address{Platform: "web", Channel: room}, Reply: chat.Reply{MessageID: id}}
}

// world runs a service over a store of its own; stop ends both.
type world struct {
	*delivery.Service
	path string
	stop func()
}

func start(t *testing.T, path string, p *platform, a delivery.Answerer) world {
	t.Helper()
	return startWith(t, path, p, a, delivery.Options{})
}

// startWith is start with bounds of its own.
func startWith(t *testing.T, path string, p *platform, a delivery.Answerer, o delivery.Options) world {
	t.Helper()
	return startOver(t, path, func(db *records.Store) delivery.Store { return db }, p, a, o)
}

// startOver is startWith over a store that behaves in its own way, and with any platform.
func startOver(
	t *testing.T,
	path string,
	wrap func(*records.Store) delivery.Store,
	p chat.Platform,
	a delivery.Answerer,
	o delivery.Options,
) world {
	t.Helper()
	db, err := storage.OpenFile(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if o.Admit == nil {
		o.Admit = func(_ context.Context, m chat.Message, _ bool) (bool, string) { return m.Reach == chat.Addressed, "" }
	}
	s := delivery.New(delivery.Options{
		Store: wrap(db), Answerer: a, Platform: among(map[string]chat.Platform{"web": p}), Admit: o.Admit,
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Grace: time.Second, MaxTurns: o.MaxTurns,
		MaxBacklog: o.MaxBacklog, Limits: o.Limits, Urgent: o.Urgent,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return world{s, path, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}}
}

func story(t *testing.T, tell func(t *testing.T, path string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "raven.db")
	synctest.Test(t, func(t *testing.T) { tell(t, path) })
}

func accept(t *testing.T, w world, m chat.Message) {
	t.Helper()
	if err := w.Accept(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// threaded is a platform on which posts have threads, once it can be reached.
type threaded struct {
	platform
	down int
	to   []chat.Address
}

func (p *threaded) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	p.to = append(p.to, to)
	return p.platform.Post(ctx, to, d)
}

func (p *threaded) CanThread(to chat.Address) bool { return to.Thread == "" }

func (p *threaded) Thread(_ context.Context, to chat.Address, post chat.Ref, title string) (chat.Address, error) {
	if p.down--; p.down >= 0 {
		return to, errors.New("down")
	}
	to.Thread = "below " + post.IDs[0] + " as " + title
	return to, nil
}

func TestWhatIsBelowAPostGoesToItsThread(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raven.db")
	synctest.Test(t, func(t *testing.T) {
		db, err := storage.OpenFile(path, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		room := chat.Address{Platform: "web", Channel: "news"}
		posts := []store.Post{{Key: "head", To: room, Draft: chat.Draft{Key: "head", Text: "head"}},
			{Key: "rest", To: room, Draft: chat.Draft{Key: "rest", Text: "rest"}, Below: "head", Title: "News"},
			{Key: "lost", To: room, Draft: chat.Draft{Key: "lost", Text: "lost"}, Below: "nothing"}}
		if err := db.SavePosts(t.Context(), posts); err != nil {
			t.Fatal(err)
		}
		p := &threaded{down: 1}
		s := delivery.New(delivery.Options{Store: db, Answerer: answerer(echo),
			Platform: among(map[string]chat.Platform{"web": p}),
			Log:      slog.New(slog.DiscardHandler), Now: time.Now, Grace: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		below := room
		below.Thread = "below 1 as News"
		if got := p.texts(); !slices.Equal(got, []string{"head", "rest", "lost"}) ||
			!slices.Equal(p.to, []chat.Address{room, below, room}) {
			t.Errorf("posted %q to %v", got, p.to)
		}
	})
}

func TestOneConversationInOrderOthersInParallel(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, answerer(func(ctx context.Context, m chat.Message) string {
			if m.Text == "slow" {
				time.Sleep(time.Minute)
			}
			return echo(ctx, m)
		}))
		defer w.stop()
		accept(t, w, said("a", "1", "slow"))
		synctest.Wait() // a second message that comes before work begins would be merged
		accept(t, w, said("a", "2", "second"))
		accept(t, w, said("b", "3", "elsewhere"))
		synctest.Wait()
		if got := p.texts(); !slices.Equal(got, []string{"re: elsewhere"}) {
			t.Errorf("while room a was slow %q was posted, want the answer in room b", got)
		}
		time.Sleep(2 * time.Minute)
		if got := p.texts(); !slices.Equal(got, []string{"re: elsewhere", "re: slow", "re: second"}) {
			t.Errorf("posted %q, want room a's answers in order", got)
		}
	})
}

func TestTheSameMessageIsAnsweredOnce(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		for range 2 {
			w := start(t, path, p, answerer(echo))
			for range 5 {
				accept(t, w, said("a", "1", "hello"))
			}
			overheard := said("a", "2", "not for the bot")
			overheard.Reach = chat.Overheard
			accept(t, w, overheard)
			synctest.Wait()
			if n := w.Counts(); n.Accepted+n.Repeats != 5 || n.Repeats < 4 {
				t.Errorf("%d messages were accepted and %d came again", n.Accepted, n.Repeats)
			}
			w.stop()
		}
		if got := p.texts(); !slices.Equal(got, []string{"re: hello"}) {
			t.Errorf("posted %q, want one answer", got)
		}
	})
}

func TestAMessageCutOffIsAnsweredAfterTheNextStart(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, answerer(func(ctx context.Context, m chat.Message) string { <-ctx.Done(); return "half" }))
		accept(t, w, said("a", "1", "hello"))
		synctest.Wait()
		w.stop()
		w = start(t, path, p, answerer(echo))
		synctest.Wait()
		w.stop()
		if got := p.texts(); !slices.Equal(got, []string{"re: hello"}) {
			t.Errorf("posted %q, want the one whole answer", got)
		}
	})
}

func TestAPostOnItsWayIsSentAfterTheNextStartAndMarked(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{fail: func(int, chat.Draft) error { return errors.New("connection lost") }}
		w := start(t, path, p, answerer(echo))
		accept(t, w, said("a", "1", "hello"))
		synctest.Wait()
		w.stop()
		p.fail = nil
		w = start(t, path, p, answerer(func(context.Context, chat.Message) string { return "asked twice" }))
		synctest.Wait()
		w.stop()
		if got := p.texts(); !slices.Equal(got, []string{"re: hello"}) || !p.posts[0].Again {
			t.Errorf("posted %q (again: %v), want the first answer, marked as perhaps sent before", got, p.posts)
		}
	})
}

func TestAPostIsRepeatedAsThePlatformAsks(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		began := time.Now()
		p := &platform{}
		p.fail = func(try int, _ chat.Draft) error {
			if try < 3 {
				return &chat.PostError{After: 30 * time.Second, Err: errors.New("slow down")}
			}
			if waited := time.Since(began); waited != time.Minute {
				t.Errorf("the third try came after %v, want 1m", waited)
			}
			return nil
		}
		w := start(t, path, p, answerer(echo))
		defer w.stop()
		accept(t, w, said("a", "1", "one"))
		synctest.Wait() // else both may wait together, and are answered together
		accept(t, w, said("a", "2", "two"))
		time.Sleep(2 * time.Minute)
		if got := p.texts(); !slices.Equal(got, []string{"re: one", "re: two"}) {
			t.Errorf("posted %q, want both in order", got)
		}
	})
}

func TestARefusedAnswerBecomesAPlainWord(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{fail: func(_ int, d chat.Draft) error {
			if !d.Failed {
				return &chat.PostError{Permanent: true, Err: errors.New("invalid blocks")}
			}
			return nil
		}}
		w := start(t, path, p, answerer(echo))
		defer w.stop()
		accept(t, w, said("a", "1", "hello"))
		synctest.Wait()
		if got := p.texts(); len(got) != 1 || !strings.Contains(got[0], "web/1") || strings.Contains(got[0], "blocks") {
			t.Errorf("posted %q, want one plain sentence with the reference", got)
		}
	})
}

func TestAPanicHarmsItsMessageAlone(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, answerer(func(ctx context.Context, m chat.Message) string {
			if m.Text == "bang" {
				panic("boom")
			}
			return echo(ctx, m)
		}))
		defer w.stop()
		accept(t, w, said("a", "1", "bang"))
		synctest.Wait()
		accept(t, w, said("a", "2", "hello"))
		synctest.Wait()
		got := p.texts()
		if len(got) != 2 || strings.Contains(got[0], "boom") || got[1] != "re: hello" {
			t.Errorf("posted %q, want a plain error and then the answer", got)
		}
	})
}

func TestSendPostsOnceForAKey(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, answerer(echo))
		defer w.stop()
		for range 3 {
			if err := w.Send(t.Context(), chat.Address{Platform: "web", Channel: "a"},
				chat.Draft{Key: "digest/1", Text: "news"}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := p.texts(); !slices.Equal(got, []string{"news"}) {
			t.Errorf("posted %q, want the digest once", got)
		}
	})
}

// among returns an Options.Platform of platforms that stay the same.
func among(all map[string]chat.Platform) func(string) chat.Platform {
	return func(name string) chat.Platform { return all[name] }
}
