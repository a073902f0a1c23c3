package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/client"
)

// Embed returns vectors for texts, in their order. It fails if a text has no vector.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, llm.Usage, error) {
	body, err := json.Marshal(map[string]any{"model": m.o.Model, "input": texts, "encoding_format": "float"})
	res, err := m.client.Post(ctx, "/embeddings", client.Body(body, err))
	if err != nil {
		return nil, llm.Usage{}, err
	}
	defer res.Close()
	var answer struct {
		Data []struct {
			Index     client.Count
			Embedding []float32
		}
		Usage client.Maybe[tokens]
	}
	if err := json.NewDecoder(res).Decode(&answer); err != nil {
		return nil, llm.Usage{}, m.client.Error(ctx, fmt.Errorf("read embeddings: %w", err))
	}
	vectors := make([][]float32, len(texts))
	// The API does not promise an order.
	for _, d := range answer.Data {
		if d.Index >= 0 && int(d.Index) < len(vectors) {
			vectors[d.Index] = d.Embedding
		}
	}
	if missing := slices.IndexFunc(vectors, func(v []float32) bool { return len(v) == 0 }); missing >= 0 {
		err := fmt.Errorf("read embeddings: of %d texts number %d has none", len(texts), missing+1)
		return nil, llm.Usage{}, m.client.Error(ctx, err)
	}
	return vectors, llm.Usage{Input: int(answer.Usage.V.Prompt)}, nil
}
