package digest

import (
	"fmt"
	"strings"
)

// telling is an item of a story, as a model is shown it. Its number is that of its place in a list, from 1.
type telling struct {
	*item
	story int // index of its story
	lead  int // number of the story's first telling
}

// listTellings returns up to limit tellings of each story. Two with the same words are one.
func listTellings(stories []story, limit int) []telling {
	var all []telling
	for n, st := range stories {
		lead := len(all) + 1
		shown := map[string]bool{}
		for _, i := range append([]*item{st.item}, st.also...) {
			key := i.Heading() + i.feedWords()
			if len(all)-lead+1 < limit && !shown[key] {
				shown[key] = true
				all = append(all, telling{i, n, lead})
			}
		}
	}
	return all
}

const (
	maxListedTitle = 110 // characters of a title, and of the name of a feed, that a model is shown
	maxListedName  = 30
)

// describeTellings returns items for a model, each with up to length characters of its text, or its title alone. Further
// tellings of a story have a third of that.
func describeTellings(stories []story, tellings []telling, length int, at func(story, *item) string) string {
	var b strings.Builder
	for n, t := range tellings {
		st := stories[t.story]
		notes := []string{shorten(t.source, maxListedName)}
		if !t.Item.Time().IsZero() {
			notes = append(notes, at(st, t.item))
		}
		size := length
		switch sources := st.sources(); {
		case t.lead != n+1:
			size = length / 3
			notes = append(notes, fmt.Sprintf("tells the same as %d", t.lead))
		case sources > 1:
			notes = append(notes, pluralize(sources, "source"))
		}
		if t.lead == n+1 && len(st.series) > 0 {
			notes = append(notes, fmt.Sprintf("and %d like it", len(st.series)))
		}
		if st.updateOf != "" {
			notes = append(notes, "posted before: "+shorten(st.updateOf, maxListedTitle))
		}
		if st.score != nil && st.score.Kind != "" {
			notes = append(notes, st.score.Kind)
		}
		title := t.label()
		if length == 0 {
			title = shorten(title, maxListedTitle)
		}
		fmt.Fprintf(&b, "[%d] %s (%s)\n", n+1, title, strings.Join(notes, "; "))
		if size > 0 {
			b.WriteString(shorten(t.text(), size) + "\n")
		}
		b.WriteString("\n")
	}
	return b.String()
}
