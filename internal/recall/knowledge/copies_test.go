package knowledge_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ravenbot/internal/recall/document"
	"ravenbot/internal/recall/knowledge"
	"ravenbot/internal/store/storage"
)

// machine is where a process with a folder of its own shares a store with others.
type machine struct {
	*knowledge.Repository
	folder string
}

func machines(t *testing.T, n int) (list []machine) {
	t.Helper()
	db, err := storage.OpenFile(filepath.Join(t.TempDir(), "store.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for range n {
		folder := t.TempDir()
		list = append(list, machine{knowledge.New(knowledge.Options{
			Folder:    folder,
			Documents: document.NewReader(pages),
			Log:       slog.New(slog.DiscardHandler),
			Copies:    &knowledge.Copies{Items: db},
		}), folder})
	}
	return list
}

func (m machine) put(t *testing.T, agent, name, text string) {
	t.Helper()
	if err := m.Put(t.Context(), agent, name, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// begin is what a process does that begins to act.
func (m machine) begin(t *testing.T) {
	t.Helper()
	if err := m.Restore(t.Context(), []string{"default", "team:a"}); err != nil {
		t.Fatal(err)
	}
}

// want checks which files an agent has, and what is in them.
func (m machine) want(t *testing.T, agent string, files map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, f := range m.Files(t.Context(), agent, nil) {
		file, err := m.Open(agent, f.Name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(file)
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
		got[f.Name] = string(text)
	}
	for name, text := range files {
		if got[name] != text {
			t.Errorf("%s of %s holds %q, want %q", name, agent, got[name], text)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("%s has %v more", agent, got)
	}
}

func TestUploadsAreOnTheNextMachine(t *testing.T) {
	all := machines(t, 3)
	first, second, third := all[0], all[1], all[2]
	first.put(t, "default", "rules.md", "No shoes.")
	first.put(t, "default", "menu.md", "Soup.")
	first.put(t, "team:a", "rules.md", "Shoes.")
	second.begin(t)
	second.want(t, "default", map[string]string{"rules.md": "No shoes.", "menu.md": "Soup."})
	second.want(t, "team:a", map[string]string{"rules.md": "Shoes."})

	second.put(t, "default", "rules.md", "Shoes are allowed.")
	if err := second.Delete(t.Context(), "default", "menu.md"); err != nil {
		t.Fatal(err)
	}
	if err := second.DeleteAll(t.Context(), "team:a"); err != nil {
		t.Fatal(err)
	}
	for _, m := range []machine{first, third} { // one that has the old files, and one that has none
		m.begin(t)
		m.want(t, "default", map[string]string{"rules.md": "Shoes are allowed."})
		m.want(t, "team:a", nil)
	}
	// What was deleted can be uploaded again.
	first.put(t, "default", "menu.md", "Bread.")
	second.begin(t)
	second.want(t, "default", map[string]string{"rules.md": "Shoes are allowed.", "menu.md": "Bread."})
}

func TestFilesFromBeforeTheStoreWasSharedAreKept(t *testing.T) {
	all := machines(t, 2)
	write(t, filepath.Join(all[0].folder, "default", "rules.md"), "No shoes.")
	all[0].begin(t)
	all[0].want(t, "default", map[string]string{"rules.md": "No shoes."})
	all[1].begin(t)
	all[1].want(t, "default", map[string]string{"rules.md": "No shoes."})
}

func TestWithoutCopiesNothingIsRestored(t *testing.T) {
	b, dir := base(t)
	path := write(t, filepath.Join(dir, "kept", "default", "rules.md"), "No shoes.")
	if err := b.Restore(t.Context(), []string{"default"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	if files := b.Files(t.Context(), "default", nil); !slices.ContainsFunc(files, func(f knowledge.File) bool {
		return f.Name == "rules.md"
	}) {
		t.Error("the file is gone")
	}
}

// A store that was shared gives its copies back to the folder beside it, once.
func TestUnpack_StoreIsSharedNoMore_FilesAreBesideIt(t *testing.T) {
	db, err := storage.OpenFile(filepath.Join(t.TempDir(), "store.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	copies := knowledge.Copies{Items: db}
	open := func(folder string, c *knowledge.Copies) machine {
		return machine{knowledge.New(knowledge.Options{
			Folder:    folder,
			Documents: document.NewReader(pages),
			Log:       slog.New(slog.DiscardHandler),
			Copies:    c,
		}), folder}
	}
	shared := open(t.TempDir(), &copies)
	shared.put(t, "default", "rules.md", "No shoes.")
	shared.put(t, "default", "menu.md", "Soup.")
	if err := shared.Delete(t.Context(), "default", "menu.md"); err != nil {
		t.Fatal(err)
	}
	alone := open(t.TempDir(), nil)
	for _, text := range []string{"No shoes.", "Shoes."} {
		if err := alone.Unpack(t.Context(), copies); err != nil {
			t.Fatal(err)
		}
		alone.want(t, "default", map[string]string{"rules.md": text})
		alone.put(t, "default", "rules.md", "Shoes.") // which the next start must leave as it is
	}
}
