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

// Change is a tool that waits for Approve: it has changed, or was added later. An added tool that is not suspicious is
// offered meanwhile.
type Change struct {
	Tool   string   `json:"tool"`
	Kind   string   `json:"kind"`   // AddedTool or ChangedTool
	Before string   `json:"before"` // as approved, for people; hidden characters appear as their codes
	After  string   `json:"after"`  // the current form
	Diff   string   `json:"diff"`   // from Before to After, by lines
	Flags  []string `json:"flags,omitempty"`
}

// pins are the tools of a server as first seen or last approved. They are stored and shared by all processes with the
// same store. A removed tool keeps its pin, so that it cannot come back changed.
type pins struct {
	Entry string         `json:"entry"` // see entryIdentity
	Tools map[string]pin `json:"tools"`
	Held  bool           `json:"held,omitempty"` // its tools need an approval, and never had one
	lost  bool           // the stored pins could not be read
}

type pin struct {
	Hash string   `json:"hash"` // toolSpec.hash of Tool
	Tool toolSpec `json:"tool"`
	// Later marks a tool that was added after the first list and was not approved.
	Later bool `json:"later,omitempty"`
}

// entryIdentity returns a hash of the program or address. Another one is another server, whose tools are new.
func (s *server) entryIdentity() string {
	c := normalize(s.c)
	return hashJSON(c.Command, c.Args, c.URL)
}

// restorePins loads the stored pins. If they cannot be read, all tools wait for Approve, because any may have changed.
func (s *server) restorePins() {
	p, err := s.storedPins()
	if err != nil {
		s.log.Error("failed to read the pinned tools of an mcp server; all wait for approval", "error", err)
		p = &pins{Entry: s.entryIdentity(), Tools: map[string]pin{}, lost: true}
	}
	s.pins = p
}

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

// takeOver adds the stored pins of other processes. It returns true if that changes anything.
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

// reloadPins applies approvals of other processes.
func (h *Host) reloadPins() {
	for _, s := range h.sortedServers() {
		if s.takeOverPins() {
			s.savePins()
		}
	}
}

// takeOverPins applies the pins of other processes to a server. It returns true if new pins must be saved.
func (s *server) takeOverPins() (pinned bool) {
	// Under the lock, so that it does not read an older copy while a newer one is saved.
	s.savingPins.Lock()
	defer s.savingPins.Unlock()
	stored, _ := s.storedPins() // after an error nothing changes
	if stored == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins == nil {
		// Marked as lost, so that takeOver also sets Held. The first list here is then compared with the pins of other
		// processes.
		s.pins = &pins{Entry: stored.Entry, Tools: map[string]pin{}, lost: true}
	}
	return s.pins.takeOver(*stored) && s.decideTools()
}

// decidedTool is a tool with the decision whether it is offered. why is the reason against it, for the operator.
type decidedTool struct {
	inspectedTool
	state ToolState
	why   string
	later bool // it is offered, but waits for Approve: see tool.Spec.Unapproved
}

func (j decidedTool) isPending() bool { return j.later || j.state == ToolQuarantined }

// decideTools decides which tools are offered; s.mu is held. It is called after each list, and calls no server or
// store. If it returns true, the caller saves the pins after it releases s.mu.
func (s *server) decideTools() (pinned bool) {
	// The tools of the first list count as approved, unless the server is held. Later tools are offered unless they are
	// suspicious, changed tools never.
	first := s.pins == nil
	// An empty list does not count as the first one.
	if first && len(s.inspected) > 0 {
		s.pins = &pins{Entry: s.entryIdentity(), Tools: map[string]pin{}, Held: s.c.Hold}
		pinned = s.c.Hold // so that the tools do not count as known after a restart
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
				j.state, j.why = ToolQuarantined, "the approved form could not be read"
			case !was && s.pins.Held:
				j.state, j.why = ToolQuarantined, "the server is new: check its command and its tools, then approve it"
			case !was && !first && len(t.flags) > 0:
				j.state, j.why = ToolQuarantined, "it is new and suspicious"
			case !was:
				known, pinned = pin{Hash: t.hash, Tool: t.toolSpec}, true
				known.Later = !first
				s.pins.Tools[t.Name] = known
			}
			j.later = j.state == ToolOffered && known.Later
		}
		if j.state == ToolOffered {
			s.tools = append(s.tools, serverTool{s, t, j.later})
		}
		s.decisions = append(s.decisions, j)
	}
	s.wakeWaiters()
	return pinned
}

// refuseTool returns the state and the reason of a tool that cannot be offered even if it is approved, or ToolOffered.
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
	if s.retired.Load() { // its names belong to its successor, but holders of leases use its tools
		return ToolOffered, ""
	}
	// Last, so that a tool that is not offered claims no name.
	if owner, _ := s.h.toolNames.LoadOrStore(name, s.c.Name); owner != s.c.Name {
		return ToolRefused, fmt.Sprintf("its name for models, %s, belongs to a tool of the MCP server %q", name, owner)
	}
	return ToolOffered, ""
}

// setListing records the offers of the server, decides which tools are offered, and saves new pins. It returns true if
// the list has changed. An unchanged list is not scanned again, but another server may have released a name.
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

// countTools counts the tools that meet a condition; s.mu is held.
func (s *server) countTools(holds func(decidedTool) bool) (n int) {
	for _, j := range s.decisions {
		if holds(j) {
			n++
		}
	}
	return n
}

func (s *server) savePins() {
	// savingPins keeps an older copy from replacing a newer one. s.mu is not held while the store writes.
	s.savingPins.Lock()
	defer s.savingPins.Unlock()
	stored, _ := s.storedPins()
	s.mu.Lock()
	if stored != nil && s.pins.takeOver(*stored) {
		s.decideTools()
	}
	p := *s.pins
	p.Tools = maps.Clone(p.Tools)
	s.mu.Unlock()
	s.saveOrLog(kindPins, p)
}

// pendingTools returns the tools that wait for Approve, and a copy of the pins without the marks lost and Held, which
// end with an approval.
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

// Pending returns the tools of a server that wait for Approve, or nil if there is no such server.
func (h *Host) Pending(name string) []Change {
	s, err := h.server(name)
	if err != nil {
		return nil
	}
	return describeChanges(s.pendingTools())
}

// Fingerprint returns a hash of a list of changes.
func Fingerprint(list []Change) string {
	h := sha256.New()
	for _, c := range list {
		fmt.Fprintf(h, "%q %q\n", c.Tool, c.After)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Approve offers the waiting tools of a server, and returns the approved changes, perhaps none. seen is the Fingerprint
// of the changes that a person has read; empty: any. The error wraps ErrNotFound or ErrChanged, or comes from the
// store; then nothing is approved.
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
	// The server may have sent other tools since they were shown.
	if seen != "" && seen != Fingerprint(approved) {
		return nil, fmt.Errorf("approve the tools of MCP server %q: %w", name, ErrChanged)
	}
	if len(approved) == 0 {
		return approved, nil
	}
	for _, j := range list {
		p.Tools[j.Name] = pin{Hash: j.hash, Tool: j.toolSpec}
	}
	// Other processes may have pinned further tools.
	if stored, _ := s.storedPins(); stored != nil {
		maps.Copy(stored.Tools, p.Tools)
		p.Tools = stored.Tools
	}
	// Saved first: a restart must not quarantine tools that models have already called.
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

// warnings describes suspicious instructions and tools; s.mu is held.
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
