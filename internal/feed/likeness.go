package feed

import (
	"cmp"
	"hash/fnv"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

const (
	maxLeadWords = 60  // of a text that say what it is about
	titleWeight  = 2.5 // how often a word of the title counts
	maxTextWords = 500 // of a text that are compared for reprints
	minShingles  = 12  // too little text to know a reprint by
	sketchSize   = 8   // smallest hashes by which reprints find one another
)

// vector has unit length, or none; its terms are in their order.
type vector []weighted

type weighted struct {
	term   string
	weight float64
}

func (v vector) cosine(w vector) (sum float64) {
	for len(v) > 0 && len(w) > 0 {
		switch strings.Compare(v[0].term, w[0].term) {
		case -1:
			v = v[1:]
		case 1:
			w = w[1:]
		default:
			sum += v[0].weight * w[0].weight
			v, w = v[1:], w[1:]
		}
	}
	return sum
}

// weighTerms gives every entry its terms, those that few entries use counting most.
func weighTerms(list []*groupEntry) {
	in := map[string]int{}
	for _, t := range list {
		t.titleTerms, t.terms = countTerms(t.Heading(), ""), countTerms(t.Heading(), t.Text())
		for _, w := range t.terms {
			in[w.term]++
		}
	}
	rarity := func(term string) float64 { return 1 + math.Log(float64(len(list)+8)/float64(in[term]+1)) }
	for _, t := range list {
		for i, w := range t.titleTerms {
			t.titleTerms[i].weight = rarity(w.term)
		}
		var square float64
		for i, w := range t.terms {
			t.terms[i].weight = (1 + math.Log(w.weight)) * rarity(w.term)
			square += t.terms[i].weight * t.terms[i].weight
		}
		for i := range t.terms {
			t.terms[i].weight /= math.Sqrt(square)
		}
	}
}

// agreement is how much of what only one of the two titles says stands in the
// other's text. Reports of one event say the same in other places; titles made after
// one pattern ("Earthquake strikes Peru", "Earthquake strikes Turkey") are borne out
// by their own texts alone. It is 0 where the titles have the same words.
func agreement(a, b *groupEntry) float64 {
	var borne, all float64
	for _, two := range [][2]*groupEntry{{a, b}, {b, a}} {
		for _, w := range two[0].titleTerms {
			if two[1].titleTerms.contains(w.term) {
				continue
			}
			all += w.weight
			if two[1].terms.contains(w.term) {
				borne += w.weight
			}
		}
	}
	if all == 0 {
		return 0
	}
	return borne / all
}

// sameTerms reports that two titles say the same words.
func sameTerms(v, w vector) bool {
	return len(v) > 0 && slices.EqualFunc(v, w, func(a, b weighted) bool { return a.term == b.term })
}

func (v vector) contains(term string) bool {
	_, found := slices.BinarySearchFunc(v, term, func(w weighted, term string) int { return strings.Compare(w.term, term) })
	return found
}

func countTerms(title, text string) vector {
	counts := map[string]float64{}
	for _, word := range firstWords(title, maxLeadWords) {
		counts[word] += titleWeight
	}
	for _, word := range firstWords(text, maxLeadWords) {
		counts[word]++
	}
	v := make(vector, 0, len(counts))
	for word, n := range counts {
		if !stopWords[word] {
			v = append(v, weighted{stem(word), n})
		}
	}
	slices.SortFunc(v, func(a, b weighted) int {
		return cmp.Or(strings.Compare(a.term, b.term), cmp.Compare(a.weight, b.weight))
	})
	return mergeTerms(v)
}

// mergeTerms makes one of the forms of a word.
func mergeTerms(v vector) vector {
	out := v[:0]
	for _, w := range v {
		if n := len(out); n > 0 && out[n-1].term == w.term {
			out[n-1].weight += w.weight
			continue
		}
		out = append(out, w)
	}
	return out
}

// stopWords are English words that say nothing about a story.
var stopWords = wordSet(`a about after all also an and are as at be been before but by can could for from had has have he her his
	how i if in into is it its more new no not now of on one or our out over said say says she so than that the their them there they this to
	up us was we were what when where which who why will with would you your`)

func wordSet(words string) map[string]bool {
	in := map[string]bool{}
	for _, word := range strings.Fields(words) {
		in[word] = true
	}
	return in
}

// stem takes off the endings in which two mentions of one thing most often differ.
func stem(word string) string {
	for _, ending := range []struct {
		off, on string
		least   int
	}{{"ies", "y", 5}, {"ing", "", 6}, {"ed", "", 5}, {"es", "", 5}, {"s", "", 4}, {"e", "", 4}} {
		if rest, ok := strings.CutSuffix(word, ending.off); ok && len(word) >= ending.least && !strings.HasSuffix(word, "ss") {
			return rest + ending.on
		}
	}
	return word
}

// firstWords are up to n words, lower case; where words are written without spaces,
// pairs of neighbouring characters stand for them.
func firstWords(text string, n int) (words []string) {
	for run := range strings.FieldsFuncSeq(strings.ToLower(text), isSeparator) {
		run = strings.TrimSuffix(strings.TrimSuffix(strings.Trim(run, "'’.,"), "'s"), "’s")
		if pairs := ideographPairs(run); len(pairs) > 0 {
			words = append(words, pairs...)
		} else if run != "" {
			words = append(words, run)
		}
		if len(words) >= n {
			return words[:n]
		}
	}
	return words
}

// isSeparator says what stands between words; points and commas may be inside of numbers.
func isSeparator(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '\'' && r != '’' && r != '.' && r != ','
}

func ideographPairs(run string) (pairs []string) {
	runes := []rune(run)
	for i := 0; i+1 < len(runes); i++ {
		if isIdeograph(runes[i]) && isIdeograph(runes[i+1]) {
			pairs = append(pairs, string(runes[i:i+2]))
		}
	}
	return pairs
}

func isIdeograph(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// hashShingles hashes every three words in a row; ascending, without repeats.
func hashShingles(text string) []uint64 {
	words := firstWords(text, maxTextWords)
	if len(words) < minShingles+2 {
		return nil
	}
	var hashes []uint64
	for i := 2; i < len(words); i++ {
		h := fnv.New64a()
		_, _ = h.Write([]byte(words[i-2] + " " + words[i-1] + " " + words[i])) // it takes everything
		hashes = append(hashes, mixBits(h.Sum64()))
	}
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// mixBits makes every bit depend on every other, so that the smallest of many
// hashes are a fair sample.
func mixBits(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// jaccard is the share of both sets that is in common.
func jaccard(a, b []uint64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	both, all := 0, len(a)+len(b)
	for len(a) > 0 && len(b) > 0 {
		switch cmp.Compare(a[0], b[0]) {
		case -1:
			a = a[1:]
		case 1:
			b = b[1:]
		default:
			both++
			a, b = a[1:], b[1:]
		}
	}
	return float64(both) / float64(all-both)
}

var (
	numberPattern = regexp.MustCompile(`\d+(?:[.,:]\d+)*`)
	serialPattern = regexp.MustCompile(`(?i)(?:\b(?:week|episode|ep|part|day|vol|volume|issue|no|chapter|round|season|version|v)\b\.?\s*|#|\bv)(\d+(?:\.\d+)*)|(?:^|[^$£€\d.,])(\d+(?:\.\d+)+)(?:$|[^\d%. ]| (?:[^mbpt]|$))`)
)

// titleNumbers are the numbers of a title.
type titleNumbers struct {
	all     []string
	serials []string // those that tell one of a row: versions, issues, weeks
	dates   []string // and words that do
	pattern string   // the title without numbers
}

// dateWords are words that tell one of a row as a number would. "May" is also a verb.
var dateWords = wordSet(`monday tuesday wednesday thursday friday saturday sunday
	january february march april june july august september october november december`)

func parseTitleNumbers(title string) (f titleNumbers) {
	f.all = numberPattern.FindAllString(title, 20)
	for _, m := range serialPattern.FindAllStringSubmatch(title, 20) {
		f.serials = append(f.serials, m[1]+m[2])
	}
	for word := range strings.FieldsFuncSeq(strings.ToLower(title), isSeparator) {
		if dateWords[word] {
			f.dates = append(f.dates, word)
		}
	}
	f.pattern = titleKey(numberPattern.ReplaceAllString(title, "0"))
	return f
}

// conflictsWith says that two titles are of one row and not of one story: release 1.2.3
// is not release 1.2.4, nor is week 45 week 46.
func (f titleNumbers) conflictsWith(o titleNumbers) bool {
	return areDisjoint(f.serials, o.serials) || areDisjoint(f.dates, o.dates) || f.pattern == o.pattern && areDisjoint(f.all, o.all)
}

func areDisjoint(a, b []string) bool {
	return len(a) > 0 && len(b) > 0 && !slices.ContainsFunc(a, func(n string) bool { return slices.Contains(b, n) })
}

// candidatePairs are the pairs that are worth comparing: those that share a link, a
// title, a sample of their text, or two words that are rare here.
func candidatePairs(list []*groupEntry) [][2]int {
	exact, words := map[sharedTrait][]int{}, map[string][]int{}
	for i, t := range list {
		if t.Alone {
			continue
		}
		if t.link != "" {
			exact[sharedTrait{link: t.link}] = append(exact[sharedTrait{link: t.link}], i)
		}
		exact[sharedTrait{title: t.title}] = append(exact[sharedTrait{title: t.title}], i)
		for _, h := range t.shingles[:min(sketchSize, len(t.shingles))] {
			exact[sharedTrait{shingle: h}] = append(exact[sharedTrait{shingle: h}], i)
		}
		for _, w := range t.terms {
			words[w.term] = append(words[w.term], i)
		}
	}
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
	return worthy // in any order: what becomes of them is sorted
}

// sharedTrait is something that two of the same have in common.
type sharedTrait struct {
	link, title string
	shingle     uint64
}

// countPairs pairs each entry with those that follow it, up to a crowd.
func countPairs(pairs map[[2]int]int, sharing []int, by int) {
	for n, a := range sharing {
		for _, b := range sharing[n+1 : min(n+1+maxCandidates, len(sharing))] {
			pairs[[2]int{a, b}] += by
		}
	}
}
