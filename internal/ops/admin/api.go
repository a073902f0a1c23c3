package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/platform"
)

// metricsPath is where Prometheus reads.
const metricsPath = "/metrics"

// isAPI reports whether errors at a path are JSON.
func isAPI(path string) bool {
	return strings.HasPrefix(path, "/api/") || path == "/mcp" || path == metricsPath
}

// apiRoutes returns the routes of the API. Unlike a bare ServeMux they answer a wrong method in JSON.
func (s *Server) apiRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	if s.o.Metrics != nil {
		mux.HandleFunc(metricsPath, methods{"GET": s.o.Metrics.ServeHTTP}.serve)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		writeHints(w, http.StatusNotFound, "not_found", fmt.Sprintf("there is no path %.200s", q.URL.Path),
			"/api/v1/openapi.json describes the API", "")
	})
	routes := map[string]methods{
		"/status":                           {"GET": s.getStatus},
		"/backup":                           {"POST": s.postBackup},
		"/export":                           {"GET": s.exportRecords},
		"/import":                           {"POST": s.importRecords},
		"/mcp/servers":                      {"GET": s.listServers, "POST": s.addServer},
		"/mcp/servers/{name}":               {"GET": s.getServer, "PUT": s.putServer, "DELETE": s.deleteServer},
		"/mcp/servers/{name}/start":         {"POST": s.controlServer("start")},
		"/mcp/servers/{name}/stop":          {"POST": s.controlServer("stop")},
		"/mcp/servers/{name}/restart":       {"POST": s.controlServer("restart")},
		"/mcp/servers/{name}/approve":       {"POST": s.approveServer},
		"/mcp/servers/{name}/call":          {"POST": s.callServer},
		"/mcp/servers/{name}/pending":       {"GET": s.serverPending},
		"/mcp/servers/{name}/tools":         {"GET": s.serverTools},
		"/mcp/servers/{name}/logs":          {"GET": s.serverLogs},
		"/tools":                            {"GET": s.listTools},
		"/tools/{name}/why":                 {"GET": s.whyTool},
		"/agents":                           {"GET": s.listAgents, "POST": s.addAgent},
		"/agents/{name}":                    {"GET": s.getAgent, "PUT": s.putAgent, "DELETE": s.deleteAgent},
		"/agents/{name}/files":              {"GET": s.listFiles, "POST": s.addFiles},
		"/agents/{name}/files/{file}":       {"GET": s.getFile, "DELETE": s.deleteFile},
		"/agents/{name}/knowledge":          {"GET": s.searchFiles},
		"/conversations":                    {"GET": s.listConversations},
		"/conversations/{address}":          {"GET": s.getConversation, "PATCH": s.changeConversation, "DELETE": s.deleteConversation},
		"/conversations/{address}/messages": {"POST": s.postMessage},
		"/conversations/{address}/search":   {"GET": s.searchConversation},
		"/memories":                         {"GET": s.listMemories, "POST": s.addMemory},
		"/memories/{scope}/{n}":             {"DELETE": s.deleteMemory},
		"/settings":                         {"GET": s.getSettings, "PUT": s.putSettings},
		"/usage":                            {"GET": s.listUsage},
		"/tool-usage":                       {"GET": s.listCalls},
		"/tool-usage/results/{id}":          {"GET": s.getResult},
		"/auth/mcp-tokens":                  {"GET": s.listTokens, "POST": s.createToken},
		"/auth/mcp-tokens/{name}":           {"GET": s.getToken, "DELETE": s.revokeToken},
		"/auth/login-links":                 {"POST": s.createLoginLink},
		"/auth/logout-all":                  {"POST": s.logoutAll},
		"/grants":                           {"GET": s.listGrants},
		"/grants/{id}":                      {"DELETE": s.revokeGrant},
		"/approvals":                        {"GET": s.listApprovals},
		"/approvals/{id}":                   {"GET": s.getApproval, "POST": s.decideApproval},
		"/digests":                          {"GET": s.listDigests, "POST": s.addDigest},
		"/digests/{name}":                   {"GET": s.getDigest, "PUT": s.putDigest, "DELETE": s.deleteDigest},
		"/digests/{name}/preview":           {"POST": s.previewDigest},
		"/digests/{name}/run":               {"POST": s.runDigest},
		"/digests/{name}/pause":             {"POST": s.pauseDigest(true)},
		"/digests/{name}/resume":            {"POST": s.pauseDigest(false)},
		"/digests/{name}/explain":           {"GET": s.explainDigest},
		"/digests/{name}/feeds":             {"POST": s.addToDigest},
		"/digests/{name}/share":             {"POST": s.publishDigest, "DELETE": s.unpublishDigest},
		"/feeds":                            {"GET": s.listFeeds},
		"/totals":                           {"GET": s.listTotals},
		"/jobs":                             {"GET": s.listJobs, "POST": s.addJob},
		"/jobs/{id}":                        {"DELETE": s.deleteJob},
	}
	routes["/digests/{name}/unsubscribed/{mailbox}"] = methods{"DELETE": s.resumeMail}
	if s.o.Audit != nil {
		routes["/audit"] = methods{"GET": s.listAudit}
		routes["/audit/export"] = methods{"POST": s.exportAudit}
		routes["/audit/verify"] = methods{"GET": s.verifyAudit}
	}
	var description []byte
	routes["/openapi.json"] = methods{"GET": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(description) // whoever asked may be gone
	}}
	// After the last route, so that the description has all of them, itself included.
	description = describeAPI(routes)
	for path, m := range routes {
		mux.HandleFunc("/api/v1"+path, m.serve)
	}
	return mux
}

// methods maps the methods that a path accepts to their handlers.
type methods map[string]http.HandlerFunc

// serve calls the handler of the request's method; 405 with Allow where the path has none. HEAD is answered as GET.
func (m methods) serve(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	// The server drops the body of an answer to HEAD.
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if h := m[method]; h != nil {
		h(w, r)
		return
	}
	takes := slices.Sorted(maps.Keys(m))
	w.Header().Set("Allow", strings.Join(takes, ", "))
	writeHints(w, http.StatusMethodNotAllowed, "method_not_allowed", r.Method+" is not possible here",
		"use "+strings.Join(takes, " or "), "")
}

// writeJSON answers with a value as JSON, which no cache may store. It panics for what cannot be encoded: that is a
// mistake in the program.
func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("write an answer as JSON: %w", err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the reader is gone when this fails
}

// apiError is the body of an error. Hint is what a program that makes requests can do about it, CommandHint what people
// can who typed a command.
type apiError struct {
	Code        string `json:"code"`
	Message     string `json:"message"`
	Hint        string `json:"hint"`
	CommandHint string `json:"commandHint,omitempty"`
}

// writeError answers with an error whose hint helps whoever asked. One that names a request, or what is in it, is for
// writeHints.
func writeError(w http.ResponseWriter, status int, code, message, hint string) {
	writeHints(w, status, code, message, hint, hint)
}

// writeHints answers with an error that says one thing to programs, and another, or nothing, to people who typed a
// command.
func writeHints(w http.ResponseWriter, status int, code, message, hint, commandHint string) {
	writeJSON(w, status, map[string]apiError{"error": {code, message, hint, commandHint}})
}

// writeFailure answers a request whose work failed. The cause is for the log alone, except where the system
// keeps the store from working.
func (s *Server) writeFailure(w http.ResponseWriter, r *http.Request, what string, err error) {
	// The error is most likely the cancellation itself, which is not worth a log line. Where the bot is being stopped the
	// client still waits, and would take no answer at all for success.
	if r.Context().Err() != nil {
		w.Header().Set("Retry-After", "5")
		writeError(w, http.StatusServiceUnavailable, "unavailable", what+": the bot is being stopped",
			"try again in a few seconds")
		return
	}
	ref := newReference()
	s.o.Log.Error("request failed", "reference", ref, "method", r.Method, "path", r.URL.Path, "error", err)
	writeError(w, http.StatusInternalServerError, "internal", what+" (reference "+ref+")",
		s.hintFor(err, "the bot's log has the reason"))
}

// hintFor returns what is the matter with the store where that made a request fail, else other.
func (s *Server) hintFor(err error, other string) string {
	if system, ok := errors.AsType[*store.SystemError](err); ok {
		return "the store cannot be used: " + system.What + "; " + system.Remedy
	}
	if problem := s.o.Store.Problem(); problem != "" {
		return problem + "; the bot's log has the remedy"
	}
	return other
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz reports whether every platform is connected and the store works. With ?platforms=once platforms count until
// all of them have been connected: a load balancer that asks so goes on with the others when one of them fails.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	answer := struct {
		Status    string            `json:"status"`
		Platforms []platform.Health `json:"platforms"`
		Store     string            `json:"store,omitempty"` // what is wrong with it
		Clock     string            `json:"clock,omitempty"` // what is wrong with it, which makes nothing not ready
	}{"ready", s.o.Platforms.Health(), s.o.Store.Problem(), s.o.Store.Clock()}
	status := http.StatusOK
	connected := !slices.ContainsFunc(answer.Platforms, func(p platform.Health) bool { return !p.Connected })
	if connected {
		s.wasConnected.Store(true)
	} else if r.URL.Query().Get("platforms") == "once" {
		connected = s.wasConnected.Load()
	}
	if answer.Store != "" || !connected {
		answer.Status, status = "not ready", http.StatusServiceUnavailable
	}
	writeJSON(w, status, answer)
}

// parseConversation returns the address that the path names. It answers the request itself when the address
// is wrong.
func parseConversation(w http.ResponseWriter, r *http.Request) (chat.Address, bool) {
	a, err := chat.ParseAddress(r.PathValue("address"))
	if err != nil {
		writeHints(w, http.StatusBadRequest, "bad_request", err.Error(),
			"percent-encode the address as one part of the path: web%3A%2Fgeneral", "")
	}
	return a, err == nil
}

type conversationItem struct {
	Address string    `json:"address"`
	Turns   int       `json:"turns"`
	Last    time.Time `json:"last,omitzero"`
}

// shownTurns is how many turns of a conversation, lines of a web room and imported messages the API shows without
// ?limit.
const shownTurns = 200

// storedConversation is the newest of what is stored of a conversation.
type storedConversation struct {
	turns  []conversation.Turn // that the agent knows
	lines  []store.Entry       // all that was said and posted in a web room
	others []store.Message     // that an import brought
	older  string              // the cursor of earlier ones of others; empty: there are none
}

// isEmpty reports whether nothing is stored.
func (c storedConversation) isEmpty() bool { return len(c.turns)+len(c.lines)+len(c.others) == 0 }

// loadConversation returns the newest n of each kind.
func (s *Server) loadConversation(ctx context.Context, a chat.Address, n int) (c storedConversation, err error) {
	c.turns, err = s.o.Conversations.Turns(ctx, a, store.Range{Newest: n})
	if err == nil && a.Platform == s.o.Rooms.Name() {
		c.lines, err = s.o.Conversations.Entries(ctx, a.Channel, 0, n)
	}
	if err == nil {
		c.others, c.older, err = s.o.Conversations.NewestMessages(ctx, a, "", n)
	}
	return c, err
}

// getConversation serves GET /api/v1/conversations/{address}: its newest turns and what was said besides; 404 where
// nothing is stored. With ?cursor it is the imported messages before that, alone.
func (s *Server) getConversation(w http.ResponseWriter, r *http.Request) {
	a, ok := parseConversation(w, r)
	if !ok {
		return
	}
	limit, cursor, ok := parsePage(w, r)
	if !ok {
		return
	}
	if !r.URL.Query().Has("limit") {
		limit = shownTurns
	}
	var c storedConversation
	var err error
	if cursor == "" {
		c, err = s.loadConversation(r.Context(), a, limit)
	} else {
		c.others, c.older, err = s.o.Conversations.NewestMessages(r.Context(), a, cursor, limit)
	}
	switch {
	case isBadInput(err):
		writeBadCursor(w)
	case err != nil:
		s.writeFailure(w, r, "the conversation could not be read", err)
	case c.isEmpty() && cursor == "":
		writeNoConversation(w, a)
	default:
		out := map[string]any{"address": a.String(), "turns": plainTurns(c.turns), "next": c.older}
		if a.Platform == s.o.Rooms.Name() {
			out["lines"] = plainLines(c.lines)
		}
		if len(c.others) > 0 || cursor != "" {
			out["messages"] = plainMessages(c.others)
		}
		writeJSON(w, http.StatusOK, out)
	}
}

// deleteConversation serves DELETE /api/v1/conversations/{address}, which removes everything that was stored of it; 404
// where nothing is.
func (s *Server) deleteConversation(w http.ResponseWriter, r *http.Request) {
	a, ok := parseConversation(w, r)
	if !ok {
		return
	}
	c, err := s.loadConversation(r.Context(), a, 1)
	if err == nil && c.isEmpty() {
		writeNoConversation(w, a)
		return
	}
	if err == nil {
		err = s.forget(r.Context(), a)
	}
	if err != nil {
		s.writeFailure(w, r, "the conversation could not be removed", err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// forget deletes a conversation from the store and from the agent's memory, with the lines of its web room.
func (s *Server) forget(ctx context.Context, a chat.Address) error {
	err := s.o.Conversations.DeleteConversation(ctx, a)
	// Also after an error: what the agent knows must not survive a half-deleted conversation.
	s.o.Agent.Forget(a)
	if a.Platform == s.o.Rooms.Name() && (err == nil || errors.Is(err, store.ErrNotFound)) {
		if err = s.o.Conversations.DeleteRoom(ctx, a.Channel); err == nil {
			err = s.o.Rooms.ForgetRoom(ctx, a.Channel)
		}
	}
	return err
}

// changeConversation serves PATCH /api/v1/conversations/{address}: the title of a web room, and whether it is archived.
func (s *Server) changeConversation(w http.ResponseWriter, r *http.Request) {
	a, ok := parseConversation(w, r)
	if !ok {
		return
	}
	var in struct {
		Title    *string `json:"title"`
		Archived *bool   `json:"archived"`
	}
	err := json.NewDecoder(r.Body).Decode(&in)
	switch {
	case err != nil:
		writeHints(w, http.StatusBadRequest, "bad_json", err.Error(), `send {"title":"Holidays","archived":false}`, "")
		return
	case a.Platform != s.o.Rooms.Name():
		writeError(w, http.StatusConflict, "no_room", "only web rooms have titles", "rename the channel on its platform")
		return
	}
	switch err := s.o.Rooms.ChangeRoom(r.Context(), a.Channel, in.Title, in.Archived); {
	case isBadInput(err):
		writeError(w, http.StatusBadRequest, "bad_request", err.Error(), "")
	case err != nil:
		s.writeFailure(w, r, "the room could not be changed", err)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// deleteRoomOnPage deletes a web room from its page.
func (s *Server) deleteRoomOnPage(w http.ResponseWriter, r *http.Request) {
	a := chat.Address{Platform: s.o.Rooms.Name(), Channel: r.PathValue("room")}
	if err := s.forget(r.Context(), a); err != nil && !errors.Is(err, store.ErrNotFound) {
		s.o.Log.Error("failed to delete a room", "room", a.Channel, "error", err)
		s.page(w, http.StatusInternalServerError, "problem", "The conversation could not be deleted. The bot's log has the reason.")
		return
	}
	w.Header().Set("HX-Redirect", "/")
	s.page(w, http.StatusOK, "done", "Deleted.")
}

// writeNoConversation answers a request for a conversation of which nothing is stored.
func writeNoConversation(w http.ResponseWriter, a chat.Address) {
	writeHints(w, http.StatusNotFound, "not_found", fmt.Sprintf("no conversation is stored for %.200s", a),
		"GET /api/v1/conversations lists them", "")
}
