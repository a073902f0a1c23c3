package memory_test

import (
	"errors"
	"strings"
	"testing"

	"ravenbot/internal/store"
)

func TestNotes_AreManagedByScope(t *testing.T) {
	r := newRoom(t)
	ctx := t.Context()
	for _, text := range []string{"likes tea", "plays the violin"} {
		if _, err := r.pack.Add(ctx, "user:slack/U1", text, "operator"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.pack.Add(ctx, "channel:slack:T1/C1/1.2", "deploys on Fridays", "operator"); err != nil {
		t.Fatal(err)
	}
	// The tools of the one whom the notes are about see them.
	if text := r.search(general, anna, ""); strings.Count(text, "\n- ") != 3 {
		t.Errorf("memory_search returns %q", text)
	}
	list, err := r.pack.List(ctx, "user:slack/U1", "violin")
	if err != nil || len(list) != 1 || list[0].N != 2 || list[0].By != "operator" {
		t.Errorf("violin finds %+v, %v", list, err)
	}
	if err := r.pack.Remove(ctx, "user:slack/U1", 2); err != nil {
		t.Error(err)
	}
	if err := r.pack.Remove(ctx, "user:slack/U1", 2); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("removing it again: %v", err)
	}
	for _, scope := range []string{"", "U1", "user:U1", "user:/U1", "channel:C1", "room:x/y"} {
		var bad interface{ BadInput() bool }
		if _, err := r.pack.List(ctx, scope, ""); !errors.As(err, &bad) ||
			!strings.Contains(err.Error(), "want user:PLATFORM/ID") {
			t.Errorf("scope %q: %v", scope, err)
		}
	}
}

func TestCommand_SearchesEditsAndExports(t *testing.T) {
	r := newRoom(t)
	r.save(general, anna, "me", "plays the violin")
	r.save(general, anna, "me", "lives in Bergen")
	r.save(general, berit, "channel", "deploys on Fridays")
	for text, want := range map[string]string{
		"search VIOLIN":                "- `1` (2026-03-04): plays the violin",
		"search passport":              "nothing that fits",
		"edit 2 lives in Voss":         "now says “lives in Voss” instead of “lives in Bergen”",
		"edit 9 x":                     "nothing with the number 9",
		"channel edit 1 never deploys": "Only administrators, and berit",
		"edit 1":                       "not understood",
	} {
		if d := r.command(general, anna, text); !strings.Contains(d.Text, want) {
			t.Errorf("%q: %q, want %q", text, d.Text, want)
		}
	}
	d := r.command(general, anna, "export")
	if len(d.Files) != 1 || !strings.Contains(string(d.Files[0].Data), "2\t") ||
		!strings.Contains(string(d.Files[0].Data), "lives in Voss") {
		t.Errorf("export answers %+v", d)
	}
}
