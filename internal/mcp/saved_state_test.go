package mcp

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// faultyStore has an error for some kinds, and counts its calls.
type faultyStore struct {
	memoryStore
	faulty string // the kind that cannot be read or written
}

var errFaulty = errors.New("the store is damaged")

func (f *faultyStore) LoadBlob(ctx context.Context, key string) ([]byte, error) {
	if strings.HasPrefix(key, f.faulty+"/") {
		return nil, errFaulty
	}
	return f.memoryStore.LoadBlob(ctx, key)
}

func (f *faultyStore) SaveBlob(ctx context.Context, key string, data []byte) error {
	if strings.HasPrefix(key, f.faulty+"/") {
		return errFaulty
	}
	return f.memoryStore.SaveBlob(ctx, key, data)
}

func (s *server) saveListing(now listing) { s.saveOrLog(kindTools, savedListing{s.fingerprint(), now}) }

// A store that cannot be read or written keeps no server from working, and the operator reads of it.
func TestSavedState_FaultyStore_IsLogged(t *testing.T) {
	for kind, want := range map[string]struct{ read, write string }{
		kindTools: {"failed to read the saved tools of an mcp server", "what=tools"},
		kindPins:  {"failed to read the pinned tools of an mcp server", "what=pins"},
	} {
		var log strings.Builder
		h := must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}}, Store: &faultyStore{faulty: kind},
			Log: slog.New(slog.NewTextHandler(&log, nil))}))
		s := must(h.server("a"))
		if !strings.Contains(log.String(), want.read) || strings.Count(log.String(), "level=") != 1 {
			t.Errorf("%s cannot be read, and the log says %q", kind, log.String())
		}
		log.Reset()
		now := listing{Tools: []toolSpec{{Name: "x"}}}
		s.setListing(now)
		s.saveListing(now)
		if !strings.Contains(log.String(), want.write) && kind != kindPins {
			t.Errorf("%s cannot be written, and the log says %q", kind, log.String())
		}
		if n := len(h.ToolsOf("a")); n != 1 {
			t.Errorf("%s: the server has %d tools", kind, n)
		}
	}
	// A store without faults leads to no line.
	var log strings.Builder
	h := must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}}, Store: &memoryStore{},
		Log: slog.New(slog.NewTextHandler(&log, nil))}))
	s := must(h.server("a"))
	s.setListing(listing{Tools: []toolSpec{{Name: "x"}}})
	s.saveListing(s.listing)
	if log.String() != "" {
		t.Errorf("the log says %q", log.String())
	}
}

// Saved state is used only if the entry is the same.
func TestRestore_OnlyForTheSameEntry(t *testing.T) {
	keep := &memoryStore{}
	entry := Config{Name: "a", Command: "x", Args: []string{"y"}}
	first := must(must(NewHost(Options{Servers: []Config{entry}, Store: keep})).server("a"))
	now := listing{Tools: []toolSpec{{Name: "one"}}, Instructions: "use it well", Offers: serverFeatures{Prompts: true}}
	first.setListing(now)
	first.saveListing(now)
	again := must(must(NewHost(Options{Servers: []Config{entry}, Store: keep})).server("a"))
	if !again.restored || len(again.tools) != 1 || again.listing.Instructions != "use it well" ||
		!again.features().Prompts || !again.startsOnCall() {
		t.Errorf("restored %v: %+v", again.restored, again.listing)
	}
	for what, change := range map[string]func(c *Config){
		"arguments":   func(c *Config) { c.Args = []string{"z"} },
		"environment": func(c *Config) { c.Env = map[string]string{"A": "b"} },
		"folder":      func(c *Config) { c.Dir = "/" },
		"disabled":    func(c *Config) { c.Disabled = true },
	} {
		c := entry
		change(&c)
		other := must(must(NewHost(Options{Servers: []Config{c}, Store: keep})).server("a"))
		if other.restored || len(other.tools) != 0 || other.startsOnCall() {
			t.Errorf("another %s: restored %v with %d tools", what, other.restored, len(other.tools))
		}
	}
	// A server without saved offers must be started.
	first.setListing(listing{})
	first.saveListing(listing{})
	if empty := must(must(NewHost(Options{Servers: []Config{entry}, Store: keep})).server("a")); empty.restored {
		t.Error("a server without anything is known")
	}
	if err := first.deleteSaved(); err != nil {
		t.Error(err)
	}
	for key, data := range keep.kept {
		if string(data) != "null" {
			t.Errorf("%s is still kept: %s", key, data)
		}
	}
	if len(keep.kept) != 3 {
		t.Errorf("deleted are %d kinds, want 3", len(keep.kept))
	}
}

// What cannot be deleted is said, of all kinds.
func TestDeleteSaved_FaultyStore(t *testing.T) {
	for _, kind := range []string{kindTools, kindPins, "log"} {
		h := must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}}, Store: &faultyStore{faulty: kind}}))
		if err := must(h.server("a")).deleteSaved(); !errors.Is(err, errFaulty) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// A server that was replaced writes nothing over what its successor keeps.
func TestSave_RetiredServer_SavesNothing(t *testing.T) {
	keep := &memoryStore{}
	s := must(must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}}, Store: keep})).server("a"))
	s.retired.Store(true)
	s.saveListing(listing{Tools: []toolSpec{{Name: "x"}}})
	if len(keep.kept) > 0 {
		t.Errorf("kept is %v", keep.kept)
	}
}
