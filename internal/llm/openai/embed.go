package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"ravenbot/internal/llm"
)

// Embed returns vectors for texts, in their order. It fails where the endpoint sends none for a
// text.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, llm.Usage, error) {
	body, err := json.Marshal(map[string]any{"model": m.o.Model, "input": texts, "encoding_format": "float"})
	if err != nil {
		return nil, llm.Usage{}, err
	}
	res, err := m.post(ctx, "/embeddings", "application/json", body)
	if err != nil {
		return nil, llm.Usage{}, m.readingError(ctx, err)
	}
	defer res.Body.Close()
	limited := http.MaxBytesReader(nil, res.Body, maxAnswerBytes)
	if res.StatusCode != http.StatusOK {
		return nil, llm.Usage{}, m.readError(res, limited)
	}
	var answer struct {
		Data []struct {
			Index     int
			Embedding []float32
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	if err := json.NewDecoder(limited).Decode(&answer); err != nil {
		return nil, llm.Usage{}, m.readingError(ctx, fmt.Errorf("read embeddings: %w", err))
	}
	vectors := make([][]float32, len(texts))
	// The order of the answer is not promised; each vector names its text.
	for _, d := range answer.Data {
		if d.Index >= 0 && d.Index < len(vectors) {
			vectors[d.Index] = d.Embedding
		}
	}
	if missing := slices.IndexFunc(vectors, func(v []float32) bool { return len(v) == 0 }); missing >= 0 {
		err := fmt.Errorf("read embeddings: of %d texts number %d has none", len(texts), missing+1)
		return nil, llm.Usage{}, m.readingError(ctx, err)
	}
	return vectors, llm.Usage{Input: answer.Usage.Prompt}, nil
}
