package digest_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/ops/measure"
	"ravenbot/internal/store"
)

var errDisk = errors.New("the disk is full")

// frail is a store of which one operation fails, counted from arm.
type frail struct {
	digest.Store

	mu   sync.Mutex
	left int    // operations until one fails; negative: none does
	hit  string // what failed
}

func (f *frail) arm(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.hit = n, ""
}

func (f *frail) fails(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left--; f.left == 0 {
		f.hit = what
		return errDisk
	}
	return nil
}

func (f *frail) SeenItems(ctx context.Context, name string, ids []string) (map[string]bool, bool, error) {
	if err := f.fails("SeenItems"); err != nil {
		return nil, false, err
	}
	return f.Store.SeenItems(ctx, name, ids)
}

func (f *frail) FinishRun(
	ctx context.Context, r store.Run, saw []string, posts []store.Post, items ...store.Item,
) (bool, error) {
	if err := f.fails("FinishRun"); err != nil {
		return false, err
	}
	return f.Store.FinishRun(ctx, r, saw, posts, items...)
}

func (f *frail) AmendRun(ctx context.Context, r store.Run, forget []string) error {
	if err := f.fails("AmendRun"); err != nil {
		return err
	}
	return f.Store.AmendRun(ctx, r, forget)
}

func (f *frail) LastRuns(ctx context.Context, name string, n int) ([]store.Run, error) {
	if err := f.fails("LastRuns"); err != nil {
		return nil, err
	}
	return f.Store.LastRuns(ctx, name, n)
}

func (f *frail) SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error {
	if err := f.fails("SaveItem " + kind); err != nil {
		return err
	}
	return f.Store.SaveItem(ctx, kind, name, item, overwrite)
}

func (f *frail) SwapItem(
	ctx context.Context, kind, name string, was, now json.RawMessage, posts []store.Post,
) (bool, error) {
	if err := f.fails("SwapItem " + kind); err != nil {
		return false, err
	}
	return f.Store.SwapItem(ctx, kind, name, was, now, posts)
}

func (f *frail) Items(ctx context.Context, kind string) (map[string]json.RawMessage, error) {
	if err := f.fails("Items " + kind); err != nil {
		return nil, err
	}
	return f.Store.Items(ctx, kind)
}

func (f *frail) Item(ctx context.Context, kind, name string) (json.RawMessage, error) {
	if err := f.fails("Item " + kind); err != nil {
		return nil, err
	}
	return f.Store.Item(ctx, kind, name)
}

func (f *frail) DeleteItem(ctx context.Context, kind, name string) error {
	if err := f.fails("DeleteItem " + kind); err != nil {
		return err
	}
	return f.Store.DeleteItem(ctx, kind, name)
}

func (f *frail) SaveSubscription(ctx context.Context, s store.Subscription) error {
	if err := f.fails("SaveSubscription"); err != nil {
		return err
	}
	return f.Store.SaveSubscription(ctx, s)
}

func (f *frail) DeleteSubscription(ctx context.Context, to chat.Address, url string) error {
	if err := f.fails("DeleteSubscription"); err != nil {
		return err
	}
	return f.Store.DeleteSubscription(ctx, to, url)
}

func (f *frail) Subscriptions(ctx context.Context) ([]store.Subscription, error) {
	if err := f.fails("Subscriptions"); err != nil {
		return nil, err
	}
	return f.Store.Subscriptions(ctx)
}

func (f *frail) LoadFeed(ctx context.Context, url string) (store.Feed, bool, error) {
	if err := f.fails("LoadFeed"); err != nil {
		return store.Feed{}, false, err
	}
	return f.Store.LoadFeed(ctx, url)
}

func (f *frail) Feedback(ctx context.Context) ([]store.Feedback, error) {
	if err := f.fails("Feedback"); err != nil {
		return nil, err
	}
	return f.Store.Feedback(ctx)
}

// onFrail returns a bench whose store can fail.
func onFrail(t *testing.T, p digest.Plan, change ...func(*digest.Options)) (*bench, *frail) {
	t.Helper()
	f := &frail{}
	b := service(t, p, append(change, func(o *digest.Options) { f.Store, o.Store = o.Store, f })...)
	return b, f
}

// Whatever operation of the store fails during a run, the run says so, and each item is posted once in the end: by this
// run or by the next.
func TestRun_StoreFailsAnywhere_SaysSoAndPostsOnce(t *testing.T) {
	const maxOperations = 60
	for n := 1; ; n++ {
		b, f := onFrail(t, digest.Plan{
			Feeds:    from(a, b2),
			Hooks:    []string{"push"},
			MaxItems: 2,
			Email:    []string{"anna@example.org"},
		},
			func(o *digest.Options) { o.MailURL = mailURL })
		b.feeds[a], b.feeds[b2] = []feed.Item{story(1)}, []feed.Item{story(20)}
		f.arm(-1)
		b.run(t, b.now)
		b.feeds[a] = append(b.feeds[a], topical(2, "The harbour gets a crane", "It is tall."),
			topical(3, "Library opens on Sundays", "Books may be borrowed."), topical(4, "Trains run at night", "Six a week."))
		delete(b.feeds, b2) // it fails, which is told once
		if err := b.AddEvent(t.Context(), "morning", "push", fault(9, b.now)); err != nil {
			t.Fatal(err)
		}
		b.sent, b.now = nil, b.now.Add(24*time.Hour)
		f.arm(n)
		_, err := b.Run(t.Context(), "morning", b.now, false)
		hit := f.hit
		f.arm(-1)
		if hit == "" {
			if n < 15 {
				t.Errorf("a run takes %d operations of the store", n-1)
			}
			return
		}
		if n > maxOperations {
			t.Fatal("a run takes too many operations")
		}
		if !errors.Is(err, errDisk) {
			t.Errorf("operation %d, %s: the run says %v", n, hit, err)
		}
		_, _ = b.Run(t.Context(), "morning", b.now, false) // as after a restart
		for range 3 {
			b.now = b.now.Add(24 * time.Hour)
			b.run(t, b.now)
		}
		posted := map[string]int{}
		for _, p := range b.sent {
			if p.To == general {
				for _, u := range urls(p.Draft) {
					posted[u]++
				}
			}
		}
		for _, want := range []string{"2", "3", "4"} {
			if posted[want] != 1 {
				t.Errorf("operation %d, %s: item %s is posted %d times", n, hit, want, posted[want])
			}
		}
	}
}

// A request that cannot be stored, or whose answer cannot be read, is answered by an error, never by silence; one that
// was stored is not.
func TestRequests_StoreFailsAnywhere_AreErrors(t *testing.T) {
	byAPI := digest.Plan{
		Name:     "made",
		Schedule: "0 9 * * *",
		Feeds:    from(a),
		Post:     []string{general.String()},
		Source:   digest.FromAPI,
	}
	ctx := t.Context()
	requests := map[string]func(b *bench) error{
		"load":        func(b *bench) error { return b.Reload(ctx) },
		"create":      func(b *bench) error { p := byAPI; p.Name = "other"; _, err := b.Create(ctx, p); return err },
		"list":        func(b *bench) error { _, err := b.List(ctx); return err },
		"get":         func(b *bench) error { _, err := b.Get(ctx, "made"); return err },
		"replace":     func(b *bench) error { _, err := b.Replace(ctx, "made", byAPI); return err },
		"add feeds":   func(b *bench) error { _, _, err := b.AddFeeds(ctx, "made", []string{b2}); return err },
		"pause":       func(b *bench) error { return b.Pause(ctx, "made", true) },
		"remove":      func(b *bench) error { return b.Remove(ctx, "made") },
		"preview":     func(b *bench) error { _, err := b.Preview(ctx, "morning"); return err },
		"explain":     func(b *bench) error { _, _, err := b.LastVerdicts(ctx, "morning"); return err },
		"share":       func(b *bench) error { _, err := b.Publish(ctx, "morning"); return err },
		"shared":      func(b *bench) error { _, _, err := b.Published(ctx, "x"); return err },
		"unshare":     func(b *bench) error { return b.Unpublish(ctx, "morning") },
		"event":       func(b *bench) error { return b.AddEvent(ctx, "morning", "push", fault(1, b.now)) },
		"feeds":       func(b *bench) error { _, err := b.KnownFeeds(ctx); return err },
		"subscribe":   func(b *bench) error { _, err := b.Subscribe(ctx, general, b2); return err },
		"unsubscribe": func(b *bench) error { return b.Unsubscribe(ctx, general, a) },
		"stop mail":   func(b *bench) error { return b.StopMail(ctx, "morning", "anna@example.org") },
		"resume mail": func(b *bench) error { return b.ResumeMail(ctx, "morning", "anna@example.org") },
	}
	for name, request := range requests {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				b, f := onFrail(t, digest.Plan{Feeds: from(a), Email: []string{"anna@example.org"}})
				f.arm(-1)
				b.feeds[a], b.feeds[b2] = []feed.Item{story(1), story(2)}, []feed.Item{story(3)}
				if _, err := b.Create(ctx, byAPI); err != nil {
					t.Fatal(err)
				}
				if _, err := b.Subscribe(ctx, general, a); err != nil {
					t.Fatal(err)
				}
				b.run(t, b.now)
				if _, err := b.Publish(ctx, "morning"); err != nil {
					t.Fatal(err)
				}
				if err := b.StopMail(ctx, "morning", "anna@example.org"); err != nil {
					t.Fatal(err)
				}
				f.arm(n)
				err := request(b)
				if f.hit == "" {
					if err != nil || n == 1 {
						t.Errorf("after %d operations: %v", n-1, err)
					}
					return
				}
				// What was stored was stored, also where it cannot be described any more.
				isStored := f.hit == "LastRuns" && slices.Contains([]string{"create", "replace", "add feeds"}, name)
				if isStored != (err == nil) || err != nil && !errors.Is(err, errDisk) {
					t.Errorf("operation %d, %s: the answer is %v", n, f.hit, err)
				}
			}
		})
	}
}

// The same in chat: the answer says that it did not work.
func TestCommands_StoreFailsAnywhere_SaySo(t *testing.T) {
	owner := chat.User{ID: "U1", Name: "anna", Admin: true}
	for _, text := range []string{"list", "run morning", "preview morning", "explain morning", "explain morning last",
		"pause morning",
		"resume morning", "share morning", "unshare morning", "remove made", "edit made style titles",
		"mute made rain until 2027-01-01",
		"unsubscribe " + a} {
		t.Run(text, func(t *testing.T) {
			for n := 1; ; n++ {
				b, f := onFrail(t, digest.Plan{Feeds: from(a)})
				f.arm(-1)
				b.feeds[a] = []feed.Item{story(1), story(2)}
				plan := digest.Plan{Name: "made", Schedule: "0 9 * * *", Feeds: from(a), Post: []string{general.String()},
					Source: digest.FromChat, By: owner, On: "web"}
				if _, err := b.Create(t.Context(), plan); err != nil {
					t.Fatal(err)
				}
				if _, err := b.Subscribe(t.Context(), general, a); err != nil {
					t.Fatal(err)
				}
				b.run(t, b.now)
				if strings.HasPrefix(text, "resume") {
					if err := b.Pause(t.Context(), "morning", true); err != nil {
						t.Fatal(err)
					}
				}
				if strings.HasPrefix(text, "unshare") {
					if _, err := b.Publish(t.Context(), "morning"); err != nil {
						t.Fatal(err)
					}
				}
				f.arm(n)
				m := chat.Message{ID: "1", Conversation: general, Author: owner, Command: "digest", Text: text}
				d, err := b.Handle(t.Context(), m)
				if f.hit == "" {
					if err != nil || d == nil || d.Failed || n == 1 {
						t.Errorf("after %d operations: %+v, %v", n-1, d, err)
					}
					return
				}
				isStored := f.hit == "LastRuns" && (strings.HasPrefix(text, "edit") || strings.HasPrefix(text, "mute"))
				if !isStored && err == nil && (d == nil || !d.Failed && !strings.Contains(d.Text, "log")) {
					t.Errorf("operation %d, %s: the answer is %+v", n, f.hit, d)
				}
			}
		})
	}
}

// cutOff are feeds during whose reading something is done.
type cutOff struct {
	queuedFeeds
	meanwhile func()
}

func (c *cutOff) FetchAll(ctx context.Context, urls []string, turn func(func())) ([]feed.Result, []error) {
	defer c.meanwhile()
	return c.queuedFeeds.FetchAll(ctx, urls, turn)
}

// Runs are counted for their digest, and feeds as often as they were wanted, by the address that may be shown; what was
// not read because others were, or because the bot is stopped, says nothing about a feed.
func TestTotals_CountRunsAndFeeds(t *testing.T) {
	const hidden, shown, gone = "https://x.example/?key=hidden", "https://x.example/?key=***", "https://y.example/gone"
	good := digest.Feed{URL: hidden, Shown: shown}
	reader := &cutOff{meanwhile: func() {}}
	b := service(t, digest.Plan{Feeds: []digest.Feed{good, {URL: gone}, {URL: b2}}}, func(o *digest.Options) {
		reader.queuedFeeds, o.Feeds = queuedFeeds{o.Feeds.(feeds)}, reader
	})
	b.feeds[hidden] = []feed.Item{story(1), story(2)}
	b.run(t, monday)
	b.run(t, monday) // for the same time: no second run
	ended, end := context.WithCancel(t.Context())
	reader.meanwhile = end
	if _, err := b.Run(ended, "morning", monday.Add(time.Hour), false); err == nil {
		t.Error("a run that is cut off has no error")
	}
	reader.meanwhile = func() {}
	delete(b.feeds, hidden)
	b.now = b.now.Add(2 * time.Hour)
	if run, err := b.Run(t.Context(), "morning", b.now, false); err == nil {
		t.Errorf("without feeds the run is %+v", run)
	}
	got := b.RunTotals()["morning"]
	got.Seconds = 0
	if want := (measure.Total{Count: 2, Failed: 1, Results: 2}); got != want || len(b.RunTotals()) != 1 {
		t.Errorf("the runs are %+v, want %+v", b.RunTotals(), want)
	}
	want := map[string]measure.Total{shown: {Count: 3, Failed: 1}, gone: {Count: 2, Failed: 2}}
	if diff := cmp.Diff(want, b.FeedTotals()); diff != "" {
		t.Errorf("the feeds (-want +got):\n%s", diff)
	}
	// What a channel follows is no digest, but its feed is one.
	b.feeds[a] = []feed.Item{story(3)}
	if _, err := b.Subscribe(t.Context(), general, a); err != nil {
		t.Fatal(err)
	}
	if b.FeedTotals()[a].Count != 0 {
		t.Errorf("what somebody has read is counted: %v", b.FeedTotals())
	}
	b.feeds[a], b.now = append(b.feeds[a], story(4)), b.now.Add(time.Hour)
	b.Poll(t.Context())
	if len(b.RunTotals()) != 1 || b.FeedTotals()[a].Count != 1 {
		t.Errorf("after a poll there are the runs %v and feeds %v", b.RunTotals(), b.FeedTotals())
	}
}
