package feed

import (
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/core/text"
)

const (
	maxLeadWords = 60  // words of a text that say what it is about
	titleWeight  = 2.5 // how many words of the text a word of the title counts for
	maxTextWords = 500 // words of a text that are compared for reprints
	minShingles  = 12  // fewer are too little text to recognize a reprint
	sketchSize   = 8   // smallest hashes by which candidates for reprints are found
)

// vector is a list of weighted terms, with their counts at first and their weights after weighTerms. It has unit length
// then, or no terms.
type (
	vector   = text.Vector[string]
	weighted = text.Weighted[string]
)

// weighTerms turns the counts of every entry's terms into weights. Terms that few entries use weigh most.
func weighTerms(list []*groupEntry) {
	in := map[string]int{}
	for _, t := range list {
		for _, w := range t.terms {
			in[w.Term]++
		}
	}
	// The constants keep weights moderate when there are only a few entries.
	rarity := func(term string) float64 { return 1 + math.Log(float64(len(list)+8)/float64(in[term]+1)) }
	for _, t := range list {
		for i, w := range t.titleTerms {
			t.titleTerms[i].Weight = rarity(w.Term)
		}
		var square float64
		for i, w := range t.terms {
			t.terms[i].Weight = (1 + math.Log(w.Weight)) * rarity(w.Term)
			square += t.terms[i].Weight * t.terms[i].Weight
		}
		// Unit length makes the cosine a plain sum of products.
		for i := range t.terms {
			t.terms[i].Weight /= math.Sqrt(square)
		}
	}
}

// agreement returns the share of the words in only one of the two titles that the other entry's text also holds. Titles
// made after one pattern ("Earthquake strikes Peru", "Earthquake strikes Turkey") are confirmed only by their own
// texts. It returns 0 where the titles have the same words.
func agreement(a, b *groupEntry) float64 {
	var borne, all float64
	for _, two := range [][2]*groupEntry{{a, b}, {b, a}} {
		for _, w := range two[0].titleTerms {
			if hasTerm(two[1].titleTerms, w.Term) {
				continue
			}
			all += w.Weight
			if hasTerm(two[1].terms, w.Term) {
				borne += w.Weight
			}
		}
	}
	if all == 0 {
		return 0
	}
	return borne / all
}

// sameTerms reports whether two titles have the same words.
func sameTerms(v, w vector) bool {
	return len(v) > 0 && slices.EqualFunc(v, w, func(a, b weighted) bool { return a.Term == b.Term })
}

// hasTerm reports whether a vector has a term.
func hasTerm(v vector, term string) bool {
	_, found := slices.BinarySearchFunc(v, term, func(w weighted, term string) int { return strings.Compare(w.Term, term) })
	return found
}

// countTerms returns the terms of a title and of a text's beginning with their counts.
func countTerms(title, lead []string) vector {
	counts := map[string]float64{}
	for n, word := range slices.Concat(title, lead) {
		if text.IsCommon(word) {
			continue
		}
		if n < len(title) { // a headline says what a story is about; a lead adds context
			counts[text.Singular(word)] += titleWeight
		} else {
			counts[text.Singular(word)]++
		}
	}
	v := make(vector, 0, len(counts))
	for term, weight := range counts {
		v = append(v, weighted{Term: term, Weight: weight})
	}
	slices.SortFunc(v, func(a, b weighted) int { return strings.Compare(a.Term, b.Term) })
	return v
}

// firstWords returns up to n words in lower case.
func firstWords(from string, n int) []string {
	// A word and the space behind it take some six bytes: the list seldom has to grow, and is not made for 500 words where
	// a teaser has 20.
	words := make([]string, 0, min(n, len(from)/5+1))
	for word := range text.Terms(from) {
		if words = append(words, strings.TrimSuffix(strings.TrimSuffix(word, "'s"), "’s")); len(words) == n {
			break
		}
	}
	return words
}

// hashShingles returns the hashes of every three words in a row, ascending and without repeats.
func hashShingles(words []string) []uint64 {
	if len(words) < minShingles+2 {
		return nil
	}
	hashes := make([]uint64, 0, len(words))
	h, shingle := fnv.New64a(), []byte(nil)
	// Three words in a row survive light editing and are still rare between different texts.
	for i := 2; i < len(words); i++ {
		shingle = append(shingle[:0], words[i-2]...)
		shingle = append(append(shingle, ' '), words[i-1]...)
		shingle = append(append(shingle, ' '), words[i]...)
		h.Reset()
		_, _ = h.Write(shingle) // a hash never fails
		hashes = append(hashes, mixBits(h.Sum64()))
	}
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// mixBits makes every bit depend on every other, so that the smallest of many hashes are a fair sample. It is the
// finalizer of MurmurHash3.
func mixBits(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// jaccard returns the share of the elements of two sorted sets that they have in common.
func jaccard(a, b []uint64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	both := countShared(a, b)
	return float64(both) / float64(len(a)+len(b)-both)
}

var (
	// numberPattern matches numbers as they are written, with points, commas and colons in them.
	// serialPattern matches those that number a series: behind a word such as week or version,
	// behind #, or with several points, unless they are an amount of money or a share.
	numberPattern = text.Pattern(`\d+(?:[.,:]\d+)*`)
	serialPattern = text.Pattern(
		`(?i)(?:\b(?:week|episode|ep|part|day|vol|volume|issue|no|chapter|round|season|version|v)\b\.?\s*|#|\bv)(\d+(?:\.\d+)*)|(?:^|[^$£€\d.,])(\d+(?:\.\d+)+)(?:$|[^\d%. ]| (?:[^mbpt]|$))`,
	)
)

// titleNumbers are the numbers of a title, and words that act like numbers.
type titleNumbers struct {
	all     []string
	serials []string // those that number a series: versions, issues, weeks
	dates   []string // days and months
	pattern string   // the title without its numbers; "" where it has none
}

// dateWords tell the posts of a series apart as a number would. "May" is left out: it is also a verb.
var dateWords = strings.Fields(`monday tuesday wednesday thursday friday saturday sunday
	january february march april june july august september october november december`)

// parseTitleNumbers reads up to 20 numbers and the words for days and months of a title.
func parseTitleNumbers(title string) (f titleNumbers) {
	if strings.ContainsAny(title, "0123456789") { // few titles have a number, and the patterns take long
		f.all = numberPattern().FindAllString(title, 20)
		f.pattern = titleKey(numberPattern().ReplaceAllString(title, "0"))
		for _, m := range serialPattern().FindAllStringSubmatch(title, 20) {
			f.serials = append(f.serials, m[1]+m[2])
		}
	}
	// Days and months separate the posts of a daily series.
	for word := range text.Terms(title) {
		if slices.Contains(dateWords, word) {
			f.dates = append(f.dates, word)
		}
	}
	return f
}

// conflictsWith reports whether two titles are of one series and not of one story: release 1.2.3 is not release
// 1.2.4, nor is week 45 week 46.
func (f titleNumbers) conflictsWith(o titleNumbers) bool {
	return areDisjoint(f.serials, o.serials) || areDisjoint(f.dates, o.dates) ||
		f.pattern == o.pattern && areDisjoint(f.all, o.all)
}

// areDisjoint reports whether both lists have elements and none in common.
func areDisjoint(a, b []string) bool {
	return len(a) > 0 && len(b) > 0 && !slices.ContainsFunc(a, func(n string) bool { return slices.Contains(b, n) })
}

// candidatePairs returns the pairs that are worth comparing: those that share a link, a title, a sample of their
// text, or two words that are rare among the entries.
func candidatePairs(list []*groupEntry) [][2]int {
	exact, words := map[string][]int{}, map[string][]int{}
	// Comparing all pairs would grow with the square of the number of items.
	for i, t := range list {
		if t.Alone {
			continue
		}
		share := func(in map[string][]int, kind string, traits ...string) {
			for _, trait := range traits {
				in[kind+trait] = append(in[kind+trait], i)
			}
		}
		if t.link != "" {
			share(exact, "link ", t.link)
		}
		share(exact, "title ", t.title)
		for _, h := range t.shingles[:min(sketchSize, len(t.shingles))] {
			share(exact, "words ", strconv.FormatUint(h, 36))
		}
		share(exact, "name ", slices.Concat(t.ids.names, t.ids.more)...)
		share(exact, "sentence ", t.sentences...)
		for _, w := range t.terms {
			share(words, "", w.Term)
		}
		// Terms are stems, and numbers as they are written: neither is the same in two languages.
		share(words, "anchor ", slices.Concat(t.anchors.names, t.anchors.numbers)...)
	}
	// An exact match is enough on its own and counts 2; of rare words two are needed, 1 each.
	pairs := map[[2]int]int{}
	for _, sharing := range exact {
		countPairs(pairs, sharing, 2)
	}
	for _, sharing := range words {
		if len(sharing) <= maxCandidates+len(list)/50 {
			countPairs(pairs, sharing, 1)
		}
	}
	var worthy [][2]int
	for pair, shared := range pairs {
		if shared >= 2 {
			worthy = append(worthy, pair)
		}
	}
	return worthy // in any order: edges sorts what becomes of them
}

// countPairs counts each entry of the list with up to maxCandidates that follow it. The bound keeps the work linear
// when many entries share a trait.
func countPairs(pairs map[[2]int]int, sharing []int, by int) {
	for n, a := range sharing {
		for _, b := range sharing[n+1 : min(n+1+maxCandidates, len(sharing))] {
			pairs[[2]int{a, b}] += by
		}
	}
}
