package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"
)

// LogLine is a line that a server wrote. Stream is stderr, stdout (what is no
// message), message (sent as a log notification) or bot (what we did).
type LogLine struct {
	Time   time.Time `json:"time"`
	Stream string    `json:"stream,omitempty"`
	Text   string    `json:"text"`
}

const (
	maxLines = 500
	maxLine  = 2 << 10 // bytes
	// keptLines and keptBytes are what is kept of a log over restarts.
	keptLines = 200
	keptBytes = 64 << 10
	// logGap is the least time between two writings of logs.
	logGap = 2 * time.Second
)

// ring holds the newest lines of a server as they came. Room is used again, and
// lines are cleaned when read, so that a flood costs little.
type ring struct {
	now   func() time.Time
	wrote chan<- struct{} // poked at each line; nil: nobody keeps them
	mu    sync.Mutex
	kept  []written
	next  int
	fresh bool // there are lines that were not kept yet
}

type written struct {
	at     time.Time
	stream string
	text   []byte
}

func (r *ring) add(stream string, text []byte) {
	text = text[:min(len(text), maxLine)]
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) < maxLines {
		r.kept = append(r.kept, written{})
	}
	w := &r.kept[r.next]
	w.at, w.stream, w.text = r.now(), stream, append(w.text[:0], text...)
	r.next = (r.next + 1) % maxLines
	if r.fresh = true; r.wrote != nil {
		poke(r.wrote)
	}
}

// inherit puts lines in front that are masked already.
func (r *ring) inherit(lines []LogLine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range lines[max(0, len(lines)-maxLines):] {
		r.kept = append(r.kept, written{l.Time, l.Stream, []byte(l.Text)})
	}
	r.next = len(r.kept) % maxLines
}

func (r *ring) lines(mask func(string) string) []LogLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]LogLine, 0, len(r.kept))
	for i := range r.kept {
		if len(r.kept) == maxLines {
			i = (r.next + i) % maxLines
		}
		w := r.kept[i]
		list = append(list, LogLine{w.at, w.stream, mask(plain(string(w.text)))})
	}
	return list
}

// last gives the newest line of a stream, or "".
func (r *ring) last(stream string, mask func(string) string) string {
	list := r.lines(mask)
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Stream == stream && strings.TrimSpace(list[i].Text) != "" {
			return strings.TrimSpace(list[i].Text)
		}
	}
	return ""
}

// take gives the lines to keep, if there are any that are not kept yet.
func (r *ring) take(mask func(string) string) ([]LogLine, bool) {
	r.mu.Lock()
	fresh := r.fresh
	r.fresh = false
	r.mu.Unlock()
	if !fresh {
		return nil, false
	}
	list := r.lines(mask)
	list = list[max(0, len(list)-keptLines):]
	const around = 80 // bytes of JSON about a line
	room := keptBytes
	for i := len(list) - 1; i >= 0; i-- {
		if room -= len(encoded(list[i].Text)) + around; room < 0 {
			return list[i+1:], true
		}
	}
	return list, true
}

// keepLogs writes the logs of servers while ctx lasts, not too often.
func (h *Host) keepLogs(ctx context.Context) {
	for {
		select {
		case <-h.wrote:
			h.writeLogs()
		case <-ctx.Done():
			return
		}
		timer := time.NewTimer(logGap)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func (h *Host) writeLogs() {
	for _, s := range h.all() {
		if list, fresh := s.logs.take(s.mask); fresh {
			s.keep(keptLog, list)
		}
	}
}

// restoreLog takes the log from Keep.
func (s *server) restoreLog() {
	data, err := s.load(keptLog)
	var list []LogLine
	if err == nil && data != nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		s.log.Warn("kept log of mcp server not read", "error", err)
	}
	s.logs.inherit(list)
}
