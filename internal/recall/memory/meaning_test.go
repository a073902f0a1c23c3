package memory_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/recall/memory"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/testing/meaningtest"
)

func TestMeaning_NotesAreFoundByParaphrasesAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := storage.OpenFile(filepath.Join(t.TempDir(), "raven.db"), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		index, end := meaningtest.Start(t, db, "reports to", "superior")
		defer end()
		r := over(t, db)
		r.pack = memory.New(memory.Options{Store: db, Log: slog.New(slog.DiscardHandler), Now: time.Now,
			Manages: func(chat.Message) bool { return true }, Meaning: index})
		for _, who := range []chat.User{anna, berit} {
			for _, note := range []string{"reports to Ingrid " + who.Name, "rides a bicycle", "wears glasses", "plays chess",
				"owns a boat", "likes green tea", "sings in a choir"} {
				r.save(general, who, "me", note)
			}
		}
		question := "who is my superior?"
		r.search(general, anna, question)
		r.search(general, berit, question)
		synctest.Wait()
		const ingrid = "reports to Ingrid anna"
		for name, found := range map[string]string{
			"memory_search": r.search(general, anna, question),
			"the command":   r.command(general, anna, "search "+question).Text,
			"recall":        r.recall(general, anna, question),
		} {
			if !strings.Contains(found, ingrid) || strings.Contains(found, "bicycle") || strings.Contains(found, "berit") {
				t.Errorf("%s finds\n%s", name, found)
			}
		}
		if found := r.recall(general, anna, "thank you"); found != "" {
			t.Errorf("for thanks\n%s\nis recalled", found)
		}
		r.command(general, anna, "edit 2 drives a car")
		r.command(general, anna, "delete 1")
		if left := meaningtest.Stored(t, db, "notes/user/slack/U1"); left != 5 {
			t.Errorf("after a note was deleted and one changed %d vectors are left, want 5", left)
		}
		r.command(general, anna, "delete all")
		if found := r.search(general, anna, question); strings.Contains(found, "Ingrid") {
			t.Errorf("deleted notes are found:\n%s", found)
		}
	})
}
