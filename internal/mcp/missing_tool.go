package mcp

import (
	"fmt"
	"strings"

	"ravenbot/internal/core/tool"
)

// WhyMissing returns the server of a tool that is not offered now, and an explanation with a remedy for the model and
// the user. Both are empty if no server owns the name.
func (h *Host) WhyMissing(name string) (serverName, why string) {
	var owner *server
	for _, s := range h.sortedServers() {
		// The name of a server may begin with the name of another one.
		if strings.HasPrefix(name, toolPrefix(s.c.Name)) && (owner == nil || len(s.c.Name) > len(owner.c.Name)) {
			owner = s
		}
	}
	if owner == nil {
		return "", ""
	}
	return owner.c.Name, owner.whyMissing(name)
}

func toolPrefix(server string) string { return strings.TrimSuffix(tool.SafeName(server, "x"), "x") }

// whyMissing explains why a tool is not offered. It returns "" if the server simply has no such tool.
func (s *server) whyMissing(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.decisions {
		if d.state == ToolQuarantined && tool.SafeName(s.c.Name, d.Name) == name {
			return fmt.Sprintf("The tool %s of the MCP server %q has changed, and waits until an administrator approves it "+
				"on the page Servers or with: ravenbot mcp approve %s", name, s.c.Name, s.c.Name)
		}
	}
	if s.consentURL() != "" {
		return fmt.Sprintf("The MCP server %q needs a sign-in. The operator finds the link on the page Servers.", s.c.Name)
	}
	again := "it is tried again by itself"
	if wait := s.retryAt.Sub(s.o.Now()); !s.retryAt.IsZero() && wait > 0 {
		again = fmt.Sprintf("it is tried again in %.0f s", max(wait.Seconds(), 1))
	}
	starts := "is being started. Try again in a moment."
	if why := map[State]string{
		Failed: "cannot be reached just now; " + again + ". The operator finds the reason on the page Servers, " +
			"or with: ravenbot mcp logs " + s.c.Name,
		Connecting:    starts,
		Uninitialized: starts,
		Stopped:       "was stopped. An administrator can start it on the page Servers.",
		Disabled:      "is switched off in the configuration.",
	}[s.state]; why != "" {
		return fmt.Sprintf("The MCP server %q %s", s.c.Name, why)
	}
	return ""
}
