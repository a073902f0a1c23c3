package agent_test

import (
	"encoding/json"
	"testing"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/llmtest"
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

// Only a request that is refused, and that has a schema, is worth a second one.
func TestCompleteJSON_NoSchemaRefused_AsksOnce(t *testing.T) {
	for name, c := range map[string]struct {
		fault  error
		schema json.RawMessage
	}{
		"the answer is there":         {nil, json.RawMessage(`{}`)},
		"the key is refused":          {&llm.Error{Kind: llm.Denied}, json.RawMessage(`{}`)},
		"the words alone are refused": {&llm.Error{Kind: llm.BadRequest}, nil},
	} {
		model := &llmtest.Model{Name: "m", Script: func(int, llm.Request) ([]llm.Chunk, error) {
			return llmtest.Says("yes"), c.fault
		}}
		b := engine(nil, model)
		text, served, err := b.CompleteJSON(t.Context(), store.Usage{Channel: room}, []string{model.ID()}, "s", "p", c.schema)
		if n := len(model.Requests()); n != 1 || (err != nil) != (c.fault != nil) {
			t.Errorf("%s: %v after %d requests", name, err, n)
		}
		if c.fault == nil && (text != "yes" || served != model.ID()) {
			t.Errorf("%s: answered %q by %q", name, text, served)
		}
	}
}

// A sound that one model does not take is still there for the next one.
func TestCompleteRequest_SoundForAModelThatHears_IsKeptForIt(t *testing.T) {
	deaf := failing()
	deaf.Name = "deaf"
	listener := hearing{&llmtest.Model{Name: "listener", Script: quoting}}
	b := engine(nil, deaf, listener)
	q := llm.Request{Messages: []llm.Message{says(llm.User, "what is said?"), {Role: llm.User, Parts: []llm.Part{
		{Media: &llm.Media{Type: "audio/ogg", Data: []byte("sound")}}}}}}
	_, err := b.CompleteRequest(t.Context(), store.Usage{Channel: room}, []string{deaf.ID(), listener.ID()}, q)
	if err != nil {
		t.Fatal(err)
	}
	if p := deaf.Requests()[0].Messages[1].Parts[0]; p.Media != nil {
		t.Errorf("the model that does not hear is sent %+v", p)
	}
	if p := listener.Requests()[0].Messages[1].Parts[0]; p.Media == nil {
		t.Errorf("the model that hears is sent %+v", p)
	}
}
