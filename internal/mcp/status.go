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
	Uninitialized State = "uninitialized" // not connected yet; its tools may be known from before
	Connecting    State = "connecting"
	Connected     State = "connected"
	NoToolsFound  State = "no_tools_found" // connected, but it offers nothing
	Quarantined   State = "quarantined"    // some of its tools wait for Approve; the others can be called
	Failed        State = "error"          // will be tried again automatically
	Stopped       State = "stopped"        // by Stop, or because the host ended
	Disabled      State = "disabled"       // by configuration
)

// Status is what is known of a server. Its JSON form is the HTTP API's.
type Status struct {
	Name        string     `json:"name"`
	State       State      `json:"state"`
	Error       string     `json:"error"`                // why it is not connected, for the operator
	Tools       []ToolInfo `json:"tools"`                // those that are offered
	Source      string     `json:"source"`               // FromConfig, or what Put was told
	Pending     int        `json:"pending,omitempty"`    // tools that wait for Approve
	Warnings    []string   `json:"warnings,omitempty"`   // what is suspicious in what it says of itself
	ConsentURL  string     `json:"consentUrl,omitempty"` // where the operator lets the bot use the server
	Description string     `json:"description,omitempty"`
	Runs        string     `json:"runs,omitempty"` // its command line or address, with secrets masked
	// Isolation says what keeps its process from the bot, and what does not.
	Isolation []string  `json:"isolation,omitempty"`
	Transport string    `json:"transport,omitempty"`
	Protocol  string    `json:"protocol,omitempty"` // version in use
	Version   string    `json:"version,omitempty"`  // what the server calls itself
	Since     time.Time `json:"since,omitzero"`     // of State
	Checked   time.Time `json:"checked,omitzero"`   // when the server last answered
}

// Consent is what a person has to agree to before a server can be used.
type Consent struct {
	URL   string    `json:"url"`            // where; for that person alone
	User  string    `json:"user,omitempty"` // who; empty: the operator
	Until time.Time `json:"until,omitzero"` // when the URL is of no use any longer
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
	Flags       []string        `json:"flags,omitempty"` // what is suspicious about it
}

// ToolState tells whether a tool can be called.
type ToolState string

// The states of a tool.
const (
	ToolOffered     ToolState = "offered"
	ToolQuarantined ToolState = "quarantined" // until Approve
	ToolRefused     ToolState = "refused"     // its name is another's, or cannot be shown
	ToolExcluded    ToolState = "excluded"    // by includeTools or excludeTools
)

// status returns the status as last seen. One older than StatusTTL is checked in the background, for the next reader.
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
	// In the background: whoever reads the status of 20 servers waits for none of them.
	if s.conn != nil && s.o.Now().Sub(s.checkedAt) > s.o.StatusTTL {
		s.conn.requestCheck()
	}
	return st
}

// publicState returns the state as Status shows it; s.mu is held.
func (s *server) publicState() State {
	switch s.state {
	case Connected, NoToolsFound, Uninitialized:
		if s.countTools(isQuarantined) > 0 {
			return Quarantined
		}
	}
	return s.state
}

// toolInfos returns every tool that the server has; s.mu is held.
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

// ToolsOf returns every tool of a server, also those that are not offered; nil if there is no such server.
func (h *Host) ToolsOf(name string) []ToolInfo {
	s, err := h.server(name)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.toolInfos()
}

// consentURL returns where somebody has to agree before the server can be used; empty: nobody has to.
func (s *server) consentURL() string {
	if s.o.SignIns == nil {
		return ""
	}
	if c := s.o.SignIns.Waiting(s.c); c != nil {
		return c.URL
	}
	return ""
}

// newMasker returns a function that masks the secrets of an entry wherever a server or a
// library repeats them: header values, and variables that are named like secrets.
func newMasker(c Config) func(string) string {
	var pairs []string
	hide := func(value string) {
		if len(value) >= 4 { // shorter values would mask parts of ordinary words
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

// isSecretName reports whether a variable is named like one that holds a secret.
func isSecretName(name string) bool {
	parts := []string{"TOKEN", "KEY", "SECRET", "PASS", "AUTH", "CREDENTIAL", "COOKIE", "DSN", "DATABASE_URL"}
	name = strings.ToUpper(name)
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) })
}
