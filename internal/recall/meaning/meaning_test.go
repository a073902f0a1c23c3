package meaning_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/recall/meaning"
	"ravenbot/internal/store/kv"
	"ravenbot/internal/store/records"
	"ravenbot/internal/store/storage"
)

// model embeds a text by its themes: words of one theme mean the same.
type model struct {
	mu    sync.Mutex
	name  string // "": no model is configured
	asked [][]string
	// before is called before each request and may fail it.
	before func(ctx context.Context, texts []string) error
}

var themes = []string{"boss manager supervisor", "holiday vacation leave", "invoice bill payment"}

func (m *model) set(name string, before func(context.Context, []string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.name, m.before, m.asked = name, before, nil
}

// requests returns the texts of each request since the last call of set.
func (m *model) requests() [][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

func (m *model) embedder() (meaning.Embedder, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.before
	return meaning.Embedder{Name: m.name, Embed: func(ctx context.Context, texts []string) ([][]float32, error) {
		m.mu.Lock()
		m.asked = append(m.asked, texts)
		m.mu.Unlock()
		if before != nil {
			if err := before(ctx, texts); err != nil {
				return nil, err
			}
		}
		var list [][]float32
		for _, text := range texts {
			v := []float32{0.1, 0, 0, 0}
			for i, words := range themes {
				for _, w := range strings.Fields(words) {
					if strings.Contains(text, w) {
						v[i+1]++
					}
				}
			}
			list = append(list, v)
		}
		return list, nil
	}}, m.name != ""
}

// world is an index over a real store, which runs until the test ends.
type world struct {
	*model
	*meaning.Index
	t     *testing.T
	db    *records.Store
	texts []string // of the group notes/a
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db, err := storage.OpenFile(filepath.Join(t.TempDir(), "raven.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	w := &world{model: &model{name: "m"}, t: t, db: db,
		texts: []string{"the supervisor is Ingrid", "dogs bark", "vacation in June", "it rains", "tea is green"}}
	w.start()
	return w
}

// start begins with nothing in memory, as after a restart.
func (w *world) start() {
	w.t.Helper()
	w.Index = meaning.New(w.embedder, w.db, slog.New(slog.DiscardHandler))
	w.Own("notes", func(context.Context, string) ([]string, error) { return w.texts, nil })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	x := w.Index
	go func() { defer close(done); x.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); <-done })
}

// find searches the group, whose ranking by words is byWords, and waits until the texts that lack vectors have them.
func (w *world) find(question string, byWords ...string) []string {
	w.t.Helper()
	found := meaning.Fuse(w.Query(w.t.Context(), question), byWords, docs("notes/a", w.texts), meaning.Near)
	synctest.Wait()
	return found
}

func docs(group string, texts []string) (list []meaning.Doc[string]) {
	for _, text := range texts {
		list = append(list, meaning.Doc[string]{Key: text, Group: group, Text: text})
	}
	return list
}

// stored returns the number of vectors of a group in the store.
func (w *world) stored(group string) (n int) {
	w.t.Helper()
	if err := w.db.View(w.t.Context(), func(tx kv.Tx) (err error) {
		n, err = tx.Count(meaning.Vectors.Spec, group)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func TestFuse_FindsParaphrasesAmongWhatIsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if found := w.find("who is the boss?", "it rains"); !slices.Equal(found, []string{"it rains"}) {
			t.Errorf("the first search waited for the texts: %q", found)
		}
		want := []string{"it rains", "the supervisor is Ingrid"}
		if found := w.find("who is the boss?", "it rains"); !slices.Equal(found, want) {
			t.Errorf("found %q, want %q", found, want)
		}
		want = []string{"the supervisor is Ingrid", "it rains"}
		if found := w.find("who is the boss?", "it rains", want[0]); !slices.Equal(found, want) {
			t.Errorf("found in both rankings: %q, want %q", found, want)
		}
		if found := w.find("nothing of this"); len(found) > 0 {
			t.Errorf("where all texts are equally far away %q is found", found)
		}
		found := meaning.Fuse(w.Query(t.Context(), "who is the boss?"), nil, docs("notes/a", w.texts[1:]), meaning.Near)
		if len(found) > 0 {
			t.Errorf("%q is found, though it was not offered", found)
		}
		var off *meaning.Index
		off.Add(t.Context(), "notes/a")
		off.Forget(t.Context(), "notes/a")
		if q := off.Query(t.Context(), "boss"); q != nil {
			t.Error("an index that is not there answers")
		}
	})
}

func TestRun_RestartAndChangedModel_AsksOnlyForWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.find("boss")
		if n := w.stored("notes/a"); n != len(w.texts) {
			t.Fatalf("%d vectors are stored", n)
		}
		w.set("m", nil)
		w.start()
		w.texts = append(w.texts, "the bill is paid")
		w.Add(t.Context(), "notes/a")
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"the bill is paid"}}, w.requests()); diff != "" {
			t.Errorf("after a restart it asks for (-want +got):\n%s", diff)
		}
		if found := w.find("boss"); len(found) != 1 {
			t.Errorf("after a restart %q is found", found)
		}
		w.set("other", nil)
		w.find("boss")
		if found := w.find("boss"); len(found) != 1 || len(w.requests()) != 2 {
			t.Errorf("another model finds %q after the requests %q", found, w.requests())
		}
		if n := w.stored("notes/a"); n != 2*len(w.texts) {
			t.Errorf("%d vectors of both models are stored", n)
		}
		if err := w.Prune(t.Context()); err != nil || w.stored("notes/a") != len(w.texts) {
			t.Errorf("%d vectors are left of one model: %v", w.stored("notes/a"), err)
		}
	})
}

func TestPrune_DeletesVectorsOfTextsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.find("boss")
		w.Own("unknown", func(context.Context, string) ([]string, error) { return []string{"x"}, nil })
		w.Add(t.Context(), "unknown/a")
		w.Add(t.Context(), "notes/b") // its texts are the same
		synctest.Wait()
		w.Own("unknown", func(context.Context, string) ([]string, error) { return nil, meaning.ErrUnknown })
		w.texts = w.texts[1:]
		w.Forget(t.Context(), "notes/a")
		left := []int{w.stored("notes/a"), w.stored("notes/b"), w.stored("unknown/a")}
		if diff := cmp.Diff([]int{4, 5, 1}, left); diff != "" {
			t.Errorf("after a text was deleted there are (-want +got):\n%s", diff)
		}
		failure := errors.New("the notes cannot be read")
		w.Own("notes", func(context.Context, string) ([]string, error) { return nil, failure })
		if err := w.Prune(t.Context()); !errors.Is(err, failure) || w.stored("notes/a") != 4 {
			t.Errorf("%d vectors are left where the texts cannot be listed: %v", w.stored("notes/a"), err)
		}
		time.Sleep(20 * 24 * time.Hour)
		w.start()
		w.find("boss") // is a use
		time.Sleep(20 * 24 * time.Hour)
		if err := w.Prune(t.Context()); err != nil {
			t.Error(err)
		}
		left = []int{w.stored("notes/a"), w.stored("notes/b"), w.stored("unknown/a")}
		if diff := cmp.Diff([]int{4, 0, 0}, left); diff != "" {
			t.Errorf("of groups that were not used for a month there are (-want +got):\n%s", diff)
		}
		w.set("", nil)
		if err := w.Prune(t.Context()); err != nil || w.stored("notes/a") > 0 {
			t.Errorf("without a model %d vectors are left: %v", w.stored("notes/a"), err)
		}
	})
}

// A text that is deleted while its vector is made leaves none behind.
func TestForget_WhileTheModelWorks_NothingIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		answer := make(chan struct{})
		w.set("m", func(context.Context, []string) error { <-answer; return nil })
		w.Add(t.Context(), "notes/a")
		synctest.Wait()
		w.texts = w.texts[1:]
		w.Forget(t.Context(), "notes/a")
		close(answer)
		synctest.Wait()
		if n := w.stored("notes/a"); n != 4 {
			t.Errorf("%d vectors are stored, want 4", n)
		}
	})
}

func TestQuery_SlowOrFailingModel_HoldsNobodyUp(t *testing.T) {
	for name, before := range map[string]func(context.Context, []string) error{
		"slow":    func(ctx context.Context, _ []string) error { <-ctx.Done(); return ctx.Err() },
		"failing": func(context.Context, []string) error { return errors.New("down") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.find("boss")
				w.set("m", before)
				began := time.Now()
				for n := range 100 {
					question := fmt.Sprint("manager ", n)
					if found := w.find(question, "it rains"); !slices.Equal(found, []string{"it rains"}) {
						t.Fatalf("%q is found", found)
					}
				}
				if took := time.Since(began); took > 2*time.Second || len(w.requests()) != 1 {
					t.Errorf("100 searches took %v and made %d requests", took, len(w.requests()))
				}
				w.set("m", nil)
				time.Sleep(time.Minute)
				if found := w.find("manager"); len(found) != 1 {
					t.Errorf("with the model back %q is found", found)
				}
			})
		})
	}
}

// A text that the model refuses, for its size or its words, keeps no other text from being embedded: those behind it
// are asked for next, and those beside it in smaller requests.
func TestRun_RefusedText_KeepsNoOtherOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.set("m", func(_ context.Context, texts []string) error {
			if slices.Contains(texts, "text 122") {
				return errors.New("refused")
			}
			return nil
		})
		texts := map[string]bool{}
		for n := range 130 {
			texts[fmt.Sprintf("text %03d", n)] = true
		}
		w.texts = slices.Sorted(maps.Keys(texts))
		w.Add(t.Context(), "notes/b")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if n := w.stored("notes/b"); n != 0 {
			t.Errorf("half a minute after the refusal %d texts are embedded", n)
		}
		time.Sleep(45 * time.Second)
		synctest.Wait()
		if n := w.stored("notes/b"); n < 66 {
			t.Errorf("after a minute %d texts are embedded, want at least the 66 behind the refused request", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := w.stored("notes/b"); n != 129 {
			t.Errorf("after an hour %d texts are embedded, want all but one", n)
		}
		for _, request := range w.requests() {
			for _, text := range request {
				delete(texts, text)
			}
			if n := len(request); n < 1 || n > 64 {
				t.Errorf("a request with %d texts", n)
			}
		}
		if len(texts) > 0 {
			t.Errorf("never asked for: %v", slices.Collect(maps.Keys(texts)))
		}
		// One failure a minute, since the model may be down, and few others.
		if n := len(w.requests()); n > 62+20 {
			t.Errorf("%d requests in an hour", n)
		}
	})
}
