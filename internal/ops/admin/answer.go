package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
)

const (
	keepAlive = 15 * time.Second
	// firstKeepAlive is when a client that still waits learns that its message was accepted.
	firstKeepAlive = 250 * time.Millisecond
	// writeTimeout is how long a client may take for one write.
	writeTimeout = 20 * time.Second
	// answerTimeout is how long a client is kept waiting for an answer.
	answerTimeout = 30 * time.Minute
)

// askStep is one event of Ask, or its error.
type askStep struct {
	event Event
	err   error
}

// postMessage says something in a web room and streams the answer.
func (s *Server) postMessage(w http.ResponseWriter, r *http.Request) {
	a, ok := parseConversation(w, r)
	if !ok {
		return
	}
	if a.Platform != s.o.Rooms.Name() {
		writeError(w, http.StatusBadRequest, "bad_request",
			fmt.Sprintf("messages can be sent only to web rooms, not to %s", a),
			"use an address such as web:/general")
		return
	}
	var body struct {
		Text string `json:"text"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || strings.TrimSpace(body.Text) == "" {
		writeHints(w, http.StatusBadRequest, "bad_request", "the body is not a JSON object with a text",
			`send {"text":"…"}`, "")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	steps := make(chan askStep)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(steps)
		for e, err := range s.o.Rooms.Ask(ctx, a.Channel, chat.Operator(), body.Text) {
			select {
			case steps <- askStep{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	// Wait for the goroutine: it must not outlive the request whose context it uses.
	defer func() { cancel(); <-done }()
	s.streamSteps(ctx, w, r, steps)
}

// streamSteps sends steps as server-sent events. An error before the first step gets a status of its own.
func (s *Server) streamSteps(ctx context.Context, w http.ResponseWriter, r *http.Request, steps <-chan askStep) {
	out := &eventWriter{w: w, out: http.NewResponseController(w)}
	alive := time.NewTimer(firstKeepAlive)
	defer alive.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-alive.C:
			// A comment line keeps proxies from closing a silent connection.
			err = out.write([]byte(": here\n\n"))
			alive.Reset(keepAlive)
		case next, ok := <-steps:
			switch {
			case !ok:
				return
			case next.err != nil:
				s.writeAskError(out, r, next.err)
				return
			}
			err = out.writeStep(next.event)
		}
		if err != nil {
			s.o.Log.Debug("answer not streamed to the end", "error", err)
			return
		}
	}
}

// writeAskError reports why a message gets no answer.
func (s *Server) writeAskError(out *eventWriter, r *http.Request, err error) {
	hint := s.hintFor(err, "try again in a moment")
	status, f := http.StatusServiceUnavailable,
		apiError{"unavailable", "the bot cannot accept messages right now", hint, hint}
	var input interface{ BadInput() bool }
	switch {
	case errors.As(err, &input) && input.BadInput():
		status, f = http.StatusBadRequest, apiError{Code: "bad_request", Message: err.Error()}
	case errors.Is(err, chat.ErrBusy):
		const hint = "try again in a moment"
		f = apiError{"busy", "the bot has too much to do right now", hint, hint}
	default:
		s.o.Log.Error("failed to accept a message or to deliver its answer", "path", r.URL.Path, "error", err)
	}
	// Once events were sent, the status is 200 and only an event can report the error.
	if !out.started {
		writeHints(out.w, status, f.Code, f.Message, f.Hint, f.CommandHint)
		return
	}
	_ = out.writeEvent("error", map[string]apiError{"error": f}) // the reader is gone when this fails
}

// eventWriter writes server-sent events. The headers are sent with the first.
type eventWriter struct {
	w       http.ResponseWriter
	out     *http.ResponseController
	started bool
}

// answerView is the last event of a stream.
type answerView struct {
	ID     string         `json:"id"`
	Text   string         `json:"text"`
	Cards  []chat.Card    `json:"cards,omitempty"`
	Tools  []chat.ToolRun `json:"tools,omitempty"`
	Footer string         `json:"footer,omitempty"`
	Failed bool           `json:"failed,omitempty"`
}

// writeStep writes what has happened to an answer: a reset, a note, a tool, a piece of its text, or the whole answer,
// which is the last event.
func (o *eventWriter) writeStep(e Event) error {
	if e.Entry != nil && e.Entry.Draft != nil {
		d := e.Entry.Draft
		return o.writeEvent("answer", answerView{e.Entry.ID, d.Text, d.Cards, d.Tools, d.Footer, d.Failed})
	}
	p := e.Progress
	if p == nil {
		return nil
	}
	var err error
	// A reset comes first: it discards the text that was streamed before.
	if p.Reset {
		err = o.writeEvent("reset", struct{}{})
	}
	if err == nil && p.Note != "" {
		err = o.writeEvent("note", map[string]string{"text": p.Note})
	}
	if err == nil && p.Tool != nil {
		err = o.writeEvent("tool", p.Tool)
	}
	if err == nil && p.Text != "" {
		err = o.writeEvent("text", map[string]string{"text": p.Text})
	}
	return err
}

// writeEvent writes a server-sent event with a value as its data, in one line.
func (o *eventWriter) writeEvent(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write event %s as JSON: %w", name, err)
	}
	return o.write(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, data))
}

// write sends bytes at once. It fails when the reader is gone or takes nothing for writeTimeout.
func (o *eventWriter) write(b []byte) error {
	if !o.started {
		o.started = true
		o.w.Header().Set("Content-Type", "text/event-stream")
		o.w.Header().Set("Cache-Control", "no-store")
		// nginx would hold events back until the answer is complete.
		o.w.Header().Set("X-Accel-Buffering", "no")
	}
	// A deadline for each write: the whole answer may take half an hour.
	if err := o.out.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := o.w.Write(b); err != nil {
		return err
	}
	return o.out.Flush()
}
