package toolsearch

import (
	"math"
	"slices"
	"time"
)

// Question is a request whose right answer is known: the tools in Gold, at least one, in no order.
type Question struct {
	Query string
	Gold  []string
}

// Score says how good a search is: averages over all questions, from 0 to 1, and times in milliseconds.
type Score struct {
	Recall1  float64 `json:"recall@1"`
	Recall3  float64 `json:"recall@3"`
	Recall5  float64 `json:"recall@5"`
	Recall10 float64 `json:"recall@10"`
	NDCG10   float64 `json:"ndcg@10"`
	MRR      float64 `json:"mrr"` // mean reciprocal rank of the first right tool
	P50Ms    float64 `json:"p50Ms"`
	P99Ms    float64 `json:"p99Ms"`
}

// Measure searches for every question, and returns how good the rankings of the k best tools, but at least of ten,
// are. It passes the k best of each to show, unless that is nil.
func (x *Index) Measure(questions []Question, k int, show func(q Question, ranked []string)) Score {
	var sum Score
	times := make([]time.Duration, 0, len(questions))
	for _, q := range questions {
		began := time.Now()
		hits := x.Search(q.Query, max(k, 10), nil)
		times = append(times, time.Since(began))
		ranked := make([]string, len(hits))
		for i, h := range hits {
			ranked[i] = h.Name
		}
		sum.add(q.Gold, ranked)
		if show != nil {
			show(q, ranked[:min(len(ranked), k)])
		}
	}
	if n := float64(len(questions)); n > 0 {
		for _, f := range []*float64{&sum.Recall1, &sum.Recall3, &sum.Recall5, &sum.Recall10, &sum.NDCG10, &sum.MRR} {
			*f /= n
		}
		slices.Sort(times)
		sum.P50Ms, sum.P99Ms = quantile(times, 0.5), quantile(times, 0.99)
	}
	return sum
}

// add adds the measures of one query, whose right tools are gold and whose answer is ranked.
func (s *Score) add(gold, ranked []string) {
	n := float64(len(gold))
	s.Recall1 += countFound(gold, ranked, 1) / n
	s.Recall3 += countFound(gold, ranked, 3) / n
	s.Recall5 += countFound(gold, ranked, 5) / n
	s.Recall10 += countFound(gold, ranked, 10) / n
	gain, ideal := 0.0, 0.0
	// A right tool counts less the later it comes. NDCG divides by what the best order would have reached.
	for i := range 10 {
		worth := 1 / math.Log2(float64(i)+2)
		if i < len(ranked) && slices.Contains(gold, ranked[i]) {
			gain += worth
		}
		if i < len(gold) {
			ideal += worth
		}
	}
	s.NDCG10 += gain / ideal
	if i := slices.IndexFunc(ranked, func(name string) bool { return slices.Contains(gold, name) }); i >= 0 {
		s.MRR += 1 / float64(i+1)
	}
}

// countFound returns how many of the first k names are in gold.
func countFound(gold, ranked []string, k int) (n float64) {
	for _, name := range ranked[:min(k, len(ranked))] {
		if slices.Contains(gold, name) {
			n++
		}
	}
	return n
}

// quantile returns the smallest time that a share of all times does not exceed.
func quantile(sorted []time.Duration, share float64) float64 {
	i := int(math.Ceil(share*float64(len(sorted)))) - 1
	return float64(sorted[i].Nanoseconds()) / 1e6
}
