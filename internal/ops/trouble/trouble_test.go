package trouble_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/ops/trouble"
	"ravenbot/internal/store"
)

var room = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1"}

// world holds the troubles there are and the posts that were made.
type world struct {
	items   store.Items
	to      chat.Address
	channel func() chat.Address // nil: to
	leads   atomic.Bool
	there   atomic.Pointer[[]trouble.Trouble]

	mu    *sync.Mutex
	posts []string
	keys  map[string]bool
}

// set replaces the troubles there are.
func (w *world) set(list ...trouble.Trouble) { w.there.Store(&list) }

// posted returns the texts of the posts, oldest first.
func (w *world) posted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.posts)
}

// watch runs a Watch until the function that it returns is called.
func (w *world) watch(t *testing.T) (*trouble.Watch, func()) {
	t.Helper()
	watch := trouble.New(trouble.Options{
		Find: func(context.Context) ([]trouble.Trouble, error) { return *w.there.Load(), nil },
		Channel: func() chat.Address {
			if w.channel != nil {
				return w.channel()
			}
			return w.to
		},
		Post: func(_ context.Context, _ chat.Address, d chat.Draft, _ string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if !w.keys[d.Key] { // as delivery does
				w.posts = append(w.posts, d.Text)
			}
			w.keys[d.Key] = true
			return nil
		},
		Leads:     w.leads.Load,
		PublicURL: "https://raven.example",
		Store:     w.items,
		Log:       slog.New(slog.DiscardHandler),
		Now:       time.Now,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); watch.Run(ctx) }()
	return watch, func() { cancel(); <-ended }
}

// items keeps stored items in memory.
type items struct{ sync.Map }

func (i *items) SaveItem(_ context.Context, kind, name string, item json.RawMessage, _ bool) error {
	i.Store(kind+" "+name, item)
	return nil
}

func (i *items) Items(_ context.Context, kind string) (map[string]json.RawMessage, error) {
	list := map[string]json.RawMessage{}
	for key, item := range i.Range {
		if name, ok := strings.CutPrefix(key.(string), kind+" "); ok {
			list[name] = item.(json.RawMessage)
		}
	}
	return list, nil
}

func (i *items) Item(_ context.Context, kind, name string) (json.RawMessage, error) {
	if item, ok := i.Load(kind + " " + name); ok {
		return item.(json.RawMessage), nil
	}
	return nil, store.ErrNotFound
}

func (i *items) DeleteItem(_ context.Context, kind, name string) error {
	if _, ok := i.LoadAndDelete(kind + " " + name); !ok {
		return store.ErrNotFound
	}
	return nil
}

func (*items) SwapItem(context.Context, string, string, json.RawMessage, json.RawMessage, []store.Post) (bool, error) {
	panic("unused")
}

var server = trouble.Trouble{Kind: "server", Name: "tickets", Reason: "It fails: exit status 1", Page: "/servers",
	Patience: 5 * time.Minute}

func newWorld() *world {
	w := &world{items: &items{}, keys: map[string]bool{}, to: room, mu: &sync.Mutex{}}
	w.leads.Store(true)
	w.set()
	return w
}

func TestWatch_TroubleThatLasts_IsReportedOnceAndItsEndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		watch, stop := w.watch(t)
		time.Sleep(time.Second) // between two looks
		w.set(server)
		time.Sleep(4 * time.Minute)
		if len(w.posted()) != 0 || len(watch.Current()) != 0 {
			t.Errorf("reported before its patience: %q", w.posted())
		}
		// It crashes again and again: between two crashes it works for a minute.
		for range 30 {
			w.set()
			time.Sleep(time.Minute)
			w.set(server)
			time.Sleep(time.Minute)
		}
		if len(w.posted()) != 1 || !strings.HasPrefix(w.posted()[0], "**Trouble: MCP server tickets**, since 00:00 UTC on 1 Jan. It fails: exit status 1.") ||
			!strings.HasSuffix(w.posted()[0], "[More](https://raven.example/servers)") || len(watch.Current()) != 1 {
			t.Errorf("posts %q, current %v", w.posted(), watch.Current())
		}
		w.set()
		time.Sleep(time.Hour)
		stop()
		want := "**Ended: MCP server tickets.** It began at 00:00 UTC on 1 Jan."
		if !slices.Equal(w.posted()[1:], []string{want}) || len(watch.Current()) != 0 {
			t.Errorf("posts %q, want the end %q", w.posted(), want)
		}
	})
}

// A restart, and another process that leads after the first one, report nothing again.
func TestWatch_AfterARestart_ReportsTheEndOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.set(server)
		_, stop := w.watch(t)
		other := &world{items: w.items, keys: w.keys, to: room, mu: w.mu}
		other.set(server)
		_, stopOther := other.watch(t)
		time.Sleep(10 * time.Minute)
		stop()
		other.leads.Store(true)
		time.Sleep(10 * time.Minute)
		stopOther()
		if len(w.posted())+len(other.posted()) != 1 {
			t.Errorf("the first posted %q, the second %q", w.posted(), other.posted())
		}
		w.set()
		_, stop = w.watch(t)
		time.Sleep(10 * time.Minute)
		stop()
		if len(w.posted()) != 2 || !strings.HasPrefix(w.posted()[1], "**Ended") {
			t.Errorf("posts %q", w.posted())
		}
	})
}

func TestWatch_WithoutAChannel_KeepsTheTroublesForMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.to = chat.Address{}
		w.set(server, trouble.Trouble{Kind: "store", Reason: "the disk is full"})
		watch, stop := w.watch(t)
		time.Sleep(6 * time.Minute)
		stop()
		var kinds []string
		for _, c := range watch.Current() {
			kinds = append(kinds, c.Kind)
		}
		if len(w.posted()) != 0 || !slices.Equal(kinds, []string{"server", "store"}) {
			t.Errorf("posts %q, current %v", w.posted(), kinds)
		}
	})
}

// A channel that is removed for a while, or replaced, hears of each trouble once.
func TestWatch_ChannelChanges_EachHearsOfPresentTroublesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var to atomic.Pointer[chat.Address]
		to.Store(&room)
		w.channel = func() chat.Address { return *to.Load() }
		_, stop := w.watch(t)
		time.Sleep(time.Second)
		w.set(server)
		time.Sleep(10 * time.Minute)
		to.Store(&chat.Address{})
		time.Sleep(10 * time.Minute)
		w.set() // ends without a channel
		time.Sleep(10 * time.Minute)
		to.Store(&room)
		w.set(server) // another one of the same name
		time.Sleep(10 * time.Minute)
		other := chat.Address{Platform: "web", Channel: "ops"}
		to.Store(&other)
		time.Sleep(10 * time.Minute)
		w.set()
		time.Sleep(10 * time.Minute)
		stop()
		var kinds []string
		for _, p := range w.posted() {
			kinds = append(kinds, strings.Trim(strings.Fields(p)[0], "*:"))
		}
		if want := []string{"Trouble", "Trouble", "Trouble", "Ended"}; !slices.Equal(kinds, want) {
			t.Errorf("posts %q, want %q", w.posted(), want)
		}
	})
}
