// Package llm is the vocabulary between the agent and language models: what is asked (Request), what is answered
// (Chunk), what it cost (Usage) and what can go wrong (Error).
//
// A Part keeps a provider's own bytes, so that a stored conversation can be continued with its thought signatures and
// call ids. Of this project the package imports text alone; each provider is a package below it.
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

// Role says who wrote a Message.
type Role string

// The roles. A tool message holds the results of the calls in the model message before it.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Message is what one role said, as a list of parts in order.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
	// Origin is what the function Origin returned for the model that wrote an assistant message; its parts' Raw bytes
	// mean something to that model alone.
	Origin string `json:"origin,omitempty"`
}

// Part is a piece of a message. One of Text, Call, Result and Media is set, or none of them where Raw alone matters
// (a signature on an empty part).
type Part struct {
	Text    string  `json:"text,omitempty"`
	Thought bool    `json:"thought,omitempty"` // Text is the model's reasoning, not meant for the reader
	Call    *Call   `json:"call,omitempty"`
	Result  *Result `json:"result,omitempty"`
	// Raw is the provider's own form of the part, or what the provider adds to it. It is sent back unchanged.
	Raw json.RawMessage `json:"raw,omitempty"`
	// Media is an image or a sound from the user. It is not stored.
	Media *Media `json:"-"`
	// Source says where Text comes from; empty: it is the words of whoever the role names.
	Source Source `json:"source,omitempty"`
	// Subject is the identity (chat.Message.Subject) of the message that Text quotes; empty: it
	// quotes none, or one that is not known.
	Subject string `json:"subject,omitempty"`
	// Origin says whose words Text or Result holds. In turns from before November 2026 Source alone says it.
	Origin origin.Origin `json:"origin,omitzero"`
}

// Source says where the text of a user's part comes from. Only SourceWords was said to the bot.
type Source string

// The sources of parts.
const (
	SourceWords     Source = ""          // the words of who speaks
	SourceSpeaker   Source = "speaker"   // who speaks, where and when: written by the bot
	SourceContext   Source = "context"   // what other people said, as the platform tells it
	SourceForeign   Source = "foreign"   // the same of bots, and of people who may not use this one
	SourceFile      Source = "file"      // a file that was attached
	SourceKnowledge Source = "knowledge" // passages of the agent's files
	SourceNote      Source = "note"      // a remark of the bot
)

// Media is an image for the model to look at, or a sound for one that is a Listener.
type Media struct {
	Type string // image/png, image/jpeg, image/webp, image/gif, or audio/…
	Data []byte
}

// Call is the model's request to run a tool.
type Call struct {
	ID   string          `json:"id"` // unique within the conversation's turn; generated where the provider sends none
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"` // a JSON object; anything the model sent where it is malformed
}

// Result answers the Call of the same ID.
type Result struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Content string `json:"content"`
	IsError bool   `json:"isError,omitempty"`
}

// ToolSpec declares a tool to the model. Schema is the raw JSON Schema of its
// arguments; each provider turns it into what it takes.
type ToolSpec struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Request is everything that the model gets. Messages are well formed: they begin with the user, every call has its
// result, and roles alternate.
type Request struct {
	System   string
	Messages []Message
	Tools    []ToolSpec // none: the model must answer in text, though Messages may hold earlier calls
	// Schema is the JSON Schema of the answer; nil: it is free text. Every object of it has to name all of its
	// properties as required and to allow no others, which OpenAI asks for. Endpoints that take no schema ignore or
	// refuse it, so the request has to say in words, too, what is wanted, and the answer has to be checked.
	Schema json.RawMessage
	// MaxOutput lowers the limit of the answer's tokens that the model is configured with; 0: that one holds.
	MaxOutput int
	// Temperature and Stop, the texts at which to stop, are for requests that somebody else has made; nil: the model's
	// own.
	Temperature *float64
	Stop        []string
}

// WithoutTools returns the request for a model that takes no tools. It declares none, and writes earlier calls and
// their results as text.
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

// OutputLimit returns the most tokens that an answer may have where a model is configured with a limit; 0 is none.
func (r Request) OutputLimit(configured int) int {
	if r.MaxOutput > 0 && (configured == 0 || r.MaxOutput < configured) {
		return r.MaxOutput
	}
	return configured
}

// Chunk is a piece of an answer as it streams in. Parts are new and are appended; a text part continues the text
// before it. Usage counts so far and is set when the provider reports it; Finish is set on the last chunk.
type Chunk struct {
	Parts    []Part
	Usage    *Usage
	Finish   Finish
	ServedBy string // the model that really answered, where the provider reports it
	// WasThought says that all text before this chunk was the model's reasoning and not its answer.
	WasThought bool
	Note       string // a remark for the reader about how the answer was made
}

// Finish says why the answer ended.
type Finish string

// The ways in which an answer ends. Providers map their own reasons to these; unknown ones become FinishOther.
const (
	FinishStop      Finish = "stop"
	FinishLength    Finish = "length"    // cut at the output limit
	FinishBlocked   Finish = "blocked"   // withheld by a safety filter
	FinishMalformed Finish = "malformed" // a tool call that the provider could not parse
	FinishOversize  Finish = "oversize"  // cut by the bot, because it was larger than any real answer
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

// Model answers requests. Generate streams one answer: the sequence ends after the chunk with Finish set, or with one
// error (an *Error where the provider reported what is wrong). Leaving the loop early or ending ctx cancels the
// request. Generate never retries and is safe for concurrent use.
type Model interface {
	// ID returns the provider and model, as "gemini/gemini-3.8-flash".
	ID() string
	Generate(ctx context.Context, r Request) iter.Seq2[Chunk, error]
}

// Origin returns what identifies the answers of a model: its ID, and the endpoint unless that is the provider's own. A
// model with a method Origin() string names its endpoint.
func Origin(m Model) string {
	if named, ok := As[interface{ Origin() string }](m); ok {
		return named.Origin()
	}
	return m.ID()
}

// Embedder is a Model that returns vectors for texts, in their order: the closer the direction of two vectors, the
// closer the meaning of their texts. Errors are like those of Generate.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, Usage, error)
}

// Kind classifies an Error by what can be done about it.
type Kind string

// The kinds of error.
const (
	RateLimited Kind = "rate limited" // wait, then try again
	Unavailable Kind = "unavailable"  // overloaded, broken or cut off; try again
	Blocked     Kind = "blocked"      // the prompt was refused; repeating it does not help
	BadRequest  Kind = "bad request"  // our request is malformed or too large
	Denied      Kind = "denied"       // the key is invalid or may not use the model
	Exhausted   Kind = "exhausted"    // the day's quota or the account's credit is used up
	Capped      Kind = "over budget"  // a budget of the operator is used up; Reason is for whoever asked
	TimedOut    Kind = "timed out"    // no answer began, or ended, in its time
	// ContextTooLong says that the request has more tokens than the model takes.
	ContextTooLong Kind = "context too long"
	// OutputLimit says that the answer was used up before there was anything to read; Reason is for whoever asked.
	OutputLimit Kind = "output limit"
	// BadCall says that the model wrote a tool call that cannot be read. Asking again helps as a rule.
	BadCall Kind = "bad call"
)

// Selective is a Model that can answer only some requests, such as the offline one, or at some times. It is asked
// before it is used instead of a model that failed.
type Selective interface {
	CanAnswer(r Request) bool
}

// Listener is a Model that takes sounds as Media.
type Listener interface {
	// Hears reports whether the model takes sounds of a media type such as audio/ogg.
	Hears(mediaType string) bool
}

// As returns m as an optional ability such as Listener, or the model that m wraps: one with a method
// Unwrap() Model. It returns false where neither has the ability.
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
	RetryAfter time.Duration // how long the provider asks to wait; zero where it did not say
	Reason     string        // in the provider's words, for the operator
	// CircuitOpen says that the model is not asked for RetryAfter, because it failed repeatedly. Kind and the rest tell
	// of its last failure.
	CircuitOpen bool
	Err         error
}

// maxErrorChars bounds what a provider says in the text of an error, which may quote the whole request.
const maxErrorChars = 500

// Error returns one line: what happened, and what the provider said of it.
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

// Words returns all that the provider said, however long. Error cuts it.
func (e *Error) Words() string {
	if e.Err == nil {
		return e.Reason
	}
	return e.Reason + " " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// IsRetryable reports whether the same request may succeed later, from the same model. TimedOut is not among them: what
// took too long once is asked of the next model.
func (e *Error) IsRetryable() bool {
	return !e.CircuitOpen && (e.Kind == RateLimited || e.Kind == Unavailable || e.Kind == BadCall)
}

// ReadingError returns the error of an answer that could not be read to its end. A body that http.MaxBytesReader ended,
// or a line of it that is too long for a bufio.Scanner, is not asked for again.
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

// Text returns the text that is meant for the reader.
func (m Message) Text() string {
	var s string
	for _, p := range m.Parts {
		if !p.Thought {
			s += p.Text
		}
	}
	return s
}

// Calls returns the tool calls of a message in order; nil if there are none.
func (m Message) Calls() []Call {
	var calls []Call
	for _, p := range m.Parts {
		if p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}
