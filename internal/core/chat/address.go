package chat

import (
	"fmt"
	"strings"
)

// Address names a conversation: a channel, a direct message, or a thread in
// either. It is written platform:workspace/channel[/thread]; a web room, which
// has no workspace, is web:/ROOM, and a Discord direct message
// discord:@me/CHANNEL. The zero Address names nothing.
type Address struct {
	Platform  string `json:"platform"`
	Workspace string `json:"workspace,omitempty"`
	Channel   string `json:"channel"`
	Thread    string `json:"thread,omitempty"`
}

// ParseAddress reads the written form of an address.
func ParseAddress(s string) (Address, error) {
	platform, rest, found := strings.Cut(s, ":")
	if !found || platform == "" {
		return Address{}, fmt.Errorf(
			"parse address %q: want platform:workspace/channel, for example slack:T123/C456 or web:/general",
			s,
		)
	}
	parts := strings.Split(rest, "/")
	if len(parts) < 2 || len(parts) > 3 {
		return Address{}, fmt.Errorf("parse address %q: want platform:workspace/channel with at most one thread after it", s)
	}
	a := Address{Platform: platform, Workspace: parts[0], Channel: parts[1]}
	if len(parts) == 3 {
		if a.Thread = parts[2]; a.Thread == "" {
			return Address{}, fmt.Errorf("parse address %q: the thread after the last / is empty", s)
		}
	}
	if a.Channel == "" {
		return Address{}, fmt.Errorf("parse address %q: the channel is empty", s)
	}
	if a.Workspace == "" && platform != "web" {
		return Address{}, fmt.Errorf("parse address %q: the workspace before the / is empty", s)
	}
	return a, nil
}

// String returns the written form, which ParseAddress parses.
func (a Address) String() string {
	s := a.Platform + ":" + a.Workspace + "/" + a.Channel
	if a.Thread != "" {
		s += "/" + a.Thread
	}
	return s
}

// IsZero reports whether a names nothing.
func (a Address) IsZero() bool { return a == Address{} }

// Base returns the address without its thread: the channel that holds it.
func (a Address) Base() Address {
	a.Thread = ""
	return a
}

// TaskPlatform is the platform of the conversations in which agents carry out the tasks of digests. It has no adapter,
// because nobody can answer or receive posts in them.
const TaskPlatform = "digest"

// HostPlatform is the platform of the conversations in which the operator's other MCP hosts call tools. It has no
// adapter.
const HostPlatform = "mcp"
