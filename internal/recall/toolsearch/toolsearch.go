// Package toolsearch finds the right tool among thousands. It has an index in memory over names, descriptions,
// parameters and servers (package search), and five meta-tools that a model uses instead of reading the schema of
// every tool.
//
// It promises that a search sees the tools of each server before or after an update, never in between, that the same
// tools and words give the same order, and that no tool or server can flood the index. The caller provides and runs
// the tools and decides which are allowed.
package toolsearch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"ravenbot/internal/recall/search"
)

// Server is a server, or a pack of native tools, with all its tools.
type Server struct {
	Name  string
	Text  string // how it describes itself: its description or instructions
	Tools []Doc
}

// Doc is a tool in the index. Name is that by which models call it, and is unique; Parameters is a JSON Schema or
// nothing.
type Doc struct {
	Name        string
	Description string
	Parameters  json.RawMessage
}

// Hit is a tool that was found. Scores are comparable within one search only.
type Hit struct {
	Name  string
	Score float64
}

// Index holds tools and finds them by words. It is safe for concurrent use; New makes one.
type Index struct {
	tools *search.Index[toolKey]

	mu      sync.RWMutex // of servers; Search does not take it
	servers map[string]Server
}

// toolKey is a tool in the index.
type toolKey struct{ name, server string }

// indexFields are the name, the beginning and the rest of the description, the parameters and the server of a tool. The
// figures were chosen by
// measuring, on Seal-Tools' dev split and on one half of MetaTool's requests, and are checked on the rest
// (recall_test.go). A long description says more, so its length costs nothing.
var indexFields = []search.Field{
	{Weight: 3, LengthEffect: 0.2, UsualLength: 3, MaxWords: 32, KeepCommon: true}, // a name may be of common words alone
	{Weight: 1, MaxWords: 200},
	{Weight: 0.2, LengthEffect: 0.5, UsualLength: 40, MaxWords: 400},
	{Weight: 0.5, LengthEffect: 0.4, UsualLength: 20, MaxWords: 400},
	{Weight: 0.5, LengthEffect: 0.5, UsualLength: 2, MaxWords: 64},
}

// New returns an empty index.
func New() *Index {
	byName := func(a, b toolKey) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.server, b.server))
	}
	return &Index{tools: search.New(byName, indexFields...), servers: map[string]Server{}}
}

// Replace puts a server into the index, in the place of what it held under that name. Searches see all of the change
// or nothing. The index keeps s.Tools, which must not be changed afterwards. A server that has not changed costs a
// comparison.
func (x *Index) Replace(s Server) {
	x.mu.Lock()
	defer x.mu.Unlock()
	// The lock is held while the words are indexed, so that two changes of one server cannot mix. Searches go on.
	before, known := x.servers[s.Name]
	if known && before.equal(s) {
		return
	}
	docs := make([]search.Doc[toolKey], len(s.Tools))
	for i, t := range s.Tools {
		head, rest := cutDescription(t.Description)
		docs[i] = search.Doc[toolKey]{
			Key:   toolKey{t.Name, s.Name},
			Texts: []string{t.Name, head, rest, schemaWords(t.Parameters), s.Name + "\n" + s.Text},
		}
	}
	x.tools.Update(before.keys(), docs)
	x.servers[s.Name] = s
}

// equal reports whether two states of a server are the same, so that nothing has to be indexed
// again.
func (s Server) equal(other Server) bool {
	return s.Text == other.Text && slices.EqualFunc(s.Tools, other.Tools, func(a, b Doc) bool {
		return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Parameters, b.Parameters)
	})
}

// keys returns the keys of the tools of a server in the index.
func (s Server) keys() []toolKey {
	list := make([]toolKey, len(s.Tools))
	for i, t := range s.Tools {
		list[i] = toolKey{t.Name, s.Name}
	}
	return list
}

// Remove takes a server out of the index. A server that is not there is ignored.
func (x *Index) Remove(server string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tools.Update(x.servers[server].keys(), nil)
	delete(x.servers, server)
}

// Sync makes the index hold these servers and no others. Each server changes as one; searches meanwhile may see some
// of them changed and others not yet.
func (x *Index) Sync(servers []Server) {
	kept := map[string]bool{}
	for _, s := range servers {
		kept[s.Name] = true
		x.Replace(s)
	}
	x.mu.RLock()
	names := slices.Collect(maps.Keys(x.servers))
	x.mu.RUnlock()
	for _, name := range names {
		if !kept[name] {
			x.Remove(name)
		}
	}
}

// Search returns the k tools that fit a request in words best, the best first; where keep is not nil, of those whose
// name it accepts. keep must be quick and must not use the index. A tool that fits in no word is not returned.
func (x *Index) Search(query string, k int, keep func(name string) bool) []Hit {
	q := search.Query[toolKey]{Text: query, Limit: k, Related: true}
	if keep != nil {
		q.Keep = func(t toolKey) bool { return keep(t.name) }
	}
	var list []Hit
	for _, h := range x.tools.Search(q) {
		list = append(list, Hit{Name: h.Key.name, Score: h.Score})
	}
	return list
}

// Len returns the number of tools.
func (x *Index) Len() (n int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, s := range x.servers {
		n += len(s.Tools)
	}
	return n
}
