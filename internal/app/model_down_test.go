package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	simmodel "ravenbot/internal/testing/sim/model"
)

// withSpare adds a second model, served by the same simulation, as the fallback of the first.
func (w *world) withSpare(settings map[string]any) map[string]any {
	models := settings["models"].(map[string]any)
	models["default"].(map[string]any)["fallback"] = []string{"spare"}
	models["spare"] = map[string]any{"provider": "openai", "model": "gpt-sim", "apiKey": "key",
		"baseURL": w.model.OpenAIURL()}
	return settings
}

// requestsTo returns how many requests a model got.
func (w *world) requestsTo(model string) int {
	n := 0
	for _, r := range w.model.Asked() {
		if r.Model == model {
			n++
		}
	}
	return n
}

func TestModelDown_FallbackAnswersWithoutAskingItEachTime(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		if r.Model == "gpt-sim" {
			return simmodel.Say("from the spare model")
		}
		return simmodel.Reply{Status: http.StatusInternalServerError, Message: "broken"}
	})
	b := w.run(w.withSpare(w.base()))
	const rounds, rooms = 9, 5
	var mu sync.Mutex
	var took []time.Duration
	for round := range rounds {
		var wg sync.WaitGroup
		for room := range rooms {
			wg.Go(func() {
				began := time.Now()
				answer := answerIn(t, b.ask(fmt.Sprint("room", room), fmt.Sprint("question ", round)))
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(began))
				if !strings.Contains(answer, "from the spare model") {
					t.Errorf("answered %q, want the fallback's answer", answer)
				}
			})
		}
		wg.Wait()
	}
	// Each room may have a request under way before the first failures are known.
	slices.Sort(took)
	n := w.requestsTo("gemini-3.8-flash")
	t.Logf("%d messages: %d requests to the broken model, %d to the fallback; median %v, longest %v",
		len(took), n, w.requestsTo("gpt-sim"), took[len(took)/2], took[len(took)-1])
	if n > rooms+3 {
		t.Errorf("the broken model got %d requests for %d messages, want at most %d", n, len(took), rooms+3)
	}
}

func TestModelDown_NoFallback_PeopleAreToldAtOnce(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(simmodel.Sequence(simmodel.Reply{Status: http.StatusServiceUnavailable}))
	b := w.run(w.base())
	for n := range 3 {
		answer := answerIn(t, b.ask("general", fmt.Sprint("question ", n)))
		if !strings.Contains(answer, "please try again in about a minute") {
			t.Errorf("answered %q, want when to try again", answer)
		}
	}
	if n := w.requestsTo("gemini-3.8-flash"); n != 3 {
		t.Errorf("the model got %d requests for 3 messages, want 3 of the first", n)
	}
	var status struct {
		ModelCircuits []struct{ Name, Model, State, Error string }
	}
	b.call(http.MethodGet, "/api/v1/status", nil, &status)
	if c := status.ModelCircuits; len(c) != 1 || c[0].Name != "default" || c[0].State != "open" || c[0].Error == "" {
		t.Errorf("the status of the models is %+v", c)
	}
	var counted string
	b.call(http.MethodGet, "/metrics", nil, &counted)
	if !strings.Contains(counted, `ravenbot_model_circuit_open{model="default"} 1`) {
		t.Error("the metric does not say that the model is not asked")
	}
	if log := b.log.String(); strings.Count(log, "model circuit opened") != 1 {
		t.Error("the log does not say once that the circuit opened")
	}
}

func TestModelHangs_FallbackAnswersAfterTheFirstTokenTimeout(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		if r.Model == "gpt-sim" {
			return simmodel.Say("from the spare model")
		}
		return simmodel.Reply{Hang: true}
	})
	settings := w.withSpare(w.base())
	settings["models"].(map[string]any)["default"].(map[string]any)["firstTokenTimeout"] = "300ms"
	settings["models"].(map[string]any)["default"].(map[string]any)["timeout"] = "10m"
	b := w.run(settings)
	for n := range 5 {
		if answer := answerIn(t, b.ask("general", fmt.Sprint("question ", n))); !strings.Contains(answer,
			"from the spare model") {
			t.Errorf("answered %q, want the fallback's answer", answer)
		}
	}
	if n := w.requestsTo("gemini-3.8-flash"); n != 3 {
		t.Errorf("the hanging model got %d requests for 5 messages, want 3", n)
	}
}

// An answer that does not end is cut, shown as far as it came, and said to be cut.
func TestModelWritesWithoutEnd_AnswerIsCut(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(simmodel.Sequence(simmodel.Reply{Text: []string{strings.Repeat("word ", 400)}, Endless: true}))
	b := w.run(w.base())
	stream := b.ask("general", "go on")
	if answer := answerIn(t, stream); len(answer) < 500_000 || len(answer) > 1<<20 {
		t.Errorf("the answer has %d bytes, want about 1 MiB", len(answer))
	}
	if !strings.Contains(stream, "cut because it was longer than I read") {
		t.Error("the answer does not say that it was cut")
	}
	if n := w.requestsTo("gemini-3.8-flash"); n != 1 {
		t.Errorf("the model got %d requests, want one", n)
	}
}
