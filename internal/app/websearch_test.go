package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	simmodel "ravenbot/internal/testing/sim/model"
)

// A search that is configured is offered, and the answer names what it cites.
func TestWebSearch_AnswersNameTheirSources(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"results":[{"url":"https://birds.example/1","title":"Ravens","content":"They eat nuts."}]}`)
	}))
	t.Cleanup(engine.Close)
	w := newWorld(t)
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		switch {
		case len(r.Last().Results) > 0:
			return simmodel.Say("They eat nuts [1].")
		case !r.Declares("web_search"):
			return simmodel.Say("I cannot search")
		}
		return simmodel.CallTool("web_search", `{"query":"ravens"}`)(r)
	})
	settings := w.base()
	b := w.run(settings)
	if text := answerIn(t, b.ask("general", "food?")); text != "I cannot search" {
		t.Errorf("without a provider: %q", text)
	}
	b.stop()
	settings["tools"] = map[string]any{"search": map[string]any{"provider": "searxng", "baseURL": engine.URL}}
	b = w.run(settings)
	if text := answerIn(t, b.ask("general", "food?")); !strings.Contains(text, "They eat nuts [1].") ||
		!strings.Contains(text, `Sources: \[1\] [Ravens](https://birds.example/1)`) {
		t.Errorf("with one: %q", text)
	}
}
