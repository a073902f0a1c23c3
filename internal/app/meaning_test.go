package app_test

import (
	"strings"
	"testing"

	simmodel "ravenbot/internal/sim/model"
)

// A configured model compares tools by what they mean, so that one is found that has
// no word of the request; what that takes is counted.
func TestToolsAreFoundByTheirMeaningWhereAModelIsConfigured(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(simmodel.CallTool("discover_tools", `{"query":"zzqx","limit":2}`))
	w.model.SetEmbedding(func(text string) []float32 {
		if strings.Contains(text, "zzqx") || strings.Contains(text, "web_fetch") {
			return []float32{1, 0}
		}
		return []float32{0, 1}
	})
	settings := w.base()
	settings["tools"] = map[string]any{"discovery": map[string]any{"mode": "always"}}
	b := w.run(settings)
	if text := answerIn(t, b.ask("general", "find it")); !strings.Contains(text, "No tool fits") {
		t.Errorf("without a model it found %s", text)
	}
	b.stop()
	settings["models"].(map[string]any)["alike"] = map[string]any{"provider": "openai", "model": "gpt-sim",
		"apiKey": "key", "baseURL": w.model.OpenAIURL()}
	settings["tools"] = map[string]any{"discovery": map[string]any{"mode": "always", "embeddings": "alike"}}
	b = w.run(settings)
	within(t, "the tools are compared", func() bool {
		return strings.Contains(answerIn(t, b.ask("other", "find it")), "- web_fetch: ")
	})
	var usage string
	b.call("GET", "/api/v1/usage", nil, &usage)
	if !strings.Contains(usage, `"model":"alike/gpt-sim"`) {
		t.Errorf("what it took is not counted: %s", usage)
	}
}
