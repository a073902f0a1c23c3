package gemini

import (
	"context"
	"encoding/json"
	"fmt"

	"ravenbot/internal/llm"
)

// embedRequest asks for the vector of one text (https://ai.google.dev/api/embeddings).
type embedRequest struct {
	Model   string  `json:"model"`
	Content content `json:"content"`
}

// Embed returns vectors for texts, in their order. The API counts no tokens for it.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, llm.Usage, error) {
	requests := make([]embedRequest, len(texts))
	for i, text := range texts {
		requests[i] = embedRequest{m.resource(), content{Role: "user", Parts: []any{textPart(text)}}}
	}
	body, err := json.Marshal(map[string]any{"requests": requests})
	if err != nil {
		return nil, llm.Usage{}, err
	}
	answer, err := m.post(ctx, "batchEmbedContents", "", body)
	if err != nil {
		return nil, llm.Usage{}, err
	}
	defer answer.Close()
	var got struct {
		Embeddings []struct {
			Values []float32 `json:"values"`
		} `json:"embeddings"`
	}
	if err := json.NewDecoder(answer).Decode(&got); err != nil {
		return nil, llm.Usage{}, readingError(ctx, fmt.Errorf("read embeddings: %w", err))
	}
	// Vectors are matched to texts by their position.
	if len(got.Embeddings) != len(texts) {
		err := fmt.Errorf("%d embeddings were given for %d texts", len(got.Embeddings), len(texts))
		return nil, llm.Usage{}, readingError(ctx, err)
	}
	vectors := make([][]float32, len(texts))
	for i, e := range got.Embeddings {
		vectors[i] = e.Values
	}
	return vectors, llm.Usage{}, nil
}
