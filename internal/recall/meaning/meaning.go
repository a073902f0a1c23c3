// Package meaning finds tools, notes, messages and passages of files by their meaning, in addition to a search by
// words. It compares vectors that an embedding model makes.
//
// It promises that a search never waits for the vectors of texts, which are made in batches in the background, and
// waits only briefly for the vector of its question. Without that vector, only words decide. A vector is made once for
// each text and model, and stored (vectors.go). Vectors of deleted texts are deleted. A ranking holds only texts that
// the caller offers, so the caller checks permissions.
package meaning

import (
	"cmp"
	"context"
	"crypto/sha256"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/text"
	"ravenbot/internal/store/kv"
)

// Embedder makes vectors of texts with an embedding model. Embed returns one vector for each text, in their order and
// of one length; texts of similar meaning have vectors of similar direction. Name identifies the model.
type Embedder struct {
	Name  string
	Embed func(ctx context.Context, texts []string) ([][]float32, error)
}

// How much more similar to a question than the average text a text must be to be found, in standard deviations. A fixed
// similarity would not do: what is similar differs from model to model.
const (
	Near     = 1.0 // for somebody who searches
	Striking = 2.0 // for a text that is shown although nobody searched
)

// Limits of searches.
const (
	maxTextBytes   = 2000
	queryTimeout   = 1500 * time.Millisecond
	queryPause     = 20 * time.Second // after a failure
	maxQueries     = 256              // vectors of questions that are remembered
	maxCompared    = 50               // texts that are found by their meaning
	fusionConstant = 60               // of reciprocal rank fusion (Cormack et al. 2009)
)

// Texts returns the texts that a group has now. It returns ErrUnknown if they are not known yet.
type Texts func(ctx context.Context, name string) ([]string, error)

// Doc is a text that may be found. Its group is named KIND/NAME, such as the notes of a user.
type Doc[K comparable] struct {
	Key         K
	Group, Text string
}

// Index holds the vectors of texts. It is safe for concurrent use. A nil Index finds nothing.
type Index struct {
	embedder func() (Embedder, bool)
	db       kv.DB
	log      *slog.Logger
	added    chan struct{} // wakes Run

	mu      sync.Mutex
	owners  map[string]Texts // by kind
	groups  map[string]*group
	bytes   int               // of the vectors of all groups
	queries map[string]vector // by id
	pause   time.Time         // until then no question is embedded, because the last one failed
	waiting []item            // texts without a vector; the last comes first

	// For Run alone. A request that fails may do so because of one text in it: its texts are postponed until all others
	// had their turn, and then sent in smaller requests.
	batchSize int
	postponed []item
}

// group is the part of a group that is in memory. A vector in it is nil while it is being made.
type group struct {
	name    string
	vectors map[string]vector
	bytes   int
	used    time.Time
}

// item is a text that needs a vector.
type item struct {
	group    *group
	id, text string
	vector   vector
	isMade   bool // the vector is not stored yet
}

// New returns an empty index. embedder returns the configured model, and false if there is none; it is called for each
// use, so that the configuration may change.
func New(embedder func() (Embedder, bool), db kv.DB, log *slog.Logger) *Index {
	return &Index{
		embedder:  embedder,
		db:        db,
		log:       log,
		added:     make(chan struct{}, 1),
		owners:    map[string]Texts{},
		groups:    map[string]*group{},
		queries:   map[string]vector{},
		batchSize: maxBatch,
	}
}

// Own sets who knows the texts of the groups of a kind.
func (x *Index) Own(kind string, texts Texts) {
	if x != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.owners[kind] = texts
	}
}

// model returns the configured model, and false if there is none.
func (x *Index) model() (Embedder, bool) {
	if x == nil {
		return Embedder{}, false
	}
	return x.embedder()
}

// list returns the texts of a group, as its owner knows them.
func (x *Index) list(ctx context.Context, name string) ([]string, error) {
	kind, rest, _ := strings.Cut(name, "/")
	x.mu.Lock()
	texts := x.owners[kind]
	x.mu.Unlock()
	if texts == nil {
		return nil, nil
	}
	return texts(ctx, rest)
}

// Add makes the vectors of a group in the background, before anybody searches it.
func (x *Index) Add(ctx context.Context, name string) {
	e, on := x.model()
	if !on {
		return
	}
	texts, err := x.list(ctx, name)
	if err != nil {
		x.log.Warn("failed to list texts; embedding them when they are searched", "group", name, "error", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, t := range texts {
		x.find(name, e.Name, t)
	}
}

// identify returns the name of the vector of a text by a model.
func identify(model, words string) string {
	sum := sha256.Sum256([]byte(model + "\n" + text.Cut(words, maxTextBytes)))
	return string(sum[:16])
}

// find returns the vector of a text, or nil while there is none; then Run makes it. x.mu is held.
func (x *Index) find(name, model, text string) vector {
	g := x.groups[name]
	if g == nil {
		g = &group{name: name, vectors: map[string]vector{}}
		x.groups[name] = g
	}
	g.used = time.Now()
	id := identify(model, text)
	v, known := g.vectors[id]
	if !known && len(x.waiting) < maxWaiting {
		g.vectors[id] = nil
		x.waiting = append(x.waiting, item{group: g, id: id, text: text})
	}
	if v == nil {
		select {
		case x.added <- struct{}{}:
		default:
		}
	}
	return v
}

// Query is a question with its vector. A nil Query finds nothing.
type Query struct {
	index  *Index
	model  string
	vector vector
}

// Query returns a question with its vector. It returns nil if no model is configured or if the model does not answer
// within queryTimeout; then no model is asked for queryPause, so that not every search waits.
func (x *Index) Query(ctx context.Context, question string) *Query {
	e, on := x.model()
	if !on || strings.TrimSpace(question) == "" {
		return nil
	}
	id := identify(e.Name, question)
	x.mu.Lock()
	v, known := x.queries[id]
	isPaused := time.Now().Before(x.pause)
	x.mu.Unlock()
	switch {
	case known:
		return &Query{x, e.Name, v}
	case isPaused:
		return nil
	}
	vectors, err := embed(ctx, e, []string{question}, queryTimeout)
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			x.pause = time.Now().Add(queryPause)
			x.log.Warn("failed to embed a question; searching by words only", "model", e.Name, "for", queryPause, "error", err)
		}
		return nil
	}
	if len(x.queries) >= maxQueries {
		clear(x.queries)
	}
	x.queries[id] = vectors[0]
	return &Query{x, e.Name, vectors[0]}
}

// Fuse returns the keys of the texts that fit a question, the best first: a ranking by words, merged with a ranking by
// meaning of the docs that are at least so many standard deviations more similar to the question than the average.
// Rankings are merged by the ranks of their members (reciprocal rank fusion), since scores of different rankings cannot
// be compared. Without a question that has a vector it returns byWords.
func Fuse[K comparable](q *Query, byWords []K, docs []Doc[K], deviations float64) []K {
	if q == nil {
		return byWords
	}
	scores := map[K]float64{}
	var fused []K
	for _, ranking := range [][]K{byWords, nearest(q, docs, deviations)} {
		for rank, key := range ranking {
			if scores[key] == 0 {
				fused = append(fused, key)
			}
			scores[key] += 1 / float64(fusionConstant+1+rank)
		}
	}
	slices.SortStableFunc(fused, func(a, b K) int { return cmp.Compare(scores[b], scores[a]) })
	return fused
}

// nearest returns the keys of the docs that are most similar to the question, the most similar first.
func nearest[K comparable](q *Query, docs []Doc[K], deviations float64) []K {
	vectors := make([]vector, len(docs))
	q.index.mu.Lock()
	for i, d := range docs {
		vectors[i] = q.index.find(d.Group, q.model, d.Text)
	}
	q.index.mu.Unlock()
	likeness := map[K]float64{}
	var keys []K
	sum, squares := 0.0, 0.0
	for i, v := range vectors {
		if len(v) > 0 && len(v) == len(q.vector) {
			like := v.compare(q.vector)
			keys, likeness[docs[i].Key] = append(keys, docs[i].Key), like
			sum, squares = sum+like, squares+like*like
		}
	}
	n := float64(len(keys))
	mean := sum / n
	least := mean + max(minDifference, deviations*math.Sqrt(max(0, squares/n-mean*mean)))
	keys = slices.DeleteFunc(keys, func(k K) bool { return likeness[k] < least })
	slices.SortStableFunc(keys, func(a, b K) int { return cmp.Compare(likeness[b], likeness[a]) })
	return keys[:min(len(keys), maxCompared)]
}
