// Package compat compensates for endpoints that lack a feature, so that a question is answered anyway.
//
// If an endpoint refuses a tool, the package asks again without the tool and leaves it out of later requests. A model
// that takes no tools is asked without any. Reasoning in tags in the text of an answer becomes thoughts, and calls in
// the text become calls.
package compat

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ravenbot/internal/core/llm"
)

// Options are what a Model needs.
type Options struct {
	Name  string // of the model in the configuration
	Tools bool   // whether the model is given tools
	Log   *slog.Logger
}

// Refusal is a tool that an endpoint does not take.
type Refusal struct {
	Tool   string `json:"tool"`
	Reason string `json:"reason"` // in the endpoint's words
}

// Model is a model whose endpoint may lack something. It is safe for concurrent use.
type Model struct {
	llm.Model
	o           Options
	noTools     atomic.Int64 // until when it is asked without tools, in Unix seconds
	endsThought atomic.Bool  // the last answer began with reasoning that had only a closing tag

	mu      sync.Mutex
	refused map[string]Refusal // by keyOf
}

// New returns a wrapper of m. It makes no request.
func New(m llm.Model, o Options) *Model {
	return &Model{Model: m, o: o, refused: map[string]Refusal{}}
}

// Unwrap returns the model itself, for llm.As.
func (m *Model) Unwrap() llm.Model { return m.Model }

// Refusals returns the tools that the endpoint has refused, by name.
func (m *Model) Refusals() []Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.refused), func(a, b Refusal) int { return strings.Compare(a.Tool, b.Tool) })
}

// maxRefused is how many tools of one request may be refused.
const maxRefused = 20

// Generate streams one answer.
func (m *Model) Generate(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		note := ""
		for range maxRefused {
			q := m.fit(r)
			more, hasAnswer, err := m.stream(ctx, q, note, yield)
			if !more {
				return
			}
			if hasAnswer || !m.learn(err, q.Tools) {
				if err != nil {
					yield(llm.Chunk{}, err)
				}
				return
			}
			if !m.takesTools() {
				note = "the language model takes no tools, so it answered without them"
			}
		}
		yield(llm.Chunk{}, &llm.Error{Kind: llm.BadRequest, Provider: m.ID(), Reason: "it refuses too many tools"})
	}
}

// stream passes on one answer. It returns more = false if the caller stopped reading, and hasAnswer = true if it passed
// on any content.
func (m *Model) stream(
	ctx context.Context,
	q llm.Request,
	note string,
	yield func(llm.Chunk, error) bool,
) (more, hasAnswer bool, err error) {
	reader := tagReader{endsThought: m.endsThought.Load(), takesCall: len(q.Tools) > 0}
	for c, err := range m.Model.Generate(ctx, q) {
		if err != nil {
			return true, hasAnswer, err
		}
		hasAnswer = hasAnswer || len(c.Parts) > 0 || c.Finish != "" || c.Usage != nil
		c.Note, note = note, ""
		if !yield(reader.read(c), nil) {
			return false, true, nil
		}
		if reader.isBroken {
			m.o.Log.Warn("model wrote a tool call as text that cannot be read; enable a parser for tool calls on its server, "+
				"or set tools to false", "model", m.o.Name, "setting", "models."+m.o.Name+".tools")
		}
		if c.Finish != "" {
			m.endsThought.Store(reader.onlyEnded)
		}
	}
	return true, true, nil
}

// retryTools is how long a model is asked without tools after a refusal. A gateway may lack an endpoint with tools only
// for a while.
const retryTools = time.Hour

// takesTools reports whether the model is given tools now.
func (m *Model) takesTools() bool { return m.o.Tools && time.Now().Unix() >= m.noTools.Load() }

// fit returns a request without the tools that the endpoint does not take.
func (m *Model) fit(r llm.Request) llm.Request {
	if !m.takesTools() {
		return r.WithoutTools()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.refused) == 0 {
		return r
	}
	isRefused := func(t llm.ToolSpec) bool { _, ok := m.refused[keyOf(t)]; return ok }
	r.Tools = slices.DeleteFunc(slices.Clone(r.Tools), isRefused)
	return r
}

// keyOf returns what identifies one version of a tool: a server may fix a tool that was refused.
func keyOf(t llm.ToolSpec) string { return t.Name + "\x00" + t.Description + "\x00" + string(t.Schema) }

// learn remembers that an endpoint refused a tool, or all tools. It returns false if the error has another cause.
func (m *Model) learn(err error, tools []llm.ToolSpec) bool {
	var fault *llm.Error
	if len(tools) == 0 || !errors.As(err, &fault) {
		return false
	}
	said := fault.Words()
	if takesNoTools(said) { // llama.cpp says so with status 500
		m.noTools.Store(time.Now().Add(retryTools).Unix())
		m.o.Log.Warn("model takes no tools; asking it without them. Enable tool calling on its server, or set tools to false",
			"model", m.o.Name, "setting", "models."+m.o.Name+".tools", "error", err)
		return true
	}
	i := findRefused(said, tools)
	if fault.Kind != llm.BadRequest || i < 0 {
		return false
	}
	m.mu.Lock()
	m.refused[keyOf(tools[i])] = Refusal{Tool: tools[i].Name, Reason: fault.Error()}
	m.mu.Unlock()
	m.o.Log.Warn("model endpoint refuses a tool; leaving it out", "model", m.o.Name, "tool", tools[i].Name, "error", err)
	return true
}

// noToolsWords occur in the errors for models that take no tools: from Ollama, OpenRouter, vLLM, llama.cpp, Google and
// others (seen 2026-11).
var noToolsWords = []string{
	"does not support tool", "no endpoints found that support tool", "enable-auto-tool-choice", "requires --jinja",
	"function calling is not enabled", "does not support function", "tool use is not supported", "tools are not supported",
	"tool calling is not supported", "function calling is not supported", "tools is not supported", "doesnt support tool",
	"unsupported param: tools", "tool call parser is not set",
}

// takesNoTools reports whether an error says that a model takes no tools at all.
func takesNoTools(said string) bool {
	said = strings.NewReplacer("`", "", "'", "", `"`, "", "tool_choice", "", "tool choice", "").Replace(strings.ToLower(said))
	return slices.ContainsFunc(noToolsWords, func(words string) bool { return strings.Contains(said, words) })
}

// toolPlaces match the number of a declaration in the errors of Google, Anthropic and OpenAI.
var toolPlaces = []*regexp.Regexp{
	regexp.MustCompile(`function_?[dD]eclarations\[(\d+)\]`),
	regexp.MustCompile(`\btools\.(\d+)\.`),
	regexp.MustCompile(`\btools\[(\d+)\]`),
	regexp.MustCompile(`["']tools["'], *(\d+)`),
}

// findRefused returns the index of the tool that an error names by number or by name. It returns -1 if it names none.
func findRefused(said string, tools []llm.ToolSpec) int {
	for _, place := range toolPlaces {
		if found := place.FindStringSubmatch(said); found != nil {
			if n, err := strconv.Atoi(found[1]); err == nil && n < len(tools) {
				return n
			}
		}
	}
	// A name may begin with another one, and may be an ordinary word.
	best := -1
	for i, t := range tools {
		name := regexp.QuoteMeta(t.Name)
		named := regexp.MustCompile("(?:[\"'`]|(?i:function|tool):? )" + name + `(?:["'` + "`" + `.,:;\s]|$)`)
		if named.MatchString(said) && (best < 0 || len(t.Name) > len(tools[best].Name)) {
			best = i
		}
	}
	return best
}
