// Package llmtest is a deterministic replacement for a language model in tests.
package llmtest

import (
	"context"
	"encoding/json"
	"iter"
	"sync"

	"ravenbot/internal/core/llm"
)

// Model answers as its Script says and records the requests.
type Model struct {
	Name string
	// Script returns the answer to the nth request, counted from 1.
	Script func(n int, r llm.Request) ([]llm.Chunk, error)

	mu       sync.Mutex
	requests []llm.Request
}

// ID returns test/NAME.
func (m *Model) ID() string { return "test/" + m.Name }

// Generate yields the chunks of the script, then its error.
func (m *Model) Generate(_ context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		m.mu.Lock()
		m.requests = append(m.requests, r)
		n := len(m.requests)
		m.mu.Unlock()
		chunks, err := m.Script(n, r)
		for _, c := range chunks {
			if !yield(c, nil) {
				return
			}
		}
		if err != nil {
			yield(llm.Chunk{}, err)
		}
	}
}

// Requests returns the requests so far.
func (m *Model) Requests() []llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]llm.Request(nil), m.requests...)
}

// Says returns a whole answer of text.
func Says(text string) []llm.Chunk {
	return []llm.Chunk{
		{Parts: []llm.Part{{Text: text}}},
		{Finish: llm.FinishStop, Usage: &llm.Usage{Input: 10, Output: 5}},
	}
}

// Calls returns a whole answer of tool calls, given as name, arguments, name, ….
func Calls(nameArgs ...string) []llm.Chunk {
	var parts []llm.Part
	for i := 0; i+1 < len(nameArgs); i += 2 {
		parts = append(parts, llm.Part{Call: &llm.Call{Name: nameArgs[i], Args: json.RawMessage(nameArgs[i+1])}})
	}
	return []llm.Chunk{{Parts: parts}, {Finish: llm.FinishStop}}
}
