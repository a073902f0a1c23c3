// Package llm is the vocabulary between the agent and language models: Request, Chunk (a piece of an answer), Usage and
// Error.
//
// A Part keeps the provider's raw bytes, so that a stored conversation continues with its thought signatures and call
// ids. Each provider is a package below this one.
package llm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"time"

	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/text"
)

// Role is the author of a Message.
type Role string

// The roles. A tool message contains the results of the calls in the message before it.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Message is a list of parts of one role, in order.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
	// Origin is the result of the function Origin for the model that wrote an assistant message. The Raw bytes of its
	// parts are only for that model.
	Origin string `json:"origin,omitempty"`
}

// Part is a piece of a message. One of Text, Call, Result and Media is set, or only Raw (a signature on an empty part).
type Part struct {
	Text    string  `json:"text,omitempty"`
	Thought bool    `json:"thought,omitempty"` // Text is the model's reasoning
	Call    *Call   `json:"call,omitempty"`
	Result  *Result `json:"result,omitempty"`
	// Raw is the provider's own form of the part, or its additions to the part. It goes back unchanged.
	Raw json.RawMessage `json:"raw,omitempty"`
	// Media is an image or a sound from the user. It is not stored.
	Media *Media `json:"-"`
	// Source is the source of Text. It is empty for the words of the role.
	Source Source `json:"source,omitempty"`
	// Subject is the identity (chat.Message.Subject) of the message that Text quotes, if known.
	Subject string `json:"subject,omitempty"`
	// Origin is the author of Text or Result. In turns before November 2026 only Source is set.
	Origin origin.Origin `json:"origin,omitzero"`
}

// Source is the source of a user's part. Only SourceWords was said to the bot.
type Source string

// The sources of parts.
const (
	SourceWords     Source = ""          // the words of the speaker
	SourceSpeaker   Source = "speaker"   // speaker, place and time, written by the bot
	SourceContext   Source = "context"   // words of other people, from the platform
	SourceForeign   Source = "foreign"   // words of bots, and of people who may not use this one
	SourceFile      Source = "file"      // a file that was attached
	SourceKnowledge Source = "knowledge" // passages of the agent's files
	SourceNote      Source = "note"      // a remark of the bot
)

// Media is an image, or a sound for a Listener.
type Media struct {
	Type string // image/png, image/jpeg, image/webp, image/gif, or audio/…
	Data []byte
}

// Call is the model's request to run a tool.
type Call struct {
	ID   string          `json:"id"` // unique within the turn; generated if the provider sends none
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"` // a JSON object, or any JSON if malformed
}

// Result answers the Call of the same ID.
type Result struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Content string `json:"content"`
	IsError bool   `json:"isError,omitempty"`
}

// ToolSpec declares a tool to the model. Schema is the raw JSON Schema of its arguments.
type ToolSpec struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Request is a request to a model. Messages are well formed: they begin with the user, every call has its result, and
// roles alternate.
type Request struct {
	System   string
	Messages []Message
	Tools    []ToolSpec // none: the model must answer in text
	// Schema is the JSON Schema of the answer, or nil for free text. All objects must require all of their properties
	// and allow no others (OpenAI's rule). Some endpoints ignore or refuse schemas, so the request must also describe
	// the answer in words, and the answer must be checked.
	Schema json.RawMessage
	// MaxOutput lowers the configured limit of the answer's tokens; 0 keeps it.
	MaxOutput int
	// Temperature and Stop (stop sequences) are for requests of other programs. They may be nil.
	Temperature *float64
	Stop        []string
}

// WithoutTools returns the request for a model without tool calling, with earlier calls and results as text.
func (r Request) WithoutTools() Request {
	r.Tools = nil
	hasCalls := func(m Message) bool { return m.Role == ToolRole || len(m.Calls()) > 0 }
	if !slices.ContainsFunc(r.Messages, hasCalls) {
		return r
	}
	r.Messages = slices.Clone(r.Messages)
	for i, m := range r.Messages {
		if !hasCalls(m) {
			continue
		}
		parts := make([]Part, 0, len(m.Parts))
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				p = Part{Text: fmt.Sprintf("[called the tool %s with %s]\n", p.Call.Name, p.Call.Args)}
			case p.Result != nil:
				p = Part{Text: fmt.Sprintf("[result of the tool %s]\n%s\n[end of the result]\n", p.Result.Name, p.Result.Content)}
			}
			parts = append(parts, p)
		}
		if m.Role == ToolRole {
			m.Role = User
		}
		m.Parts = parts
		r.Messages[i] = m
	}
	return r
}

// OutputLimit returns the limit of the answer's tokens for a model with a configured limit; 0 means none.
func (r Request) OutputLimit(configured int) int {
	if r.MaxOutput > 0 && (configured == 0 || r.MaxOutput < configured) {
		return r.MaxOutput
	}
	return configured
}

// Chunk is a piece of an answer. Its Parts are appended; a text part continues the text before it. Usage counts so far,
// if reported. Finish is set on the last chunk.
type Chunk struct {
	Parts    []Part
	Usage    *Usage
	Finish   Finish
	ServedBy string // the model that really answered, if reported
	// WasThought marks all earlier text as reasoning.
	WasThought bool
	Note       string // a remark for the reader
}

// Finish is the reason for the end of an answer.
type Finish string

// The reasons. Providers convert their own reasons; unknown ones become FinishOther.
const (
	FinishStop      Finish = "stop"
	FinishLength    Finish = "length"    // cut at the output limit
	FinishBlocked   Finish = "blocked"   // withheld by a safety filter
	FinishMalformed Finish = "malformed" // a tool call that the provider could not parse
	FinishOversize  Finish = "oversize"  // cut by the bot: larger than any real answer
	FinishOther     Finish = "other"
)

// Usage is the number of tokens of a request.
type Usage struct {
	Input  int `json:"input"`
	Cached int `json:"cached,omitempty"` // part of Input
	Output int `json:"output"`           // thinking included
}

// Add returns the sum of two counts.
func (u Usage) Add(v Usage) Usage {
	return Usage{Input: u.Input + v.Input, Cached: u.Cached + v.Cached, Output: u.Output + v.Output}
}

// Sub returns the difference of two counts.
func (u Usage) Sub(v Usage) Usage {
	return Usage{Input: u.Input - v.Input, Cached: u.Cached - v.Cached, Output: u.Output - v.Output}
}

// Model answers requests. Generate streams one answer, which ends with a chunk with Finish or with one error (an *Error
// if the provider reported it). Leaving the loop or ending ctx cancels the request. Generate never retries and is safe
// for concurrent use.
type Model interface {
	// ID returns the provider and model, as "gemini/gemini-3.8-flash".
	ID() string
	Generate(ctx context.Context, r Request) iter.Seq2[Chunk, error]
}

// Origin identifies the source of a model's answers: its ID, and the endpoint unless it is the provider's own. The
// model's method Origin() string returns it.
func Origin(m Model) string {
	if named, ok := As[interface{ Origin() string }](m); ok {
		return named.Origin()
	}
	return m.ID()
}

// Embedder is a Model that returns vectors for texts, in their order. Vectors of similar direction mean similar texts.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, Usage, error)
}

// Kind classifies an Error by its remedy.
type Kind string

// The kinds of error.
const (
	RateLimited Kind = "rate limited" // wait, then try again
	Unavailable Kind = "unavailable"  // overloaded, broken or cut off; try again
	Blocked     Kind = "blocked"      // the prompt was refused; a retry does not help
	BadRequest  Kind = "bad request"  // the request is malformed or too large
	Denied      Kind = "denied"       // the key is invalid or may not use the model
	Exhausted   Kind = "exhausted"    // the day's quota or the account's credit is used up
	Capped      Kind = "over budget"  // a budget of the operator is used up; Reason is for the user
	TimedOut    Kind = "timed out"    // no answer began, or ended, in its time
	// ContextTooLong means that the request has too many tokens.
	ContextTooLong Kind = "context too long"
	// OutputLimit means that the limit was reached before there was an answer; Reason is for the user.
	OutputLimit Kind = "output limit"
	// BadCall means that the model wrote an unreadable tool call. A retry usually helps.
	BadCall Kind = "bad call"
)

// Selective is a Model that can answer only some requests, or only at some times. It is consulted before it replaces a
// failed model.
type Selective interface {
	CanAnswer(r Request) bool
}

// Listener is a Model that takes sounds as Media.
type Listener interface {
	// Hears reports whether the model takes sounds of a media type such as audio/ogg.
	Hears(mediaType string) bool
}

// As returns the optional ability of m, such as Listener, or of the model that m wraps, which has a method Unwrap()
// Model. It returns false if neither has the ability.
func As[T any](m Model) (T, bool) {
	for m != nil {
		if able, ok := m.(T); ok {
			return able, true
		}
		wrapper, ok := m.(interface{ Unwrap() Model })
		if !ok {
			break
		}
		m = wrapper.Unwrap()
	}
	var none T
	return none, false
}

// Error is a failure that the provider reported, or a failure to reach the provider.
type Error struct {
	Kind       Kind
	Provider   string        // "gemini"
	RetryAfter time.Duration // the pause that the provider asks for, or zero
	Reason     string        // in the provider's words, for the operator
	// CircuitOpen means that the model gets no requests for RetryAfter, because it failed repeatedly. The other fields
	// describe its last failure.
	CircuitOpen bool
	Err         error
}

// maxErrorChars bounds the provider's words in an error, which may quote the whole request.
const maxErrorChars = 500

// Error returns one line with the kind and the provider's words.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s", e.Provider, e.Kind)
	if e.CircuitOpen {
		s = fmt.Sprintf("%s: not asked for %v, after repeated failures: %s", e.Provider,
			e.RetryAfter.Round(time.Second), e.Kind)
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	if e.Err != nil {
		s += ": " + text.ErrorLine(e.Err.Error(), maxErrorChars)
	}
	return s
}

// Words returns all words of the provider. Error cuts them.
func (e *Error) Words() string {
	if e.Err == nil {
		return e.Reason
	}
	return e.Reason + " " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// IsRetryable reports whether the same request to the same model may succeed later. TimedOut is not retryable, because
// the next model is faster.
func (e *Error) IsRetryable() bool {
	return !e.CircuitOpen && (e.Kind == RateLimited || e.Kind == Unavailable || e.Kind == BadCall)
}

// ReadingError returns the error of an answer that could not be read to its end. Answers that are too large are not
// requested again.
func ReadingError(provider string, err error) *Error {
	if errors.Is(err, bufio.ErrTooLong) {
		return &Error{Kind: OutputLimit, Provider: provider, Reason: "it sent more at once than I read", Err: err}
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &Error{
			Kind:     OutputLimit,
			Provider: provider,
			Reason:   fmt.Sprintf("it sent more than %d MiB", tooLarge.Limit>>20),
			Err:      err,
		}
	}
	return &Error{Kind: Unavailable, Provider: provider, Err: err}
}

// Text returns the text for the reader.
func (m Message) Text() string {
	var s string
	for _, p := range m.Parts {
		if !p.Thought {
			s += p.Text
		}
	}
	return s
}

// Calls returns the tool calls of a message in order, or nil.
func (m Message) Calls() []Call {
	var calls []Call
	for _, p := range m.Parts {
		if p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}
