package toolsearch

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/recall/meaning"
	"ravenbot/internal/store/storage"
)

// themes embeds a text by what it is about: each theme is a direction.
func themes(_ context.Context, texts []string) ([][]float32, error) {
	var list [][]float32
	for _, text := range texts {
		v := []float32{0.01, 0, 0, 0}
		for i, words := range []string{"calendar event dentist appointment", "vault treasure gold", "lamp bright dark"} {
			for _, w := range strings.Fields(words) {
				if strings.Contains(strings.ToLower(text), w) {
					v[i+1]++
				}
			}
		}
		list = append(list, v)
	}
	return list, nil
}

func TestDiscover_FindsToolsByTheirMeaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := storage.OpenFile(filepath.Join(t.TempDir(), "raven.db"), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		h, isOn := newHouse(), true
		m := meaning.New(func() (meaning.Embedder, bool) { return meaning.Embedder{Name: "themes", Embed: themes}, isOn },
			db, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		go m.Run(ctx)
		defer synctest.Wait()
		defer cancel()
		// Before a turn has listed the tools, what is stored of them stays.
		if _, err := NewFinder(New(), nil).WithMeaning(m).texts(ctx, ""); err != meaning.ErrUnknown {
			t.Errorf("the texts of unlisted tools: %v", err)
		}
		h.finder.WithMeaning(m)
		h.finder.Sync(h.all)
		synctest.Wait()
		if found := h.call(t, discover, `{"query":"treasure","limit":3}`).Text; !strings.HasPrefix(found, "- vault_open: ") {
			t.Errorf("by its meaning it found\n%s", found)
		}
		if found := h.call(t, discover, `{"query":"put an event into the calendar"}`).Text; !strings.HasPrefix(found,
			"- calendar_create: ") {
			t.Errorf("by words and meaning it found\n%s", found)
		}
		h.barred = "vault"
		if found := h.call(t, discover, `{"query":"treasure"}`).Text; strings.Contains(found, "vault") {
			t.Errorf("it found what may not be used:\n%s", found)
		}
		h.barred, isOn = "", false
		if found := h.call(t, discover, `{"query":"treasure"}`).Text; !strings.HasPrefix(found, "No tool fits") {
			t.Errorf("by words alone it found\n%s", found)
		}
	})
}
