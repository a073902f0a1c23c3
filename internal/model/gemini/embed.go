package gemini

import (
	"context"
	"encoding/json"
	"fmt"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/client"
)

// Embed returns vectors for texts, in their order. The API counts no tokens for it.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, llm.Usage, error) {
	// https://ai.google.dev/api/embeddings, and at Vertex AI
	// https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api.
	method, list, requests := "batchEmbedContents", "requests", make([]any, len(texts))
	if m.o.Vertex != nil {
		method, list = "predict", "instances"
	}
	for i, text := range texts {
		said := content{Role: "user", Parts: []any{textPart(text)}}
		requests[i] = map[string]any{"model": m.resource(), "content": said}
		if m.o.Vertex != nil {
			requests[i] = map[string]string{"content": text}
		}
	}
	body, err := json.Marshal(map[string]any{list: requests})
	answer, err := m.client.Post(ctx, m.path(method), client.Body(body, err))
	if err != nil {
		return nil, llm.Usage{}, err
	}
	defer answer.Close()
	type vector struct {
		Values []float32 `json:"values"`
	}
	var got struct {
		Embeddings  []vector `json:"embeddings"`
		Predictions []struct {
			Embeddings vector `json:"embeddings"`
		} `json:"predictions"`
	}
	if err := json.NewDecoder(answer).Decode(&got); err != nil {
		return nil, llm.Usage{}, m.client.Error(ctx, fmt.Errorf("read embeddings: %w", err))
	}
	for _, p := range got.Predictions {
		got.Embeddings = append(got.Embeddings, p.Embeddings)
	}
	// Vectors are matched to texts by their position.
	if len(got.Embeddings) != len(texts) {
		err := fmt.Errorf("read embeddings: %d came for %d texts", len(got.Embeddings), len(texts))
		return nil, llm.Usage{}, m.client.Error(ctx, err)
	}
	vectors := make([][]float32, len(texts))
	for i, e := range got.Embeddings {
		vectors[i] = e.Values
	}
	return vectors, llm.Usage{}, nil
}
