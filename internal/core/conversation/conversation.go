// Package conversation defines the transcript of a conversation: its turns, the only function that builds the messages
// of a request from them (Build), and the window of turns that is sent (Window). It promises that Build's messages are
// well formed for any stored turns, even after a crash: they begin with the user, roles alternate, every call has
// exactly one result directly after it, and every result has a call. It does no I/O and knows no provider.
//
// A Turn is one question with all steps up to its answer, in its stored form. Window chooses the turns of a request. A
// Summary replaces older turns up to a number, and the turns after that number are complete.
package conversation

import (
	"slices"
	"strconv"
	"time"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/text"
)

// State is the progress of a turn.
type State string

const (
	Open     State = "open"     // in progress, or cut off by a crash
	Answered State = "answered" // its last message is the answer
	Failed   State = "failed"   // the user has received an error
)

// Turn is one or more messages of users and the work on them.
type Turn struct {
	// ID is the key of the first message of the turn.
	ID string `json:"id"`
	// Of are the subjects of the messages that the turn answers, in the order of the first user messages in Messages.
	// If it is empty, ID is the only one.
	Of []string `json:"of,omitempty"`
	// Seq orders turns within their conversation. It is zero until the turn is first stored.
	Seq      uint64        `json:"seq,omitempty"`
	Began    time.Time     `json:"began"`
	State    State         `json:"state"`
	Messages []llm.Message `json:"messages"`
	Usage    llm.Usage     `json:"usage"`
	// Counted is the part of Usage that the store has added to its sums.
	Counted llm.Usage `json:"counted,omitzero"`
	Model   string    `json:"model,omitempty"`  // the configured name of the last model that answered
	User    string    `json:"user,omitempty"`   // platform and id of the asker; empty for several people
	Served  string    `json:"served,omitempty"` // the model that wrote the answer
	Error   string    `json:"error,omitempty"`  // log reference of the error
	// Origin holds the sources that the turn has read. Its Authors are empty in turns from before November 2026.
	origin.Origin
}

// Subjects returns the subjects of the messages that the turn answers.
func (t Turn) Subjects() []string {
	if len(t.Of) == 0 {
		return []string{t.ID}
	}
	return t.Of
}

// Quotes returns the subjects of the messages that the turn quotes.
func (t Turn) Quotes() []string {
	var list []string
	for _, m := range t.Messages {
		for _, p := range m.Parts {
			if p.Subject != "" {
				list = append(list, p.Subject)
			}
		}
	}
	return list
}

// WithoutQuote returns a copy of the turn without the quote of a message.
func (t Turn) WithoutQuote(subject string) Turn {
	t.Messages = slices.Clone(t.Messages)
	for i, m := range t.Messages {
		t.Messages[i].Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p llm.Part) bool { return p.Subject == subject })
	}
	return t
}

// Summary replaces the turns of a conversation that are no longer sent.
type Summary struct {
	Upto uint64    `json:"upto"` // Seq of the last turn that it covers; 0 if there is none
	Text string    `json:"text"`
	By   string    `json:"by,omitempty"` // the model that wrote it; empty for sentences taken from the turns
	At   time.Time `json:"at"`
	// From is the Seq of the first turn whose words it may hold, and Since the time of that turn. Both are zero in
	// summaries from before these were recorded.
	From  uint64    `json:"from,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Origin holds the sources that the turns had read.
	origin.Origin
}

// Size returns the approximate bytes of text that a turn adds to a request.
func (t Turn) Size() int {
	n := 0
	for _, m := range t.Messages {
		for _, p := range m.Parts {
			n += len(p.Text)
			if p.Call != nil {
				n += len(p.Call.Name) + len(p.Call.Args)
			}
			if p.Result != nil {
				n += len(p.Result.Content)
			}
		}
	}
	return n
}

// Window limits the part of a conversation that is sent to the model unsummarized. Older turns are summarized. Until
// the summary is ready, turns up to twice the window are sent.
type Window struct {
	MaxTurns int
	MaxBytes int // of all turns, as Turn.Size counts
}

// BytesPerToken is the approximate number of bytes of text in a token.
const BytesPerToken = 4

// DefaultWindow returns a window of about 16,000 tokens, so that the cost of a request does
// not grow with the age of a conversation.
func DefaultWindow() Window { return Window{MaxTurns: 40, MaxBytes: 16_000 * BytesPerToken} }

// Fits reports whether turns may be sent unchanged.
func (w Window) Fits(turns []Turn) bool {
	return len(turns) <= w.MaxTurns && totalSize(turns) <= w.MaxBytes
}

// Limit returns the window beyond which turns are left out even if no summary covers them.
func (w Window) Limit() Window { return Window{MaxTurns: 2 * w.MaxTurns, MaxBytes: 2 * w.MaxBytes} }

// wholeResultTurns is the number of turns that keep their tool results when the window is exceeded. stubBytes is the
// number of bytes that the other turns keep of each result.
const (
	wholeResultTurns = 4
	stubBytes        = 200
)

// Shorten returns turns with shortened tool results in all turns except the newest, and true, if that frees a quarter
// of the window. Otherwise it returns the turns and false. A smaller gain would not last, and every change of old
// turns invalidates the providers' caches.
func (w Window) Shorten(turns []Turn) ([]Turn, bool) {
	shorter := dropOldResults(turns)
	if len(turns) > w.MaxTurns || totalSize(shorter) > w.MaxBytes/4*3 {
		return turns, false
	}
	return shorter, true
}

// Trim returns the newest turns that fit. If the window is exceeded, it shortens the tool results of older turns
// first. If that is not enough, it drops turns until half of the window is free. It never cuts inside a turn, and
// keeps the last one whatever its size.
func (w Window) Trim(turns []Turn) []Turn {
	if w.Fits(turns) {
		return turns
	}
	if turns = dropOldResults(turns); w.Fits(turns) {
		return turns
	}
	// Cutting to half keeps the beginning of the request, which providers cache, the same for many turns.
	kept, size := 0, 0
	for i := len(turns) - 1; i >= 0; i-- {
		size += turns[i].Size()
		if kept > 0 && (kept >= max(1, w.MaxTurns/2) || size > w.MaxBytes/2) {
			break
		}
		kept++
	}
	return turns[len(turns)-kept:]
}

// Newest returns the newest turns whose total size is at most maxBytes. There may be none.
func Newest(turns []Turn, maxBytes int) []Turn {
	from := len(turns)
	for from > 0 && turns[from-1].Size() <= maxBytes {
		from--
		maxBytes -= turns[from].Size()
	}
	return turns[from:]
}

// WithShortResults returns a copy of the turn with shortened results of all tools except the tools that were called
// last.
func (t Turn) WithShortResults() Turn {
	t.Messages = slices.Clone(t.Messages)
	isLast := true
	for i, m := range slices.Backward(t.Messages) {
		if m.Role != llm.ToolRole {
			continue
		}
		if !isLast {
			t.Messages[i].Parts = shortenResults(m.Parts)
		}
		isLast = false
	}
	return t
}

// dropOldResults shortens the tool results of all turns except the newest.
func dropOldResults(turns []Turn) []Turn {
	out := slices.Clone(turns)
	for i := range max(0, len(out)-wholeResultTurns) {
		out[i].Messages = slices.Clone(out[i].Messages) // the caller's turns stay unchanged
		for j, m := range out[i].Messages {
			if m.Role == llm.ToolRole {
				out[i].Messages[j].Parts = shortenResults(m.Parts)
			}
		}
	}
	return out
}

// shortenResults returns a copy of parts in which long results keep only their first stubBytes.
func shortenResults(parts []llm.Part) []llm.Part {
	out := slices.Clone(parts)
	for i, p := range out {
		if p.Result != nil && len(p.Result.Content) > 2*stubBytes { // an earlier cut is shorter
			r := *p.Result
			r.Content = Cut(r.Content, stubBytes)
			out[i].Result = &r
		}
	}
	return out
}

// totalSize returns the size of turns, as Turn.Size counts.
func totalSize(turns []Turn) int {
	n := 0
	for _, t := range turns {
		n += t.Size()
	}
	return n
}

// Cut returns s. If s has more than n bytes, it returns its beginning and a note with the number of missing bytes. It
// never cuts within a character.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	head := text.Cut(s, n)
	return head + "\n[cut: " + strconv.Itoa(len(s)-len(head)) + " more bytes]"
}
