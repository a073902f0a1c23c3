package web

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

const (
	// keepAliveEvery is how often a silent stream says that it is there, before proxies give it up.
	keepAliveEvery = 15 * time.Second
	// textEvery is how often the text of an answer is sent again while it grows.
	textEvery = 100 * time.Millisecond
	// writeTimeout is how long a browser may take for one write.
	writeTimeout = 20 * time.Second
)

// serveStream sends what happens in a room as fragments of the page. It begins with what is missing
// behind the entry that Last-Event-ID or since names.
func (w *Web) serveStream(rw http.ResponseWriter, r *http.Request) {
	name := r.PathValue("room")
	if err := CheckRoom(name); err != nil {
		w.writeError(rw, r, err)
		return
	}
	// A browser that connects again by itself repeats since as the page had it, beside a newer Last-Event-ID.
	seen, _ := strconv.ParseUint(r.FormValue("since"), 10, 64)
	if last, err := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64); err == nil {
		seen = max(seen, last)
	}
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.Header().Set("Cache-Control", "no-store")
	// nginx would else keep events back until its buffer is full.
	rw.Header().Set("X-Accel-Buffering", "no")
	s := &streamer{
		w:     w,
		room:  w.room(name),
		seen:  seen,
		state: r.FormValue("state"),
		out:   http.NewResponseController(rw),
		rw:    rw,
	}
	if err := s.run(r.Context()); err != nil && r.Context().Err() == nil {
		w.o.Logger.Debug("stream to a browser ended", "room", name, "error", err)
	}
}

// streamer is one browser that reads a room.
type streamer struct {
	w     *Web
	room  *room
	seen  uint64 // Seq of the newest line sent
	state string // of the room as the browser shows it; empty: not known
	rw    http.ResponseWriter
	out   *http.ResponseController
	shown map[string]int // messages whose work the browser shows, and of how many tool runs
	stale []string       // messages whose text has grown since it was sent
}

// run sends events until ctx ends, the bot stops, or the browser takes none any more. A browser that fell behind is
// brought up to date and goes on.
func (s *streamer) run(ctx context.Context) error {
	for {
		s.room = s.w.room(s.room.name) // another one if it was deleted
		// Before the log is read: an entry written in between comes twice, and its Seq tells the second time.
		events, cancel := s.w.Subscribe(s.room.name)
		err := s.sendUntilDropped(ctx, events)
		cancel()
		if err != errDropped {
			return err
		}
	}
}

// sendUntilDropped brings the browser up to date and sends events until the reader is dropped, which is errDropped.
func (s *streamer) sendUntilDropped(ctx context.Context, events <-chan Event) error {
	if err := s.sync(ctx); err != nil {
		return err
	}
	alive := time.NewTicker(keepAliveEvery)
	defer alive.Stop()
	var flush <-chan time.Time
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-s.w.stopped:
			return nil
		case <-alive.C:
			err = s.write([]byte(": here\n\n"))
		case <-flush:
			flush, err = nil, s.sendTexts()
		case e, ok := <-events:
			if !ok {
				return errDropped
			}
			if err = s.sendEvent(e); flush == nil && len(s.stale) > 0 {
				flush = time.After(textEvery)
			}
		}
		if err != nil {
			return err
		}
	}
}

// sync brings the browser up to date: the newest entries if it lacks any, and the present work.
func (s *streamer) sync(ctx context.Context) error {
	v, err := s.w.loadRoom(ctx, s.room.name, 0)
	if err != nil {
		return err
	}
	parts := []string{"sync-working"}
	if v.Newest > s.seen || s.state != "" && v.State != s.state {
		parts = append(parts, "sync-log")
		s.seen = v.Newest
	}
	s.state = v.State
	s.stale, s.shown = nil, map[string]int{}
	for _, t := range v.Working {
		s.shown[t.ID] = len(t.Tools)
	}
	return s.send(v, parts...)
}

// sendEvent sends one event. Text waits for the next flush; all else is sent at once.
func (s *streamer) sendEvent(e Event) error {
	if e.Entry != nil {
		return s.sendEntry(e)
	}
	id := e.Progress.Message
	if e.Progress.Ended {
		return s.send(s.endWork(store.Entry{}, id), "end-work")
	}
	_, shown := s.shown[id]
	if shown && e.Progress.Tool == nil {
		// Each time the whole text is sent, so that what comes within textEvery is sent once.
		if !slices.Contains(s.stale, id) {
			s.stale = append(s.stale, id)
		}
		return nil
	}
	if !shown {
		return s.sendWork(id)
	}
	return s.sendTool(id, e.Progress.Tool.ID)
}

// sendEntry shows an entry and, with an answer, removes the view of the work on it.
func (s *streamer) sendEntry(event Event) error {
	e, line := *event.Entry, "new-entry"
	var ends []string
	switch {
	case e.Draft != nil:
		ends = append(e.Draft.For(), event.Ends...)
	case e.Deleted:
		ends = []string{e.ID}
	}
	switch {
	case event.Anew:
		line = "same-entry"
	case e.Seq <= s.seen:
		// It was written while the log was read, perhaps after the work on it was read.
		if over := s.endWork(e, ends...); len(over.Ends) > 0 {
			return s.send(over, "end-work")
		}
		return nil
	}
	s.seen = max(s.seen, e.Seq)
	if ends != nil {
		return s.send(s.endWork(e, ends...), line, "end-work")
	}
	if err := s.send(e, line); err != nil {
		return err
	}
	return s.sendWork(e.ID)
}

// endWork notes that the work on messages is over, and returns an entry with those whose work the browser shows.
func (s *streamer) endWork(e store.Entry, ids ...string) endingEntry {
	a := endingEntry{Entry: e}
	for _, id := range ids {
		if _, shown := s.shown[id]; shown {
			a.Ends = append(a.Ends, id)
			delete(s.shown, id)
		}
	}
	s.stale = slices.DeleteFunc(s.stale, func(id string) bool { return slices.Contains(a.Ends, id) })
	return a
}

// endingEntry is an entry with the messages whose work it ends.
type endingEntry struct {
	store.Entry
	Ends []string
}

// sendWork shows the work on a message unless it is shown already, or over.
func (s *streamer) sendWork(id string) error {
	t, ok := s.findWork(id)
	if _, shown := s.shown[id]; shown || !ok {
		return nil
	}
	s.shown[id] = len(t.Tools)
	return s.send(t, "new-work")
}

// findWork returns the present work on a message; false if there is none.
func (s *streamer) findWork(id string) (workView, bool) {
	list := s.room.currentWork()
	i := slices.IndexFunc(list, func(t workView) bool { return t.ID == id })
	if i < 0 {
		return workView{}, false
	}
	return list[i], true
}

// placedRun is a tool run with its position among those of a message.
type placedRun struct {
	chat.ToolRun
	Message string
	Place   int
}

// sendTool shows a tool run as it is now, and earlier ones that are not shown yet.
func (s *streamer) sendTool(id, run string) error {
	t, _ := s.findWork(id)
	for i, now := range t.Tools {
		name := "new-tool"
		if i < s.shown[id] {
			if now.ID != run {
				continue
			}
			name = "same-tool"
		}
		if err := s.send(placedRun{now, id, i}, name); err != nil {
			return err
		}
		s.shown[id] = max(s.shown[id], i+1)
	}
	return nil
}

// sendTexts sends the texts that have grown.
func (s *streamer) sendTexts() error {
	for _, id := range s.stale {
		if t, ok := s.findWork(id); ok {
			if err := s.send(t, "text"); err != nil {
				return err
			}
		}
	}
	s.stale = nil
	return nil
}

// send renders templates over one value and sends them as one event, with the newest line's number as its id.
func (s *streamer) send(v any, names ...string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "id: %d\n", s.seen)
	for _, name := range names {
		html, err := s.w.page.fragment(name, v)
		if err != nil {
			return err
		}
		// A lone carriage return would end a line of the stream.
		html = bytes.ReplaceAll(bytes.ReplaceAll(html, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
		for line := range bytes.SplitSeq(html, []byte("\n")) {
			fmt.Fprintf(&b, "data: %s\n", line)
		}
	}
	b.WriteByte('\n')
	return s.write(b.Bytes())
}

// write sends bytes within writeTimeout, past all buffers.
func (s *streamer) write(b []byte) error {
	if err := s.out.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := s.rw.Write(b); err != nil {
		return err
	}
	return s.out.Flush()
}
