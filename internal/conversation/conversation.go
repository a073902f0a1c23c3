// Package conversation holds the transcript of a conversation as a value: turns,
// the one function that builds a provider's request from them (Build), and the
// window of turns that is sent (Window). It promises that whatever was stored,
// in whatever state a crash left it, Build's messages are well formed: they begin
// with the user, roles alternate, every call has exactly one result directly
// after it, and no result stands alone. It does no I/O and knows no provider.
package conversation

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"ravenbot/internal/llm"
)

// State is how far a turn has come.
type State string

// The states of a turn.
const (
	Open     State = "open"     // being worked on, or cut off by a crash
	Answered State = "answered" // its last message is the answer
	Failed   State = "failed"   // the user was told that it failed
)

// Turn is one message of a user and all that followed from it.
type Turn struct {
	// ID is the key of the message that began the turn.
	ID string `json:"id"`
	// Of are the identities of the messages that the turn answers; each is one of
	// the user messages that Messages begins with, in the same order. Empty: ID
	// alone.
	Of []string `json:"of,omitempty"`
	// Seq orders turns within their conversation; zero until first stored.
	Seq      uint64        `json:"seq,omitempty"`
	Began    time.Time     `json:"began"`
	State    State         `json:"state"`
	Messages []llm.Message `json:"messages"`
	Usage    llm.Usage     `json:"usage"`
	// Counted is the part of Usage that the store has added to its sums.
	Counted llm.Usage `json:"counted,omitzero"`
	Model   string    `json:"model,omitempty"`  // the configured name of the model that answered last
	User    string    `json:"user,omitempty"`   // platform and id of who asked; empty: several people
	Served  string    `json:"served,omitempty"` // the model that gave the answer
	Error   string    `json:"error,omitempty"`  // reference under which the log has the fault
}

// Subjects are the identities of the messages that the turn answers.
func (t Turn) Subjects() []string {
	if len(t.Of) == 0 {
		return []string{t.ID}
	}
	return t.Of
}

// Summary stands for the turns of a conversation that are no longer sent.
type Summary struct {
	Upto uint64    `json:"upto"` // Seq of the last turn that it stands for; 0: there is none
	Text string    `json:"text"`
	By   string    `json:"by,omitempty"` // the model that wrote it; empty: sentences taken from the turns
	At   time.Time `json:"at"`
}

// Size estimates what a turn adds to a request, in bytes of text.
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

// Window bounds what of a conversation is sent to the model.
type Window struct {
	MaxTurns       int // most turns
	MaxBytes       int // most text over all turns, as Turn.Size counts
	MaxResultBytes int // most bytes of one tool result of an earlier turn
}

// DefaultWindow keeps requests small enough that their cost does not grow with
// the age of a conversation: about 12,000 tokens.
func DefaultWindow() Window { return Window{MaxTurns: 40, MaxBytes: 48 << 10, MaxResultBytes: 2 << 10} }

// Fits reports whether turns may be sent as they are.
func (w Window) Fits(turns []Turn) bool {
	return len(turns) <= w.MaxTurns && totalSize(turns) <= w.MaxBytes
}

// wholeResultTurns is how many turns keep their tool results whole when the window is
// exceeded; stub is how many bytes the others keep of each.
const (
	wholeResultTurns = 4
	stubBytes        = 200
)

// Trim returns the newest turns that fit. When the window is exceeded, tool results
// of older turns go first; where that is not enough it cuts to half, so that a
// provider's prompt cache is not spoilt at every turn. It never cuts inside a turn,
// and keeps the last one whatever its size.
func (w Window) Trim(turns []Turn) []Turn {
	if w.Fits(turns) {
		return turns
	}
	if turns = dropOldResults(turns); w.Fits(turns) {
		return turns
	}
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

// dropOldResults cuts the tool results of all but the newest turns.
func dropOldResults(turns []Turn) []Turn {
	out := slices.Clone(turns)
	for i := range max(0, len(out)-wholeResultTurns) {
		out[i].Messages = slices.Clone(out[i].Messages)
		for j, m := range out[i].Messages {
			if m.Role == llm.ToolRole {
				out[i].Messages[j].Parts = shortenResults(m.Parts)
			}
		}
	}
	return out
}

func shortenResults(parts []llm.Part) []llm.Part {
	out := slices.Clone(parts)
	for i, p := range out {
		if p.Result != nil && len(p.Result.Content) > 2*stubBytes { // what was cut before is shorter
			r := *p.Result
			r.Content = Cut(r.Content, stubBytes)
			out[i].Result = &r
		}
	}
	return out
}

func totalSize(turns []Turn) int {
	n := 0
	for _, t := range turns {
		n += t.Size()
	}
	return n
}

// Cut shortens s to at most n bytes on a rune border and says how much is gone.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := max(n, 0)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "\n[cut: " + strconv.Itoa(len(s)-cut) + " more bytes]"
}
