package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/mcp"
	"ravenbot/internal/ops/audit"
	"ravenbot/internal/ops/measure"
	"ravenbot/internal/ops/totals"
)

// Servers returns, adds and controls MCP servers. Errors are those of package mcp, and those with a method
// BadInput that returns true, which are for the sender to correct.
type Servers interface {
	List() []mcp.Status
	Get(name string) (mcp.Status, error)
	// Tools returns all tools of a server, including those that are not offered.
	Tools(name string) ([]mcp.ToolInfo, error)
	// Logs returns the last lines of a server's log, oldest first.
	Logs(name string) ([]mcp.LogLine, error)
	Pending(name string) []mcp.Change

	// Add and Replace take an entry as config.json has it, and keep it.
	Add(ctx context.Context, name string, entry json.RawMessage) (mcp.Status, error)
	Replace(ctx context.Context, name string, entry json.RawMessage) (mcp.Status, error)
	Remove(ctx context.Context, name string) error
	// Control starts, stops or restarts a server, as verb says.
	Control(name, verb string) (mcp.Status, error)
	// Approve approves the tools that wait. seen is the mcp.Fingerprint of those that were shown; empty: as they are.
	Approve(ctx context.Context, name, seen string) ([]mcp.Change, error)
}

// ServerCalls makes single calls for the operator.
type ServerCalls interface {
	// Call calls a tool by the name that its server or the models use, under the same rules as any call.
	Call(ctx context.Context, server, name string, args json.RawMessage) (tool.Result, error)
}

// withoutSchemas returns a server without the tool schemas, which only /tools shows.
func withoutSchemas(v mcp.Status) mcp.Status {
	tools := make([]mcp.ToolInfo, len(v.Tools))
	for i, t := range v.Tools {
		tools[i] = mcp.ToolInfo{Name: t.Name, Description: t.Description, Hint: t.Hint}
	}
	v.Tools = tools
	return v
}

// servers returns the MCP servers as pages show them, without the schemas of their tools.
func (s *Server) servers() []mcp.Status {
	list := s.o.Servers.List()
	for i, v := range list {
		list[i] = withoutSchemas(v)
	}
	return list
}

func (s *Server) listServers(w http.ResponseWriter, r *http.Request) {
	writeList(w, r, s.servers(), func(st mcp.Status) string { return st.Name })
}

// getServer serves GET /api/v1/mcp/servers/{name}.
func (s *Server) getServer(w http.ResponseWriter, r *http.Request) {
	v, err := s.o.Servers.Get(r.PathValue("name"))
	s.writeServer(w, r, http.StatusOK, v, err)
}

// writeServer writes a server, or the error of the request.
func (s *Server) writeServer(w http.ResponseWriter, r *http.Request, status int, v mcp.Status, err error) {
	if err != nil {
		s.writeServerError(w, r, err)
		return
	}
	writeJSON(w, status, withoutSchemas(v))
}

// writeServerError writes the error of a request about a server.
func (s *Server) writeServerError(w http.ResponseWriter, r *http.Request, err error) {
	var bad interface{ BadInput() bool }
	switch {
	case errors.Is(err, mcp.ErrNotFound):
		writeHints(w, http.StatusNotFound, "not_found", fmt.Sprintf("there is no MCP server %.100q", r.PathValue("name")),
			"GET /api/v1/mcp/servers lists them", "ravenbot mcp list lists them")
	case errors.Is(err, mcp.ErrExists):
		writeHints(w, http.StatusConflict, "exists", err.Error(),
			"choose another name, or PUT to /api/v1/mcp/servers/{name} to change it", "choose another name")
	case errors.Is(err, mcp.ErrConfigured):
		writeError(w, http.StatusConflict, "configured", err.Error(),
			"change its entry in config.json; the bot reloads it")
	case errors.Is(err, mcp.ErrChanged):
		writeHints(w, http.StatusPreconditionFailed, "changed", err.Error(),
			"GET /api/v1/mcp/servers/{name}/pending shows what waits now, and its ETag", "")
	case errors.Is(err, mcp.ErrDisabled):
		writeError(w, http.StatusConflict, "disabled", err.Error(), `remove "disabled" from its entry first`)
	case errors.As(err, &bad) && bad.BadInput():
		writeHints(w, http.StatusBadRequest, "bad_request", err.Error(),
			`send an entry as mcpServers in config.json has it, with its "name" beside`, "")
	default:
		s.writeFailure(w, r, "the MCP server could not be changed", err)
	}
}

// maxEntry is the largest entry of a server, in bytes.
const maxEntry = 256 << 10

// readEntry reads the body of a request: an entry of config.json with a name beside it. It returns false when
// it has answered the request itself.
func readEntry(w http.ResponseWriter, r *http.Request) (name string, raw json.RawMessage, ok bool) {
	var in struct {
		Name string `json:"name"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxEntry)).Decode(&raw)
	if err == nil {
		err = json.Unmarshal(raw, &in)
	}
	// The message of encoding/json names Go types, which mean nothing to the sender.
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		err = errors.New("the body is not a JSON object whose name is a string")
	}
	if err != nil {
		writeHints(w, http.StatusBadRequest, "bad_json", err.Error(),
			`send a JSON object: an entry as config.json has it, with its "name" beside`, "")
	}
	return strings.TrimSpace(in.Name), raw, err == nil
}

// addServer serves POST /api/v1/mcp/servers; 409 where the name is taken. It does not wait for the connection.
func (s *Server) addServer(w http.ResponseWriter, r *http.Request) {
	name, raw, ok := readEntry(w, r)
	if !ok {
		return
	}
	v, err := s.o.Servers.Add(r.Context(), name, raw)
	if err == nil {
		w.Header().Set("Location", "/api/v1/mcp/servers/"+name)
	}
	s.writeServer(w, r, http.StatusCreated, v, err)
}

// putServer serves PUT /api/v1/mcp/servers/{name}; a server of the configuration is refused.
func (s *Server) putServer(w http.ResponseWriter, r *http.Request) {
	name, raw, ok := readEntry(w, r)
	if !ok {
		return
	}
	if at := r.PathValue("name"); name != "" && name != at {
		writeError(w, http.StatusBadRequest, "bad_request", fmt.Sprintf("the body is named %.80q, the path %.80q", name, at),
			"a server keeps its name; add it again under the new one")
		return
	}
	v, err := s.o.Servers.Replace(r.Context(), r.PathValue("name"), raw)
	s.writeServer(w, r, http.StatusOK, v, err)
}

// deleteServer serves DELETE /api/v1/mcp/servers/{name}.
func (s *Server) deleteServer(w http.ResponseWriter, r *http.Request) {
	if err := s.o.Servers.Remove(r.Context(), r.PathValue("name")); err != nil {
		s.writeServerError(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// controlServer returns the handler of start, stop or restart, which answer with the server as it is then.
func (s *Server) controlServer(verb string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := s.control(r, verb)
		s.writeServer(w, r, http.StatusOK, v, err)
	}
}

// control starts, stops or restarts the server that a request names.
func (s *Server) control(r *http.Request, verb string) (mcp.Status, error) {
	v, err := s.o.Servers.Control(r.PathValue("name"), verb)
	if err == nil {
		done := map[string]string{"start": "started", "stop": "stopped", "restart": "restarted"}[verb]
		s.record(r, "MCP server "+done, r.PathValue("name"))
	}
	return v, err
}

// approve approves the tools of the server that a request names.
func (s *Server) approve(r *http.Request, seen string) ([]mcp.Change, error) {
	list, err := s.o.Servers.Approve(r.Context(), r.PathValue("name"), seen)
	changes := []audit.Change{}
	for _, c := range list {
		changes = append(changes, audit.Change{Field: c.Tool, Old: c.Kind + ", waiting", New: "approved"})
	}
	if err == nil {
		s.record(r, "tools of MCP server approved", r.PathValue("name"), changes...)
	}
	return list, err
}

// approveServer approves the changed tools of a server and writes what changed. With If-Match it approves those alone
// that serverPending showed with that ETag.
func (s *Server) approveServer(w http.ResponseWriter, r *http.Request) {
	seen := strings.Trim(strings.TrimSpace(r.Header.Get("If-Match")), `"`)
	if seen == "*" { // whatever there is (RFC 9110, 13.1.1)
		seen = ""
	}
	changes, err := s.approve(r, seen)
	if err != nil {
		s.writeServerError(w, r, err)
		return
	}
	v, err := s.o.Servers.Get(r.PathValue("name"))
	if err != nil {
		s.writeServerError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, struct {
		mcp.Status
		Approved []mcp.Change `json:"approved"`
	}{withoutSchemas(v), changes})
}

// serverTools serves GET /api/v1/mcp/servers/{name}/tools.
func (s *Server) serverTools(w http.ResponseWriter, r *http.Request) {
	list, err := s.o.Servers.Tools(r.PathValue("name"))
	if err != nil {
		s.writeServerError(w, r, err)
		return
	}
	writeList(w, r, list, func(t mcp.ToolInfo) string { return t.Name })
}

// serverLogs serves GET /api/v1/mcp/servers/{name}/logs.
func (s *Server) serverLogs(w http.ResponseWriter, r *http.Request) {
	list, err := s.o.Servers.Logs(r.PathValue("name"))
	if err != nil {
		s.writeServerError(w, r, err)
		return
	}
	writeList(w, r, list, func(l mcp.LogLine) string { return l.Time.Format(time.RFC3339Nano) + l.Text })
}

// callServer makes one call for the operator.
func (s *Server) callServer(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		writeHints(w, http.StatusBadRequest, "bad_json", err.Error(),
			`send {"tool":"read_file","arguments":{"path":"README.md"}}`, "")
		return
	}
	if _, err := s.o.Servers.Get(r.PathValue("name")); err != nil {
		s.writeServerError(w, r, err)
		return
	}
	// Get has found the server, so an error of the sender means the tool.
	res, err := s.o.ServerCalls.Call(r.Context(), r.PathValue("name"), in.Tool, in.Arguments)
	var bad interface{ BadInput() bool }
	switch {
	case errors.As(err, &bad) && bad.BadInput():
		writeHints(w, http.StatusNotFound, "not_found", err.Error(),
			"GET /api/v1/mcp/servers/{name}/tools lists them", "ravenbot mcp tools SERVER lists them")
	case err != nil:
		s.writeServerError(w, r, err)
	default:
		writeJSON(w, http.StatusOK, CallResult{Text: res.Text, Structured: res.Structured, IsError: res.IsError,
			NotRun: res.NotRun})
	}
}

// OperatorCallsAt returns the conversation that single calls of the operator belong to.
func OperatorCallsAt() chat.Address {
	return chat.Address{Platform: chat.HostPlatform, Workspace: "admin", Channel: "api"}
}

// CallResult is the result of a tool, as the API shows it.
type CallResult struct {
	Text       string          `json:"text"`
	Structured json.RawMessage `json:"structured,omitempty"`
	IsError    bool            `json:"isError"`
	NotRun     bool            `json:"notRun,omitempty"` // it was refused, or nobody approved it
}

// serverPending writes the tools that wait for an approval, with the differences. The ETag stands for them.
func (s *Server) serverPending(w http.ResponseWriter, r *http.Request) {
	if _, err := s.o.Servers.Get(r.PathValue("name")); err != nil {
		s.writeServerError(w, r, err)
		return
	}
	list := s.o.Servers.Pending(r.PathValue("name"))
	w.Header().Set("ETag", `"`+mcp.Fingerprint(list)+`"`)
	writeList(w, r, list, func(c mcp.Change) string { return c.Tool })
}

// serversView is the page of servers.
type serversView struct {
	Servers []serverView
	Unread  bool // what was counted in the last days could not be read
}

// serverView is a server on the page.
type serverView struct {
	mcp.Status
	Log     []mcp.LogLine
	Changes []mcp.Change
	Calls   picture
	Refused []RefusedTool
}

// Fingerprint returns that of the changes, which the page sends back with an approval.
func (v serverView) Fingerprint() string { return mcp.Fingerprint(v.Changes) }

// serversPage shows the page of servers, or only its list when the page refreshes itself.
func (s *Server) serversPage(w http.ResponseWriter, r *http.Request) {
	days, isUnread := s.lastDays(r)
	page, status := serversView{Unread: isUnread}, s.o.Instance.Status()
	for _, v := range s.servers() {
		// A server that was removed meanwhile has no log.
		log, _ := s.o.Servers.Logs(v.Name)
		calls := days.drawCalls(v.Name,
			func(d totals.Day) measure.Total { return d.Of(totals.ToolCalls, v.Name) })
		isOther := func(t RefusedTool) bool { return t.Server != v.Name }
		refused := slices.DeleteFunc(slices.Clone(status.RefusedTools), isOther)
		page.Servers = append(page.Servers, serverView{v, log, s.o.Servers.Pending(v.Name), calls, refused})
	}
	name := "servers"
	// htmx asks for the list alone every five seconds.
	if r.Header.Get("HX-Request") != "" {
		name = "server-list"
	}
	s.page(w, http.StatusOK, name, page)
}

// addServerOnPage adds a server that was entered on the page.
func (s *Server) addServerOnPage(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimSpace(r.PostFormValue("name"))
	v, err := s.o.Servers.Add(r.Context(), name, json.RawMessage(r.PostFormValue("entry")))
	s.showResult(w, r, err, fmt.Sprintf("%s is added: %s.", name, v.State))
}

// controlServerOnPage starts, stops, restarts, approves or removes a server from the page.
func (s *Server) controlServerOnPage(w http.ResponseWriter, r *http.Request) {
	name, verb := r.PathValue("name"), r.PathValue("verb")
	var err error
	switch verb {
	case "start", "stop", "restart":
		_, err = s.control(r, verb)
	case "approve":
		_, err = s.approve(r, r.PostFormValue("seen"))
	case "remove":
		err = s.o.Servers.Remove(r.Context(), name)
	default:
		http.NotFound(w, r)
		return
	}
	s.showResult(w, r, err,
		map[string]string{
			"start":   "Starting ",
			"stop":    "Stopped ",
			"restart": "Restarting ",
			"approve": "Approved the tools of ",
			"remove":  "Removed ",
		}[verb]+name+".")
}
