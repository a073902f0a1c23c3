package seal

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/store"
)

func TestLoadKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "oauth.key")
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
	blob  []byte
}

func (s memoryStore) SaveItem(_ context.Context, _, name string, item json.RawMessage, overwrite bool) error {
	if s.items[name] != nil && !overwrite {
		return store.ErrExists
	}
	s.items[name] = item
	return nil
}

func (s memoryStore) Item(_ context.Context, _, name string) (json.RawMessage, error) {
	if s.items[name] == nil {
		return nil, store.ErrNotFound
	}
	return s.items[name], nil
}

func (s memoryStore) LoadBlob(context.Context, string) ([]byte, error) { return s.blob, nil }

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
	if names, err := s.Unreadable(t.Context(), "server"); err != nil || !slices.Equal(names, []string{"moved"}) {
		t.Errorf("cannot be decrypted: %q, %v", names, err)
	}
	if err := s.SaveItem(t.Context(), "other", "plain", json.RawMessage(entry), false); err != nil ||
		string(below.items["plain"]) != entry {
		t.Errorf("an item of another kind is stored as %s, %v", below.items["plain"], err)
	}
}

// racing is a store that another process opens with its own key between the look and the write of this one.
type racing struct {
	memoryStore
	other func()
}

func (s racing) Item(ctx context.Context, kind, name string) (json.RawMessage, error) {
	raw, err := s.memoryStore.Item(ctx, kind, name)
	if err != nil {
		s.other()
	}
	return raw, err
}

func TestCheckKey_TheFirstKeyCounts(t *testing.T) {
	mine, other := newBox(t, "a"), newBox(t, "b")
	check := func(s store.Store, box *Box, isRight bool) {
		t.Helper()
		err := CheckKey(t.Context(), s, box)
		if (err == nil) != isRight || err != nil && !strings.Contains(err.Error(), "RAVENBOT_STORE_KEY") {
			t.Errorf("the check returned %v", err)
		}
	}
	s := memoryStore{items: map[string]json.RawMessage{}}
	for range 2 {
		check(s, mine, true)
		check(s, other, false)
	}
	// Two processes open a new store at the same moment: only one key may pass.
	s.items = map[string]json.RawMessage{}
	check(racing{s, func() { check(s, other, true) }}, mine, false)
	s.items = map[string]json.RawMessage{}
	check(racing{s, func() { check(s, mine, true) }}, mine, true)
	// A store of an earlier release has the check in another place.
	sealed, err := json.Marshal(sealedItem{mine.Seal(keyCheckKey, []byte("ravenbot"))})
	if err != nil {
		t.Fatal(err)
	}
	s = memoryStore{items: map[string]json.RawMessage{}, blob: sealed}
	check(s, mine, true)
	check(s, other, false)
	s.blob = []byte("{")
	check(s, mine, false)
}
