package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/text"
)

// LogLine is one line of a server's log. Stream is stderr, stdout (output that is not a
// message), message (a log notification) or bot (what we did).
type LogLine struct {
	Time   time.Time `json:"time"`
	Stream string    `json:"stream,omitempty"`
	Text   string    `json:"text"`
}

const (
	// maxLogLines lines of maxLogLine bytes, 1 MB, are the most that the log of one server holds in
	// memory.
	maxLogLines = 500
	maxLogLine  = 2 << 10 // bytes
	// maxSavedLines and maxSavedBytes bound what is kept of a log over restarts.
	maxSavedLines = 200
	maxSavedBytes = 64 << 10
	// minSaveInterval is the minimum time between two saves of the logs.
	minSaveInterval = 2 * time.Second
)

// logBuffer holds the newest lines of a server as they came: a ring once there are maxLogLines.
// Room is used again, and lines are cleaned when read, so that a flood costs little. It is safe for
// concurrent use.
type logBuffer struct {
	now      func() time.Time
	appended chan<- struct{} // poked at each line; nil: nobody keeps them
	mu       sync.Mutex
	entries  []logEntry
	next     int  // index in entries of the next line
	unsaved  bool // there are lines that were not saved yet
}

type logEntry struct {
	at     time.Time
	stream string
	text   []byte
}

// add appends a line; only its first maxLogLine bytes are kept.
func (r *logBuffer) add(stream string, text []byte) {
	text = text[:min(len(text), maxLogLine)]
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries) < maxLogLines {
		r.entries = append(r.entries, logEntry{})
	}
	w := &r.entries[r.next]
	w.at, w.stream, w.text = r.now(), stream, append(w.text[:0], text...)
	r.next = (r.next + 1) % maxLogLines
	if r.unsaved = true; r.appended != nil {
		wake(r.appended)
	}
}

// prepend adds the lines of an earlier process, which are masked already. It is called before the
// first add: it expects a ring that is not full, and only the newest maxLogLines of the lines are
// kept.
func (r *logBuffer) prepend(lines []LogLine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range lines[max(0, len(lines)-maxLogLines):] {
		r.entries = append(r.entries, logEntry{l.Time, l.Stream, []byte(l.Text)})
	}
	r.next = len(r.entries) % maxLogLines
}

// lines returns all lines, oldest first, cleaned and with secrets masked.
func (r *logBuffer) lines(mask func(string) string) []LogLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]LogLine, 0, len(r.entries))
	for i := range r.entries {
		if len(r.entries) == maxLogLines { // the ring is full: the oldest entry is at next
			i = (r.next + i) % maxLogLines
		}
		w := r.entries[i]
		list = append(list, LogLine{w.at, w.stream, mask(text.Clean(string(w.text)))})
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

// takeUnsaved returns the lines to save; false: there are no new ones.
func (r *logBuffer) takeUnsaved(mask func(string) string) ([]LogLine, bool) {
	r.mu.Lock()
	// Cleared before the lines are read: one that comes in between is saved twice, not lost.
	fresh := r.unsaved
	r.unsaved = false
	r.mu.Unlock()
	if !fresh {
		return nil, false
	}
	list := r.lines(mask)
	list = list[max(0, len(list)-maxSavedLines):]
	const around = 80 // bytes of JSON around the text of a line
	room := maxSavedBytes
	for i := len(list) - 1; i >= 0; i-- {
		if room -= len(encodeJSON(list[i].Text)) + around; room < 0 {
			return list[i+1:], true
		}
	}
	return list, true
}

// runLogSaver saves the logs of servers until ctx ends, at most every minSaveInterval.
func (h *Host) runLogSaver(ctx context.Context) {
	for {
		select {
		case <-h.logAppended:
			h.saveLogs()
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(minSaveInterval):
		case <-ctx.Done():
			return
		}
	}
}

// saveLogs saves the logs that have new lines.
func (h *Host) saveLogs() {
	for _, s := range h.sortedServers() {
		if list, fresh := s.logs.takeUnsaved(s.mask); fresh {
			s.saveOrLog(kindLog, list)
		}
	}
}

// restoreLog takes over the log of an earlier process.
func (s *server) restoreLog(from savedRecord) {
	err := from.err
	var list []LogLine
	if err == nil && from.data != nil {
		err = json.Unmarshal(from.data, &list)
	}
	if err != nil {
		s.log.Warn("saved log of mcp server not read", "error", err)
	}
	s.logs.prepend(list)
}
