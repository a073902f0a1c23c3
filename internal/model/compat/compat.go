// Package compat compensates for missing features of endpoints.
//
// If an endpoint refuses a tool, the package sends the request again without the tool and leaves it out later. A model
// without tool calling gets no tools. Reasoning in tags in the text becomes thoughts, and calls in the text become
// calls.
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

// Options configures a Model.
type Options struct {
	Name  string // of the model in the configuration
	Tools bool   // whether the model gets tools
	Log   *slog.Logger
}

// Refusal is a tool that an endpoint refuses.
type Refusal struct {
	Tool   string `json:"tool"`
	Reason string `json:"reason"` // in the endpoint's words
}

// Model is a model whose endpoint may lack something. It is safe for concurrent use.
type Model struct {
	llm.Model
	o           Options
	noTools     atomic.Int64 // end of the time without tools, in Unix seconds
	endsThought atomic.Bool  // the last answer began with reasoning that had only a closing tag

	mu      sync.Mutex
	refused map[string]Refusal // by keyOf
}

// New returns a wrapper of m. It makes no request.
func New(m llm.Model, o Options) *Model {
	return &Model{Model: m, o: o, refused: map[string]Refusal{}}
}

// Unwrap returns the wrapped model, for llm.As.
func (m *Model) Unwrap() llm.Model { return m.Model }

// Refusals returns the refused tools by name.
func (m *Model) Refusals() []Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.refused), func(a, b Refusal) int { return strings.Compare(a.Tool, b.Tool) })
}

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

// stream passes on one answer. more is false if the caller has left. hasAnswer is true if there was any content.
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

// retryTools is the time without tools after a refusal. A gateway may lack an endpoint with tools only for a while.
const retryTools = time.Hour

func (m *Model) takesTools() bool { return m.o.Tools && time.Now().Unix() >= m.noTools.Load() }

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

// keyOf identifies a version of a tool, because a server may fix a refused tool.
func keyOf(t llm.ToolSpec) string { return t.Name + "\x00" + t.Description + "\x00" + string(t.Schema) }

// learn remembers a refusal of a tool, or of all tools. It returns false for other errors.
func (m *Model) learn(err error, tools []llm.ToolSpec) bool {
	var fault *llm.Error
	if len(tools) == 0 || !errors.As(err, &fault) {
		return false
	}
	said := fault.Words()
	if takesNoTools(said) { // llama.cpp answers with status 500
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

// noToolsWords occur in errors of models without tool calling: Ollama, OpenRouter, vLLM, llama.cpp, Google and others
// (seen 2026-11).
var noToolsWords = []string{
	"does not support tool", "no endpoints found that support tool", "enable-auto-tool-choice", "requires --jinja",
	"function calling is not enabled", "does not support function", "tool use is not supported", "tools are not supported",
	"tool calling is not supported", "function calling is not supported", "tools is not supported", "doesnt support tool",
	"unsupported param: tools", "tool call parser is not set",
}

func takesNoTools(said string) bool {
	said = strings.NewReplacer("`", "", "'", "", `"`, "", "tool_choice", "", "tool choice", "").Replace(strings.ToLower(said))
	return slices.ContainsFunc(noToolsWords, func(words string) bool { return strings.Contains(said, words) })
}

// toolPlaces match the number of a tool in errors of Google, Anthropic and OpenAI.
var toolPlaces = []*regexp.Regexp{
	regexp.MustCompile(`function_?[dD]eclarations\[(\d+)\]`),
	regexp.MustCompile(`\btools\.(\d+)\.`),
	regexp.MustCompile(`\btools\[(\d+)\]`),
	regexp.MustCompile(`["']tools["'], *(\d+)`),
}

// findRefused returns the index of the tool that an error names by number or name, or -1.
func findRefused(said string, tools []llm.ToolSpec) int {
	for _, place := range toolPlaces {
		if found := place.FindStringSubmatch(said); found != nil {
			if n, err := strconv.Atoi(found[1]); err == nil && n < len(tools) {
				return n
			}
		}
	}
	// A name may begin with another one, or be an ordinary word.
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
