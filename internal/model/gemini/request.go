package gemini

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/client"
	"ravenbot/internal/model/toolschema"
)

// request is the body of a request without its tools. The parts that change during a conversation come last.
type request struct {
	System   *content  `json:"systemInstruction,omitempty"`
	Config   config    `json:"generationConfig"`
	Store    *bool     `json:"store,omitempty"` // otherwise Google decides
	Contents []content `json:"contents"`
}

type config struct {
	MaxOutputTokens int             `json:"maxOutputTokens,omitempty"`
	Temperature     *float64        `json:"temperature,omitempty"`
	StopSequences   []string        `json:"stopSequences,omitempty"`
	MIMEType        string          `json:"responseMimeType,omitempty"`
	Schema          json.RawMessage `json:"responseJsonSchema,omitempty"`
}

// content contains the parts of one role: part, or json.RawMessage from the API.
type content struct {
	Role  string `json:"role,omitempty"`
	Parts []any  `json:"parts"`
}

// part is a part that the bot writes. One of its fields is set, perhaps with Thought or Signature.
type part struct {
	Text      *string        `json:"text,omitempty"`
	Thought   bool           `json:"thought,omitempty"`
	Call      *functionCall  `json:"functionCall,omitempty"`
	Signature []byte         `json:"thoughtSignature,omitempty"`
	Response  map[string]any `json:"functionResponse,omitempty"`
	Media     map[string]any `json:"inlineData,omitempty"`
}

// functionCall is a call of a tool. Older models send no id.
type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

func textPart(text string) part { return part{Text: &text} }

// encodeRequest returns the body of a request, and the renamed parameters of its tools.
func (m *Model) encodeRequest(r llm.Request) ([]byte, toolschema.Names, error) {
	q := request{Config: config{
		MaxOutputTokens: r.OutputLimit(m.o.MaxOutputTokens),
		Temperature:     cmp.Or(r.Temperature, m.o.Temperature),
		StopSequences:   r.Stop,
	}}
	if m.o.Vertex == nil { // Vertex AI stores nothing and refuses the field
		q.Store = new(bool)
	}
	if r.System != "" {
		q.System = &content{Parts: []any{textPart(r.System)}}
	}
	if r.Schema != nil {
		q.Config.MIMEType, q.Config.Schema = "application/json", r.Schema
	}
	var err error
	if q.Contents, err = newContents(r.Messages); err != nil {
		return nil, nil, err
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, nil, fmt.Errorf("write a request: %w", err)
	}
	if len(r.Tools) == 0 {
		return body, nil, nil
	}
	declared, names := m.tools.Declare(r.Tools)
	tools := slices.Concat([]byte(`[{"functionDeclarations":`), declared, []byte(`}]`))
	return client.Splice("tools", tools, body), names, nil
}

// noSignature is Google's documented signature for calls of other models.
const noSignature = "skip_thought_signature_validator"

func newContents(messages []llm.Message) ([]content, error) {
	ids := map[string]string{} // call id → id from Gemini, perhaps ""
	out := make([]content, 0, len(messages))
	for _, m := range messages {
		c := content{Role: "user", Parts: make([]any, 0, len(m.Parts))}
		if m.Role == llm.Assistant {
			c.Role = "model"
		}
		// Calls of one message form a group, and only the first call has a signature. A group with a call of Gemini
		// does not change, because older models send no signatures and accept none.
		isOwnCall := func(p llm.Part) bool { return p.Call != nil && len(p.Raw) > 0 }
		needsSignature := !slices.ContainsFunc(m.Parts, isOwnCall)
		for _, p := range m.Parts {
			if len(p.Raw) > 0 {
				raw, err := storedPart(p, ids)
				if err != nil {
					return nil, err
				}
				c.Parts = append(c.Parts, raw)
				continue
			}
			one := newPart(p, ids)
			if one.Call != nil && needsSignature {
				one.Signature, needsSignature = []byte(noSignature), false
			}
			c.Parts = append(c.Parts, one)
		}
		out = append(out, c)
	}
	return out, nil
}

// storedPart returns a part of the API. It fails if the part is not a JSON object.
func storedPart(p llm.Part, ids map[string]string) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(p.Raw, &fields); err != nil {
		return nil, fmt.Errorf("read a stored part: %w", err)
	}
	if p.Call != nil {
		// If Gemini sent no id, its result must have none either.
		var call struct {
			ID client.Word `json:"id"`
		}
		if err := json.Unmarshal(fields["functionCall"], &call); err == nil {
			ids[p.Call.ID] = string(call.ID)
		}
	}
	// Google's SDK, which was used before, omitted the empty text of a part with only a signature. The API requires it.
	if len(fields) == 1 && fields["thoughtSignature"] != nil {
		fields["text"] = json.RawMessage(`""`)
		return json.Marshal(fields)
	}
	return p.Raw, nil
}

// newPart converts a part that the API did not write. ids maps calls to the ids of their results.
func newPart(p llm.Part, ids map[string]string) part {
	switch {
	case p.Call != nil:
		ids[p.Call.ID] = p.Call.ID
		call := &functionCall{ID: p.Call.ID, Name: p.Call.Name, Args: p.Call.Args}
		// The API accepts only objects. Another model may have sent something else.
		if !bytes.HasPrefix(bytes.TrimSpace(call.Args), []byte("{")) {
			call.Args = nil
		}
		return part{Call: call}
	case p.Result != nil:
		// Google documents these two keys for results.
		key := "output"
		if p.Result.IsError {
			key = "error"
		}
		response := map[string]any{"name": p.Result.Name, "response": map[string]string{key: p.Result.Content}}
		if id := ids[p.Result.ID]; id != "" {
			response["id"] = id
		}
		return part{Response: response}
	case p.Media != nil:
		return part{Media: map[string]any{"mimeType": p.Media.Type, "data": p.Media.Data}}
	}
	one := textPart(p.Text)
	one.Thought = p.Thought
	return one
}
