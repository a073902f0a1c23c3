package feed

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Entry is an item among those of several feeds.
type Entry struct {
	Item
	// Feed names the feed it is from. Two items of one feed are two posts to their
	// publisher, so that more is asked of them before they count as one.
	Feed string
	// Alone says that the item is never put together with others.
	Alone bool
}

// Reason says why an item was put together with others.
type Reason string

// The reasons, the strongest first.
const (
	SameLink  Reason = "same link"
	SameTitle Reason = "same title"
	Reprint   Reason = "reprint"    // word for word, or nearly
	SameStory Reason = "same story" // another text about the same
)

// Member is an entry, by its index, of a group.
type Member struct {
	Index  int
	Reason Reason // empty for the first of a group
}

// GroupOptions change what counts as the same. Zero values mean the defaults named.
type GroupOptions struct {
	// Window is how far apart two items may be published that are the same by more
	// than their link: 72 hours. Items without a date are never too far apart.
	Window time.Duration
}

const (
	defaultWindow = 72 * time.Hour
	reprint       = 0.7  // share of word triples in common
	reprintAtHome = 0.9  // the same within one feed
	story         = 0.35 // cosine of title and lead
	storyAtHome   = 0.75
	borneOut      = 0.15 // share of what one title alone says that the other's text says too
	turned        = 0.25 // share of word triples in common, where the titles have the same words
	fellow        = 0.6  // share of story that every two members of a group must reach
	homeLinks     = 3    // titles to one link in one feed make the link a home page
	crowd         = 32   // candidates of one kind that an item is compared with
)

// Group puts the entries together that tell the same. Every two members of a group
// are alike, not only neighbours in a chain; which entries come together depends
// neither on their order nor on chance. Groups and their members are in the order of
// the entries, so that the first member of each is the one that the caller put
// first. Its work grows little faster than the number of entries.
func Group(entries []Entry, o GroupOptions) [][]Member {
	if o.Window <= 0 {
		o.Window = defaultWindow
	}
	g := newGrouping(entries, o)
	for _, e := range g.edges() {
		g.join(e)
	}
	return g.result(len(entries))
}

// grouping works on the entries in an order of their own.
type grouping struct {
	window time.Duration
	list   []*told
	group  []int   // of each entry
	member [][]int // of each group
	reason []Reason
}

// told is an entry and what of it is compared.
type told struct {
	Entry
	index    int
	link     string // canonical, without the scheme; empty where it tells nothing
	fragment string
	title    string
	figures  figures
	head     vector // terms of the title alone
	terms    vector
	shingles []uint64
	at       time.Time
}

func newGrouping(entries []Entry, o GroupOptions) *grouping {
	g := &grouping{window: o.Window}
	for i, e := range entries {
		g.list = append(g.list, tell(e, i))
	}
	slices.SortStableFunc(g.list, func(a, b *told) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.Feed, b.Feed), strings.Compare(a.ID, b.ID),
			strings.Compare(a.Link, b.Link), strings.Compare(a.title, b.title), strings.Compare(a.Summary, b.Summary), strings.Compare(a.Content, b.Content))
	})
	g.forgetHomePages()
	weigh(g.list)
	for i := range g.list {
		g.group = append(g.group, i)
		g.member = append(g.member, []int{i})
		g.reason = append(g.reason, "")
	}
	return g
}

func tell(e Entry, index int) *told {
	t := &told{Entry: e, index: index, title: TitleKey(e.Title), at: e.Time()}
	_, t.link, _ = strings.Cut(CanonicalURL(e.Link), "://") // one page by http and https
	if !strings.ContainsAny(t.link, "/?") {
		t.link = "" // the front page of a site
	}
	_, t.fragment, _ = strings.Cut(e.Link, "#")
	t.figures = figuresOf(e.Heading())
	t.shingles = shingle(e.Text())
	return t
}

// forgetHomePages takes links that many posts of one feed share for no links.
func (g *grouping) forgetHomePages() {
	titles := map[[2]string][]string{}
	for _, t := range g.list {
		key := [2]string{t.Feed, t.link}
		if !slices.Contains(titles[key], t.title) && len(titles[key]) < homeLinks {
			titles[key] = append(titles[key], t.title)
		}
	}
	for _, t := range g.list {
		if len(titles[[2]string{t.Feed, t.link}]) >= homeLinks {
			t.link = ""
		}
	}
}

// edge says that two entries are the same.
type edge struct {
	a, b   int
	reason Reason
	weight float64
}

// edges are the pairs that are the same, the surest first.
func (g *grouping) edges() []edge {
	var list []edge
	for _, pair := range candidates(g.list) {
		if reason, weight := g.compare(g.list[pair[0]], g.list[pair[1]]); reason != "" {
			list = append(list, edge{pair[0], pair[1], reason, weight})
		}
	}
	slices.SortFunc(list, func(x, y edge) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
	return list
}

// compare gives the strongest reason for which two entries are the same, and how
// strong it is; none: they are not.
func (g *grouping) compare(a, b *told) (Reason, float64) {
	atHome := a.Feed == b.Feed
	switch {
	case a.Alone || b.Alone:
		return "", 0
	case a.link != "" && a.link == b.link && !(atHome && a.fragment != b.fragment):
		return SameLink, 4
	case g.isFar(a, b) || a.figures.conflict(b.figures):
		return "", 0
	case !atHome && a.title == b.title && isTelling(a.title):
		return SameTitle, 3
	}
	limit, same := story, reprint
	if atHome {
		limit, same = storyAtHome, reprintAtHome
	}
	j := jaccard(a.shingles, b.shingles)
	if j >= same {
		return Reprint, 1 + j
	}
	c := a.terms.cosine(b.terms)
	switch {
	case c >= limit && agreement(a, b) >= borneOut, j >= turned && !atHome && sameTerms(a.head, b.head) && isTelling(a.title):
		return SameStory, c
	}
	return "", 0
}

func (g *grouping) isFar(a, b *told) bool {
	return !a.at.IsZero() && !b.at.IsZero() && b.at.Sub(a.at).Abs() > g.window
}

// alike says that two entries may be in one group.
func (g *grouping) alike(a, b *told) bool {
	if reason, _ := g.compare(a, b); reason != "" {
		return true
	}
	return !a.Alone && !b.Alone && !g.isFar(a, b) && !a.figures.conflict(b.figures) && a.Feed != b.Feed &&
		a.terms.cosine(b.terms) >= fellow*story
}

// join makes one group of two where all their members are alike.
func (g *grouping) join(e edge) {
	from, to := g.group[e.a], g.group[e.b]
	if from == to {
		g.explain(e)
		return
	}
	for _, a := range g.member[from] {
		for _, b := range g.member[to] {
			if !g.alike(g.list[a], g.list[b]) {
				return
			}
		}
	}
	for _, a := range g.member[from] {
		g.group[a] = to
	}
	g.member[to] = append(g.member[to], g.member[from]...)
	g.member[from] = nil
	g.explain(e)
}

// explain keeps the first, and so the strongest, reason of each.
func (g *grouping) explain(e edge) {
	for _, i := range []int{e.a, e.b} {
		if g.reason[i] == "" {
			g.reason[i] = e.reason
		}
	}
}

// result is in the order in which the entries were given.
func (g *grouping) result(n int) [][]Member {
	place := make([]int, n) // of each entry in the list
	for i, t := range g.list {
		place[t.index] = i
	}
	var groups [][]Member
	known := map[int]int{}
	for index, i := range place {
		if at, ok := known[g.group[i]]; ok {
			groups[at] = append(groups[at], Member{index, g.reason[i]})
			continue
		}
		known[g.group[i]] = len(groups)
		groups = append(groups, []Member{{Index: index}})
	}
	return groups
}

// isTelling says that a title names one story: "Weekly update" names many.
func isTelling(title string) bool {
	return len([]rune(title)) >= telling || len(pairsOf(title)) >= telling/3
}
