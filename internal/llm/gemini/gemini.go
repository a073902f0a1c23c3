// Package gemini calls Google's Gemini API.
//
// It uses net/http only. Google's SDK decodes an answer into types of its own, so that of a part that has to go back
// unchanged it loses what it does not know and rounds large numbers; and it converts each request to JSON several
// times.
//
// It promises that thought signatures and call ids go back to the model unchanged, that no request asks Google to
// store it (store=false), that a blocked prompt or answer is told apart from a failure, and that nothing is retried.
// The API's rules: https://ai.google.dev/api/generate-content and
// https://ai.google.dev/gemini-api/docs/thought-signatures (seen 2026-11).
package gemini

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ravenbot/internal/llm"
)

// Options configures one model.
type Options struct {
	APIKey          string
	Model           string // "gemini-3.8-flash"
	BaseURL         string // without the version of the API; empty: Google's
	Temperature     *float64
	MaxOutputTokens int
}

// Model is one Gemini model. It is safe for concurrent use.
type Model struct {
	o      Options
	base   *url.URL // of the API and its version
	client *http.Client
	tools  declarationCache
}

// googleURL is where the API is.
const googleURL = "https://generativelanguage.googleapis.com"

// maxAnswerBytes is how many bytes of one answer are read.
const maxAnswerBytes = 32 << 20

// New returns a model. It makes no request, and sets no time limit: ctx of each request does. It fails where BaseURL is
// no URL.
func New(o Options) (*Model, error) {
	base, err := url.Parse(cmp.Or(o.BaseURL, googleURL))
	if err != nil {
		return nil, fmt.Errorf("set up gemini: %w", err)
	}
	return &Model{o: o, base: base.JoinPath("v1beta"), client: llm.HTTPClient()}, nil
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
		body, names, err := m.encodeRequest(r)
		if err != nil {
			yield(llm.Chunk{}, &llm.Error{Kind: llm.BadRequest, Provider: "gemini", Err: err})
			return
		}
		answer, err := m.post(ctx, "streamGenerateContent", "alt=sse", body...)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		defer answer.Close()
		wanted := true
		err = readPieces(answer, func(p piece) error {
			c, err := p.chunk(names)
			if err != nil {
				c = llm.Chunk{Usage: c.Usage, ServedBy: c.ServedBy} // what is blocked has its price, too
			}
			if err == nil || c.Usage != nil {
				if wanted = yield(c, nil); !wanted {
					err = io.EOF
				}
			}
			return err
		})
		if wanted && err != nil {
			yield(llm.Chunk{}, readingError(ctx, err))
		}
	}
}

// resource returns the model's name in addresses.
func (m *Model) resource() string {
	if strings.HasPrefix(m.o.Model, "models/") || strings.HasPrefix(m.o.Model, "tunedModels/") {
		return m.o.Model
	}
	return "models/" + m.o.Model
}

// maxJoined is up to how many bytes the parts of a request are copied together. net/http sends a body that is one piece of
// memory in one write with the header, and any other body in a write of its own.
const maxJoined = 16 << 10

// post sends JSON, in parts that follow one another, to a method of the model and returns the body of its answer, of which
// maxAnswerBytes can be read. The caller closes it. The error is ctx's or an *llm.Error.
func (m *Model) post(ctx context.Context, method, query string, parts ...[]byte) (io.ReadCloser, error) {
	u := m.base.JoinPath(m.resource() + ":" + method)
	u.RawQuery = query
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), nil)
	if err != nil {
		return nil, readingError(ctx, err)
	}
	for _, part := range parts {
		req.ContentLength += int64(len(part))
	}
	// Made again where an idle connection turns out to be closed.
	req.GetBody = func() (io.ReadCloser, error) {
		if req.ContentLength <= maxJoined {
			return io.NopCloser(bytes.NewReader(slices.Concat(parts...))), nil
		}
		rest := net.Buffers(slices.Clone(parts)) // reading takes parts away
		return io.NopCloser(&rest), nil
	}
	req.Body, _ = req.GetBody()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Goog-Api-Key", m.o.APIKey)
	res, err := m.client.Do(req)
	if err != nil {
		return nil, readingError(ctx, err)
	}
	limited := http.MaxBytesReader(nil, res.Body, maxAnswerBytes)
	if res.StatusCode != http.StatusOK {
		defer limited.Close()
		return nil, readingError(ctx, readError(res, limited))
	}
	return limited, nil
}
