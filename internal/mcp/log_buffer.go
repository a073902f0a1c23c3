package mcp

import (
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/text"
)

// LogLine is one line of a server's log. Stream is stderr, stdout (output that is not a
// message), message (a log notification) or bot (what we did).
type LogLine struct {
	Time   time.Time `json:"time"`
	Stream string    `json:"stream,omitempty"`
	Text   string    `json:"text"`
}

const (
	// maxLogLines lines of maxLogLine bytes, 1 MB, are the most that the log of one server holds.
	maxLogLines = 500
	maxLogLine  = 2 << 10 // bytes
)

// logBuffer holds the newest lines of a server as they came; they are cleaned when read, so that a flood costs little.
// It is safe for concurrent use.
type logBuffer struct {
	now     func() time.Time
	mu      sync.Mutex
	entries []LogLine // oldest first
}

// add appends a line; only its first maxLogLine bytes are kept.
func (r *logBuffer) add(stream string, text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// append moves the lines to new memory now and then, which frees those that are cut off here.
	r.entries = append(r.entries, LogLine{r.now(), stream, string(text[:min(len(text), maxLogLine)])})
	r.entries = r.entries[max(0, len(r.entries)-maxLogLines):]
}

// lines returns all lines, oldest first, cleaned and with secrets masked.
func (r *logBuffer) lines(mask func(string) string) []LogLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Clone(r.entries)
	for i := range list {
		list[i].Text = mask(text.Clean(list[i].Text))
	}
	return list
}

// npmLogNote is how npm and npx end what they say of an error, without its reason.
const npmLogNote = "A complete log of this run can be found in"

// linesSince returns the lines of a stream that say something and were written at a time or later, oldest first.
func (r *logBuffer) linesSince(began time.Time, stream string, mask func(string) string) []string {
	var said []string
	for _, l := range r.lines(mask) {
		line := strings.TrimSpace(l.Text)
		if l.Stream == stream && !l.Time.Before(began) && line != "" && !strings.Contains(line, npmLogNote) {
			said = append(said, line)
		}
	}
	return said
}
