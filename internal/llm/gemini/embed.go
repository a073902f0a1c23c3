package gemini

import (
	"context"
	"fmt"

	"google.golang.org/genai"

	"ravenbot/internal/llm"
)

// Embed returns vectors for texts, in their order. The API counts no tokens for it.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, llm.Usage, error) {
	ctx, noted := withNote(ctx)
	var contents []*genai.Content
	for _, text := range texts {
		contents = append(contents, genai.NewContentFromText(text, genai.RoleUser))
	}
	res, err := m.client.Models.EmbedContent(ctx, m.o.Model, contents, nil)
	if err != nil {
		return nil, llm.Usage{}, classifyError(ctx, err, noted)
	}
	// Vectors are matched to texts by their position.
	if len(res.Embeddings) != len(texts) {
		return nil, llm.Usage{}, &llm.Error{
			Kind:     llm.Unavailable,
			Provider: "gemini",
			Err:      fmt.Errorf("%d embeddings were given for %d texts", len(res.Embeddings), len(texts)),
		}
	}
	vectors := make([][]float32, len(texts))
	for i, e := range res.Embeddings {
		vectors[i] = e.Values
	}
	return vectors, llm.Usage{}, nil
}
