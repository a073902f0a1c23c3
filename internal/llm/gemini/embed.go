package gemini

import (
	"context"
	"encoding/json"
	"fmt"

	"ravenbot/internal/llm"
	"ravenbot/internal/llm/client"
)

// embedRequest asks for the vector of one text (https://ai.google.dev/api/embeddings).
type embedRequest struct {
	Model   string  `json:"model"`
	Content content `json:"content"`
}

// predictRequest is the same at Vertex AI
// (https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api).
type predictRequest struct {
	Instances []predictInstance `json:"instances"`
}

// predictInstance is a text.
type predictInstance struct {
	Content string `json:"content"`
}

// Embed returns vectors for texts, in their order. The API counts no tokens for it.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, llm.Usage, error) {
	method, request := "batchEmbedContents", any(m.newEmbedRequest(texts))
	if m.o.Vertex != nil {
		p := predictRequest{}
		for _, text := range texts {
			p.Instances = append(p.Instances, predictInstance{text})
		}
		method, request = "predict", p
	}
	body, err := json.Marshal(request)
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

// newEmbedRequest returns a request to Google AI.
func (m *Model) newEmbedRequest(texts []string) map[string]any {
	requests := make([]embedRequest, len(texts))
	for i, text := range texts {
		requests[i] = embedRequest{m.resource(), content{Role: "user", Parts: []any{textPart(text)}}}
	}
	return map[string]any{"requests": requests}
}
