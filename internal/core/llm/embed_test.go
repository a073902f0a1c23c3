package llm_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/gemini"
	"ravenbot/internal/model/openai"
)

func TestTextsBecomeVectorsInTheirOrder(t *testing.T) {
	sim, models := world(t)
	for _, name := range []string{"gemini", "openai"} {
		_, _, err := models[name].(llm.Embedder).Embed(t.Context(), []string{"a"})
		var told *llm.Error
		if !errors.As(err, &told) || told.Kind != llm.BadRequest {
			t.Errorf("%s: a model that gives none: %v", name, err)
		}
	}
	sim.SetEmbedding(func(text string) []float32 { return []float32{float32(len(text)), 1} })
	for _, name := range []string{"gemini", "openai"} {
		got, used, err := models[name].(llm.Embedder).Embed(t.Context(), []string{"a", "bcd"})
		if diff := cmp.Diff([][]float32{{1, 1}, {3, 1}}, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		if want := map[string]int{"openai": 7}[name]; used.Input != want {
			t.Errorf("%s: %d tokens, want %d", name, used.Input, want)
		}
	}
	g, err := gemini.New(gemini.Options{APIKey: "wrong", Model: "gemini-3.8-flash", BaseURL: sim.GeminiURL()})
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]llm.Embedder{"gemini": g,
		"openai": openai.New(openai.Options{Name: "openai", APIKey: "wrong", Model: "gpt-sim", BaseURL: sim.OpenAIURL()})} {
		_, _, err := m.Embed(t.Context(), []string{"a"})
		var told *llm.Error
		if !errors.As(err, &told) || told.Kind != llm.Denied {
			t.Errorf("%s: a wrong key: %v", name, err)
		}
	}
}

func TestEmbed_TextWithoutVector_IsAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"data": [{"index": 1, "embedding": [1, 0]}, {"index": 7, "embedding": [0, 1]}]}`)
	}))
	defer server.Close()
	m := openai.New(openai.Options{Name: "openai", APIKey: "key", Model: "m", BaseURL: server.URL})
	got, _, err := m.Embed(t.Context(), []string{"a", "bcd"})
	var told *llm.Error
	if !errors.As(err, &told) || told.Kind != llm.Unavailable || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}
