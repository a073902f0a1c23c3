package simmodel

import (
	"encoding/json"
	"io"
	"net/http"
)

// Embedding returns the vector of a text. It is called from many goroutines.
type Embedding func(text string) []float32

// SetEmbedding lets the models give embeddings; nil, as at first: they give none.
func (s *Server) SetEmbedding(e Embedding) {
	s.state.Lock()
	defer s.state.Release()
	s.embedding = e
}

// embed returns vectors for texts, and false where no model has embeddings.
func (s *Server) embed(texts []string) ([][]float32, bool) {
	s.state.Lock()
	e := s.embedding
	s.state.Unlock()
	if e == nil {
		return nil, false
	}
	var list [][]float32
	for _, text := range texts {
		list = append(list, e(text))
	}
	return list, true
}

// embedOpenAI serves OpenAI's embeddings; the last vector comes first, as the index
// counts and not the order.
func (s *Server) embedOpenAI(w http.ResponseWriter, r *http.Request) {
	if !s.bearer(w, r) {
		return
	}
	var in struct {
		Model string   `json:"model"`
		Input []string `json:"input"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Input) == 0 || !s.hasModel(in.Model) {
		openAIError(w, 400, "'$.input' is invalid.", "")
		return
	}
	vectors, ok := s.embed(in.Input)
	if !ok {
		openAIError(w, 404, "The model does not support embeddings.", "model_not_found")
		return
	}
	data := []any{}
	for i := len(vectors) - 1; i >= 0; i-- {
		data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": vectors[i]})
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(
		w,
		mustJSON(
			map[string]any{
				"object": "list",
				"data":   data,
				"model":  in.Model,
				"usage":  map[string]int{"prompt_tokens": 7, "total_tokens": 7},
			},
		),
	)
}

// embedGemini serves Gemini's batchEmbedContents.
func (s *Server) embedGemini(w http.ResponseWriter, raw []byte) {
	var in struct {
		Requests []struct {
			Content struct{ Parts []struct{ Text string } }
		}
	}
	var texts []string
	if err := json.Unmarshal(raw, &in); err != nil || len(in.Requests) == 0 {
		geminiError(w, 400, "requests are missing.")
		return
	}
	for _, r := range in.Requests {
		text := ""
		for _, p := range r.Content.Parts {
			text += p.Text
		}
		texts = append(texts, text)
	}
	vectors, ok := s.embed(texts)
	if !ok {
		geminiError(w, 404, "the model is not supported for embedContent.")
		return
	}
	list := []any{}
	for _, v := range vectors {
		list = append(list, map[string]any{"values": v})
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, mustJSON(map[string]any{"embeddings": list}))
}
