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

// Embedder makes vectors of texts with an embedding model. Embed returns one vector for each text, in their order and
// of one length; texts of similar meaning have vectors of similar direction. Name identifies the model.
type Embedder struct {
	Name  string
	Embed func(ctx context.Context, texts []string) ([][]float32, error)
}

// Limits of semantic search.
const (
	maxBatch         = 64 // texts of one request
	maxEmbeddedBytes = 2000
	batchTimeout     = time.Minute
	queryTimeout     = 3 * time.Second // then a search goes on with words alone
	retryDelay       = time.Minute     // after a failure
	maxCompared      = 50              // tools of each ranking that are fused
	fusionConstant   = 60              // of reciprocal rank fusion (Cormack et al. 2009)
)

// SemanticIndex finds tools by their meaning, in addition to the index that finds them by their words. It is safe for
// concurrent use. Vectors are kept in memory.
type SemanticIndex struct {
	embedder func() (Embedder, bool) // false: none is configured
	log      *slog.Logger

	mu      sync.Mutex
	texts   map[string]string // of all tools, by name
	vectors map[string]vector
	changed chan struct{} // wakes Run

	// For Run alone. A request that fails may do so because of one text in it: its tools are postponed until all others
	// had their turn, and then asked for in smaller requests.
	batchSize int
	postponed map[string]bool
}

// vector is the vector of a text, scaled to length 1. key is the model and the text that it was made from.
type vector struct {
	key    string
	values []float32
}

// NewSemanticIndex returns an empty index. embedder returns the configured model, and false when there is none; it is
// called for each use, so that the configuration may change.
func NewSemanticIndex(embedder func() (Embedder, bool), log *slog.Logger) *SemanticIndex {
	return &SemanticIndex{
		embedder:  embedder,
		log:       log,
		vectors:   map[string]vector{},
		changed:   make(chan struct{}, 1),
		batchSize: maxBatch,
		postponed: map[string]bool{},
	}
}

// sync replaces the tools of the index. Run makes the vectors of new ones later.
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
	// A tool that is gone must not keep its vector in memory.
	maps.DeleteFunc(m.vectors, func(name string, _ vector) bool { _, kept := texts[name]; return !kept })
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// Run makes the missing vectors until ctx ends. After a failure it goes on with other tools in a minute; meanwhile the
// tools are found by their words.
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

// embedBatch makes vectors of the next tools. It returns false when none is missing.
func (m *SemanticIndex) embedBatch(ctx context.Context) bool {
	e, on := m.embedder()
	if !on {
		return false
	}
	names, texts := m.nextBatch(e.Name)
	if len(names) == 0 && len(m.postponed) > 0 {
		clear(m.postponed)
		m.batchSize = max(1, m.batchSize/2)
		return true
	}
	if len(names) == 0 {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, batchTimeout)
	list, err := e.Embed(limited, texts)
	cancel()
	if err == nil && len(list) != len(texts) {
		err = fmt.Errorf("the model returned %d vectors for %d texts", len(list), len(texts))
	}
	if err != nil {
		if ctx.Err() == nil {
			m.log.Warn("failed to embed tools; retrying later", "model", e.Name, "tools", len(names), "error", err)
		}
		for _, name := range names {
			m.postponed[name] = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryDelay):
		}
		return true
	}
	// A model that was down for long must not be asked for its tools one by one.
	m.batchSize = min(2*m.batchSize, maxBatch)
	m.mu.Lock()
	defer m.mu.Unlock()
	// The lock was free during the request: a tool may be gone by now.
	for i, name := range names {
		if _, there := m.texts[name]; there {
			m.vectors[name] = vector{e.Name + "\n" + texts[i], normalize(list[i])}
		}
	}
	return true
}

// nextBatch returns tools that have no vector of their current text by a model and are not postponed.
func (m *SemanticIndex) nextBatch(model string) (names, texts []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.texts)) {
		if len(names) < m.batchSize && !m.postponed[name] && m.vectors[name].key != model+"\n"+m.texts[name] {
			names, texts = append(names, name), append(texts, m.texts[name])
		}
	}
	return names, texts
}

// find returns the names of tools whose meaning is closest to a query, the closest first. It returns none, and logs
// why, when the query cannot be embedded in time.
func (m *SemanticIndex) find(ctx context.Context, query string, among map[string]tool.Named) []string {
	e, on := m.embedder()
	if !on {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	list, err := e.Embed(ctx, []string{text.Cut(query, maxEmbeddedBytes)})
	if err != nil || len(list) != 1 {
		m.log.Warn("failed to embed a query; searching by words alone", "model", e.Name, "error", err)
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
		// Vectors of the model that was configured before may be left, and have another length.
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

// fuse merges two rankings by the ranks of their members in each (reciprocal rank fusion), since scores of different
// rankings cannot be compared.
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

// normalize returns v scaled to length 1, or nil when it has no direction.
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

// dotProduct returns the similarity of two vectors of the same length; of unit vectors it is their
// cosine.
func dotProduct(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}
