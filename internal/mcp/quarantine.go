package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
)

// Kinds of a Change.
const (
	AddedTool   = "added"
	ChangedTool = "changed"
)

// Change is a tool that waits for Approve: it differs from what was first seen or last approved, or it was added later.
// An added one that is not suspicious is offered meanwhile.
type Change struct {
	Tool   string   `json:"tool"`
	Kind   string   `json:"kind"`   // AddedTool or ChangedTool
	Before string   `json:"before"` // as approved, for people to read; hidden characters are written as their code
	After  string   `json:"after"`  // as it is now
	Diff   string   `json:"diff"`   // from Before to After, by lines
	Flags  []string `json:"flags,omitempty"`
}

// pins are the tools of a server as they were first seen or last approved. They are stored, and shared by all processes
// with the same store. A tool that a server no longer lists keeps its pin, so that it cannot come back changed.
type pins struct {
	Entry string         `json:"entry"` // see entryIdentity
	Tools map[string]pin `json:"tools"`
	Held  bool           `json:"held,omitempty"` // none of its tools was ever approved, and one has to be
	lost  bool           // the stored pins could not be read
}

type pin struct {
	Hash string   `json:"hash"` // toolSpec.hash of Tool
	Tool toolSpec `json:"tool"`
	// Later: it came after the first list, and nobody has approved it.
	Later bool `json:"later,omitempty"`
}

// entryIdentity returns a hash of the program or address. An entry that names another one
// is another server, whose tools are seen for the first time.
func (s *server) entryIdentity() string {
	c := normalize(s.c)
	return hashJSON(c.Command, c.Args, c.URL)
}

// restorePins takes over the stored pins. If they exist but cannot be read, all tools
// wait for Approve: which of them have changed is unknown.
func (s *server) restorePins() {
	p, err := s.storedPins()
	if err != nil {
		s.log.Error("failed to read the pinned tools of an mcp server; all wait for approval", "error", err)
		p = &pins{Entry: s.entryIdentity(), Tools: map[string]pin{}, lost: true}
	}
	s.pins = p
}

// storedPins returns the pins that the store keeps of this entry, or nil.
func (s *server) storedPins() (*pins, error) {
	data, err := s.loadSaved(kindPins)
	var p pins
	if err == nil && data != nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil || p.Entry != s.entryIdentity() {
		return nil, err
	}
	if p.Tools == nil {
		p.Tools = map[string]pin{}
	}
	return &p, nil
}

// takeOver adds what another process has approved or seen first, and reports whether that changes anything.
func (p *pins) takeOver(stored pins) (changed bool) {
	for name, one := range stored.Tools {
		if known := p.Tools[name]; known.Hash != one.Hash || known.Later && !one.Later {
			p.Tools[name], changed = one, true
		}
	}
	if p.lost || p.Held && !stored.Held {
		p.lost, p.Held, changed = false, stored.Held, true
	}
	return changed
}

// reloadPins takes up which tools other processes that share the store have approved.
func (h *Host) reloadPins() {
	for _, s := range h.sortedServers() {
		if s.takeOverPins() {
			s.savePins()
		}
	}
}

// takeOverPins decides again which tools are offered where another process has approved any, and reports whether it
// pinned any.
func (s *server) takeOverPins() (pinned bool) {
	// Under the lock, so that no older copy is taken over while a newer one is being saved here.
	s.savingPins.Lock()
	defer s.savingPins.Unlock()
	stored, _ := s.storedPins() // an error changes nothing here
	if stored == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins == nil {
		// Marked as lost, so that takeOver takes Held over as well. With pins the first list here is not
		// trusted as a whole, but compared with what other processes have pinned.
		s.pins = &pins{Entry: stored.Entry, Tools: map[string]pin{}, lost: true}
	}
	return s.pins.takeOver(*stored) && s.decideTools()
}

// decidedTool is a tool with the decision whether it is offered, and, if not, why, in words for the operator.
type decidedTool struct {
	inspectedTool
	state ToolState
	why   string
	later bool // it is offered, and waits for Approve all the same: see tool.Spec.Unapproved
}

// isPending reports whether a tool waits for Approve.
func (j decidedTool) isPending() bool { return j.later || j.state == ToolQuarantined }

// decideTools decides which tools are offered, and reports whether it pinned any; s.mu is
// held. It is repeated with each list of the server, and calls no server or store. Whoever calls it
// saves the pins afterwards if it returns true: s.mu must not be held for that.
func (s *server) decideTools() (pinned bool) {
	// All tools of the first listing count as approved, unless the server is held. Later ones are offered only if
	// nothing about them is suspicious, and changed ones never.
	first := s.pins == nil
	// Not for an empty list: the first tools would else count as added later.
	if first && len(s.inspected) > 0 {
		s.pins = &pins{Entry: s.entryIdentity(), Tools: map[string]pin{}, Held: s.c.Hold}
		pinned = s.c.Hold // a restart must not take the tools for known ones
	}
	s.decisions, s.tools = make([]decidedTool, 0, len(s.inspected)), nil
	for _, t := range s.inspected {
		j := decidedTool{inspectedTool: t, state: ToolOffered}
		if j.state, j.why = s.refuseTool(t); j.state == ToolOffered {
			known, was := s.pins.Tools[t.Name]
			switch {
			case was && known.Hash != t.hash:
				j.state, j.why = ToolQuarantined, "it has changed since it was approved"
			case !was && s.pins.lost:
				j.state, j.why = ToolQuarantined, "what was approved could not be read"
			case !was && s.pins.Held:
				j.state, j.why = ToolQuarantined, "the server is new: look at what it runs and at its tools, then approve it"
			case !was && !first && len(t.flags) > 0:
				j.state, j.why = ToolQuarantined, "it is new and suspicious"
			case !was:
				known, pinned = pin{Hash: t.hash, Tool: t.toolSpec}, true
				known.Later = !first
				s.pins.Tools[t.Name] = known
			}
			j.later = j.state == ToolOffered && known.Later
		}
		// What is refused or excluded is listed with its reason, for the operator.
		if j.state == ToolOffered {
			s.tools = append(s.tools, serverTool{s, t, j.later})
		}
		s.decisions = append(s.decisions, j)
	}
	s.wakeWaiters()
	return pinned
}

// refuseTool returns why a tool cannot be offered, whatever was approved, or ToolOffered.
func (s *server) refuseTool(t inspectedTool) (ToolState, string) {
	switch {
	case !s.isIncluded(t.Name):
		return ToolExcluded, "includeTools or excludeTools leave it out"
	case t.refusal != "":
		return ToolRefused, t.refusal
	}
	name := tool.SafeName(s.c.Name, t.Name)
	if s.o.IsReserved != nil && s.o.IsReserved(name) {
		return ToolRefused, fmt.Sprintf("its name for models, %s, belongs to a tool of the bot itself", name)
	}
	if s.retired.Load() { // its names belong to its successor; those who hold a lease know its tools
		return ToolOffered, ""
	}
	// Last, so that a tool which is not offered for another reason claims no name.
	if owner, _ := s.h.toolNames.LoadOrStore(name, s.c.Name); owner != s.c.Name {
		return ToolRefused, fmt.Sprintf("its name for models, %s, belongs to a tool of the MCP server %q", name, owner)
	}
	return ToolOffered, ""
}

// setListing records what the server offers, decides which tools are offered, and saves the pins if that made any. It
// reports whether the list has changed. One that has not, the usual result of a regular check, is not scanned again;
// but another server may have released a name.
func (s *server) setListing(now listing) (changed bool) {
	s.mu.Lock()
	changed = !reflect.DeepEqual(s.listing, now)
	s.mu.Unlock()
	var inspected []inspectedTool
	var warnings []string
	if changed { // without the lock: inspecting thousands of tools takes a while
		for _, t := range now.Tools {
			inspected = append(inspected, inspect(t))
		}
		warnings = findSuspicions("instructions", now.Instructions)
	}
	s.mu.Lock()
	if changed {
		s.listing, s.inspected, s.instructionWarnings = now, inspected, warnings
	}
	pinned := s.decideTools()
	waits := s.countTools(isQuarantined)
	s.mu.Unlock()
	if changed && waits > 0 {
		s.log.Warn("tools of mcp server wait for approval", "tools", waits)
	}
	if pinned {
		s.savePins()
	}
	return changed
}

// isQuarantined reports whether a tool cannot be called before Approve.
func isQuarantined(j decidedTool) bool { return j.state == ToolQuarantined }

// countTools returns how many tools meet a condition; s.mu is held.
func (s *server) countTools(holds func(decidedTool) bool) (n int) {
	for _, j := range s.decisions {
		if holds(j) {
			n++
		}
	}
	return n
}

// savePins saves the pins as they are now.
func (s *server) savePins() {
	// savingPins keeps an older copy from being written over a newer one, here and in
	// Approve; s.mu is not held while the store writes.
	s.savingPins.Lock()
	defer s.savingPins.Unlock()
	stored, _ := s.storedPins()
	s.mu.Lock()
	// What another process has approved meanwhile must stay so.
	if stored != nil && s.pins.takeOver(*stored) {
		s.decideTools()
	}
	p := *s.pins
	p.Tools = maps.Clone(p.Tools)
	s.mu.Unlock()
	s.saveOrLog(kindPins, p)
}

// pendingTools returns the tools that wait for Approve, and a copy of the pins; without the
// marks that they were lost or held, because a copy with all tools approved has neither.
func (s *server) pendingTools() ([]decidedTool, pins) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := pins{Entry: s.entryIdentity(), Tools: map[string]pin{}}
	if s.pins != nil {
		p.Tools = maps.Clone(s.pins.Tools)
	}
	var list []decidedTool
	for _, j := range s.decisions {
		if j.isPending() {
			list = append(list, j)
		}
	}
	return list, p
}

// describeChanges returns the tools that wait as Changes against the pins.
func describeChanges(list []decidedTool, p pins) []Change {
	described := []Change{}
	for _, j := range list {
		c := Change{Tool: j.Name, Kind: AddedTool, After: j.render(), Flags: j.flags}
		if was, ok := p.Tools[j.Name]; ok && !j.later {
			c.Kind, c.Before = ChangedTool, was.Tool.render()
		}
		c.Diff = diffLines(c.Before, c.After)
		described = append(described, c)
	}
	return described
}

// Pending returns the tools of a server that wait for Approve; nil if there is no such server.
func (h *Host) Pending(name string) []Change {
	s, err := h.server(name)
	if err != nil {
		return nil
	}
	return describeChanges(s.pendingTools())
}

// Fingerprint returns a text that stands for a list of changes: another list has another one.
func Fingerprint(list []Change) string {
	h := sha256.New()
	for _, c := range list {
		fmt.Fprintf(h, "%q %q\n", c.Tool, c.After)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Approve offers the tools of a server that wait, and returns what was approved, which may be nothing. seen is the
// Fingerprint of the changes that were read before; empty: the tools are taken as they are now. It returns an error
// that wraps ErrNotFound or ErrChanged, or says that the approval could not be saved; then nothing is approved.
func (h *Host) Approve(ctx context.Context, name, seen string) ([]Change, error) {
	s, err := h.server(name)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("approve the tools of MCP server %q: %w", name, err)
	}
	s.savingPins.Lock()
	defer s.savingPins.Unlock()
	list, p := s.pendingTools()
	approved := describeChanges(list, p)
	// A server may send other tools between the moment they are shown and the approval.
	if seen != "" && seen != Fingerprint(approved) {
		return nil, fmt.Errorf("approve the tools of MCP server %q: %w", name, ErrChanged)
	}
	if len(approved) == 0 {
		return approved, nil
	}
	for _, j := range list {
		p.Tools[j.Name] = pin{Hash: j.hash, Tool: j.toolSpec}
	}
	// Other processes may have pinned tools that this one has not seen.
	if stored, _ := s.storedPins(); stored != nil {
		maps.Copy(stored.Tools, p.Tools)
		p.Tools = stored.Tools
	}
	// Saved before anything is offered: a restart must not quarantine again what models have already called.
	if err := s.save(kindPins, p); err != nil {
		return nil, fmt.Errorf("approve the tools of MCP server %q: %w", name, err)
	}
	s.mu.Lock()
	s.pins = &p
	s.decideTools()
	s.mu.Unlock()
	s.log.Info("tools of mcp server approved", "tools", len(approved))
	return approved, nil
}

// warnings returns what is suspicious in the instructions and tools; s.mu is held.
func (s *server) warnings() []string {
	const enough = 50
	list := slices.Clone(s.instructionWarnings)
	for _, j := range s.decisions {
		for _, flag := range j.flags {
			if j.state != ToolExcluded && len(list) < enough {
				list = append(list, fmt.Sprintf("tool %.60s: %s", text.OneLine(j.Name), flag))
			}
		}
	}
	return list
}
