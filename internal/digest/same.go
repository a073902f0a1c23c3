package digest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ravenbot/internal/feed"
)

// sameFor is how long a story that was posted is known again.
const sameFor = 72 * time.Hour

// candidate is an item that may tell the same as others.
type candidate struct {
	feed.Item
	feed  string
	alone bool
}

// member is a candidate, by its index, of a group, and why it is in it.
type member struct {
	index  int
	reason string // empty for the first
}

// together puts the candidates into groups that tell the same. The first of each is
// the one that came first.
func together(list []candidate) [][]member {
	at := map[string]int{}
	var items []feed.Item
	var groups [][]member
	for n, c := range list {
		if c.alone {
			groups = append(groups, []member{{index: n}})
			continue
		}
		it := c.Item
		it.ID = fmt.Sprint(n) // those of two feeds may be equal
		at[it.ID] = n
		items = append(items, it)
	}
	for _, st := range feed.Dedupe(items) {
		group := []member{{index: at[st.Item.ID]}}
		for _, also := range st.Also {
			reason := "same title"
			if feed.CanonicalURL(also.Link) == feed.CanonicalURL(st.Item.Link) {
				reason = "same link"
			}
			group = append(group, member{at[also.ID], reason})
		}
		groups = append(groups, group)
	}
	slices.SortStableFunc(groups, func(a, b []member) int { return a[0].index - b[0].index })
	return groups
}

// merge puts what is left together: with what was posted in the last days, and with
// one another. It gives the stories that are new.
func merge(left []*item, posted []entry) []story {
	var list []candidate
	for _, p := range posted {
		list = append(list, candidate{Item: p.asItem(), feed: p.Feed})
	}
	for _, i := range left {
		list = append(list, candidate{Item: i.Item, feed: hash(i.feed), alone: i.apart})
	}
	var stories []story
	for _, group := range together(list) {
		first := group[0].index
		if first < len(posted) {
			for _, m := range group[1:] {
				if m.index < len(posted) {
					continue
				}
				i := left[m.index-len(posted)]
				i.before = posted[first].Title
				i.fate, i.why = "merged into "+i.before, m.reason+", posted before"
			}
			continue
		}
		st := story{item: left[first-len(posted)]}
		for _, m := range group[1:] {
			also := left[m.index-len(posted)]
			also.fate, also.why = "merged into "+st.Heading(), m.reason
			st.also = append(st.also, also)
		}
		stories = append(stories, st)
	}
	return stories
}

// lately gives what a digest posted in the last days, the ones first that were first,
// without what somebody wanted apart.
func (s *Service) lately(_ context.Context, runs []past) []entry {
	since := s.o.Now().Add(-sameFor)
	var list []entry
	for _, p := range slices.Backward(runs) {
		if p.Due.Before(since) {
			continue
		}
		for _, e := range p.Entries {
			list = append(list, e)
			if p.Apart {
				continue
			}
			for _, a := range e.Also {
				list = append(list, a)
			}
		}
	}
	return list
}
