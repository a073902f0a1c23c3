package digest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// weeklySpan is how far back a digest of the style weekly looks at most.
const weeklySpan = 7 * 24 * time.Hour

// collectWeekly makes stories of what other digests posted to the same places since the last run, the most liked first.
// Where nobody has reacted, what most feeds told comes first.
func (s *Service) collectWeekly(ctx context.Context, d spec, e *edition) error {
	words, err := s.o.Store.Feedback(ctx)
	if err != nil {
		return err
	}
	own, err := s.pastRuns(ctx, d)
	if err != nil {
		return err
	}
	since := s.o.Now().Add(-weeklySpan)
	if len(own) > 0 && own[0].Due.After(since) {
		since = own[0].Due
	}
	rating, err := s.addPosted(ctx, d, e, since, countVotes(words))
	if err != nil {
		return err
	}
	// One vote is enough to tell what people liked from the rest. Without any, the number of
	// sources is all that is known.
	if slices.ContainsFunc(e.stories, func(st story) bool { return rating[st.item] > 0 }) {
		e.stories = slices.DeleteFunc(e.stories, func(st story) bool {
			liked := rating[st.item] > 0
			if !liked {
				st.verdict, st.reason = overLimit, "nobody has reacted to it"
			}
			return !liked
		})
	} else {
		e.notes = append(e.notes, "nobody has reacted to a post this time: these are the stories that most feeds told")
	}
	slices.SortStableFunc(e.stories, func(a, b story) int {
		return cmp.Or(cmp.Compare(rating[b.item], rating[a.item]), cmp.Compare(len(b.also), len(a.also)),
			b.Item.Time().Compare(a.Item.Time()))
	})
	return nil
}

// addPosted adds what other digests posted to the same places since a time, and returns the votes on each story's post.
func (s *Service) addPosted(ctx context.Context, d spec, e *edition, since time.Time,
	votes map[string]float64) (map[*item]float64, error) {
	rating := map[*item]float64{}
	known := map[string]bool{}
	for _, other := range s.specs() {
		// What was posted in one channel must not come up in another.
		if other.Name == d.Name || other.Style == Weekly || !other.postsToAll(d.post) {
			continue
		}
		runs, err := s.pastRuns(ctx, other)
		if err != nil {
			return nil, err
		}
		for _, p := range runs {
			// A vote is on a whole post, so what people disliked is left out as a whole.
			if p.Due.Before(since) || votes[p.Turn] < 0 {
				continue
			}
			for _, one := range p.Entries {
				// Two digests may have posted the same page.
				key := cmp.Or(pageKey(one.Link), one.Link)
				if known[key] {
					continue
				}
				known[key] = true
				st := one.story()
				e.items = append(e.items, st.members()...)
				e.stories = append(e.stories, st)
				rating[st.item] = votes[p.Turn]
			}
		}
	}
	return rating, nil
}

// story returns a posted entry as a story.
func (e pastEntry) story() story {
	st := story{item: e.item()}
	for _, a := range e.Also {
		st.also = append(st.also, a.item())
	}
	return st
}

// chooseWeekly takes the first stories. What is left over is not carried over: it was posted before.
func (d spec) chooseWeekly(e *edition) {
	e.chosen = append(e.chosen, e.stories[:min(len(e.stories), d.MaxItems)]...)
	for n, st := range e.stories {
		if st.verdict = posted; n >= d.MaxItems {
			st.verdict, st.reason = overLimit, "others were liked more"
		}
	}
}

// countVotes returns the sum of the reactions to each post: 1 for each that is good, -1 for each that is not.
func countVotes(words []store.Feedback) map[string]float64 {
	votes := map[string]float64{}
	for _, w := range words {
		if w.Good {
			votes[w.Turn]++
		} else {
			votes[w.Turn]--
		}
	}
	return votes
}

// postsToAll reports whether a digest is posted to each of some places.
func (d spec) postsToAll(places []chat.Address) bool {
	return !slices.ContainsFunc(places, func(to chat.Address) bool { return !d.postsTo(to) })
}

// item returns a posted entry as an item.
func (e pastEntry) item() *item {
	return &item{Item: e.feedItem(), source: e.Source, feed: Feed{URL: e.Feed}, id: e.ID}
}
