package toolsearch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type embed = func(context.Context, []string) ([][]float32, error)

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

// meant gives a house whose tools are found by what they mean, too.
func meant(t *testing.T, with embed) (*house, *atomic.Pointer[embed]) {
	t.Helper()
	h, e := newHouse(), &atomic.Pointer[embed]{}
	e.Store(&with)
	m := NewSemanticIndex(func() (Embedder, bool) {
		now := *e.Load()
		return Embedder{"themes", now}, now != nil
	}, slog.New(slog.DiscardHandler))
	h.finder.WithSemantics(m).Sync(h.all)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return h, e
}

func TestToolsAreFoundByWhatTheyMean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := meant(t, themes)
		synctest.Wait()
		found := h.call(t, discover, `{"query":"treasure","limit":3}`).Text
		if !strings.HasPrefix(found, "- vault_open: ") || strings.Count(found, "\n- ") != 2 {
			t.Errorf("by its meaning it found\n%s", found)
		}
		h.barred = "vault"
		if found := h.call(t, discover, `{"query":"treasure"}`).Text; strings.Contains(found, "vault") {
			t.Errorf("it found what may not be used:\n%s", found)
		}
		h.barred = ""
		e.Store(new(embed))
		if found := h.call(t, discover, `{"query":"treasure"}`).Text; !strings.HasPrefix(found, "No tool fits") {
			t.Errorf("by words alone it found\n%s", found)
		}
	})
}

// A model that fails, or is slow, leaves the words; tools are embedded as soon as it is
// there again.
func TestWithoutEmbeddingsWordsFindTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := meant(t, func(context.Context, []string) ([][]float32, error) { return nil, errors.New("down") })
		synctest.Wait()
		if found := h.call(t, discover, `{"query":"put an event into the calendar"}`).Text; !strings.HasPrefix(found,
			"- calendar_create: ") {
			t.Errorf("with a failing model it found\n%s", found)
		}
		slow := func(ctx context.Context, texts []string) ([][]float32, error) {
			if len(texts) == 1 { // a question
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return themes(ctx, texts)
		}
		e.Store(&slow)
		began := time.Now()
		if found := h.call(t, discover, `{"query":"put an event into the calendar"}`).Text; !strings.HasPrefix(found,
			"- calendar_create: ") || time.Since(began) > queryTimeout {
			t.Errorf("with a slow model it found, after %v,\n%s", time.Since(began), found)
		}
		back := themes
		e.Store(&back)
		time.Sleep(retryDelay) // of the bubble's clock
		synctest.Wait()
		if found := h.call(t, discover, `{"query":"dentist"}`).Text; !strings.HasPrefix(found, "- calendar_") {
			t.Errorf("with the model back it found\n%s", found)
		}
	})
}

// A text that the model refuses, for its size or its words, keeps no other tool from being embedded: those behind it
// are asked for next, and those beside it in smaller requests.
func TestSemanticIndex_RefusedText_KeepsNoOtherOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []int
		embedder := Embedder{Name: "picky", Embed: func(_ context.Context, texts []string) ([][]float32, error) {
			asked = append(asked, len(texts))
			if slices.ContainsFunc(texts, func(s string) bool { return strings.HasPrefix(s, "tool_007:") }) {
				return nil, errors.New("refused")
			}
			return slices.Repeat([][]float32{{1, 0}}, len(texts)), nil
		}}
		m := NewSemanticIndex(func() (Embedder, bool) { return embedder, true }, slog.New(slog.DiscardHandler))
		server := Server{Name: "s"}
		for n := range 130 {
			server.Tools = append(server.Tools, Doc{Name: fmt.Sprintf("tool_%03d", n)})
		}
		m.sync([]Server{server})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go m.Run(ctx)
		time.Sleep(retryDelay + time.Second)
		synctest.Wait()
		embedded := func() int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return len(m.vectors)
		}
		if n := embedded(); n < 66 {
			t.Errorf("after a minute %d tools are embedded, want the 66 behind the refused request", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := embedded(); n != 129 {
			t.Errorf("after an hour %d tools are embedded, want all but one", n)
		}
		for _, n := range asked {
			if n < 1 || n > maxBatch {
				t.Errorf("a request with %d texts", n)
			}
		}
		// One failure a minute, since the model may be down, and few others.
		if len(asked) > 61+20 {
			t.Errorf("%d requests in an hour", len(asked))
		}
	})
}

func TestVectorsThatAreNoneCompareWithNothing(t *testing.T) {
	for _, v := range [][]float32{nil, {}, {0, 0}} {
		if u := normalize(v); u != nil {
			t.Errorf("%v becomes %v", v, u)
		}
	}
	if u := normalize([]float32{3, 4}); u[0] != 0.6 || u[1] != 0.8 {
		t.Errorf("3, 4 becomes %v", u)
	}
}
