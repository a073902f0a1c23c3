package digest

import (
	"cmp"

	"ravenbot/internal/news/feed"
)

// applyJudgements scores stories as a model judged their tellings, and merges those that it says tell the same. It
// returns all stories of the edition that are left, the best first. Stories that it was not asked about stay as they are.
func (d spec) applyJudgements(e *edition, asked []story, tellings []telling, a answer) []story {
	j, known, into := gatherJudgements(asked, tellings, a)
	wasAsked := map[*item]bool{}
	var left []story
	at := map[int]int{} // of each story, its place in left
	// The targets come first, whatever the order of the edition.
	for n, st := range asked {
		wasAsked[st.item] = true
		target, merges := at[root(into, n)]
		switch merges = merges && root(into, n) != n && !st.feed.NoMerge && !left[target].feed.NoMerge; {
		case !known[n]:
		case e.asked && e.tells(st, j[n]) && !st.feed.NoMerge:
			st.mergeIntoPosted(cmp.Or(st.updateOf, e.postedTitles[max(0, j[n].Told-1)]), sameByModel)
			continue
		case merges:
			first := &left[target]
			for _, i := range append([]*item{st.item}, st.also...) {
				i.mergeReason = cmp.Or(i.mergeReason, sameByModel)
			}
			first.also = append(first.also, append([]*item{st.item}, st.also...)...)
			first.series = append(first.series, st.series...)
			first.score.Worth = max(first.score.Worth, d.judgedWorth(st, j[n]))
			at[n] = target
			continue
		default:
			if e.asked && j[n].Told > 0 && j[n].Told <= len(e.postedTitles) {
				st.updateOf = e.postedTitles[j[n].Told-1]
			}
			st.score.Worth, st.score.Judged = d.judgedWorth(st, j[n]), true
		}
		at[n] = len(left)
		left = append(left, st)
	}
	for n := range left {
		left[n] = left[n].withBestLead(d)
		left[n].score.Sources = left[n].sources()
		left[n].noteWorth()
		left[n].score.setTotal()
	}
	for _, st := range e.stories {
		if !wasAsked[st.item] {
			left = append(left, st)
		}
	}
	sortByScore(left)
	return left
}

// gatherJudgements returns what a model says of each story by all of its tellings, whether it says anything, and the
// story that it was merged into, or itself.
func gatherJudgements(asked []story, tellings []telling, a answer) (j []judgement, known []bool, into []int) {
	j, known, into = make([]judgement, len(asked)), make([]bool, len(asked)), make([]int, len(asked))
	for n := range into {
		into[n] = n
	}
	for _, one := range a.Items {
		t := tellings[one.N-1]
		all := &j[t.story]
		// A story counts as much as the telling that counts most.
		if !known[t.story] || one.N == t.lead {
			relevance := all.Relevance
			*all, known[t.story] = one, true
			all.Relevance = max(relevance, one.Relevance)
		} else {
			all.Relevance, all.Told = max(all.Relevance, one.Relevance), cmp.Or(all.Told, one.Told)
		}
		if one.SameAs >= 1 && one.SameAs <= len(tellings) {
			a, b := root(into, t.story), root(into, tellings[one.SameAs-1].story)
			into[max(a, b)] = min(a, b)
		}
	}
	return j, known, into
}

// root returns the first of the stories that one was merged into.
func root(into []int, n int) int {
	for into[n] != n {
		n = into[n]
	}
	return n
}

// tells reports whether a model says that an earlier post has told all that a story says.
func (e *edition) tells(st story, j judgement) bool {
	if j.Told < 0 || j.Told > len(e.postedTitles) {
		return false
	}
	return (j.Told > 0 || st.updateOf != "") && !j.Update
}

// mergeIntoPosted decides that a story repeats what was posted before.
func (st story) mergeIntoPosted(title string, reason feed.Reason) {
	for _, i := range st.members() {
		i.verdict, i.reason = "merged into "+title, string(reason)+", posted before"
	}
}

// sameByModel is the reason of items that a model put together.
const sameByModel = feed.Reason("same story, says the model")

// judgedWorth returns what a story is worth as a model judged it.
func (d spec) judgedWorth(st story, j judgement) float64 {
	worth := min(max(j.Relevance, 0), maxWorth)
	kind := map[string]string{"advert": kindOffer, "links": kindLinks}[j.Kind]
	if kind = cmp.Or(kind, st.score.Kind); kind == "" || d.Kinds[kind] == normalKind {
		return float64(worth)
	}
	if st.score.Kind = kind; j.Kind == "advert" || d.Kinds[kind] == dropKind {
		worth = min(worth, minWorth)
	}
	return float64(max(worth-lowStep, 0))
}

// noteWorth notes with the items of a story what it is worth.
func (st story) noteWorth() {
	for _, i := range st.members() {
		i.worth, i.judged = st.score.Worth, st.score.Judged
	}
}
