package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"ravenbot/internal/llm"
)

// Embed gives texts as vectors, in their order.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, llm.Usage, error) {
	body, err := json.Marshal(map[string]any{"model": m.o.Model, "input": texts, "encoding_format": "float"})
	if err != nil {
		return nil, llm.Usage{}, err
	}
	res, err := m.post(ctx, "/embeddings", "application/json", body)
	if err != nil {
		return nil, llm.Usage{}, m.unavailableError(ctx, err)
	}
	defer res.Body.Close()
	limited := io.LimitReader(res.Body, maxAnswerBytes)
	if res.StatusCode != http.StatusOK {
		return nil, llm.Usage{}, m.readError(res, limited)
	}
	var told struct {
		Data []struct {
			Index     int
			Embedding []float32
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	if err := json.NewDecoder(limited).Decode(&told); err != nil {
		return nil, llm.Usage{}, m.unavailableError(ctx, fmt.Errorf("read embeddings: %w", err))
	}
	vectors := make([][]float32, len(texts))
	for _, d := range told.Data {
		if d.Index >= 0 && d.Index < len(vectors) {
			vectors[d.Index] = d.Embedding
		}
	}
	return vectors, llm.Usage{Input: told.Usage.Prompt}, nil
}
