package app_test

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"

	simmodel "ravenbot/internal/testing/sim/model"
)

// A Claude model thinks, calls two tools at once and answers; what it read from its cache is
// priced as such.
func TestAnthropic_AnswersWithTools_AndPricesCachedInput(t *testing.T) {
	w := newWorld(t)
	settings := w.base()
	settings["models"] = map[string]any{"default": map[string]any{
		"provider": "anthropic", "model": "claude-sim", "apiKey": "key", "baseURL": w.model.AnthropicURL(), "timeout": "20s",
		"price": map[string]any{"inputPerM": 1000, "cachedPerM": 100, "outputPerM": 2000},
	}}
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		reply := simmodel.Reply{Usage: &simmodel.Usage{Prompt: 1000, Cached: 900, Output: 50}}
		if r.Declares("memory_search") && len(r.Last().Results) == 0 {
			reply.Thoughts = "Two looks are better than one."
			reply.Calls = []simmodel.Call{
				{Name: "memory_search", Args: json.RawMessage(`{"query":"cats"}`)},
				{Name: "memory_search", Args: json.RawMessage(`{"query":"dogs"}`)},
			}
			return reply
		}
		reply.Text = []string{"I found ", "nothing."}
		return reply
	})
	b := w.run(settings)
	if got := answerIn(t, b.ask("a", "what do you know?")); got != "I found nothing." {
		t.Errorf("the answer is %q", got)
	}
	if rejected := w.model.Rejected(); len(rejected) > 0 {
		t.Errorf("rejected: %s", rejected[0].Problem)
	}
	var usage struct {
		Items []struct {
			USD float64 `json:"usd"`
		}
	}
	if status := b.call(http.MethodGet, "/api/v1/usage", nil, &usage); status != http.StatusOK || len(usage.Items) != 1 {
		t.Fatalf("usage: status %d, %+v", status, usage)
	}
	// Two requests of 100 fresh, 900 cached and 50 output tokens each.
	const want = 2 * (100*1000 + 900*100 + 50*2000) / 1e6
	if got := usage.Items[0].USD; math.Abs(got-want) > 1e-9 {
		t.Errorf("it cost $%g, want $%g", got, want)
	}
	if got := answerIn(t, b.ask("a", "/help")); !strings.Contains(got, "(anthropic/claude-sim)") {
		t.Errorf("the help says %q", got)
	}
}
