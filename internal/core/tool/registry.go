package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
)

// maxName is the longest name of a tool for models, in bytes: Gemini's clients cut names at 63.
const maxName = 63

// Source returns the current tools of one server or pack. It must be quick: it is called for every request to a
// model.
type Source interface {
	Tools() []Tool
}

// Named is a tool with the name that models use.
type Named struct {
	Name string
	Tool Tool
}

// Registry is the table from safe names to tools. A tool gets its name when it is first seen and keeps it for the
// lifetime of the registry, because conversations refer to earlier tools. If two tools would get the same name, the
// source that was added first gets the plain name. It is safe for concurrent use.
type Registry struct {
	mu      sync.Mutex
	sources []Source
	names   map[identity]string // safe names
	owners  map[string]identity // by safe name
}

// identity identifies a tool independent of its safe name.
type identity struct{ server, tool string }

// NewRegistry returns a registry of the tools of sources, native packs first.
func NewRegistry(sources ...Source) *Registry {
	return &Registry{sources: sources, names: map[identity]string{}, owners: map[string]identity{}}
}

// Add adds a source after the others.
func (r *Registry) Add(s Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = append(r.sources, s)
}

// List returns all current tools, sorted by name.
func (r *Registry) List() []Named {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Named, 0, len(r.names))
	for _, s := range r.sources {
		for _, t := range s.Tools() {
			list = append(list, Named{r.name(t.Spec()), t})
		}
	}
	// If two sources have the same tool, the first source wins: the sort is stable.
	slices.SortStableFunc(list, func(a, b Named) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(list, func(a, b Named) bool { return a.Name == b.Name })
}

// Find returns the tool called name, or false if there is none now.
func (r *Registry) Find(name string) (Tool, bool) {
	for _, n := range r.List() {
		if n.Name == name {
			return n.Tool, true
		}
	}
	return nil, false
}

// name returns the name under which models call a tool. A later tool with the same name gets a hash at the end.
func (r *Registry) name(s Spec) string {
	id := identity{s.Server, s.Name}
	if name, ok := r.names[id]; ok {
		return name
	}
	name := s.As
	if name == "" {
		name = SafeName(s.Server, s.Name)
	}
	if owner, taken := r.owners[name]; taken && owner != id {
		name = withHash(name, s.Server+"\x00"+s.Name)
	}
	r.names[id], r.owners[name] = name, id
	return name
}

// SafeName joins the names of a server and its tool into one that every model provider accepts: it starts with a
// letter or _, contains letters, digits, _ and -, and has at most MaxName bytes. A truncated name ends in a short hash
// of the original. The registry also adds a hash if two names would be equal.
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
	if len(safe) > maxName || len(name) == 0 {
		return withHash(safe, id)
	}
	return safe
}

// withHash returns a safe name that ends in a hash of id.
func withHash(safe, id string) string {
	sum := sha256.Sum256([]byte(id))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return safe[:min(len(safe), maxName-len(suffix))] + suffix
}
