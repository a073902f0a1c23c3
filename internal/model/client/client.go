// Package client is the common part of all providers' clients: requests, events of an answer, limits and errors.
//
// It reads an answer up to MaxAnswerBytes and follows no redirect. Every error comes from ctx or is an *llm.Error. It
// sends a request again only if the endpoint refuses an optional field.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/llm"
)

// MaxAnswerBytes bounds the bytes that are read of one answer.
const MaxAnswerBytes = 32 << 20

// Options configures a Client.
type Options struct {
	Provider string      // for errors: "gemini"
	BaseURL  string      // Post appends paths to it
	Header   http.Header // of each request
	// Authorize sets credentials that expire. It may be nil.
	Authorize func(ctx context.Context, h http.Header) error
	Secret    string // masked in errors, because some endpoints quote the key
	// Body is a JSON object with further fields for each request. It is merged with the request.
	Body json.RawMessage
	// Optional fields are left out after the endpoint has refused them.
	Optional []Field
	Log      *slog.Logger // may be nil
}

// Field is an optional field of a request.
type Field struct {
	Path    string // "stream_options", or "generationConfig.temperature"
	Instead string // the field that takes the value after a refusal; may be empty
}

// Client sends requests to one endpoint. It is safe for concurrent use.
type Client struct {
	o    Options
	http *http.Client

	mu      sync.Mutex
	refused []Field
}

// New returns a client. It makes no request. The context of each request sets the time limit.
func New(o Options) *Client {
	o.BaseURL = strings.TrimRight(o.BaseURL, "/")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Client{o: o, http: newHTTPClient()}
}

// Request is a request that may be encoded again after a refusal.
type Request struct {
	Encode func() ([]byte, error) // returns a JSON object
	// Learn reports whether a refusal has changed the result of Encode. It may be nil.
	Learn func(refusal *llm.Error) bool
}

// Body returns a Request for a fixed body.
func Body(object []byte, err error) Request {
	return Request{Encode: func() ([]byte, error) { return object, err }}
}

// Post sends a request to a path below the base URL and returns the body of the answer. The caller closes it. Reading
// it may fail with any error; Error converts it. Only Post sends a refused request again: without an optional field, or
// if Learn has changed it.
func (c *Client) Post(ctx context.Context, path string, r Request) (io.ReadCloser, error) {
	for {
		sent, err := r.Encode()
		if err == nil {
			sent, err = c.adapt(sent)
		}
		if err != nil {
			return nil, &llm.Error{Kind: llm.BadRequest, Provider: c.o.Provider, Err: err}
		}
		res, err := c.send(ctx, path, sent)
		if err != nil {
			return nil, c.Error(ctx, err)
		}
		limited := http.MaxBytesReader(nil, res.Body, MaxAnswerBytes)
		if res.StatusCode == http.StatusOK {
			return limited, nil
		}
		fault := c.readFault(res, limited)
		limited.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if fault.Kind != llm.BadRequest || !c.dropRefused(fault, sent) && (r.Learn == nil || !r.Learn(fault)) {
			return nil, fault
		}
	}
}

// graceTime bounds the end of a body after the answer is complete. Counts of tokens may follow, but some endpoints
// leave the connection open.
const graceTime = 3 * time.Second

// Progress is the state of a streamed answer.
type Progress int

// The states of an answer.
const (
	Begun    Progress = iota
	Complete          // has its finish reason; counts of tokens may follow
	Over              // nothing follows
)

// Stream sends a request like Post, and streams the answer. The function read converts one event; with an error it may
// return the usage. Stream returns false if the caller left or got an error. After a complete answer, errors of the
// connection do not matter.
func (c *Client) Stream(
	ctx context.Context,
	path string,
	r Request,
	yield func(llm.Chunk, error) bool,
	read func(data []byte) (llm.Chunk, Progress, error),
) (Progress, bool) {
	body, err := c.Post(ctx, path, r)
	if err != nil {
		yield(llm.Chunk{}, err)
		return Begun, false
	}
	defer body.Close()
	progress := Begun
	for data, err := range Events(body) {
		before := progress
		var chunk llm.Chunk
		if err == nil {
			chunk, progress, err = read(data)
		}
		switch {
		case err != nil && before == Complete:
			return before, true
		case err != nil:
			used := llm.Chunk{Usage: chunk.Usage, ServedBy: chunk.ServedBy}
			if used.Usage == nil || yield(used, nil) {
				yield(llm.Chunk{}, c.Error(ctx, err))
			}
			return progress, false
		case !yield(chunk, nil):
			return progress, false
		case progress == Over:
			return progress, true
		case progress == Complete && before == Begun:
			defer time.AfterFunc(graceTime, func() { _ = body.Close() }).Stop() // reading the body then fails
		}
	}
	return progress, true
}

// Place returns the host and path of a base URL, without a password or query.
func Place(baseURL string) string {
	u, err := url.Parse(baseURL)
	if err != nil {
		return ""
	}
	return u.Host + strings.TrimRight(u.Path, "/")
}

func (c *Client) send(ctx context.Context, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.o.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, c.o.Header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	if c.o.Authorize != nil {
		if err := c.o.Authorize(ctx, req.Header); err != nil {
			return nil, err
		}
	}
	return c.http.Do(req)
}

// Error returns ctx's error, or err as an *llm.Error.
func (c *Client) Error(ctx context.Context, err error) error {
	// A cancelled request is not the provider's fault and must not switch models.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if known, ok := errors.AsType[*llm.Error](err); ok {
		return known
	}
	if errors.Is(err, errRedirect) {
		return &llm.Error{Kind: llm.BadRequest, Provider: c.o.Provider, Err: err}
	}
	return llm.ReadingError(c.o.Provider, err)
}

// Splice returns a JSON object, which must not be empty, with one more field in front. json.Marshal would check and
// copy the value, which takes too long for the declarations of hundreds of tools.
func Splice(name string, value json.RawMessage, object []byte) []byte {
	return slices.Concat([]byte(`{"`+name+`":`), value, []byte(","), object[1:])
}

// adapt adds the fields of Options.Body to a request and removes refused fields.
func (c *Client) adapt(body []byte) ([]byte, error) {
	c.mu.Lock()
	refused := slices.Clone(c.refused)
	c.mu.Unlock()
	if len(refused) == 0 && len(c.o.Body) == 0 {
		return body, nil
	}
	object, err := decodeObject(body)
	if err != nil {
		return nil, err
	}
	if len(c.o.Body) > 0 {
		more, err := decodeObject(c.o.Body)
		if err != nil {
			return nil, err
		}
		mergeObjects(object, more)
	}
	for _, f := range refused {
		if value := removeField(object, f.Path); value != nil && f.Instead != "" {
			object[f.Instead] = value
		}
	}
	return json.Marshal(object)
}

// Decode decodes JSON without rounding its numbers.
func Decode(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(v)
}

func decodeObject(raw []byte) (object map[string]any, err error) {
	if err := Decode(raw, &object); err != nil {
		return nil, fmt.Errorf("merge the fields of a request: %w", err)
	}
	return object, nil
}

// mergeObjects adds fields to an object, recursively. The new value wins.
func mergeObjects(object, more map[string]any) {
	for name, v := range more {
		have, isObject := object[name].(map[string]any)
		if inner, ok := v.(map[string]any); ok && isObject {
			mergeObjects(have, inner)
		} else {
			object[name] = v
		}
	}
}

func removeField(object map[string]any, path string) any {
	name, rest, isDeep := strings.Cut(path, ".")
	value := object[name]
	if isDeep {
		inner, _ := value.(map[string]any)
		return removeField(inner, rest)
	}
	delete(object, name)
	return value
}

// dropRefused remembers the optional field that an error names. It returns false if the error names no field of the
// request.
func (c *Client) dropRefused(fault *llm.Error, sent []byte) bool {
	object, _ := decodeObject(sent) // it was encoded here
	isCause := func(f Field) bool { return Names(fault, f.Path) && removeField(object, f.Path) != nil }
	i := slices.IndexFunc(c.o.Optional, isCause)
	if i < 0 {
		return false
	}
	f := c.o.Optional[i]
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.refused, f) { // another request may have found out
		c.refused = append(c.refused, f)
		c.o.Log.Warn("model endpoint refuses an optional field of requests; leaving it out",
			"model", c.o.Provider, "field", f.Path, "error", fault)
	}
	return true
}

// Names reports whether an error names a field, by the last word of its path, as the cause: in quotation marks, in a
// path, or next to words such as "parameter" and "is not supported" (参数, of Z.ai, is "parameter").
func Names(fault *llm.Error, path string) bool {
	name := regexp.QuoteMeta(path[strings.LastIndex(path, ".")+1:])
	named := regexp.MustCompile(`(?i)(["'` + "`" + `.\[]|` +
		`\b(?:parameter|argument|field|input|param)s?\b(?:[^.;]{0,40}[:,])?:? +|not supported[^:]*: )` + name + `\b|` +
		`\b` + name + `(["'` + "`" + `.\]:]|参数| (?:is|are|does|must|not|cannot|should|unsupported|parameter|value)\b)`)
	return named.MatchString(fault.Words())
}
