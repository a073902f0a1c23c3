package mcp

import (
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/text"
)

// LogLine is one line of a server's log. Stream is stderr, stdout (output other than messages), message (a log
// notification) or bot (an action of the bot).
type LogLine struct {
	Time   time.Time `json:"time"`
	Stream string    `json:"stream,omitempty"`
	Text   string    `json:"text"`
}

const (
	// The log of a server has at most maxLogLines lines of maxLogLine bytes, 1 MB.
	maxLogLines = 500
	maxLogLine  = 2 << 10 // bytes
)

// logBuffer contains the newest raw lines of a server. They are cleaned when read, so that a flood costs little. It is
// safe for concurrent use.
type logBuffer struct {
	now     func() time.Time
	mu      sync.Mutex
	entries []LogLine // oldest first
}

func (r *logBuffer) add(stream string, text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// append moves the lines to new memory from time to time, which frees the old ones.
	r.entries = append(r.entries, LogLine{r.now(), stream, string(text[:min(len(text), maxLogLine)])})
	r.entries = r.entries[max(0, len(r.entries)-maxLogLines):]
}

// lines returns all lines, oldest first, cleaned and with masked secrets.
func (r *logBuffer) lines(mask func(string) string) []LogLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Clone(r.entries)
	for i := range list {
		list[i].Text = mask(text.Clean(list[i].Text))
	}
	return list
}

// npmLogNote is in the last line of errors of npm and npx, which contains no reason.
const npmLogNote = "A complete log of this run can be found in"

// linesSince returns the meaningful lines of a stream since a time, oldest first.
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
