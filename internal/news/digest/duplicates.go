package digest

import (
	"cmp"
	"slices"
	"strings"

	"ravenbot/internal/news/feed"
)

// duplicateWindow is how long a posted story is compared with new items.
const duplicateWindow = feed.Window

// dropKnownPages returns the items without those whose address was posted before from another feed, at any time. Items
// of the same feed do not count: some feeds have one address for all of their items.
func dropKnownPages(left []*item, runs []pastRun) []*item {
	type page struct{ feed, title string }
	posted := map[string]page{}
	for _, p := range runs {
		for _, e := range p.Entries {
			for _, one := range append([]pastEntry{e}, e.Also...) {
				posted[pageKey(one.Link)] = page{one.Feed, cmp.Or(e.Title, e.Link)}
			}
		}
	}
	return slices.DeleteFunc(left, func(i *item) bool {
		key := pageKey(i.Link)
		p, known := posted[key]
		// Within one feed the address is no sign: the feed's own identifiers decide there.
		if !known || key == "" || i.feed.NoMerge || p.feed == shortHash(i.feed.URL) {
			return false
		}
		i.verdict, i.reason = "merged into "+p.title, "same address, posted before"
		return true
	})
}

// pageKey returns an address without the parts that differ between links to one page. It is
// empty for the front page of a site, which many items may link to.
func pageKey(link string) string {
	_, page, _ := strings.Cut(feed.CanonicalURL(link), "://")
	if !strings.ContainsAny(page, "/?") {
		return ""
	}
	return page
}

// mergeStories merges items that tell the same story, with recent posts and with one
// another, and returns the stories that are new.
func mergeStories(left []*item, posted []pastEntry) []story {
	var list []feed.Entry
	for _, p := range posted {
		list = append(list, feed.Entry{Item: p.feedItem(), Feed: p.Feed})
	}
	for _, i := range left {
		list = append(list, feed.Entry{Item: i.Item, Feed: shortHash(i.feed.URL), Alone: i.feed.NoMerge})
	}
	// Posted entries come first in the list, so a group that holds one begins with it: then
	// its items repeat an old story.
	var stories []story
	for _, group := range feed.Group(list) {
		first := group[0].Index
		if first < len(posted) {
			if st, ok := repeatStory(group, left, posted); ok {
				stories = append(stories, st)
			}
			continue
		}
		st := story{item: left[first-len(posted)]}
		for _, m := range group[1:] {
			also := left[m.Index-len(posted)]
			also.mergeReason = m.Reason
			st.also = append(st.also, also)
		}
		stories = append(stories, st)
	}
	return stories
}

// repeatStory decides about the items of a group that begins with a post. Those that only repeat it are merged into it;
// those that say more are returned as a story of their own, or false.
func repeatStory(group []feed.Member, left []*item, posted []pastEntry) (st story, ok bool) {
	var told strings.Builder
	for _, m := range group {
		if m.Index < len(posted) {
			told.WriteString(posted[m.Index].Title + "\n" + posted[m.Index].Text + "\n")
		}
	}
	title := posted[group[0].Index].Title
	for _, m := range group {
		if m.Index < len(posted) {
			continue
		}
		i := left[m.Index-len(posted)]
		i.mergeReason = m.Reason
		// A number in the title that no post had is news: a toll, a result, a version.
		if m.Reason != feed.SameLink && m.Reason != feed.Reprint && hasNewNumber(i.Heading(), told.String()) &&
			i.Item.Time().After(posted[group[0].Index].Time) {
			if st.item == nil {
				st.item = i
			} else {
				st.also = append(st.also, i)
			}
			continue
		}
		story{item: i}.mergeIntoPosted(title, m.Reason)
	}
	st.updateOf = title
	return st, st.item != nil
}

// hasNewNumber reports whether a title has a number that a text lacks.
func hasNewNumber(title, text string) bool {
	known := digitRun().FindAllString(text, -1)
	return slices.ContainsFunc(digitRun().FindAllString(title, -1), func(n string) bool { return !slices.Contains(known, n) })
}

// recentEntries returns what a digest posted within duplicateWindow, oldest first.
func (s *Service) recentEntries(runs []pastRun) []pastEntry {
	since := s.o.Now().Add(-duplicateWindow)
	var list []pastEntry
	for _, p := range slices.Backward(runs) {
		if p.Due.Before(since) {
			continue
		}
		for _, e := range p.Entries {
			list = append(append(list, e), e.Also...)
		}
	}
	return list
}
