package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/turn/roster"
)

// Agents returns, adds and changes agents. Errors are those of package roster, and those with a method
// BadInput that returns true, which are for the sender to correct.
type Agents interface {
	List() []roster.Agent
	Get(name string) (roster.Agent, error)
	// Add and Replace take an agent as config.json has it.
	Add(ctx context.Context, name string, entry json.RawMessage) (roster.Agent, error)
	Replace(ctx context.Context, name string, entry json.RawMessage) (roster.Agent, error)
	Remove(ctx context.Context, name string) error
	// Rooms returns the web rooms for which an agent was chosen. Choose sets one; "" removes the choice.
	Rooms() map[string]string
	Choose(ctx context.Context, room, name string) error
}

func (s *Server) listAgents(w http.ResponseWriter, r *http.Request) {
	writeList(w, r, s.o.Agents.List(), func(a roster.Agent) string { return a.Name })
}

// getAgent serves GET /api/v1/agents/{name}.
func (s *Server) getAgent(w http.ResponseWriter, r *http.Request) {
	v, err := s.o.Agents.Get(r.PathValue("name"))
	s.writeAgent(w, r, http.StatusOK, v, err)
}

// writeAgent writes an agent, or the error of the request.
func (s *Server) writeAgent(w http.ResponseWriter, r *http.Request, status int, v roster.Agent, err error) {
	if err != nil {
		s.writeAgentError(w, r, err)
		return
	}
	writeJSON(w, status, v)
}

// writeAgentError writes the error of a request about an agent.
func (s *Server) writeAgentError(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, roster.ErrNotFound):
		writeHints(w, http.StatusNotFound, "not_found", fmt.Sprintf("there is no agent %.100q", r.PathValue("name")),
			"GET /api/v1/agents lists them", "ravenbot agents lists them")
	case errors.Is(err, roster.ErrExists):
		writeHints(w, http.StatusConflict, "exists", err.Error(),
			"choose another name, or PUT to /api/v1/agents/{name} to change it", "choose another name")
	case errors.Is(err, roster.ErrConfigured):
		writeError(w, http.StatusConflict, "configured", err.Error(),
			"change its entry in config.json; the bot reloads it")
	case isBadInput(err):
		writeHints(w, http.StatusBadRequest, "bad_request", err.Error(),
			`send an entry as agents in config.json has it, with its "name" beside`, "")
	default:
		s.writeFailure(w, r, "the agent could not be changed", err)
	}
}

// isBadInput reports whether an error is for the sender to correct.
func isBadInput(err error) bool {
	var bad interface{ BadInput() bool }
	return errors.As(err, &bad) && bad.BadInput()
}

// addAgent serves POST /api/v1/agents; 409 where the name is taken.
func (s *Server) addAgent(w http.ResponseWriter, r *http.Request) {
	name, raw, ok := readEntry(w, r)
	if !ok {
		return
	}
	v, err := s.o.Agents.Add(r.Context(), name, raw)
	if err == nil {
		w.Header().Set("Location", "/api/v1/agents/"+name)
	}
	s.writeAgent(w, r, http.StatusCreated, v, err)
}

// putAgent serves PUT /api/v1/agents/{name}, which replaces an agent that was made over the API or on the page as a
// whole.
func (s *Server) putAgent(w http.ResponseWriter, r *http.Request) {
	name, raw, ok := readEntry(w, r)
	if !ok {
		return
	}
	// A different name in the body is more likely a mistake than a wish to rename.
	if at := r.PathValue("name"); name != "" && name != at {
		writeError(w, http.StatusBadRequest, "bad_request", fmt.Sprintf("the body is named %.80q, the path %.80q", name, at),
			"an agent keeps its name; create it again under the new one")
		return
	}
	v, err := s.o.Agents.Replace(r.Context(), r.PathValue("name"), raw)
	s.writeAgent(w, r, http.StatusOK, v, err)
}

// deleteAgent serves DELETE /api/v1/agents/{name}. Its files go with it; where it answered, the default agent does.
func (s *Server) deleteAgent(w http.ResponseWriter, r *http.Request) {
	if err := s.o.Agents.Remove(r.Context(), r.PathValue("name")); err != nil {
		s.writeAgentError(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// agentFormView is an agent on the page, in the form that changes it.
type agentFormView struct {
	roster.Agent
	New      bool
	Links    []linkSwitch
	Every    bool // it may use every enabled server
	Models   []string
	Problem  string
	Files    []roster.File
	FileNote string
}

// linkSwitch is a switch for an MCP server.
type linkSwitch struct {
	Name string
	On   bool
}

// agentsView is the page of agents.
type agentsView struct {
	Agents    []agentView
	Rooms     []roomChoice
	New       agentFormView
	Unread    bool // what was counted could not be read
	MaxCharts int  // where there are more agents
}

// agentView is an agent on the page.
type agentView struct {
	roster.Agent
	Answers picture
}

// roomChoice is a web room with its agent.
type roomChoice struct{ Room, Agent string }

// agentsPage shows the agents, the form of a new one and who answers in which web room.
func (s *Server) agentsPage(w http.ResponseWriter, r *http.Request) {
	days, isUnread := s.lastDays(r)
	v := agentsView{New: s.newAgentFormView(roster.Agent{Model: "default", Tools: []string{"*"}}), Unread: isUnread}
	v.New.New = true
	list := s.o.Agents.List()
	v.MaxCharts = limitCharts(len(list))
	for i, a := range list {
		view := agentView{Agent: a}
		if i < maxCharts {
			view.Answers = days.drawAnswers(a.Name)
		}
		v.Agents = append(v.Agents, view)
	}
	rooms := s.o.Agents.Rooms()
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		v.Rooms = append(v.Rooms, roomChoice{room, rooms[room]})
	}
	s.page(w, http.StatusOK, "agents", v)
}

// agentPage shows an agent with its form and its files.
func (s *Server) agentPage(w http.ResponseWriter, r *http.Request) {
	v, err := s.o.Agents.Get(r.PathValue("name"))
	if err != nil {
		s.page(w, http.StatusNotFound, "note-page", "This agent no longer exists.")
		return
	}
	box := s.newAgentFormView(v)
	if box.Files, err = s.o.Files.List(v.Name); err != nil {
		s.o.Log.Error("failed to list the files of an agent", "agent", v.Name, "error", err)
		box.FileNote = "The files could not be listed; the bot's log has the reason."
	}
	s.page(w, http.StatusOK, "agent-page", box)
}

// newAgentFormView returns the form of an agent. Servers that are linked but no longer exist stay in it.
func (s *Server) newAgentFormView(v roster.Agent) agentFormView {
	// nil and an empty list differ: nil means every enabled server.
	box := agentFormView{Agent: v, Every: v.MCPServers == nil}
	if s.o.Settings != nil {
		box.Models = s.o.Settings.Models()
	}
	on := map[string]bool{}
	for _, l := range v.MCPServers {
		on[l.Name] = l.Enabled
	}
	for _, server := range s.o.Servers.List() {
		box.Links = append(box.Links, linkSwitch{server.Name, on[server.Name]})
		delete(on, server.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(on)) {
		box.Links = append(box.Links, linkSwitch{name, on[name]})
	}
	return box
}

// saveAgent creates or changes an agent from the form of the page.
func (s *Server) saveAgent(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	before, err := s.o.Agents.Get(name)
	change := s.o.Agents.Replace
	if name == "" {
		name, change, err = strings.TrimSpace(r.PostFormValue("name")), s.o.Agents.Add, nil
	}
	var raw json.RawMessage
	if err == nil {
		raw, err = parseAgentForm(r, before)
	}
	if err == nil {
		_, err = change(r.Context(), name, raw)
	}
	s.showResult(w, r, err, name+" is saved.")
}

// parseAgentForm reads the form. Settings that it does not show keep their values.
func parseAgentForm(r *http.Request, before roster.Agent) (json.RawMessage, error) {
	if err := r.ParseForm(); err != nil {
		return nil, formError{fmt.Errorf("read the form: %w", err)}
	}
	v := map[string]any{
		"model":           r.PostFormValue("model"),
		"systemPrompt":    strings.TrimSpace(r.PostFormValue("prompt")),
		"tools":           splitFields(r.PostFormValue("tools")),
		"channels":        splitFields(r.PostFormValue("channels")),
		"fallbackServers": splitFields(r.PostFormValue("fallback")),
		"knowledge":       before.Knowledge,
		"skills":          before.Skills,
		"utilityModel":    r.PostFormValue("utility"),
	}
	if before.Name != "" {
		v["context"] = before.Context
	}
	// Without mcpServers an agent may use every server, so the key must be absent then.
	if r.PostFormValue("every") == "" {
		links := []roster.Link{}
		on := r.PostForm["server"]
		// Browsers do not send switches that are off, so the form names all of them.
		for _, name := range r.PostForm["known"] {
			links = append(links, roster.Link{Name: name, Enabled: slices.Contains(on, name)})
		}
		v["mcpServers"] = links
	}
	limits := map[string]int{}
	for key, field := range map[string]string{"maxSteps": "steps", "maxResultBytes": "bytes"} {
		if text := strings.TrimSpace(r.PostFormValue(field)); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return nil, formError{fmt.Errorf("%q is not a number", text)}
			}
			limits[key] = n
		}
	}
	v["limits"] = limits
	return json.Marshal(v)
}

// formError is an error in a form that its sender has to correct.
type formError struct{ error }

// BadInput returns true.
func (formError) BadInput() bool { return true }

// splitFields splits text at commas and blanks. It never returns nil, so that JSON has an empty list and not
// null.
func splitFields(text string) []string {
	list := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(", \t\r\n", c) })
	if list == nil {
		list = []string{}
	}
	return list
}

// removeAgent removes an agent from the page's button.
func (s *Server) removeAgent(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	s.showResult(w, r, s.o.Agents.Remove(r.Context(), name),
		name+" is removed. Where it answered, the default agent does.")
}

// chooseAgent has an agent answer in a web room; without a name the configuration decides again.
func (s *Server) chooseAgent(w http.ResponseWriter, r *http.Request) {
	room, name := strings.TrimSpace(r.PostFormValue("room")), r.PostFormValue("agent")
	done := fmt.Sprintf("%s answers in the web room %s.", name, room)
	if name == "" {
		done = "The web room " + room + " is answered as the configuration says."
	}
	s.showResult(w, r, s.o.Agents.Choose(r.Context(), room, name), done)
}
