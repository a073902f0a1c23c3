package storetest

import (
	"errors"
	"testing"
	"time"

	"ravenbot/internal/store"
)

// Numbers of notes are not used again; equal texts are one note, and a full scope takes none.
func memories(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	note := func(scope, text string) store.Memory {
		return store.Memory{Scope: scope, Text: text, By: "anna", At: noon}
	}
	texts := func(scope string) (all []string) {
		t.Helper()
		list, err := s.Memories(ctx, scope)
		must(t, err)
		for _, m := range list {
			all = append(all, m.Text)
		}
		return all
	}
	for n, text := range []string{"one", "two", "three"} {
		kept, isNew, err := s.SaveMemory(ctx, note("user/web/a", text), 3)
		must(t, err)
		want := note("user/web/a", text)
		want.N = uint64(n + 1)
		same(t, "what is kept", want, kept)
		same(t, "it is new", true, isNew)
	}
	kept, isNew, err := s.SaveMemory(ctx, note("user/web/a", "two"), 3)
	must(t, err)
	same(t, "number and newness of what was there", []any{uint64(2), false}, []any{kept.N, isNew})
	if _, _, err := s.SaveMemory(ctx, note("user/web/a", "four"), 3); !errors.Is(err, store.ErrFull) {
		t.Errorf("one too many: %v, want that it is full", err)
	}
	_, _, err = s.SaveMemory(ctx, note("user/web/b", "four"), 3)
	must(t, err)
	same(t, "of the one", []string{"one", "two", "three"}, texts("user/web/a"))
	same(t, "of the other", []string{"four"}, texts("user/web/b"))
	same(t, "of nobody", []string(nil), texts("user/web/"))

	scopes, err := s.MemoryScopes(ctx)
	must(t, err)
	same(t, "scopes", []string{"user/web/a", "user/web/b"}, scopes)

	must(t, s.DeleteMemory(ctx, "user/web/a", 3))
	for _, scope := range []string{"user/web/a", "user/web/c"} {
		if err := s.DeleteMemory(ctx, scope, 3); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("removing what %s does not have: %v", scope, err)
		}
	}
	kept, _, err = s.SaveMemory(ctx, note("user/web/a", "five"), 3)
	must(t, err)
	same(t, "the number behind a removed one", uint64(4), kept.N)
	changed := note("user/web/a", "TWO")
	changed.N = 2
	before, kept, err := s.ReplaceMemory(ctx, changed)
	must(t, err)
	same(t, "texts before and after a change", []string{"two", "TWO"}, []string{before.Text, kept.Text})
	changed.Text = "one" // number 1 says so already
	_, kept, err = s.ReplaceMemory(ctx, changed)
	must(t, err)
	same(t, "the number that stays of two equal ones", uint64(1), kept.N)
	same(t, "of the one after changes", []string{"one", "five"}, texts("user/web/a"))
	if _, _, err := s.ReplaceMemory(ctx, changed); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("changing what is gone: %v, want that it is not found", err)
	}
	for range 2 {
		must(t, s.DeleteMemories(ctx, "user/web/a"))
	}
	same(t, "after all were removed", []string(nil), texts("user/web/a"))
	same(t, "of the other", []string{"four"}, texts("user/web/b"))
}
