package seal

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ravenbot/internal/store"
)

func TestLoadKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "oauth.key")
	first, err := LoadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 || len(first) != keySize {
		t.Errorf("mode %o, %d bytes", info.Mode().Perm(), len(first))
	}
	if again, err := LoadKey(path); err != nil || string(again) != string(first) {
		t.Errorf("another key the second time, %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(path); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
		t.Errorf("a key that others read: %v", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, first[:31], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(path); err == nil || !strings.Contains(err.Error(), "has 31 bytes") {
		t.Errorf("a key that was cut: %v", err)
	}
	if _, err := LoadKey(filepath.Join(path, "none")); err == nil {
		t.Error("a key in no folder")
	}
}

func newBox(t *testing.T, fill string) *Box {
	t.Helper()
	b, err := NewBox([]byte(strings.Repeat(fill, keySize)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNewBox_KeyOfAnotherSize_IsRefused(t *testing.T) {
	if _, err := NewBox([]byte("short")); err == nil {
		t.Error("a short key was taken")
	}
}

func TestBox_OpensOnlyWhatItSealedUnderThatName(t *testing.T) {
	b := newBox(t, "a")
	sealed := b.Seal("one", []byte("words"))
	if plain, err := b.Open("one", sealed); err != nil || string(plain) != "words" {
		t.Errorf("opened %q, %v", plain, err)
	}
	for what, open := range map[string]func() ([]byte, error){
		"another name": func() ([]byte, error) { return b.Open("two", sealed) },
		"another key":  func() ([]byte, error) { return newBox(t, "b").Open("one", sealed) },
		"nothing":      func() ([]byte, error) { return b.Open("one", nil) },
		"clear text":   func() ([]byte, error) { return b.Open("one", []byte("words")) },
	} {
		if plain, err := open(); err == nil {
			t.Errorf("%s: opened %q", what, plain)
		}
	}
}

// memoryStore keeps items of one kind.
type memoryStore struct {
	store.Store
	items map[string]json.RawMessage
}

func (s memoryStore) SaveItem(_ context.Context, _, name string, item json.RawMessage, _ bool) error {
	s.items[name] = item
	return nil
}

func (s memoryStore) Items(context.Context, string) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for name, item := range s.items {
		all[name] = item
	}
	return all, nil
}

func TestStore_KeepsItemsOfItsKindsEncrypted(t *testing.T) {
	const entry = `{"env":{"TOKEN":"hush-hush"}}`
	below := memoryStore{items: map[string]json.RawMessage{"old": json.RawMessage(entry)}}
	s := Store{Store: below, Box: newBox(t, "a"), Kinds: []string{"server"}, Log: slog.New(slog.DiscardHandler)}
	if err := s.SaveItem(t.Context(), "server", "new", json.RawMessage(entry), false); err != nil {
		t.Fatal(err)
	}
	items, err := s.Items(t.Context(), "server")
	if err != nil || string(items["new"]) != entry || string(items["old"]) != entry {
		t.Errorf("items are %s, %v", items, err)
	}
	for name, raw := range below.items {
		if strings.Contains(string(raw), "hush") || !json.Valid(raw) {
			t.Errorf("%s is stored as %s", name, raw)
		}
	}
	// An entry under another's name, as somebody with the store alone could put it, is left out.
	below.items["moved"] = below.items["new"]
	if items, err := s.Items(t.Context(), "server"); err != nil || len(items) != 2 || items["moved"] != nil {
		t.Errorf("items are %s, %v", items, err)
	}
	if err := s.SaveItem(t.Context(), "other", "plain", json.RawMessage(entry), false); err != nil ||
		string(below.items["plain"]) != entry {
		t.Errorf("an item of another kind is stored as %s, %v", below.items["plain"], err)
	}
}
