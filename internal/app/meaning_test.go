package app_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	simmodel "ravenbot/internal/testing/sim/model"
)

// themed embeds a text by the themes that it has a word of, and remembers what it was asked for.
type themed struct {
	mu    sync.Mutex
	asked []string
}

func (e *themed) embed(text string) []float32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, text)
	v := []float32{0.1, 0, 0}
	for i, words := range []string{"zzqx web_fetch Ingrid cancelled refund boss", "nothing else"} {
		for _, w := range strings.Fields(words) {
			if strings.Contains(text, w) {
				v[i+1]++
			}
		}
	}
	return v
}

func (e *themed) reset() (asked []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	asked, e.asked = e.asked, nil
	return asked
}

// A configured model compares texts by what they mean, so that tools, notes, what was said and files are found that
// have no word of the request. What that takes is counted, and a restart asks for nothing again.
func TestMeaning_FindsToolsNotesHistoryAndFiles(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(simmodel.CallTool("discover_tools", `{"query":"zzqx","limit":2}`))
	e := &themed{}
	w.model.SetEmbedding(e.embed)
	settings := w.base()
	settings["tools"] = map[string]any{"discovery": map[string]any{"mode": "always"}}
	b := w.run(settings)
	if text := answerIn(t, b.ask("general", "find it")); !strings.Contains(text, "No tool fits") {
		t.Errorf("without a model it found %s", text)
	}
	for _, note := range []string{"reports to Ingrid", "likes tea", "has two bicycles", "wears glasses", "plays chess"} {
		b.call(http.MethodPost, "/api/v1/memories", map[string]string{"scope": "user:web/u", "text": note}, nil)
	}
	for _, line := range []string{"the concert is cancelled", "good morning", "lunch was great", "see you", "it snows"} {
		b.ask("talk", line)
	}
	files := map[string]string{}
	for name, text := range map[string]string{"money": "A refund takes ten days.", "door": "The door opens at nine.",
		"tea": "Tea is on the second floor.", "lift": "The lift holds six.", "park": "Bicycles stand behind."} {
		files[name+".md"] = text
	}
	if status, answer := b.upload("default", files); status != http.StatusCreated && status != http.StatusOK {
		t.Fatalf("the upload is answered with %d: %s", status, answer)
	}
	searches := map[string]string{ // what to find, by where it is searched
		"reports to Ingrid":        "/api/v1/memories?scope=user:web/u&q=zzqx",
		"the concert is cancelled": "/api/v1/conversations/web%3A%2Ftalk/search?q=zzqx",
		"A refund takes ten days.": "/api/v1/agents/default/knowledge?q=zzqx",
	}
	find := func(b *bot, path string) (answer string) {
		b.call(http.MethodGet, path, nil, &answer)
		return answer
	}
	for want, path := range searches {
		if answer := find(b, path); strings.Contains(answer, want) {
			t.Errorf("without a model %s finds %s", path, answer)
		}
	}
	b.stop()
	if asked := e.reset(); len(asked) > 0 {
		t.Errorf("without a model it asked for %q", asked)
	}

	settings["models"].(map[string]any)["alike"] = map[string]any{"provider": "openai", "model": "gpt-sim",
		"apiKey": "key", "baseURL": w.model.OpenAIURL()}
	settings["embeddings"] = "alike"
	b = w.run(settings)
	within(t, "tools are found by their meaning", func() bool {
		return strings.Contains(answerIn(t, b.ask("other", "find it")), "- web_fetch: ")
	})
	for want, path := range searches {
		within(t, want+" is found", func() bool { return strings.Contains(find(b, path), want) })
		if answer := find(b, path); strings.Contains(answer, "bicycles") || strings.Contains(answer, "good morning") {
			t.Errorf("%s also finds %s", path, answer)
		}
	}
	if other := find(b, "/api/v1/memories?scope=user:web/v&q=zzqx"); strings.Contains(other, "Ingrid") {
		t.Errorf("the notes of another user are found: %s", other)
	}
	if usage := find(b, "/api/v1/usage"); !strings.Contains(usage, `"model":"alike/gpt-sim"`) {
		t.Errorf("what it took is not counted: %s", usage)
	}
	b.stop()

	e.reset()
	delete(settings, "embeddings")
	settings["tools"].(map[string]any)["discovery"].(map[string]any)["embeddings"] = "alike" // means the same
	b = w.run(settings)
	for want, path := range searches {
		within(t, want+" is found after a restart", func() bool { return strings.Contains(find(b, path), want) })
	}
	for _, text := range e.reset() {
		if text != "zzqx" {
			t.Errorf("after a restart it asks for %q again", text)
		}
	}
}
