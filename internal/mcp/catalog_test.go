package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/store"
)

// itemStore keeps items in memory.
type itemStore map[string]json.RawMessage

func (s itemStore) SaveItem(_ context.Context, _, name string, item json.RawMessage, overwrite bool) error {
	if _, exists := s[name]; exists && !overwrite {
		return store.ErrExists
	}
	s[name] = item
	return nil
}

func (s itemStore) Items(context.Context, string) (map[string]json.RawMessage, error) { return s, nil }

func (s itemStore) DeleteItem(_ context.Context, _, name string) error {
	if _, exists := s[name]; !exists {
		return store.ErrNotFound
	}
	delete(s, name)
	return nil
}

func (itemStore) Item(context.Context, string, string) (json.RawMessage, error) {
	return nil, errors.ErrUnsupported
}

func (itemStore) SwapItem(context.Context, string, string, json.RawMessage, json.RawMessage,
	[]store.Post) (bool, error) {
	return false, errors.ErrUnsupported
}

// newCatalog returns a Catalog whose entries are JSON of Config, with one configured server.
func newCatalog(t *testing.T) (*Catalog, *Host, itemStore) {
	t.Helper()
	items := itemStore{}
	c, host := catalogOn(t, items)
	return c, host, items
}

func catalogOn(t *testing.T, items store.Items) (*Catalog, *Host) {
	t.Helper()
	host, err := NewHost(Options{Servers: []Config{{Name: "configured", URL: "https://configured.example/mcp"}}})
	if err != nil {
		t.Fatal(err)
	}
	parse := func(name string, raw json.RawMessage) (Config, error) {
		c := Config{Name: name}
		err := json.Unmarshal(raw, &c)
		return c, err
	}
	isReserved := func(name string) bool { return name == "feeds" }
	return NewCatalog(host, items, parse, isReserved, slog.New(slog.DiscardHandler)), host
}

const (
	firstEntry = `{"URL":"https://first.example/mcp","SignIn":{"ClientID":"first"},` +
		`"AllowPrivateHosts":["first.internal"]}`
	secondEntry = `{"URL":"https://second.example/mcp","SignIn":{"ClientID":"second"},"AllowPrivateHosts":["10.0.0.0/8"]}`
)

// A request that is refused because the name is taken must not reach the server that has it:
// it would sign in with another client, or to private networks.
func TestCatalog_RefusedAdd_LeavesTheServerAsItIs(t *testing.T) {
	c, host, items := newCatalog(t)
	if _, err := c.Add(t.Context(), "tickets", json.RawMessage(firstEntry)); err != nil {
		t.Fatal(err)
	}
	before, _ := host.Config("tickets")
	if _, err := c.Add(t.Context(), "tickets", json.RawMessage(secondEntry)); !errors.Is(err, ErrExists) {
		t.Fatalf("the second server of that name: %v, want ErrExists", err)
	}
	if after, _ := host.Config("tickets"); !cmp.Equal(before, after) || after.SignIn.ClientID != "first" {
		t.Errorf("the server changed (-before +after):\n%s", cmp.Diff(before, after))
	}
	if string(items["tickets"]) != firstEntry {
		t.Errorf("kept entry %s", items["tickets"])
	}
}

func TestCatalog_RemovedServer_LeavesNothingBehind(t *testing.T) {
	c, host, items := newCatalog(t)
	if _, err := c.Add(t.Context(), "tickets", json.RawMessage(firstEntry)); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(t.Context(), "tickets"); err != nil {
		t.Fatal(err)
	}
	if entry, exists := host.Config("tickets"); exists || len(items) != 0 {
		t.Errorf("after the removal there is %+v, kept %v", entry, items)
	}
	if _, err := c.Add(t.Context(), "tickets", json.RawMessage(secondEntry)); err != nil {
		t.Fatal(err)
	}
	if entry, _ := host.Config("tickets"); entry.SignIn.ClientID != "second" {
		t.Errorf("the new server signs in as %q", entry.SignIn.ClientID)
	}
}

// brokenItems keeps items in memory, and refuses every change while it has an error.
type brokenItems struct {
	itemStore
	err error
}

func (b *brokenItems) SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error {
	if b.err != nil {
		return b.err
	}
	return b.itemStore.SaveItem(ctx, kind, name, item, overwrite)
}

func (b *brokenItems) DeleteItem(ctx context.Context, kind, name string) error {
	if b.err != nil {
		return b.err
	}
	return b.itemStore.DeleteItem(ctx, kind, name)
}

// A change that cannot be stored would be undone by the next start: it has no effect, and may be tried again.
func TestCatalog_ChangeThatIsNotStored_HasNoEffect(t *testing.T) {
	for name, change := range map[string]func(c *Catalog) error{
		"remove": func(c *Catalog) error { return c.Remove(t.Context(), "tickets") },
		"replace": func(c *Catalog) error {
			_, err := c.Replace(t.Context(), "tickets", json.RawMessage(secondEntry))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			items := &brokenItems{itemStore: itemStore{}}
			c, host := catalogOn(t, items)
			if _, err := c.Add(t.Context(), "tickets", json.RawMessage(firstEntry)); err != nil {
				t.Fatal(err)
			}
			items.err = errors.New("no space left")
			if err := change(c); !errors.Is(err, items.err) {
				t.Fatalf("while the store is full: %v", err)
			}
			if entry, _ := host.Config("tickets"); entry.URL != "https://first.example/mcp" {
				t.Errorf("the server has the URL %q, want the stored one", entry.URL)
			}
			items.err = nil
			if err := change(c); err != nil {
				t.Fatalf("tried again: %v", err)
			}
			kept := Config{}
			_ = json.Unmarshal(items.itemStore["tickets"], &kept)
			if entry, _ := host.Config("tickets"); entry.URL != kept.URL || kept.URL == "https://first.example/mcp" {
				t.Errorf("afterwards the server has the URL %q, and %q is kept", entry.URL, kept.URL)
			}
		})
	}
}

// A server whose entry cannot be stored would be gone after the next start: it is not added.
func TestCatalog_AddThatIsNotStored_AddsNothing(t *testing.T) {
	items := &brokenItems{itemStore: itemStore{}, err: errors.New("no space left")}
	c, host := catalogOn(t, items)
	if _, err := c.Add(t.Context(), "tickets", json.RawMessage(firstEntry)); !errors.Is(err, items.err) {
		t.Errorf("while the store is full: %v", err)
	}
	if _, exists := host.Config("tickets"); exists {
		t.Error("the server was added, although its entry is not kept")
	}
	items.err = nil
	if _, err := c.Add(t.Context(), "tickets", json.RawMessage(firstEntry)); err != nil {
		t.Errorf("tried again: %v", err)
	}
}

// An entry that cannot run must not be kept either.
func TestCatalog_InvalidReplacement_LeavesTheServerAsItIs(t *testing.T) {
	c, host, items := newCatalog(t)
	if _, err := c.Add(t.Context(), "tickets", json.RawMessage(firstEntry)); err != nil {
		t.Fatal(err)
	}
	var bad InputError
	if _, err := c.Replace(t.Context(), "tickets", json.RawMessage(`{"URL":"nowhere"}`)); !errors.As(err, &bad) {
		t.Errorf("an invalid entry: %v", err)
	}
	if entry, _ := host.Config("tickets"); entry.URL != "https://first.example/mcp" ||
		string(items["tickets"]) != firstEntry {
		t.Errorf("the server has the URL %q, and %s is kept", entry.URL, items["tickets"])
	}
}

func TestCatalog_ConfiguredServer_CannotBeReplacedOrRemoved(t *testing.T) {
	c, _, _ := newCatalog(t)
	if _, err := c.Replace(t.Context(), "configured", json.RawMessage(firstEntry)); !errors.Is(err, ErrConfigured) {
		t.Errorf("replace: %v, want ErrConfigured", err)
	}
	if err := c.Remove(t.Context(), "configured"); !errors.Is(err, ErrConfigured) {
		t.Errorf("remove: %v, want ErrConfigured", err)
	}
}

func TestCatalog_NameOfAPack_IsRefused(t *testing.T) {
	c, _, items := newCatalog(t)
	var bad InputError
	if _, err := c.Add(t.Context(), "feeds", json.RawMessage(firstEntry)); !errors.As(err, &bad) || len(items) != 0 {
		t.Errorf("a server with the name of a pack: %v, kept %v", err, items)
	}
}

// A kept entry that cannot be used any more must not keep the others from coming back.
func TestCatalog_Restore_SkipsWhatCannotBeUsed(t *testing.T) {
	c, host, items := newCatalog(t)
	items["broken"] = json.RawMessage(`{"URL":7}`)
	items["configured"] = json.RawMessage(secondEntry)
	items["tickets"] = json.RawMessage(firstEntry)
	if err := c.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, exists := host.Config("broken"); exists {
		t.Error("the broken entry became a server")
	}
	if s, _ := host.Config("configured"); s.URL != "https://configured.example/mcp" {
		t.Errorf("the configured server became %s", s.URL)
	}
	if _, exists := host.Config("tickets"); !exists {
		t.Error("the good entry did not come back")
	}
}

// Replicas have the servers that one of them has added, and no others.
func TestCatalog_Reload_FollowsAnotherProcess(t *testing.T) {
	here, host, items := newCatalog(t)
	there, _ := catalogOn(t, items)
	steps := []struct {
		name string
		do   func() error
		want string // URL of the server here, or ""
	}{
		{"added", func() error { _, err := there.Add(t.Context(), "tickets", json.RawMessage(firstEntry)); return err },
			"https://first.example/mcp"},
		{"changed", func() error {
			_, err := there.Replace(t.Context(), "tickets", json.RawMessage(secondEntry))
			return err
		},
			"https://second.example/mcp"},
		{"nothing", func() error { return nil }, "https://second.example/mcp"},
		{"removed", func() error { return there.Remove(t.Context(), "tickets") }, ""},
		{"a name of the configuration", func() error {
			return items.SaveItem(t.Context(), CatalogKind, "configured", json.RawMessage(firstEntry), true)
		}, ""},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if err := here.Reload(t.Context()); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if c, _ := host.Config("tickets"); c.URL != step.want {
			t.Errorf("%s: the server has the URL %q, want %q", step.name, c.URL, step.want)
		}
		if c, _ := host.Config("configured"); c.URL != "https://configured.example/mcp" {
			t.Errorf("%s: the configured server has the URL %q", step.name, c.URL)
		}
	}
}
