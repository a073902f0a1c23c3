// Package gemini calls Google's Gemini API through google.golang.org/genai, which only this package imports.
//
// It promises that thought signatures and call ids go back to the model unchanged, that no request asks Google to
// store it (store=false), that a blocked prompt or answer is told apart from a failure, and that nothing is retried.
// The API's rules: https://ai.google.dev/gemini-api/docs/thought-signatures (seen 2026-11).
package gemini

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"reflect"
	"strings"

	"google.golang.org/genai"

	"ravenbot/internal/llm"
)

// Options configures one model.
type Options struct {
	APIKey          string
	Model           string // "gemini-3.8-flash"
	BaseURL         string // empty: Google's
	Temperature     *float64
	MaxOutputTokens int
}

// Model is one Gemini model. It is safe for concurrent use.
type Model struct {
	o      Options
	client *genai.Client
	tools  declarationCache
}

// New returns a model. It makes no request.
func New(o Options) (*Model, error) {
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey: o.APIKey, Backend: genai.BackendGeminiAPI,
		HTTPClient:  &http.Client{Transport: newTransport()},
		HTTPOptions: genai.HTTPOptions{BaseURL: o.BaseURL},
	})
	if err != nil {
		return nil, fmt.Errorf("set up gemini: %w", err)
	}
	return &Model{o: o, client: client}, nil
}

// ID returns gemini/MODEL.
func (m *Model) ID() string { return "gemini/" + m.o.Model }

// Hears reports whether Gemini takes a kind of sound (https://ai.google.dev/gemini-api/docs/audio, seen 2026-11).
func (m *Model) Hears(mediaType string) bool {
	switch mediaType {
	case "audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac":
		return true
	}
	return false
}

// Generate streams one answer.
func (m *Model) Generate(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		ctx, noted := withNote(ctx)
		body, names, err := m.requestBody(r)
		if err != nil {
			yield(llm.Chunk{}, &llm.Error{Kind: llm.BadRequest, Provider: "gemini", Err: err})
			return
		}
		// The contents given here are replaced by requestConfig: genai requires some.
		config := m.requestConfig(r, body)
		stream := m.client.Models.GenerateContentStream(ctx, m.o.Model, genai.Text("see body"), config)
		for res, err := range stream {
			if err != nil {
				yield(llm.Chunk{}, classifyError(ctx, err, noted))
				return
			}
			c, err := readChunk(res, names)
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// requestBody returns the parts of a request that are not configuration, as they are sent. genai would convert them
// to JSON and back twice more, which for a long history or many tools is most of the cost of a request. names restores
// the parameters of calls in the answer.
func (m *Model) requestBody(r llm.Request) (body map[string]any, names originalNames, err error) {
	contents, err := newContents(r.Messages)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := encodeContents(contents)
	if err != nil {
		return nil, nil, err
	}
	body = map[string]any{"contents": encoded}
	if len(r.Tools) > 0 {
		body["tools"], names = m.tools.declare(r.Tools)
	}
	return body, names, nil
}

// requestConfig returns the configuration of a request, which puts body into the request as it is sent.
func (m *Model) requestConfig(r llm.Request, body map[string]any) *genai.GenerateContentConfig {
	// Absent would leave the choice to Google, so both are sent as false.
	no := false
	c := &genai.GenerateContentConfig{
		Store:                 &no,
		AutomaticContinuation: &no,
		MaxOutputTokens:       int32(r.OutputLimit(m.o.MaxOutputTokens)),
		StopSequences:         r.Stop,
	}
	if r.System != "" {
		c.SystemInstruction = &genai.Content{Parts: []*genai.Part{{Text: r.System}}}
	}
	if r.Schema != nil {
		c.ResponseMIMEType, c.ResponseJsonSchema = "application/json", r.Schema
	}
	if t := cmp.Or(r.Temperature, m.o.Temperature); t != nil {
		c.Temperature = genai.Ptr(float32(*t))
	}
	c.HTTPOptions = &genai.HTTPOptions{ExtrasRequestProvider: func(whole map[string]any) map[string]any {
		maps.Copy(whole, body)
		return whole
	}}
	return c
}

// encodeContents encodes contents with what genai leaves out: the empty text of a part that has only a signature. The
// API rejects the part without it.
func encodeContents(contents []*genai.Content) (json.RawMessage, error) {
	type content struct {
		Role  string `json:"role"`
		Parts []any  `json:"parts"`
	}
	type signature struct {
		Text             string `json:"text"`
		ThoughtSignature []byte `json:"thoughtSignature"`
	}
	list := make([]content, len(contents))
	for i, c := range contents {
		list[i].Role = c.Role
		for _, p := range c.Parts {
			// Everything but the signature is zero: exactly the parts that genai would write without a text.
			bare := *p
			bare.ThoughtSignature = nil
			if len(p.ThoughtSignature) > 0 && reflect.ValueOf(bare).IsZero() {
				list[i].Parts = append(list[i].Parts, signature{ThoughtSignature: p.ThoughtSignature})
				continue
			}
			list[i].Parts = append(list[i].Parts, p)
		}
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("write the contents of a request: %w", err)
	}
	return raw, nil
}

// noSignature takes the place of the signature of a call that another model made. Google documents it for history
// that Gemini did not write.
const noSignature = "skip_thought_signature_validator"

// newContents converts messages to the API's form.
func newContents(messages []llm.Message) ([]*genai.Content, error) {
	ids := map[string]string{} // call id → the id that Gemini itself gave, perhaps none
	var out []*genai.Content
	for _, m := range messages {
		c := &genai.Content{Role: "user"}
		if m.Role == llm.Assistant {
			c.Role = "model"
		}
		for _, p := range m.Parts {
			part, err := newPart(p, ids)
			if err != nil {
				return nil, err
			}
			c.Parts = append(c.Parts, part)
		}
		// Calls of one message form a group, and only its first call carries a signature.
		addSignature(m.Parts, c.Parts)
		out = append(out, c)
	}
	return out, nil
}

// newPart converts a part. ids collects the ids of calls for the results that follow.
func newPart(p llm.Part, ids map[string]string) (*genai.Part, error) {
	switch {
	case len(p.Raw) > 0:
		part := &genai.Part{}
		if err := json.Unmarshal(p.Raw, part); err != nil {
			return nil, fmt.Errorf("read a stored part: %w", err)
		}
		// Gemini may have sent no id; its result must then carry none either.
		if p.Call != nil && part.FunctionCall != nil {
			ids[p.Call.ID] = part.FunctionCall.ID
		}
		return part, nil
	case p.Call != nil:
		var args map[string]any
		if err := json.Unmarshal(p.Call.Args, &args); err != nil {
			return nil, fmt.Errorf("read the arguments of a stored call: %w", err)
		}
		ids[p.Call.ID] = p.Call.ID
		return &genai.Part{FunctionCall: &genai.FunctionCall{ID: p.Call.ID, Name: p.Call.Name, Args: args}}, nil
	case p.Result != nil:
		// Google's documentation names these two keys for the result of a function.
		key := "output"
		if p.Result.IsError {
			key = "error"
		}
		return &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: ids[p.Result.ID], Name: p.Result.Name,
			Response: map[string]any{key: p.Result.Content}}}, nil
	}
	if p.Media != nil {
		return &genai.Part{InlineData: &genai.Blob{MIMEType: p.Media.Type, Data: p.Media.Data}}, nil
	}
	return &genai.Part{Text: p.Text, Thought: p.Thought}, nil
}

// addSignature marks the first of a group of calls that another model made. It never changes what Gemini sent: older
// Gemini models send no signatures and accept none.
func addSignature(from []llm.Part, parts []*genai.Part) {
	var first *genai.Part
	for i, p := range parts {
		switch {
		case p.FunctionCall == nil:
		case len(from[i].Raw) > 0:
			return
		case first == nil:
			first = p
		}
	}
	if first != nil {
		first.ThoughtSignature = []byte(noSignature)
	}
}

// readChunk converts a piece of the stream, or returns the error that it reports.
func readChunk(res *genai.GenerateContentResponse, names originalNames) (llm.Chunk, error) {
	c := llm.Chunk{ServedBy: servedBy(res.ModelVersion)}
	if u := res.UsageMetadata; u != nil {
		c.Usage = &llm.Usage{Input: int(u.PromptTokenCount + u.ToolUsePromptTokenCount),
			Cached: int(u.CachedContentTokenCount), Output: int(u.CandidatesTokenCount + u.ThoughtsTokenCount)}
	}
	// A blocked prompt has feedback and no candidate; a piece with usage alone has neither.
	if len(res.Candidates) == 0 {
		if f := res.PromptFeedback; f != nil && f.BlockReason != "" {
			return c, &llm.Error{Kind: llm.Blocked, Provider: "gemini", Reason: describeBlock(string(f.BlockReason))}
		}
		return c, nil
	}
	// Only one candidate is ever requested.
	candidate := res.Candidates[0]
	if candidate.Content != nil {
		for _, p := range candidate.Content.Parts {
			part, err := readPart(p, names)
			if err != nil {
				return c, err
			}
			c.Parts = append(c.Parts, part)
		}
	}
	var err error
	c.Finish, err = readFinish(candidate.FinishReason)
	return c, err
}

// servedBy returns the model that answered, in the form of Message.Origin.
func servedBy(version string) string {
	if version == "" {
		return ""
	}
	return "gemini/" + version
}

// readPart converts a part of an answer. It keeps the raw form of calls and signatures, which must go back unchanged.
func readPart(p *genai.Part, names originalNames) (llm.Part, error) {
	part := llm.Part{Text: p.Text, Thought: p.Thought}
	if f := p.FunctionCall; f != nil {
		args := f.Args
		// The model omits empty arguments; tools expect an object.
		if args == nil {
			args = map[string]any{}
		}
		raw, err := json.Marshal(names.restore(f.Name, args))
		if err != nil {
			return part, fmt.Errorf("read a call: %w", err)
		}
		part.Call = &llm.Call{ID: f.ID, Name: f.Name, Args: raw}
	}
	if p.FunctionCall != nil || len(p.ThoughtSignature) > 0 {
		raw, err := json.Marshal(p)
		if err != nil {
			return part, fmt.Errorf("keep a part: %w", err)
		}
		part.Raw = raw
	}
	return part, nil
}

// readFinish converts a finish reason. It returns an error for a blocked answer.
func readFinish(r genai.FinishReason) (llm.Finish, error) {
	switch r {
	case "", genai.FinishReasonUnspecified:
		return "", nil
	case genai.FinishReasonStop:
		return llm.FinishStop, nil
	case genai.FinishReasonMaxTokens, genai.FinishReasonContinuation:
		return llm.FinishLength, nil
	case genai.FinishReasonMalformedFunctionCall, genai.FinishReasonUnexpectedToolCall, genai.FinishReasonTooManyToolCalls:
		return llm.FinishMalformed, nil
	case genai.FinishReasonOther, genai.FinishReasonLanguage:
		return llm.FinishOther, nil
	}
	// A reason that describeBlock does not know is not a block as far as we can tell.
	if reason := describeBlock(string(r)); reason != "" {
		return llm.FinishBlocked, &llm.Error{Kind: llm.Blocked, Provider: "gemini", Reason: reason}
	}
	return llm.FinishOther, nil
}

// describeBlock returns a block reason in words for the reader, or "" where the reason is not a block.
func describeBlock(reason string) string {
	switch {
	case strings.HasSuffix(reason, "SAFETY"):
		return "its safety filter objects"
	case strings.HasSuffix(reason, "BLOCKLIST"):
		return "it holds a word that is on the provider's list"
	case strings.HasSuffix(reason, "PROHIBITED_CONTENT"):
		return "its provider prohibits such content"
	case strings.HasSuffix(reason, "RECITATION"):
		return "the answer would repeat a protected text"
	case reason == "SPII":
		return "the answer would hold personal data"
	case reason == "JAILBREAK":
		return "it is taken for an attempt to get round the provider's rules"
	case reason == "MODEL_ARMOR":
		return "the project's own filter objects"
	case reason == "OTHER" || reason == "BLOCKED_REASON_UNSPECIFIED":
		return "its provider gives no reason"
	}
	return ""
}
