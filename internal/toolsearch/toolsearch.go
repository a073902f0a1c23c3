// Package toolsearch finds the right tool among thousands: an index in memory over
// names, descriptions, parameters and servers, and the five meta-tools by which a
// model uses it instead of reading every tool's schema.
//
// It promises that a search sees each server's tools as they were before or after
// an update, never in between, that the same tools and words give the same order
// whatever was added first, and that no text, however large or odd, makes a search
// slow. Ranking is lexical: BM25 over four weighted fields (BM25F, Robertson and
// Zaragoza 2009) on English stems, with near spellings for words that no tool has,
// words that say much the same where no tool has the words themselves, and each
// sentence of a long request searched apart. Which tools may be used, and running
// them, is left to the caller; where the tools come from, too.
package toolsearch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"ravenbot/internal/lexicon"
)

// Limits on what one tool or server may put into the index.
const (
	maxNameWords        = 32
	maxDescriptionWords = 200
	maxParameterWords   = 400
	maxServerWords      = 64
	maxSchema           = 256 << 10 // bytes; a larger schema is not read
	maxDepth            = 8         // of a schema
)

// Server is a server, or a pack of native tools, with all its tools.
type Server struct {
	Name  string
	Text  string // what it says of itself: its description or instructions
	Tools []Doc
}

// Doc is a tool as the index sees it. Name is that by which models call it and is
// its own alone; Parameters is a JSON Schema or nothing.
type Doc struct {
	Name        string
	Description string
	Parameters  json.RawMessage
}

// Hit is a tool that was found. Scores compare within one search only.
type Hit struct {
	Name   string
	Server string
	Score  float64
}

// Domain is a server with the number of its tools.
type Domain struct {
	Name  string
	Text  string
	Tools int
}

// Index holds tools and finds them by words. It is safe for concurrent use; the
// zero value is not ready, New makes one.
type Index struct {
	mu      sync.RWMutex
	servers map[string]*held
	slots   []slot   // tools; free ones have no name
	free    []uint32 // slots to be used again
	words   vocabulary
	scratch sync.Pool // of *sums
}

// held is a server in the index.
type held struct {
	Server
	slots []uint32
}

// slot is a tool in the index.
type slot struct {
	name, server string
	terms        []uint32
}

// New returns an empty index.
func New() *Index {
	return &Index{servers: map[string]*held{}, words: newVocabulary(),
		scratch: sync.Pool{New: func() any { return &sums{} }}}
}

// Replace puts a server into the index, in the place of what it held under that
// name. Searches see all of the change or nothing. The index keeps s.Tools, which
// must not be changed afterwards; a server that is as it was costs a comparison.
func (x *Index) Replace(s Server) {
	if x.holds(s) {
		return
	}
	docs := read(s)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(s.Name)
	h := &held{Server: s}
	for i, d := range docs {
		h.slots = append(h.slots, x.put(s.Tools[i].Name, s.Name, d))
	}
	x.servers[s.Name] = h
}

// holds reports that a server is in the index and has not changed.
func (x *Index) holds(s Server) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	h := x.servers[s.Name]
	return h != nil && h.Text == s.Text && slices.EqualFunc(h.Tools, s.Tools, func(a, b Doc) bool {
		return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Parameters, b.Parameters)
	})
}

// Remove takes a server out of the index; one that is not there is no fault.
func (x *Index) Remove(server string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(server)
}

// Sync makes the index hold these servers and no others. Each server changes as
// one; searches meanwhile may see some of them changed and others not yet.
func (x *Index) Sync(servers []Server) {
	kept := map[string]bool{}
	for _, s := range servers {
		kept[s.Name] = true
		x.Replace(s)
	}
	for _, d := range x.Domains() {
		if !kept[d.Name] {
			x.Remove(d.Name)
		}
	}
}

// Len is the number of tools.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.size()
}

func (x *Index) size() int { return len(x.slots) - len(x.free) }

// Domains lists the servers by name.
func (x *Index) Domains() []Domain {
	x.mu.RLock()
	defer x.mu.RUnlock()
	list := make([]Domain, 0, len(x.servers))
	for name, h := range x.servers {
		list = append(list, Domain{Name: name, Text: h.Text, Tools: len(h.slots)})
	}
	slices.SortFunc(list, func(a, b Domain) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// content is what the index takes from one tool.
type content struct {
	counts  map[string][fields]int
	lengths [fields]int
}

// read takes the words of a server's tools.
func read(s Server) []content {
	r := reader{}
	about := r.keywords(s.Name+"\n"+s.Text, maxServerWords)
	docs := make([]content, len(s.Tools))
	for i, d := range s.Tools {
		c := content{counts: map[string][fields]int{}}
		c.add(inName, r.allWords(d.Name, maxNameWords))
		c.add(inDescription, r.keywords(d.Description, maxDescriptionWords))
		c.add(inParameters, r.keywords(schemaWords(d.Parameters), maxParameterWords))
		c.add(inServer, about)
		docs[i] = c
	}
	return docs
}

func (c *content) add(field int, words []string) {
	c.lengths[field] = len(words)
	for _, w := range words {
		n := c.counts[w]
		n[field]++
		c.counts[w] = n
	}
}

// reader remembers the stems of words, as the tools of a server say much the same.
type reader map[string]string

// keywords gives the stems of a text's words, common ones left out.
func (r reader) keywords(text string, most int) []string {
	return r.stems(text, most, func(w string) bool { return !lexicon.Common(w) })
}

// allWords gives the stems of all words: a name may be of common words alone.
func (r reader) allWords(text string, most int) []string {
	return r.stems(text, most, func(string) bool { return true })
}

func (r reader) stems(text string, most int, keep func(string) bool) []string {
	var list []string
	lexicon.Each(text, func(w string) bool {
		if keep(w) {
			s, ok := r[w]
			if !ok {
				s = lexicon.Stem(w)
				r[w] = s
			}
			list = append(list, s)
		}
		return len(list) < most
	})
	return list
}

// put adds a tool.
func (x *Index) put(name, server string, c content) uint32 {
	at := uint32(len(x.slots))
	if n := len(x.free); n > 0 {
		at, x.free = x.free[n-1], x.free[:n-1]
	} else {
		x.slots = append(x.slots, slot{})
	}
	s := slot{name: strings.Clone(name), server: server, terms: make([]uint32, 0, len(c.counts))}
	for word, n := range c.counts {
		s.terms = append(s.terms, x.words.post(word, posting{at, worth(n, c.lengths)}))
	}
	x.slots[at] = s
	return at
}

// drop takes a server's tools out.
func (x *Index) drop(server string) {
	h := x.servers[server]
	if h == nil {
		return
	}
	delete(x.servers, server)
	gone, touched := make([]bool, len(x.slots)), map[uint32]bool{}
	for _, at := range h.slots {
		gone[at] = true
		for _, t := range x.slots[at].terms {
			touched[t] = true
		}
		x.slots[at] = slot{}
	}
	for t := range touched {
		x.words.unpost(t, gone)
	}
	x.free = append(x.free, h.slots...)
}
