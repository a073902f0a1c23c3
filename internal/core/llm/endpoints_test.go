package llm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/provider"
	"ravenbot/internal/ops/config"
	simmodel "ravenbot/internal/testing/sim/model"
)

// endpoints are the providers whose simulations a test talks to, each through the client that a configuration makes.
type endpoints struct {
	sim    *simmodel.Server
	names  []string
	models map[string]config.Model
}

// newEndpoints returns the endpoints. If they refuse optional fields, their models have a temperature and a limit.
func newEndpoints(t *testing.T, o simmodel.Options) *endpoints {
	t.Helper()
	sim, err := simmodel.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	credentials := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(credentials, sim.VertexCredentials(), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", credentials)
	e := &endpoints{sim: sim, names: append(sim.Endpoints(), "gemini", "vertex", "anthropic")}
	models := map[string]config.Model{
		"gemini": {Provider: "gemini", APIKey: "key", Model: "gemini-3.8-flash", BaseURL: config.Mask(sim.GeminiURL())},
		"vertex": {Provider: "gemini", Model: "gemini-3.8-flash", BaseURL: config.Mask(sim.VertexURL()),
			Vertex: config.Vertex{Project: "p", Location: "global"}},
		"anthropic": {Provider: "anthropic", APIKey: "key", Model: "claude-sim", BaseURL: config.Mask(sim.AnthropicURL())},
	}
	for _, name := range sim.Endpoints() {
		models[name] = config.Model{Provider: "openai", APIKey: "key", Model: "gpt-sim",
			BaseURL: config.Mask(sim.EndpointURL(name))}
	}
	for name, m := range models {
		m.Tools = true
		if o.RefuseOptional {
			m.Temperature, m.MaxOutputTokens = new(0.5), 1234
		}
		models[name] = m
	}
	e.models = models
	return e
}

// model returns a new client of an endpoint, which has learnt nothing.
func (e *endpoints) model(t *testing.T, name string) llm.Model {
	t.Helper()
	c := config.Config{Models: map[string]config.Model{name: e.models[name]}}
	models, err := provider.Models(&c, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return models[name].Model
}

// checkRejected fails a test if an endpoint has refused a request for a fault of the client.
func (e *endpoints) checkRejected(t *testing.T) {
	t.Helper()
	for _, r := range e.sim.Rejected() {
		t.Errorf("%s rejected a request: %s\n%s", r.API, r.Problem, r.Raw)
	}
}

// talk is a conversation that is stored and loaded after each message.
type talk struct {
	turns []conversation.Turn
	calls int
}

// ask begins a turn; the one before it is answered.
func (k *talk) ask(text string) {
	if n := len(k.turns); n > 0 {
		k.turns[n-1].State = conversation.Answered
	}
	k.turns = append(k.turns, conversation.Turn{State: conversation.Open, Messages: []llm.Message{user(text)}})
}

// add stores a message of the turn.
func (k *talk) add(t *testing.T, m llm.Message) {
	t.Helper()
	last := &k.turns[len(k.turns)-1]
	last.Messages = append(last.Messages, through(t, m))
}

// step asks a model, adds its answer, and the results of its calls.
func (k *talk) step(t *testing.T, m llm.Model) (llm.Message, llm.Chunk, error) {
	t.Helper()
	got, last, err := k.generate(t, m)
	if err != nil {
		return got, last, err
	}
	k.add(t, got)
	if len(got.Calls()) > 0 {
		k.add(t, answers(got))
	}
	return got, last, nil
}

// generate asks a model and joins the parts of its answer as the agent does.
func (k *talk) generate(t *testing.T, m llm.Model) (got llm.Message, last llm.Chunk, err error) {
	t.Helper()
	got = llm.Message{Role: llm.Assistant, Origin: llm.Origin(m)}
	q := llm.Request{System: "be brief", Tools: toolbox,
		Messages: conversation.Build(conversation.Summary{}, k.turns, llm.Origin(m))}
	for c, err := range m.Generate(t.Context(), q) {
		if err != nil {
			return got, last, err
		}
		for i := range got.Parts {
			p := &got.Parts[i]
			p.Thought = p.Thought || c.WasThought && p.Call == nil && len(p.Raw) == 0
		}
		for _, p := range c.Parts {
			n := len(got.Parts) - 1
			if p.Call == nil && len(p.Raw) == 0 && n >= 0 && len(got.Parts[n].Raw) == 0 && got.Parts[n].Call == nil &&
				got.Parts[n].Thought == p.Thought {
				got.Parts[n].Text += p.Text
				continue
			}
			if p.Call != nil {
				k.calls++
				if p.Call.ID == "" {
					p.Call.ID = fmt.Sprint("made-up-", k.calls)
				}
			}
			got.Parts = append(got.Parts, p)
		}
		if c.Usage != nil {
			last.Usage = c.Usage
		}
		last.Finish, last.ServedBy = max(last.Finish, c.Finish), max(last.ServedBy, c.ServedBy)
		last.Note = max(last.Note, c.Note)
	}
	return got, last, nil
}

// mustStep is step for an answer that has to come.
func (k *talk) mustStep(t *testing.T, m llm.Model) (llm.Message, llm.Chunk) {
	t.Helper()
	got, last, err := k.step(t, m)
	if err != nil {
		t.Fatal(err)
	}
	return got, last
}

// call is a reply that calls look, with a thought.
func call(thought string, places ...string) simmodel.Reply {
	r := simmodel.Reply{Thoughts: thought}
	for _, at := range places {
		r.Calls = append(r.Calls, simmodel.Call{Name: "look", Args: json.RawMessage(`{"at":"` + at + `"}`)})
	}
	return r
}

// describe returns calls and results that a request holds, in their order.
func describe(r simmodel.Request) (list []string) {
	for _, m := range r.Messages {
		for _, c := range m.Calls {
			list = append(list, c.Name+" "+string(c.Args))
		}
		for _, res := range m.Results {
			list = append(list, res.Content)
		}
	}
	return list
}

// thoughtsOf returns the text of the thoughts of a message.
func thoughtsOf(m llm.Message) (text string) {
	for _, p := range m.Parts {
		if p.Thought {
			text += p.Text
		}
	}
	return text
}

// hidden are the endpoints that do not show what a model thinks.
var hidden = []string{"openai", "azure", "google-openai"}

// situations are what every endpoint is tried in.
var situations = []struct {
	name string
	o    simmodel.Options
	play func(t *testing.T, e *endpoints, name string)
}{
	{"answer", simmodel.Options{}, func(t *testing.T, e *endpoints, name string) { playAnswer(t, e, name, true) }},
	{"streamed", simmodel.Options{}, func(t *testing.T, e *endpoints, name string) { playAnswer(t, e, name, false) }},
	{"tools over three steps", simmodel.Options{}, playTools},
	{"parallel calls", simmodel.Options{}, playParallel},
	{"thoughts", simmodel.Options{}, playThoughts},
	{"empty", simmodel.Options{}, playEmpty},
	{"refused field", simmodel.Options{RefuseOptional: true}, playRefusedField},
	{"broken call", simmodel.Options{}, playBrokenCall},
	{"cut stream", simmodel.Options{}, playCut},
}

func TestEndpoints_EverySituation_IsMastered(t *testing.T) {
	for _, s := range situations {
		t.Run(s.name, func(t *testing.T) {
			e := newEndpoints(t, s.o)
			if len(e.names) != 20 {
				t.Errorf("%d endpoints", len(e.names))
			}
			for _, name := range e.names {
				t.Run(name, func(t *testing.T) { s.play(t, e, name) })
			}
			e.checkRejected(t)
		})
	}
}

func playAnswer(t *testing.T, e *endpoints, name string, isWhole bool) {
	e.sim.SetScript(simmodel.Sequence(simmodel.Reply{Text: []string{"Hello ", "wörld"}, Whole: isWhole,
		Usage: &simmodel.Usage{Prompt: 7, Output: 3, Cached: 1}}))
	var k talk
	k.ask("hi")
	got, last := k.mustStep(t, e.model(t, name))
	if got.Text() != "Hello wörld" || last.Finish != llm.FinishStop || last.ServedBy == "" {
		t.Errorf("answered %q, %+v", got.Text(), last)
	}
	if diff := cmp.Diff(&llm.Usage{Input: 7, Cached: 1, Output: 3}, last.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func playTools(t *testing.T, e *endpoints, name string) {
	withText := call("second thought", "b")
	withText.Text = []string{"One ", "moment."}
	e.sim.SetScript(simmodel.Sequence(call("first thought", "a"), withText, call("third thought", "c"), simmodel.Say("done"),
		call("fourth thought", "d"), simmodel.Say("done again")))
	m := e.model(t, name)
	var k talk
	for turn, steps := range []int{4, 2} {
		k.ask(fmt.Sprint("question ", turn))
		for range steps {
			k.mustStep(t, m)
		}
	}
	if last := k.turns[1].Messages; last[len(last)-1].Text() != "done again" {
		t.Errorf("ended with %v", last)
	}
	asked := e.sim.Asked()
	var want []string
	for _, at := range []string{"a", "b", "c", "d"} {
		args := `{"at":"` + at + `"}`
		want = append(want, "look "+args, result(name, args))
	}
	if diff := cmp.Diff(want, describe(asked[len(asked)-1])); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

// result returns the result of a call as it reaches a model.
func result(name, args string) string {
	text := "result of " + args
	if name == "gemini" || name == "vertex" {
		text = strings.ReplaceAll(text, `"`, `\"`)
		return `{"output":"` + text + `"}`
	}
	return text
}

func playParallel(t *testing.T, e *endpoints, name string) {
	e.sim.SetScript(simmodel.Sequence(call("both", "a", "b"), simmodel.Say("done")))
	m := e.model(t, name)
	var k talk
	k.ask("hi")
	k.mustStep(t, m)
	k.mustStep(t, m)
	asked := e.sim.Asked()
	want := []string{`look {"at":"a"}`, `look {"at":"b"}`, result(name, `{"at":"a"}`), result(name, `{"at":"b"}`)}
	if diff := cmp.Diff(want, describe(asked[len(asked)-1])); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func playThoughts(t *testing.T, e *endpoints, name string) {
	replies := map[string]simmodel.Reply{
		"streamed": {Thoughts: "hm, hm", Text: []string{"Hel", "lo"}},
		"whole":    {Thoughts: "hm, hm", Text: []string{"Hel", "lo"}, Whole: true},
		"in tags":  {Text: []string{"<thi", "nk>\nhm, ", "hm\n</think>", "\n\nHel", "lo"}},
		"ended":    {Text: []string{"hm, ", "hm\n</thi", "nk>\n\nHello"}},
	}
	for form, reply := range replies {
		e.sim.SetScript(simmodel.Sequence(reply))
		var k talk
		k.ask("hi")
		got, _ := k.mustStep(t, e.model(t, name))
		want := "hm, hm"
		if reply.Thoughts != "" && slices.Contains(hidden, name) {
			want = ""
		}
		if got.Text() != "Hello" || strings.TrimSpace(thoughtsOf(got)) != want {
			t.Errorf("%s: said %q and thought %q", form, got.Text(), thoughtsOf(got))
		}
	}
	// Thoughts before calls have to come back; the simulation compares them.
	for _, isWhole := range []bool{false, true} {
		first, second := call("wörds to\nkeep", "a"), call("more", "b", "c")
		first.Whole, second.Whole = isWhole, isWhole
		e.sim.SetScript(simmodel.Sequence(first, second, simmodel.Say("done")))
		m := e.model(t, name)
		var k talk
		k.ask("hi")
		for range 3 {
			k.mustStep(t, m)
		}
	}
}

func playEmpty(t *testing.T, e *endpoints, name string) {
	e.sim.SetScript(simmodel.Sequence(call("hm", "a"), simmodel.Reply{}, simmodel.Say("hello")))
	m := e.model(t, name)
	var k talk
	k.ask("hi")
	k.mustStep(t, m)
	got, last := k.mustStep(t, m)
	if got.Text() != "" || len(got.Calls()) > 0 || last.Finish != llm.FinishStop {
		t.Errorf("answered %v, %q", got, last.Finish)
	}
	k.ask("are you there?")
	if got, _ := k.mustStep(t, m); got.Text() != "hello" {
		t.Errorf("answered %q", got.Text())
	}
}

func playRefusedField(t *testing.T, e *endpoints, name string) {
	e.sim.SetScript(simmodel.Sequence(simmodel.Say("hello")))
	m := e.model(t, name)
	for range 2 {
		var k talk
		k.ask("hi")
		if got, _ := k.mustStep(t, m); got.Text() != "hello" {
			t.Errorf("answered %q", got.Text())
		}
	}
	asked := e.sim.Asked()
	if raw := string(asked[len(asked)-1].Raw); !strings.Contains(raw, ":1234") {
		t.Errorf("the limit of the answer is gone: %s", raw)
	}
}

func playBrokenCall(t *testing.T, e *endpoints, name string) {
	broken := call("hm", "a")
	broken.Calls[0].Args = json.RawMessage(`{"at": "a`)
	late := broken
	late.Text = []string{"One moment."}
	for _, reply := range []simmodel.Reply{broken, late} {
		e.sim.SetScript(simmodel.Sequence(reply, simmodel.Say("sorry")))
		m := e.model(t, name)
		var k talk
		k.ask("hi")
		got, last, err := k.generate(t, m)
		for _, c := range got.Calls() {
			if strings.HasPrefix(string(c.Args), "{") {
				t.Errorf("it would be run with %s", c.Args)
			}
		}
		var fault *llm.Error
		switch {
		case errors.As(err, &fault) && fault.Kind == llm.BadCall: // the question is asked again
		case err != nil:
			t.Errorf("failed with %v", err)
		case last.Finish == llm.FinishMalformed: // likewise
		case len(got.Calls()) != 1:
			t.Errorf("answered %v, %s", got, last.Finish)
		default: // the model reads it
			k.add(t, got)
			k.add(t, answers(got))
		}
		if got, _, err := k.step(t, m); err != nil || got.Text() != "sorry" {
			t.Errorf("then answered %q, %v", got.Text(), err)
		}
	}
}

func playCut(t *testing.T, e *endpoints, name string) {
	withText := call("a thought", "a")
	withText.Text = []string{"One ", "moment."}
	for _, reply := range []simmodel.Reply{withText, {Text: []string{"A", " few", " words."}}} {
		play := func() (string, error) {
			e.sim.SetScript(simmodel.Sequence(reply))
			var k talk
			k.ask("hi")
			got, last, err := k.generate(t, e.model(t, name))
			if err == nil && last.Finish == "" && (name == "gemini" || name == "vertex") {
				err = errors.New("no reason to end") // which the agent takes for a cut
			}
			return fmt.Sprint(got.Text(), thoughtsOf(got), len(got.Calls()), describeArgs(got)), err
		}
		whole, err := play()
		if err != nil {
			t.Fatal(err)
		}
		for _, reply.CutClean = range []bool{false, true} {
			for reply.CutAfter = 1; reply.CutAfter < 1<<13; reply.CutAfter += 113 {
				got, err := play()
				if err == nil && got != whole {
					t.Errorf("cut after %d, cleanly %v: %q, want %q", reply.CutAfter, reply.CutClean, got, whole)
				}
				if err == nil {
					break // what follows ends the stream
				}
			}
		}
		reply.CutAfter = 0
	}
}

// describeArgs returns the arguments of the calls of a message.
func describeArgs(m llm.Message) (list []string) {
	for _, c := range m.Calls() {
		list = append(list, string(c.Args))
	}
	return list
}

// Each endpoint takes over from each other after a call. What its own rules need it learns from its first refusal.
func TestEndpoints_EachTakesOverFromEachInMidTurn_WithoutTheOthersAdditions(t *testing.T) {
	e := newEndpoints(t, simmodel.Options{})
	models := map[string]llm.Model{}
	handOver := func(t *testing.T, from, to string) {
		secret := "secret of " + from
		e.sim.SetScript(simmodel.Sequence(call(secret, "a"), call("own thought", "b"), simmodel.Say("done"),
			call("own thought", "c"), simmodel.Say("done")))
		var k talk
		k.ask("hi")
		k.mustStep(t, models[from])
		before := len(e.sim.Asked())
		k.mustStep(t, models[to])
		k.mustStep(t, models[to])
		k.ask("go on")
		k.mustStep(t, models[to])
		k.mustStep(t, models[to])
		asked := e.sim.Asked()
		for _, r := range asked[before:] {
			if from != to && strings.Contains(string(r.Raw), secret) {
				t.Errorf("%s was sent the thoughts of %s: %s", to, from, r.Raw)
			}
		}
		if raw := string(asked[before].Raw); from != to && strings.Contains(raw, "dGhvdWdodC") { // every signature begins so
			t.Errorf("%s was sent a signature of %s: %s", to, from, raw)
		}
	}
	for _, name := range e.names {
		models[name] = e.model(t, name)
	}
	for _, name := range e.names { // each meets a call that is not its own
		handOver(t, map[bool]string{true: "openai", false: "gemini"}[name == "gemini"], name)
	}
	learnt := len(e.sim.Rejected())
	for _, from := range e.names {
		for _, to := range e.names {
			t.Run(from+" to "+to, func(t *testing.T) { handOver(t, from, to) })
		}
	}
	for _, r := range e.sim.Rejected()[:learnt] {
		t.Logf("%s taught the client: %s", r.API, r.Problem)
	}
	for _, r := range e.sim.Rejected()[learnt:] {
		t.Errorf("%s rejected a request: %s\n%s", r.API, r.Problem, r.Raw)
	}
}

// An answer may have no thoughts where others had some.
func TestEndpoints_CallsWithoutThoughts_AreAccepted(t *testing.T) {
	e := newEndpoints(t, simmodel.Options{})
	for _, name := range e.names {
		e.sim.SetScript(simmodel.Sequence(call("hm", "a"), call("", "b"), simmodel.Say("done")))
		m := e.model(t, name)
		var k talk
		k.ask("hi")
		for range 3 {
			if _, _, err := k.step(t, m); err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
	}
}

func TestEndpoints_ModelWithoutTools_AnswersWithoutThem(t *testing.T) {
	e := newEndpoints(t, simmodel.Options{NoTools: true})
	e.sim.SetScript(simmodel.Sequence(simmodel.Say("hello")))
	for _, name := range []string{"groq", "openrouter-gemini", "ollama", "vllm", "llamacpp"} {
		var k talk
		k.ask("hi")
		got, last, err := k.step(t, e.model(t, name))
		if err != nil || got.Text() != "hello" || last.Note == "" {
			t.Errorf("%s answered %q, %v, with the note %q", name, got.Text(), err, last.Note)
		}
	}
}
