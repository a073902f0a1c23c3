package digest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/feed"
)

// sameFor is how long a story that was posted is known again.
const sameFor = 72 * time.Hour

// strangers leaves out what has the address of something that another feed had posted,
// however long ago that was. One feed may give all of its items one address.
func strangers(left []*item, runs []past) []*item {
	posted := map[string]entry{}
	for _, p := range runs {
		for _, e := range p.Entries {
			posted[pageOf(e.Link)] = e
			for _, a := range e.Also {
				if a.With = cmp.Or(e.Title, e.Link); !p.Apart {
					posted[pageOf(a.Link)] = a
				}
			}
		}
	}
	var rest []*item
	for _, i := range left {
		page := pageOf(i.Link)
		e, known := posted[page]
		if !known || page == "" || i.apart || e.Feed == hash(i.feed) {
			rest = append(rest, i)
			continue
		}
		i.before = cmp.Or(e.With, e.Title, e.Link)
		i.fate, i.why = "merged into "+i.before, "same address, posted before"
	}
	return rest
}

// pageOf is an address without what differs between links to one page; empty for the
// front page of a site.
func pageOf(link string) string {
	_, page, _ := strings.Cut(feed.CanonicalURL(link), "://")
	if !strings.ContainsAny(page, "/?") {
		return ""
	}
	return page
}

// merge puts what is left together: with what was posted in the last days, and with
// one another. It gives the stories that are new.
func merge(left []*item, posted []entry) []story {
	var list []feed.Entry
	for _, p := range posted {
		list = append(list, feed.Entry{Item: p.asItem(), Feed: p.Feed})
	}
	for _, i := range left {
		list = append(list, feed.Entry{Item: i.Item, Feed: hash(i.feed), Alone: i.apart})
	}
	var stories []story
	for _, group := range feed.Group(list, feed.GroupOptions{Window: sameFor}) {
		first := group[0].Index
		if first < len(posted) {
			for _, m := range group[1:] {
				if m.Index < len(posted) {
					continue
				}
				i := left[m.Index-len(posted)]
				i.before = posted[first].Title
				i.fate, i.why = "merged into "+i.before, string(m.Reason)+", posted before"
			}
			continue
		}
		st := story{item: left[first-len(posted)]}
		for _, m := range group[1:] {
			also := left[m.Index-len(posted)]
			also.fate, also.why = "merged into "+st.Heading(), string(m.Reason)
			st.also = append(st.also, also)
		}
		stories = append(stories, st)
	}
	return stories
}

// lately gives what a digest posted in the last days, the ones first that were first,
// without what somebody wanted apart.
func (s *Service) lately(runs []past) []entry {
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
			list = append(list, e.Also...)
		}
	}
	return list
}
