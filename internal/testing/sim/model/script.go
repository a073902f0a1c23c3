package simmodel

import (
	"encoding/json"
	"iter"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/text"
)

// The protocols a request may come by.
const (
	Gemini       = "gemini"
	Vertex       = "vertex" // Gemini at Vertex AI
	OpenAI       = "openai"
	GoogleOpenAI = "google-openai" // Google's OpenAI-compatible base
	Anthropic    = "anthropic"     // the Messages API
)

// Request is what the model is asked, in terms of no provider.
type Request struct {
	At       time.Time
	API      string // a protocol, or the name of an endpoint
	Model    string
	Stream   bool
	System   string
	Messages []Message
	Tools    []Tool
	ToolMode string // "", AUTO, ANY or NONE, whatever the protocol calls it
	Store    *bool  // Gemini's opt-out of storage; nil: not sent
	// Temperature is read of Gemini's requests alone; nil: not sent.
	Temperature *float64
	Raw         json.RawMessage
}

// Roles of messages.
const (
	RoleUser  = "user"
	RoleModel = "model"
	RoleTool  = "tool" // results of calls
)

// Message is one turn.
type Message struct {
	Role    string
	Text    string
	Calls   []Call
	Results []Result
}

// Call is a tool call; Args is a JSON object, but for OpenAI it may be any
// text, so that broken arguments can be played. An empty ID in a Reply is filled in.
type Call struct {
	ID, Name string
	Args     json.RawMessage
}

// Result answers a call. Content is what was sent: a JSON object to Gemini,
// any text to OpenAI. OpenAI sends no Name.
type Result struct {
	ID, Name string
	Content  string
}

// Tool is a declaration; Schema is what stood in the request.
type Tool struct {
	Name, Description string
	Schema            json.RawMessage
}

// Last returns the last message.
func (r Request) Last() Message {
	if len(r.Messages) == 0 {
		return Message{}
	}
	return r.Messages[len(r.Messages)-1]
}

// Asked returns the words of the last message of the user, without what the bot tells about them:
// who speaks and when, what the message is about, notes. LastUserText has everything.
func (r Request) Asked() string {
	words := contextBlock().ReplaceAllString(r.LastUserText(), "")
	return speakerLine().ReplaceAllString(words, "")
}

// contextBlock matches the blocks in brackets before and behind the words.
var contextBlock = text.Pattern(`(?s)\[About the next message\..*?\nEnd of what it is about\.\]\n|` +
	`\n?\[(?:Notes from memory|Passages of your files) .*?\nEND-[0-9a-f]+\]\n`)

// speakerLine matches "Anna says (Sunday, 22 November 2026, 08:30 UTC):" and its shorter forms.
var speakerLine = text.Pattern(`(?m)^(?:\S.{0,100} says(?: \(\w+, \d[^()\n]+\))?:|\(\w+, \d[^()\n]+\))\n+`)

// LastUserText returns the text of the last message of the user as it was sent.
func (r Request) LastUserText() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == RoleUser && r.Messages[i].Text != "" {
			return r.Messages[i].Text
		}
	}
	return ""
}

// Declares reports whether a tool is declared and may be called.
func (r Request) Declares(name string) bool {
	for _, t := range r.Tools {
		if t.Name == name && r.ToolMode != "NONE" {
			return true
		}
	}
	return false
}

// Usage counts tokens.
type Usage struct{ Prompt, Output, Thoughts, Cached int }

// Reply is what the model does. The first of Status, Hang, Malformed and
// Block that is set decides; else it answers.
type Reply struct {
	Thoughts string
	Text     []string // chunks of a stream; joined otherwise
	Calls    []Call   // in parallel
	Usage    *Usage   // nil: estimated
	Finish   string   // in Gemini's words; "": STOP
	Block    string   // block reason of the prompt
	Served   string   // model that answered; "": the one asked

	Status     int           // HTTP error
	Message    string        // of the error
	RetryAfter time.Duration // RetryInfo or Retry-After of the error
	Body       string        // of the error, in place of the protocol's form

	Delay      time.Duration // before the first byte
	ChunkDelay time.Duration // between the chunks of a stream
	CutAfter   int           // connection is cut after so many bytes of body
	CutClean   bool          // the body ends there instead, as if it were whole
	Whole      bool          // one JSON body, though a stream was asked for
	Malformed  bool          // status 200 with broken JSON
	Hang       bool          // until the caller leaves
	Endless    bool          // a stream repeats Text until the caller leaves
}

// texts returns the chunks of a stream of text, again and again where the reply is endless.
func (r Reply) texts() iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			for _, text := range r.Text {
				if !yield(text) {
					return
				}
			}
			if !r.Endless {
				return
			}
		}
	}
}

// Script decides what the model does. It is called from many goroutines.
type Script func(Request) Reply

// Say replies with a text in one chunk.
func Say(text string) Reply { return Reply{Text: []string{text}} }

// Echo answers with what the user said, word by word, and quotes results of tools.
func Echo(r Request) Reply {
	if results := r.Last().Results; len(results) > 0 {
		return Say(quoteResults(results))
	}
	return Reply{Text: strings.SplitAfter(r.Asked(), " ")}
}

// quoteResults returns what tools returned, one after the other.
func quoteResults(results []Result) string {
	var b strings.Builder
	for _, res := range results {
		b.WriteString("result: ")
		b.WriteString(res.Content)
	}
	return b.String()
}

// CallTool calls a tool once and answers with the result; args is a JSON object.
func CallTool(name, args string) Script {
	return func(r Request) Reply {
		if len(r.Last().Results) > 0 || !r.Declares(name) {
			return Echo(r)
		}
		return Reply{Calls: []Call{{Name: name, Args: json.RawMessage(args)}}}
	}
}

// Sequence returns the replies one after the other, whoever asks; the last one stays.
func Sequence(replies ...Reply) Script {
	var mu sync.Mutex
	next := 0
	return func(Request) Reply {
		mu.Lock()
		defer mu.Unlock()
		r := replies[min(next, len(replies)-1)]
		next++
		return r
	}
}
