package mcp

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/tool"
)

// State is the state of a server's connection.
type State string

// The states of a server.
const (
	Uninitialized State = "uninitialized" // not connected yet; its tools may be known
	Connecting    State = "connecting"
	Connected     State = "connected"
	NoToolsFound  State = "no_tools_found" // connected, but it offers nothing
	Quarantined   State = "quarantined"    // some of its tools wait for Approve
	Failed        State = "error"          // it is tried again
	Stopped       State = "stopped"        // by Stop, or because the host ended
	Disabled      State = "disabled"       // by configuration
)

// Status describes a server. Its JSON form belongs to the HTTP API.
type Status struct {
	Name        string     `json:"name"`
	State       State      `json:"state"`
	Error       string     `json:"error"`                // for the operator
	Tools       []ToolInfo `json:"tools"`                // the offered ones
	Source      string     `json:"source"`               // FromConfig or FromAPI
	Pending     int        `json:"pending,omitempty"`    // tools that wait for Approve
	Warnings    []string   `json:"warnings,omitempty"`   // about its instructions and tools
	ConsentURL  string     `json:"consentUrl,omitempty"` // for the operator's consent
	Description string     `json:"description,omitempty"`
	Runs        string     `json:"runs,omitempty"` // its command line or address, with secrets masked
	// Isolation describes the isolation of its process.
	Isolation []string  `json:"isolation,omitempty"`
	Transport string    `json:"transport,omitempty"`
	Protocol  string    `json:"protocol,omitempty"` // version in use
	Version   string    `json:"version,omitempty"`  // the server's own name and version
	Since     time.Time `json:"since,omitzero"`     // of State
	Checked   time.Time `json:"checked,omitzero"`   // time of the last answer
}

// Consent is a consent that a server needs.
type Consent struct {
	URL   string    `json:"url"`            // only for the user
	User  string    `json:"user,omitempty"` // empty: the operator
	Until time.Time `json:"until,omitzero"` // end of the validity of the URL
}

// ToolInfo describes a tool of a server.
type ToolInfo struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"inputSchema,omitempty"` // as the server wrote it
	Output      json.RawMessage `json:"outputSchema,omitempty"`
	Hints       tool.Hints      `json:"-"`
	Hint        string          `json:"hint,omitempty"` // Class of Hints
	State       ToolState       `json:"state,omitempty"`
	Why         string          `json:"why,omitempty"`   // if it is not offered
	Flags       []string        `json:"flags,omitempty"` // suspicions
}

// ToolState is whether a tool can be called.
type ToolState string

// The states of a tool.
const (
	ToolOffered     ToolState = "offered"
	ToolQuarantined ToolState = "quarantined" // until Approve
	ToolRefused     ToolState = "refused"     // it has the name of another tool, or cannot be shown
	ToolExcluded    ToolState = "excluded"    // by includeTools or excludeTools
)

// status returns the last known status. If it is older than StatusTTL, it is checked in the background.
func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		Name:        s.c.Name,
		State:       s.publicState(),
		Error:       s.problem,
		Tools:       []ToolInfo{},
		Source:      s.source,
		Pending:     s.countTools(decidedTool.isPending),
		Warnings:    s.warnings(),
		ConsentURL:  s.consentURL(),
		Description: s.c.Description,
		Runs:        s.mask(s.c.Runs),
		Isolation:   s.isolationNotes(),
		Transport:   s.info.transport,
		Protocol:    s.info.protocol,
		Version:     s.info.version,
		Since:       s.since,
		Checked:     s.checkedAt,
	}
	for _, t := range s.toolInfos() {
		if t.State == ToolOffered {
			st.Tools = append(st.Tools, t)
		}
	}
	if s.conn != nil && s.o.Now().Sub(s.checkedAt) > s.o.StatusTTL {
		wake(s.conn.checkWanted)
	}
	return st
}

// publicState returns the state for Status; s.mu is held.
func (s *server) publicState() State {
	switch s.state {
	case Connected, NoToolsFound, Uninitialized:
		if s.countTools(isQuarantined) > 0 {
			return Quarantined
		}
	}
	return s.state
}

// toolInfos returns all tools of the server; s.mu is held.
func (s *server) toolInfos() []ToolInfo {
	list := make([]ToolInfo, 0, len(s.decisions))
	for _, j := range s.decisions {
		list = append(list, ToolInfo{
			Name:        j.Name,
			Description: j.description,
			Schema:      j.toolSpec.Schema,
			Output:      j.Output,
			Hints:       j.hints(),
			Hint:        j.hints().Class(),
			State:       j.state,
			Why:         j.why,
			Flags:       j.flags,
		})
	}
	return list
}

// ToolsOf returns all tools of a server, including those that are not offered, or nil if there is no such server.
func (h *Host) ToolsOf(name string) []ToolInfo {
	s, err := h.server(name)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.toolInfos()
}

// consentURL returns the address for a consent that the server needs, or "".
func (s *server) consentURL() string {
	if s.o.SignIns == nil {
		return ""
	}
	if c := s.o.SignIns.Waiting(s.c); c != nil {
		return c.URL
	}
	return ""
}

// newMasker returns a function that masks the secrets of an entry: header values, and variables with names of secrets.
func newMasker(c Config) func(string) string {
	var pairs []string
	hide := func(value string) {
		if len(value) >= 4 { // shorter values are parts of ordinary words
			pairs = append(pairs, value, "***")
		}
	}
	for _, v := range c.Headers {
		hide(v)
		if _, credential, ok := strings.Cut(v, " "); ok {
			hide(strings.TrimSpace(credential)) // servers repeat a token without its scheme
		}
	}
	for k, v := range c.Env {
		if isSecretName(k) {
			hide(v)
		}
	}
	return strings.NewReplacer(pairs...).Replace
}

func isSecretName(name string) bool {
	parts := []string{"TOKEN", "KEY", "SECRET", "PASS", "AUTH", "CREDENTIAL", "COOKIE", "DSN", "DATABASE_URL"}
	name = strings.ToUpper(name)
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) })
}
