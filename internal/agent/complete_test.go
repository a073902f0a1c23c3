package agent_test

import (
	"encoding/json"
	"testing"

	"ravenbot/internal/llm"
	"ravenbot/internal/llm/llmtest"
	"ravenbot/internal/store"
)

// An endpoint that takes no schema is asked again in words alone.
func TestCompleteJSON_SchemaRefused_AsksWithout(t *testing.T) {
	var schemas []string
	model := &llmtest.Model{Name: "m", Script: func(_ int, r llm.Request) ([]llm.Chunk, error) {
		if schemas = append(schemas, string(r.Schema)); r.Schema != nil {
			return nil, &llm.Error{Kind: llm.BadRequest, Reason: "unknown field response_format"}
		}
		return llmtest.Says(`{"n":1}`), nil
	}}
	b := engine(nil, model)
	text, _, err := b.CompleteJSON(t.Context(), store.Usage{Channel: room}, []string{model.ID()}, "s", "p",
		json.RawMessage(`{}`))
	if err != nil || text != `{"n":1}` || len(schemas) != 2 || schemas[0] != "{}" || schemas[1] != "" {
		t.Errorf("%q, %v, asked with %q", text, err, schemas)
	}
}
