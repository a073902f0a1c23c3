package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"sort"
	"strings"
	"sync"
)

// MaxName is the longest name given to a model, in bytes; Gemini's clients cut
// at 63.
const MaxName = 63

// Source gives the tools of one server or pack as they are now. It must be
// quick: it is asked whenever a request to the model is built.
type Source interface {
	Tools() []Tool
}

// Named is a tool under the name by which models call it.
type Named struct {
	Name string
	Tool Tool
}

// Registry is the table from safe names to tools. Names are given when a tool is
// first seen and stay the same while the registry lives, whatever else comes or
// goes; the order in which sources were added decides who gets the plain name.
// It is safe for concurrent use.
type Registry struct {
	mu      sync.Mutex
	sources []Source
	names   map[string]string // server NUL tool → safe name
	owners  map[string]string // safe name → server NUL tool
}

// NewRegistry returns an empty table over the sources, native packs first.
func NewRegistry(sources ...Source) *Registry {
	return &Registry{sources: sources, names: map[string]string{}, owners: map[string]string{}}
}

// Add puts a source behind the others.
func (r *Registry) Add(s Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = append(r.sources, s)
}

// List gives every tool that is there now, sorted by name.
func (r *Registry) List() []Named {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []Named
	seen := map[string]bool{}
	for _, s := range r.sources {
		for _, t := range s.Tools() {
			name := r.name(t.Spec())
			if !seen[name] {
				seen[name] = true
				list = append(list, Named{name, t})
			}
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// Find gives the tool called name, if it is there now.
func (r *Registry) Find(name string) (Tool, bool) {
	for _, n := range r.List() {
		if n.Name == name {
			return n.Tool, true
		}
	}
	return nil, false
}

func (r *Registry) name(s Spec) string {
	id := s.Server + "\x00" + s.Name
	if name, ok := r.names[id]; ok {
		return name
	}
	name := s.As
	if name == "" {
		name = SafeName(s.Server, s.Name)
	}
	if owner, taken := r.owners[name]; taken && owner != id {
		name = withHash(name, id)
	}
	r.names[id], r.owners[name] = name, id
	return name
}

// SafeName joins server and tool to a name that every model provider takes: it
// starts with a letter or _, holds letters, digits, _ and -, and is at most
// MaxName long. A name that had to be cut ends in a short hash of the original;
// the registry does the same for names that would fall together.
func SafeName(server, name string) string {
	id := server + "\x00" + name
	plain := server + "_" + name
	safe := strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			return c
		}
		return '_'
	}, plain)
	if c := safe[0]; c == '-' || '0' <= c && c <= '9' {
		safe = "_" + safe
	}
	if len(safe) > MaxName || len(name) == 0 {
		return withHash(safe, id)
	}
	return safe
}

func withHash(safe, id string) string {
	sum := sha256.Sum256([]byte(id))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return safe[:min(len(safe), MaxName-len(suffix))] + suffix
}
