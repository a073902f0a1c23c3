package feed

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/text"
)

// Entry is an item among those of several feeds.
type Entry struct {
	Item
	// Feed names the feed that the item is from. Two items of one feed are two posts to their publisher, so they must
	// be more alike to count as one.
	Feed string
	// Alone says that the item is never grouped with others.
	Alone bool
}

// Reason says why an item was grouped with others.
type Reason string

// The reasons, the strongest first.
const (
	SameLink  Reason = "same link"
	SameTitle Reason = "same title"
	Reprint   Reason = "reprint"    // word for word, or nearly
	SameStory Reason = "same story" // another text about the same
	SameEvent Reason = "same event" // in another language, by names and numbers
	SameName  Reason = "same name"  // of a vulnerability, a paper, a version or a vote
)

// Member is an entry of a group, by its index.
type Member struct {
	Index  int
	Reason Reason // empty for the first of a group
}

// Window is how far apart two items may be published to be the same by anything but their link. Items without a date are
// never too far apart.
const Window = 72 * time.Hour

const (
	minReprint         = 0.7  // share of word triples in common
	minReprintSameFeed = 0.9  // the same within one feed
	minStory           = 0.35 // cosine of title and lead
	minStorySameFeed   = 0.75
	minAgreement       = 0.15 // share of what one title alone says that the other's text says too
	minReordered       = 0.25 // share of word triples in common, where the titles have the same words
	maxSharing         = 3    // posts of one feed with the same link or sentence, which then identifies none of them
	minTitleRunes      = 20   // characters a title needs before it can identify a story: "Weekly update" names many
	maxCandidates      = 32   // candidates of one kind that an item is compared with
)

// Group puts entries together that tell the same story. Each member of a group is like its best member, not only like a
// neighbour in a chain; the result depends neither on the order of the entries nor on chance. Groups and their members are in
// the order of the entries, so that the first member of each group is the one that the caller put first. The work
// grows little faster than the number of entries.
func Group(entries []Entry) [][]Member {
	g := newGrouper(entries)
	edges := g.edges()
	for _, e := range edges {
		g.links[[2]int{e.a, e.b}], g.links[[2]int{e.b, e.a}] = e, e
	}
	for _, e := range edges {
		g.merge(e)
	}
	return g.groups(len(entries))
}

// grouper works on the entries in an order of its own.
type grouper struct {
	entries []*groupEntry // sorted, so that the result does not depend on the caller's order
	groupOf []int         // of each entry, the index of its group
	members [][]int       // of each group, the indices of its entries
	reasons []Reason
	links   map[[2]int]edge // by both of its ends, in either order
}

// groupEntry is an entry with what is compared of it.
type groupEntry struct {
	Entry
	index      int
	link       string // canonical, without the scheme; "" where it identifies nothing
	fragment   string
	title      string
	numbers    titleNumbers
	titleTerms vector // terms of the title alone
	terms      vector
	anchors    anchors
	ids        identifiers
	sentences  []string // long ones, as hashes of a text that was edited
	common     []string // words by which languages are told apart
	shingles   []uint64
	at         time.Time
}

// newGrouper returns a grouper in which each entry is a group of its own. The entries are sorted, so that the result
// does not depend on the order in which they came.
func newGrouper(entries []Entry) *grouper {
	g := &grouper{links: map[[2]int]edge{}}
	for i, e := range entries {
		g.entries = append(g.entries, newGroupEntry(e, i))
	}
	// Every field that a comparison uses takes part, so that equal keys mean equal entries.
	slices.SortStableFunc(g.entries, func(a, b *groupEntry) int {
		return cmp.Or(
			a.at.Compare(b.at),
			strings.Compare(a.Feed, b.Feed),
			strings.Compare(a.ID, b.ID),
			strings.Compare(a.Link, b.Link),
			strings.Compare(a.title, b.title),
			strings.Compare(a.Summary, b.Summary),
			strings.Compare(a.Content, b.Content),
		)
	})
	g.clearCommonTraits()
	weighTerms(g.entries)
	for i := range g.entries {
		g.groupOf = append(g.groupOf, i)
		g.members = append(g.members, []int{i})
		g.reasons = append(g.reasons, "")
	}
	return g
}

// newGroupEntry returns an entry with what comparisons need, read from its texts once.
func newGroupEntry(e Entry, index int) *groupEntry {
	t := &groupEntry{Entry: e, index: index, title: titleKey(e.Title), at: e.Time()}
	_, t.link, _ = strings.Cut(CanonicalURL(e.Link), "://") // one page by http and https
	if !strings.ContainsAny(t.link, "/?") {
		t.link = "" // the front page of a site, which unrelated posts share
	}
	_, t.fragment, _ = strings.Cut(e.Link, "#")
	heading := e.Heading()
	t.numbers = parseTitleNumbers(heading)
	text := e.Text()
	t.anchors, t.common = findAnchors(heading, text)
	t.ids = findIdentifiers(heading, text)
	t.sentences = longSentences(text)
	title, words := firstWords(heading, maxLeadWords), firstWords(text, maxTextWords)
	t.shingles = hashShingles(words)
	t.titleTerms, t.terms = countTerms(title, nil), countTerms(title, words[:min(len(words), maxLeadWords)])
	return t
}

// clearCommonTraits clears the links and sentences that several posts of one feed share: a home page and a standing
// phrase identify nothing.
func (g *grouper) clearCommonTraits() {
	posts := map[[2]string]map[string]bool{}
	for _, t := range g.entries {
		for n, trait := range append([]string{t.link}, t.sentences...) {
			key, post := [2]string{t.Feed, trait}, t.title // a feed may list a post twice
			if n > 0 {
				post = strconv.Itoa(t.index)
			}
			if posts[key] == nil {
				posts[key] = map[string]bool{}
			}
			posts[key][post] = true
		}
	}
	for _, t := range g.entries {
		isCommon := func(trait string) bool { return len(posts[[2]string{t.Feed, trait}]) >= maxSharing }
		if isCommon(t.link) {
			t.link = ""
		}
		t.sentences = slices.DeleteFunc(t.sentences, isCommon)
	}
}

// edge says that two entries tell the same.
type edge struct {
	a, b   int
	reason Reason
	weight float64
}

// edges returns the pairs that tell the same, the surest first.
func (g *grouper) edges() []edge {
	var list []edge
	for _, pair := range candidatePairs(g.entries) {
		if reason, weight := compare(g.entries[pair[0]], g.entries[pair[1]]); reason != "" {
			list = append(list, edge{pair[0], pair[1], reason, weight})
		}
	}
	// The surest pairs are merged first: they decide whom weaker ones may join.
	slices.SortFunc(list, func(x, y edge) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
	return list
}

// compare returns the strongest reason for which two entries tell the same, and its weight. It returns "" where they
// do not.
func compare(a, b *groupEntry) (Reason, float64) {
	sameFeed := a.Feed == b.Feed
	switch {
	case a.link != "" && a.link == b.link && !(sameFeed && a.fragment != b.fragment):
		return SameLink, 4
	case isTooFarApart(a, b):
		return "", 0
	case !sameFeed && countShared(a.ids.names, b.ids.names) > 0:
		return SameName, 2.5
	case a.numbers.conflictsWith(b.numbers):
		return "", 0
	case !sameFeed && a.title == b.title && isDistinctive(a.title):
		return SameTitle, 3
	case !sameFeed && countShared(a.ids.more, b.ids.more) > 0 && agreesWith(a, b):
		return SameName, 0.9
	case sameFeed && isEdited(a, b):
		return Reprint, 1.5
	}
	// Posts of one feed share a style and standing phrases, so they must be more alike.
	limit, same := minStory, minReprint
	if sameFeed {
		limit, same = minStorySameFeed, minReprintSameFeed
	}
	// A high share of common word triples means the same text, whatever the titles say.
	j := jaccard(a.shingles, b.shingles)
	if j >= same {
		return Reprint, 1 + j
	}
	c := a.terms.Cosine(b.terms)
	switch {
	case c >= limit && agreement(a, b) >= minAgreement,
		j >= minReordered && !sameFeed && sameTerms(a.titleTerms, b.titleTerms) && isDistinctive(a.title):
		return SameStory, c
	case !sameFeed && tellSameAbroad(a, b):
		return SameEvent, c
	}
	return "", 0
}

// isTooFarApart reports whether two entries were published further apart than Window.
func isTooFarApart(a, b *groupEntry) bool {
	return !a.at.IsZero() && !b.at.IsZero() && b.at.Sub(a.at).Abs() > Window
}

// conflicts reports whether two entries cannot be in one group, whatever a third one has in common with both.
func (g *grouper) conflicts(a, b int) bool {
	x, y := g.entries[a], g.entries[b]
	return g.links[[2]int{a, b}].reason == "" && (isTooFarApart(x, y) || x.numbers.conflictsWith(y.numbers))
}

// merge makes one group of two, if no two of their members exclude one another, and each is like the best of all.
func (g *grouper) merge(e edge) {
	from, to := g.groupOf[e.a], g.groupOf[e.b]
	if from == to {
		g.setReason(e)
		return
	}
	for _, a := range g.members[from] {
		for _, b := range g.members[to] {
			if g.conflicts(a, b) {
				return
			}
		}
	}
	all := slices.Concat(g.members[to], g.members[from])
	if !g.agrees(all) {
		return
	}
	for _, a := range g.members[from] {
		g.groupOf[a] = to
	}
	g.members[to], g.members[from] = all, nil
	g.setReason(e)
}

// agrees reports whether each of some entries is like the one that has most in common with all. Names and numbers in
// another language, and identifiers, are sure signs with any of them; a chain of common words would lead from one story
// to another.
func (g *grouper) agrees(all []int) bool {
	best, most := -1, -1.0
	for _, a := range all {
		sum := 0.0
		for _, b := range all {
			sum += g.links[[2]int{a, b}].weight
		}
		if sum > most {
			best, most = a, sum
		}
	}
	return !slices.ContainsFunc(all, func(a int) bool {
		return a != best && g.links[[2]int{a, best}].reason == "" && !slices.ContainsFunc(all, func(b int) bool {
			reason := g.links[[2]int{a, b}].reason
			return reason == SameEvent || reason == SameName
		})
	})
}

// setReason records the first reason of each entry, which is the strongest because edges are sorted.
func (g *grouper) setReason(e edge) {
	for _, i := range []int{e.a, e.b} {
		if g.reasons[i] == "" {
			g.reasons[i] = e.reason
		}
	}
}

// groups returns the groups in the order in which the entries were given.
func (g *grouper) groups(n int) [][]Member {
	place := make([]int, n) // of each entry in the list
	for i, t := range g.entries {
		place[t.index] = i
	}
	var groups [][]Member
	known := map[int]int{}
	for index, i := range place {
		if at, ok := known[g.groupOf[i]]; ok {
			groups[at] = append(groups[at], Member{index, g.reasons[i]})
			continue
		}
		known[g.groupOf[i]] = len(groups)
		groups = append(groups, []Member{{Index: index}})
	}
	return groups
}

// isDistinctive reports whether a title identifies one story: "Weekly update" names many.
func isDistinctive(title string) bool {
	return len([]rune(title)) >= minTitleRunes || strings.IndexFunc(title, text.IsIdeograph) >= 0 &&
		len([]rune(title)) > minTitleRunes/3
}
