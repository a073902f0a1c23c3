// Package gemini calls Google's Gemini API, at Google AI or at Vertex AI (https://ai.google.dev/api/generate-content
// and https://ai.google.dev/gemini-api/docs/thought-signatures, seen 2026-11).
//
// Thought signatures and call ids go back to the model unchanged. Requests ask Google not to store them (store=false).
// The package does not use Google's SDK, which drops unknown fields of parts and rounds large numbers in calls.
package gemini

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/client"
	"ravenbot/internal/model/toolschema"
)

// Options configures one model.
type Options struct {
	APIKey          string
	Model           string  // "gemini-3.8-flash"
	BaseURL         string  // without the version of the API; "": Google
	Vertex          *Vertex // nil: Google AI
	Temperature     *float64
	MaxOutputTokens int
	Body            json.RawMessage // further fields of requests, a JSON object; may be nil
	Log             *slog.Logger    // may be nil
}

// Model is one Gemini model. It is safe for concurrent use.
type Model struct {
	o      Options
	base   string // of the API and its version
	client *client.Client
	tools  *toolschema.Declarer
}

const googleURL = "https://generativelanguage.googleapis.com"

// New returns a model. It makes no request. The context of each request sets the time limit. It fails if BaseURL is not
// a URL.
func New(o Options) (*Model, error) {
	host, version := googleURL, "v1beta"
	if o.Vertex != nil {
		host, version = o.Vertex.url(), "v1"
	}
	base, err := url.Parse(cmp.Or(o.BaseURL, host))
	if err != nil {
		return nil, fmt.Errorf("set up gemini: %w", err)
	}
	m := &Model{o: o, base: base.JoinPath(version).String()}
	var authorize func(ctx context.Context, h http.Header) error
	header := http.Header{"X-Goog-Api-Key": {o.APIKey}}
	if o.Vertex != nil && o.APIKey == "" {
		authorize, header = o.Vertex.authorize, nil
	}
	m.client = client.New(client.Options{
		Provider:  m.provider(),
		BaseURL:   m.base,
		Header:    header,
		Authorize: authorize,
		Secret:    o.APIKey,
		Body:      o.Body,
		Optional: []client.Field{
			{Path: "generationConfig.temperature"},
			{Path: "generationConfig.stopSequences"},
			{Path: "generationConfig.maxOutputTokens"},
			{Path: "store"},
		},
		Log: o.Log,
	})
	m.tools = toolschema.New(toolschema.Gemini, "parametersJsonSchema", nil)
	return m, nil
}

// provider returns the name in IDs and errors.
func (m *Model) provider() string {
	if m.o.Vertex != nil {
		return "vertex"
	}
	return "gemini"
}

// ID returns gemini/MODEL, or vertex/MODEL.
func (m *Model) ID() string { return m.provider() + "/" + m.o.Model }

// Origin returns the ID, and the endpoint unless it is Google's own.
func (m *Model) Origin() string {
	if m.o.BaseURL == "" {
		return m.ID()
	}
	return m.ID() + "@" + client.Place(m.base)
}

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
		body, names, err := m.encodeRequest(r)
		progress := client.Begun
		m.client.Stream(ctx, m.path("streamGenerateContent")+"?alt=sse", client.Body(body, err), yield,
			func(data []byte) (llm.Chunk, client.Progress, error) {
				c, err := m.readPiece(data, names)
				if c.Finish != "" {
					progress = client.Complete
				}
				return c, progress, err
			})
	}
}

// resource returns the model's name in the API.
func (m *Model) resource() string {
	if strings.HasPrefix(m.o.Model, "models/") || strings.HasPrefix(m.o.Model, "tunedModels/") {
		return m.o.Model
	}
	return "models/" + m.o.Model
}

// path returns the path of a method of the model.
func (m *Model) path(method string) string {
	if m.o.Vertex != nil {
		return m.o.Vertex.path(m.o.Model) + ":" + method
	}
	return "/" + m.resource() + ":" + method
}
