package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"ravenbot/internal/tool"
)

// Kinds of a Change.
const (
	AddedTool   = "added"
	ChangedTool = "changed"
)

// Change is a tool that is withheld until Approve: it is not what it was when it
// was first seen or last approved, or it came later and is suspicious.
type Change struct {
	Tool   string   `json:"tool"`
	Kind   string   `json:"kind"`   // AddedTool or ChangedTool
	Before string   `json:"before"` // as it was approved, for people to read; hidden characters are written out
	After  string   `json:"after"`  // as it is now
	Diff   string   `json:"diff"`   // from Before to After, by lines
	Flags  []string `json:"flags,omitempty"`
}

// pins are what the tools of a server were when they were first seen or approved.
type pins struct {
	Entry string         `json:"entry"` // which program or address they are of
	Tools map[string]pin `json:"tools"`
	lost  bool           // they cannot be read: nothing was ever approved
}

type pin struct {
	Hash string `json:"hash"`
	Tool spec   `json:"tool"`
	// Clean is the scanning by which nothing suspicious was found, or 0.
	Clean int `json:"clean,omitempty"`
}

func pinned(t inspected) pin {
	p := pin{Hash: t.hash, Tool: t.spec}
	if len(t.flags) == 0 && t.refused == "" {
		p.Clean = scanning
	}
	return p
}

// look inspects a tool, unless it is what was pinned to the letter and was clean.
func (p pins) look(t spec) inspected {
	if known, ok := p.Tools[t.Name]; ok && known.Clean == scanning && known.Tool.same(t) {
		return inspected{spec: t, hash: known.Hash, shown: t.about(), schema: t.Schema}
	}
	return inspect(t)
}

// identity tells programs and addresses apart: an entry that names another one is
// another server, whose tools are seen for the first time.
func (s *server) identity() string {
	c := normal(s.c)
	return digest(c.Command, c.Args, c.URL)
}

// restorePins takes the pins from Keep. Without those that were there nothing can
// be told apart, so that everything waits for Approve.
func (s *server) restorePins() {
	data, err := s.load(keptPins)
	var p pins
	switch {
	case err == nil && data == nil:
		return
	case err != nil || json.Unmarshal(data, &p) != nil:
		s.log.Error("pinned tools of mcp server not read, all wait for approval", "error", err)
		s.pins = &pins{Entry: s.identity(), Tools: map[string]pin{}, lost: true}
	case p.Entry == s.identity():
		if p.Tools == nil {
			p.Tools = map[string]pin{}
		}
		s.pins = &p
	}
}

// judged is a tool with what was decided about it.
type judged struct {
	inspected
	state ToolState
	why   string
}

// judge decides which tools are offered, and reports whether it pinned any; s.mu
// is held.
func (s *server) judge() (more bool) {
	first := s.pins == nil
	if first && len(s.seen) > 0 {
		s.pins = &pins{Entry: s.identity(), Tools: map[string]pin{}}
	}
	s.judged, s.tools, s.held = make([]judged, 0, len(s.seen)), nil, map[string]bool{}
	for _, t := range s.seen {
		j := judged{inspected: t, state: ToolOffered}
		if j.state, j.why = s.barred(t); j.state == ToolOffered {
			known, was := s.pins.Tools[t.Name]
			switch {
			case was && known.Hash != t.hash:
				j.state, j.why = ToolQuarantined, "it has changed since it was approved"
			case !was && s.pins.lost:
				j.state, j.why = ToolQuarantined, "what was approved could not be read"
			case !was && !first && len(t.flags) > 0:
				j.state, j.why = ToolQuarantined, "it is new and suspicious"
			case !was:
				s.pins.Tools[t.Name], more = pinned(t), true
			}
		}
		switch j.state {
		case ToolOffered:
			s.tools = append(s.tools, remote{s, t})
		case ToolQuarantined:
			s.held[t.Name] = true
		}
		s.judged = append(s.judged, j)
	}
	s.wake()
	return more
}

// barred says why a tool cannot be offered, whatever was approved.
func (s *server) barred(t inspected) (ToolState, string) {
	switch {
	case !s.chosen(t.Name):
		return ToolExcluded, "includeTools or excludeTools leave it out"
	case t.refused != "":
		return ToolRefused, t.refused
	}
	name := tool.SafeName(s.c.Name, t.Name)
	if s.o.IsReserved != nil && s.o.IsReserved(name) {
		return ToolRefused, fmt.Sprintf("models would call it %s, as a tool of the bot itself", name)
	}
	if s.retired.Load() { // it serves those who had its tools before
		return ToolOffered, ""
	}
	if owner := s.h.claims.claim(name, s.c.Name); owner != s.c.Name {
		return ToolRefused, fmt.Sprintf("models would call it %s, as a tool of the MCP server %q", name, owner)
	}
	return ToolOffered, ""
}

// claims are the names under which models call the tools of servers. Who comes
// first keeps a name for as long as its entry is there, so that no server can take
// it over.
type claims struct {
	mu     sync.Mutex
	owners map[string]string // server by name
}

// claim gives who has the name, which is the asker if nobody had it.
func (c *claims) claim(name, server string) (owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if there, ok := c.owners[name]; ok {
		return there
	}
	if c.owners == nil {
		c.owners = map[string]string{}
	}
	c.owners[name] = server
	return server
}

func (c *claims) release(server string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.owners, func(_, owner string) bool { return owner == server })
}

// adopt takes what the server offers.
func (s *server) adopt(now listed) {
	_, p := s.withheld()
	seen := make([]inspected, 0, len(now.Tools))
	for _, t := range now.Tools {
		seen = append(seen, p.look(t))
	}
	cautions := suspicions("instructions", now.Instructions)
	s.mu.Lock()
	s.listed, s.seen, s.cautions = now, seen, cautions
	more := s.judge()
	waits := len(s.held)
	s.mu.Unlock()
	if more {
		s.keepPins()
	}
	if waits > 0 {
		s.log.Warn("tools of mcp server wait for approval", "tools", waits)
	}
}

// rejudge decides anew: another server may have left a name free.
func (s *server) rejudge() {
	s.mu.Lock()
	more := s.judge()
	s.mu.Unlock()
	if more {
		s.keepPins()
	}
}

// waits reports whether a tool waits for Approve.
func (s *server) waits(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[name]
}

// keepPins saves the pins as they are.
func (s *server) keepPins() {
	s.pinning.Lock()
	defer s.pinning.Unlock()
	s.mu.Lock()
	p := *s.pins
	p.Tools = maps.Clone(p.Tools)
	s.mu.Unlock()
	s.keep(keptPins, p)
}

// withheld gives the tools that wait, and the pins as they are.
func (s *server) withheld() ([]judged, pins) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := pins{Entry: s.identity(), Tools: map[string]pin{}}
	if s.pins != nil {
		p.Tools = maps.Clone(s.pins.Tools)
	}
	var list []judged
	for _, j := range s.judged {
		if j.state == ToolQuarantined {
			list = append(list, j)
		}
	}
	return list, p
}

// changes describes what waits.
func changes(list []judged, p pins) []Change {
	described := []Change{}
	for _, j := range list {
		c := Change{Tool: j.Name, Kind: AddedTool, After: j.render(), Flags: j.flags}
		if was, ok := p.Tools[j.Name]; ok {
			c.Kind, c.Before = ChangedTool, was.Tool.render()
		}
		c.Diff = difference(c.Before, c.After)
		described = append(described, c)
	}
	return described
}

// Pending gives the tools of a server that wait for Approve; nil if there is no
// such server.
func (h *Host) Pending(name string) []Change {
	s, err := h.server(name)
	if err != nil {
		return nil
	}
	return changes(s.withheld())
}

// Approve offers what waits, as it is now, and gives what was approved: none is
// no error. The error wraps ErrNotFound, or says that the approval could not be
// kept; then nothing is approved.
func (h *Host) Approve(ctx context.Context, name string) ([]Change, error) {
	s, err := h.server(name)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("approve the tools of MCP server %q: %w", name, err)
	}
	s.pinning.Lock()
	defer s.pinning.Unlock()
	list, p := s.withheld()
	approved := changes(list, p)
	if len(approved) == 0 {
		return approved, nil
	}
	for _, j := range list {
		p.Tools[j.Name] = pinned(j.inspected)
	}
	if err := s.save(keptPins, p); err != nil {
		return nil, fmt.Errorf("approve the tools of MCP server %q: %w", name, err)
	}
	s.mu.Lock()
	s.pins = &p
	s.judge()
	s.mu.Unlock()
	s.log.Info("tools of mcp server approved", "tools", len(approved))
	return approved, nil
}

// warnings are what is suspicious in what the server says; s.mu is held.
func (s *server) warnings() []string {
	const enough = 50
	list := slices.Clone(s.cautions)
	for _, j := range s.judged {
		for _, flag := range j.flags {
			if j.state != ToolExcluded && len(list) < enough {
				list = append(list, fmt.Sprintf("tool %.60s: %s", plain(j.Name), flag))
			}
		}
	}
	return list
}
