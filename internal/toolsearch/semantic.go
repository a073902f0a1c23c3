package toolsearch

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"ravenbot/internal/text"
	"ravenbot/internal/tool"
)

// Embedder gives texts as vectors of one length, in their order: the more alike the
// direction of two, the more alike what they mean. Name tells one model from another.
type Embedder struct {
	Name  string
	Embed func(ctx context.Context, texts []string) ([][]float32, error)
}

// Bounds of comparing meanings.
const (
	maxBatch         = 64 // texts at once
	maxEmbeddedBytes = 2000
	batchTimeout     = time.Minute
	queryTimeout     = 3 * time.Second // a search does not wait longer for its words
	retryDelay       = time.Minute     // after a failure
	maxCompared      = 50              // of each ranking that are fused
	fusionConstant   = 60              // of reciprocal rank fusion (Cormack et al. 2009)
)

// SemanticIndex finds tools by what they mean, beside the index that finds them by their
// words. It is safe for concurrent use. Vectors are kept in memory.
type SemanticIndex struct {
	embedder func() (Embedder, bool) // false: none is configured
	log      *slog.Logger

	mu      sync.Mutex
	texts   map[string]string // of all tools, by name
	vectors map[string]vector
	changed chan struct{}
}

// vector is that of a text by a model, of length 1.
type vector struct {
	key    string
	values []float32
}

// NewSemanticIndex returns a Meaning that asks now for what is configured.
func NewSemanticIndex(now func() (Embedder, bool), log *slog.Logger) *SemanticIndex {
	return &SemanticIndex{embedder: now, log: log, vectors: map[string]vector{}, changed: make(chan struct{}, 1)}
}

// sync tells of all tools there are.
func (m *SemanticIndex) sync(servers []Server) {
	if _, on := m.embedder(); !on {
		return
	}
	texts := map[string]string{}
	for _, s := range servers {
		for _, d := range s.Tools {
			texts[d.Name] = text.Cut(fmt.Sprintf("%s: %s\n%s", d.Name, d.Description, s.Text), maxEmbeddedBytes)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if maps.Equal(m.texts, texts) {
		return
	}
	m.texts = texts
	maps.DeleteFunc(m.vectors, func(name string, _ vector) bool { _, kept := texts[name]; return !kept })
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// Run makes vectors of tools that have none until ctx ends. After a failure it tries
// again in a minute; meanwhile tools are found by their words.
func (m *SemanticIndex) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.changed:
		}
		for m.embedBatch(ctx) {
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// embedBatch makes vectors of the next tools; false: there are none left.
func (m *SemanticIndex) embedBatch(ctx context.Context) bool {
	e, on := m.embedder()
	if !on {
		return false
	}
	names, texts := m.nextBatch(e.Name)
	if len(names) == 0 {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, batchTimeout)
	list, err := e.Embed(limited, texts)
	cancel()
	if err == nil && len(list) != len(texts) {
		err = fmt.Errorf("%d vectors were given for %d texts", len(list), len(texts))
	}
	if err != nil {
		if ctx.Err() == nil {
			m.log.Warn("tools not compared by their meaning", "model", e.Name, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryDelay):
		}
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, name := range names {
		if _, there := m.texts[name]; there {
			m.vectors[name] = vector{e.Name + "\n" + texts[i], normalize(list[i])}
		}
	}
	return true
}

// nextBatch gives some tools without a vector of their text by a model.
func (m *SemanticIndex) nextBatch(model string) (names, texts []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.texts)) {
		if len(names) < maxBatch && m.vectors[name].key != model+"\n"+m.texts[name] {
			names, texts = append(names, name), append(texts, m.texts[name])
		}
	}
	return names, texts
}

// find gives the names of tools that mean what a request does, the best first; none
// where they cannot be compared now.
func (m *SemanticIndex) find(ctx context.Context, query string, among map[string]tool.Named) []string {
	e, on := m.embedder()
	if !on {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	list, err := e.Embed(ctx, []string{text.Cut(query, maxEmbeddedBytes)})
	if err != nil || len(list) != 1 {
		m.log.Warn("request not compared by its meaning", "model", e.Name, "error", err)
		return nil
	}
	asked := normalize(list[0])
	type near struct {
		name string
		dot  float64
	}
	var all []near
	m.mu.Lock()
	for name, v := range m.vectors {
		if _, ok := among[name]; ok && len(v.values) == len(asked) {
			all = append(all, near{name, dotProduct(v.values, asked)})
		}
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b near) int { return cmp.Or(cmp.Compare(b.dot, a.dot), cmp.Compare(a.name, b.name)) })
	var names []string
	for _, n := range all[:min(len(all), maxCompared)] {
		names = append(names, n.name)
	}
	return names
}

// fuse puts two rankings together by the ranks that their members have in each
// (reciprocal rank fusion).
func fuse(hits []Hit, names []string, among map[string]tool.Named, k int) []Hit {
	if len(names) == 0 {
		return hits[:min(len(hits), k)]
	}
	scores := map[string]float64{}
	for i, h := range hits {
		scores[h.Name] += 1 / float64(fusionConstant+1+i)
	}
	for i, name := range names {
		scores[name] += 1 / float64(fusionConstant+1+i)
	}
	var list []Hit
	for name, score := range scores {
		list = append(list, Hit{Name: name, Server: among[name].Tool.Spec().Server, Score: score})
	}
	slices.SortFunc(list, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), k)]
}

// normalize gives a vector the length 1.
func normalize(v []float32) []float32 {
	length := math.Sqrt(dotProduct(v, v))
	if length == 0 || math.IsNaN(length) || math.IsInf(length, 0) {
		return nil
	}
	u := make([]float32, len(v))
	for i, x := range v {
		u[i] = float32(float64(x) / length)
	}
	return u
}

func dotProduct(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}
