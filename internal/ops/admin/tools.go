package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/turn/roster"
)

// Tools returns and searches the tools.
type Tools interface {
	ListTools() []roster.ToolItem
	// SearchTools returns the k tools that fit a request best.
	SearchTools(query string, k int) []roster.ToolItem
	// Why returns what decides about a tool. An error wraps roster.ErrNoTool and names similar tools.
	Why(sim roster.Simulation) (roster.Verdict, error)
}

// defaultFound is how many tools a search returns without k.
const defaultFound = 10

// listTools serves GET /api/v1/tools: all of them, or with query the k that fit it best.
func (s *Server) listTools(w http.ResponseWriter, r *http.Request) {
	query := strings.TrimSpace(r.URL.Query().Get("query"))
	if query == "" {
		writeList(w, r, s.o.Tools.ListTools(), func(t roster.ToolItem) string { return t.Name })
		return
	}
	k := defaultFound
	if text := r.URL.Query().Get("k"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			writeError(w, http.StatusBadRequest, "bad_request", fmt.Sprintf("k is %.40q, want a number from 1 to 1000", text),
				"leave it out for ten")
			return
		}
		k = n
	}
	writePage(w, s.o.Tools.SearchTools(query, k), "")
}

// whyTool serves GET /api/v1/tools/{name}/why: which rules decide whether somebody may use a tool in a channel, with
// these arguments where they are there.
func (s *Server) whyTool(w http.ResponseWriter, r *http.Request) {
	at, err := chat.ParseAddress(r.URL.Query().Get("channel"))
	if err != nil {
		writeHints(w, http.StatusBadRequest, "bad_address", err.Error(), "add ?channel=platform:workspace/channel&user=ID", "")
		return
	}
	q := r.URL.Query()
	sim := roster.Simulation{Tool: r.PathValue("name"), User: q.Get("user"), Channel: at,
		Tainted: q.Get("tainted") == "true"}
	if roles := q.Get("roles"); roles != "" {
		sim.Roles = strings.Split(roles, ",")
	}
	if others := q.Get("others"); others != "" {
		sim.Others = strings.Split(others, ",")
	}
	if args := q.Get("arguments"); args != "" {
		if sim.Args = json.RawMessage(args); !json.Valid(sim.Args) {
			writeHints(w, http.StatusBadRequest, "bad_request", "arguments is no JSON",
				`send an object such as {"url":"https://…"}`, "")
			return
		}
	}
	v, err := s.o.Tools.Why(sim)
	switch {
	case errors.Is(err, roster.ErrNoTool):
		writeHints(w, http.StatusNotFound, "not_found", err.Error(), "GET /api/v1/tools lists them",
			"ravenbot tools list lists them")
	case err != nil:
		s.writeFailure(w, r, "the rules could not be evaluated", err)
	default:
		writeJSON(w, http.StatusOK, v)
	}
}
