package toolsearch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/recall/search"
)

// The size at which the index is measured.
const (
	manyServers   = 100
	toolsPerEach  = 100
	vocabularyOf  = 12000
	manyQuestions = 400
)

// invented makes servers of tools from words that do not exist, some of them far
// more frequent than others, as in every language.
type invented struct {
	random *rand.Rand
	often  *rand.Zipf
	words  []string
}

func newInvented() *invented {
	random := rand.New(rand.NewPCG(1, 2))
	v := &invented{random: random, often: rand.NewZipf(random, 1.1, 20, vocabularyOf-1)}
	starts, vowels, ends := strings.Fields("b c d f g h j k l m n p qu r s t v w x y z sh tr pl br st"), "aeiou", strings.Fields("_ _ _ l m n r s t nd ck")
	for range vocabularyOf {
		word := ""
		for range 2 + random.IntN(3) {
			word += starts[random.IntN(len(starts))] + vowels[random.IntN(5):][:1] +
				strings.Trim(ends[random.IntN(len(ends))], "_")
		}
		v.words = append(v.words, word)
	}
	return v
}

func (v *invented) text(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = v.words[v.often.Uint64()]
	}
	return strings.Join(list, " ")
}

func (v *invented) server(i int) Server {
	s := Server{Name: fmt.Sprintf("server%d", i), Text: v.text(30)}
	for j := range toolsPerEach {
		parameters := map[string]any{}
		for range 5 {
			parameters[strings.ReplaceAll(v.text(2), " ", "_")] = map[string]any{"type": "string", "description": v.text(10)}
		}
		schema, err := json.Marshal(map[string]any{"type": "object", "properties": parameters})
		if err != nil {
			panic(err)
		}
		s.Tools = append(s.Tools, Doc{Name: fmt.Sprintf("server%d_%s_%d", i, strings.ReplaceAll(v.text(3), " ", "_"), j),
			Description: v.text(25), Parameters: schema})
	}
	return s
}

// questions are requests of one to six sentences, with a typing error in each.
func (v *invented) questions() []string {
	list := make([]string, manyQuestions)
	for i := range list {
		var sentences []string
		for range 1 + i%6 {
			sentences = append(sentences, v.text(12)+" "+mistype(v.text(3)))
		}
		list[i] = strings.Join(sentences, ". ")
	}
	return list
}

func many() (*Index, *invented, []Server) {
	v, x := newInvented(), New()
	var all []Server
	for i := range manyServers {
		all = append(all, v.server(i))
		x.Replace(all[i])
	}
	return x, v, all
}

// report adds the times of single rounds to what a benchmark prints.
func report(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(quantile(times, 0.5), "p50-ms")
	b.ReportMetric(quantile(times, 0.99), "p99-ms")
}

func timed(b *testing.B, do func(i int)) {
	var times []time.Duration
	for i := 0; b.Loop(); i++ {
		began := time.Now()
		do(i)
		times = append(times, time.Since(began))
	}
	report(b, times)
}

// BenchmarkTenThousandTools measures search and update beside the floor, plain
// BM25 over one field, whose update is to build it anew.
func BenchmarkTenThousandTools(b *testing.B) {
	x, v, all := many()
	questions := v.questions()
	b.Run("search", func(b *testing.B) {
		timed(b, func(i int) { x.Search(questions[i%len(questions)], 10, nil) })
	})
	b.Run("search/some may be used", func(b *testing.B) {
		keep := func(name string) bool { return !strings.HasPrefix(name, "server7_") }
		timed(b, func(i int) { x.Search(questions[i%len(questions)], 10, keep) })
	})
	b.Run("search/nothing known", func(b *testing.B) {
		var words []string
		for i := range 256 {
			words = append(words, fmt.Sprintf("%cunknown%cword", 'a'+i%26, 'a'+i/26))
		}
		query := strings.Join(words, " ")
		timed(b, func(int) { x.Search(query, 10, nil) })
	})
	floor := newPlain(all)
	b.Run("search/floor", func(b *testing.B) {
		timed(b, func(i int) { floor.search(questions[i%len(questions)], 10) })
	})
	others := []Server{v.server(5), all[5]}
	b.Run("update", func(b *testing.B) {
		timed(b, func(i int) { x.Replace(others[i%2]) })
	})
	b.Run("update/nothing changed", func(b *testing.B) {
		timed(b, func(int) { x.Sync(all) })
	})
	b.Run("update/floor", func(b *testing.B) {
		timed(b, func(int) { newPlain(all) })
	})
}

// BenchmarkTenThousandEnglishTools searches among collected tools, several times over,
// with the requests of people: words of which others say much the same.
func BenchmarkTenThousandEnglishTools(b *testing.B) {
	seal := readCorpus(b, "seal-tools")
	x := New()
	for round := 0; x.Len() < manyServers*toolsPerEach; round++ {
		for _, s := range seal.servers {
			again := Server{Name: fmt.Sprintf("%s%d", s.Name, round)}
			for _, d := range s.Tools {
				d.Name = fmt.Sprintf("%s_%d", d.Name, round)
				again.Tools = append(again.Tools, d)
			}
			x.Replace(again)
		}
	}
	for _, set := range []string{"metatool", "seal-tools"} {
		b.Run(set, func(b *testing.B) {
			var questions []string
			for _, list := range readCorpus(b, set).questions {
				for _, q := range list {
					questions = append(questions, q.Query)
				}
			}
			timed(b, func(i int) { x.Search(questions[i%len(questions)], 10, nil) })
		})
	}
}

// TestTenThousandToolsFitInMemory counts the index alone: the tools are the
// caller's.
func TestTenThousandToolsFitInMemory(t *testing.T) {
	v := newInvented()
	var all []Server
	for i := range manyServers {
		all = append(all, v.server(i))
	}
	before := inUse()
	x := New()
	x.Sync(all)
	size := inUse() - before
	t.Logf("%d tools take %.1f MB", x.Len(), float64(size)/1e6)
	if x.Len() != manyServers*toolsPerEach {
		t.Errorf("the index holds %d tools", x.Len())
	}
	if size > 60e6 {
		t.Errorf("the index takes %d bytes, want 60 MB at most", size)
	}
	runtime.KeepAlive(all)
}

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// plain is BM25 as in the books, over all text of a tool as one field.
type plain struct {
	names   []string
	lengths []float64
	average float64
	counts  map[string]map[int]float64
}

func newPlain(servers []Server) *plain {
	p := &plain{counts: map[string]map[int]float64{}}
	for _, s := range servers {
		for _, d := range s.Tools {
			at := len(p.names)
			p.names = append(p.names, d.Name)
			words := plainWords(d.Name + " " + d.Description + " " + schemaWords(d.Parameters))
			p.lengths = append(p.lengths, float64(len(words)))
			p.average += float64(len(words))
			for _, w := range words {
				if p.counts[w] == nil {
					p.counts[w] = map[int]float64{}
				}
				p.counts[w][at]++
			}
		}
	}
	p.average /= float64(max(len(p.names), 1))
	return p
}

func plainWords(text string) []string { return slices.Collect(search.Words(text)) }

func (p *plain) search(query string, k int) []string {
	const k1, b = 1.2, 0.75
	scores := map[int]float64{}
	for _, w := range plainWords(query) {
		n, all := float64(len(p.counts[w])), float64(len(p.names))
		for at, count := range p.counts[w] {
			scores[at] += math.Log(1+(all-n+0.5)/(n+0.5)) * count * (k1 + 1) / (count + k1*(1-b+b*p.lengths[at]/p.average))
		}
	}
	var list []int
	for at := range scores {
		list = append(list, at)
	}
	slices.SortFunc(list, func(a, b int) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(p.names[a], p.names[b]))
	})
	var names []string
	for _, at := range list[:min(len(list), k)] {
		names = append(names, p.names[at])
	}
	return names
}
