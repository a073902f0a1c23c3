package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/store"
)

// Memories keeps what people want remembered, by scope: user:PLATFORM/ID or channel:ADDRESS. Its errors may have a
// method BadInput that returns true, which are for the sender to correct.
type Memories interface {
	// Scopes returns the scopes that may have notes.
	Scopes(ctx context.Context) ([]string, error)
	// List returns the notes of a scope, the newest first or, with a query, those that fit, the best first.
	List(ctx context.Context, scope, query string) ([]store.Memory, error)
	Add(ctx context.Context, scope, text, by string) (store.Memory, error)
	// Remove returns store.ErrNotFound where there is no note of that number.
	Remove(ctx context.Context, scope string, n uint64) error
}

// memoryView is a note as the API shows it.
type memoryView struct {
	N    uint64    `json:"n"`
	Text string    `json:"text"`
	At   time.Time `json:"at"`
	By   string    `json:"by"`
	// Origin says whose words the turn had read in which the note was made.
	Origin origin.Origin `json:"origin,omitzero"`
}

func newMemoryView(m store.Memory) memoryView { return memoryView{m.N, m.Text, m.At, m.By, m.Origin} }

const scopeHint = "user:PLATFORM/ID or channel:ADDRESS, percent-encoded"

// listMemories serves GET /api/v1/memories: the notes of a scope, those that fit q first where it is there.
func (s *Server) listMemories(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	list, err := s.o.Memories.List(r.Context(), q.Get("scope"), q.Get("q"))
	if err != nil {
		s.writeMemoryError(w, r, err)
		return
	}
	items := make([]memoryView, len(list))
	for i, m := range list {
		items[i] = newMemoryView(m)
	}
	writeList(w, r, items, func(m memoryView) string { return strconv.FormatUint(m.N, 10) })
}

// addMemory serves POST /api/v1/memories.
func (s *Server) addMemory(w http.ResponseWriter, r *http.Request) {
	var in struct{ Scope, Text string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		writeHints(w, http.StatusBadRequest, "bad_request", "the body is no JSON: "+err.Error(),
			`send {"scope": "user:slack/U123", "text": "…"}`, "")
		return
	}
	kept, err := s.o.Memories.Add(r.Context(), in.Scope, in.Text, chat.Operator().Name)
	if err != nil {
		s.writeMemoryError(w, r, err)
		return
	}
	writeJSON(w, http.StatusCreated, newMemoryView(kept))
}

// deleteMemory serves DELETE /api/v1/memories/{scope}/{n}.
func (s *Server) deleteMemory(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseUint(r.PathValue("n"), 10, 64)
	if err != nil {
		writeHints(w, http.StatusBadRequest, "bad_request", fmt.Sprintf("%.40q is not the number of a note", r.PathValue("n")),
			"GET /api/v1/memories?scope= lists them", "ravenbot memory list --scope SCOPE lists them")
		return
	}
	if err := s.o.Memories.Remove(r.Context(), r.PathValue("scope"), n); err != nil {
		s.writeMemoryError(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// writeMemoryError answers with what went wrong with notes.
func (s *Server) writeMemoryError(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case isBadInput(err):
		writeHints(w, http.StatusBadRequest, "bad_request", err.Error(), scopeHint, "")
	case errors.Is(err, store.ErrNotFound):
		writeHints(w, http.StatusNotFound, "not_found", "this scope has no note of that number",
			"GET /api/v1/memories?scope= lists them", "ravenbot memory list --scope SCOPE lists them")
	default:
		s.writeFailure(w, r, "the notes could not be read or changed", err)
	}
}
