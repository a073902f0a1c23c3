package knowledge_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/recall/document"
	"ravenbot/internal/recall/knowledge"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/testing/meaningtest"
)

func TestMeaning_PassagesAreFoundByParaphrasesAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db, err := storage.OpenFile(filepath.Join(dir, "raven.db"), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		index, end := meaningtest.Start(t, db, "lemon tree in winter", "zitrus")
		defer end()
		ctx := t.Context()
		b := knowledge.New(knowledge.Options{Folder: filepath.Join(dir, "kept"), Documents: document.NewReader(pages),
			Log: slog.New(slog.DiscardHandler), Meaning: index})
		if err := b.Put(ctx, "default", "garden.md", []byte(gardenBook())); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"a.md", "b.md"} {
			if err := b.Put(ctx, "other", file, []byte("Of "+file)); err != nil {
				t.Fatal(err)
			}
		}
		b.Search(ctx, "default", nil, "zitrus", 3)
		b.Search(ctx, "other", nil, "zitrus", 3)
		synctest.Wait()
		const want = "[garden.md, The lemon tree in winter]"
		searched := b.Search(ctx, "default", nil, "zitrus", 3)
		if len(searched) == 0 || !strings.HasPrefix(searched[0].String(), want) {
			t.Errorf("a search finds %q", searched)
		}
		const about = "Tell me about zitrus"
		for question, earlier := range map[string][]string{about: nil, "and why?": {about}} {
			_, found := b.Recall(ctx, "default", nil, question, earlier)
			if len(found) == 0 || !strings.HasPrefix(found[0], want) {
				t.Errorf("%q after %q brings %.200q", question, earlier, found)
			}
		}
		if _, found := b.Recall(ctx, "default", nil, "thanks!", []string{"Tell me about zitrus"}); len(found) > 0 {
			t.Errorf("thanks bring %.200q", found)
		}
		if found := b.Search(ctx, "other", nil, "zitrus", 3); len(found) > 0 {
			t.Errorf("of another agent's files %q is found", found)
		}
		if err := b.Delete(ctx, "other", "a.md"); err != nil {
			t.Fatal(err)
		}
		if err := b.DeleteAll(ctx, "default"); err != nil {
			t.Fatal(err)
		}
		for agent, want := range map[string]int{"default": 0, "other": 1} {
			if left := meaningtest.Stored(t, db, "files/"+agent); left != want {
				t.Errorf("%d vectors of files of %s are left, want %d", left, agent, want)
			}
		}
	})
}
