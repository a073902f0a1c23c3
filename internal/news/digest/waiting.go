package digest

import (
	"context"
	"time"
)

// What was new and got no place waits for one: feeds drop items after a while, so those that wait are stored.
const (
	waitingKind    = "digest waiting" // items are named after digests
	waitingVersion = 1
	// defaultWait is how long an item waits where the digest has no maxAge.
	defaultWait = 7 * 24 * time.Hour
	// maxWaiting bounds the stored items of a digest. Those beyond it wait as long as their feed lists them.
	maxWaiting = 200
)

// waitingItems are the items that wait for a place, as they are stored with each run.
type waitingItems struct {
	Version int            `json:"version"`
	Items   []waitingEntry `json:"items"`
}

// waitingEntry is an item that waits, with the time at which the digest first saw it.
type waitingEntry struct {
	pastEntry
	Since time.Time `json:"since"`
	// Worth is how much it matters as a model judged it; nil: none has.
	Worth *float64 `json:"worth,omitempty"`
	Skips int      `json:"skips,omitempty"` // how often a model did not judge it
}

// judge notes what a model said of an item in an earlier run.
func (w waitingEntry) judge(i *item) *item {
	i.skips = w.Skips
	if w.Worth != nil {
		i.worth, i.judged = *w.Worth, true
	}
	return i
}

// maxWait returns how long an item of a digest waits for a place.
func (d spec) maxWait() time.Duration {
	if d.MaxAge > 0 {
		return time.Duration(d.MaxAge)
	}
	return defaultWait
}

// addWaiting adds the stored items that wait and that no feed lists any more, and notes of the others since when they
// wait. Items of feeds that left the digest are dropped.
func (s *Service) addWaiting(ctx context.Context, d spec, e *edition) error {
	if d.quiet {
		return nil
	}
	w, _, err := loadItem[waitingItems](ctx, s, waitingKind, d.Name, "which items wait for digest")
	if err != nil {
		return err
	}
	e.waited = len(w.Items) > 0
	// What a feed still lists is read from there, which may have corrected it since; the stored
	// copy is for what the feed has dropped.
	listed, feeds := map[string]*item{}, map[string]Feed{}
	for _, i := range e.items {
		listed[i.id] = i
	}
	for _, f := range d.Feeds {
		feeds[shortHash(f.URL)] = f
	}
	for _, one := range w.Items {
		if i := listed[one.ID]; i != nil {
			i.since = one.Since
			one.judge(i)
			continue
		}
		if f, ok := feeds[one.Feed]; ok {
			e.items = append(e.items, one.judge(&item{Item: one.feedItem(), source: one.Source, feed: f, id: one.ID,
				since: one.Since}))
		}
	}
	return nil
}

// newWaitingItems returns the items that wait. Those that are about to be posted are among them: they count again where
// the run is not stored or no place takes the post.
func newWaitingItems(e *edition, now time.Time) waitingItems {
	w := waitingItems{Version: waitingVersion, Items: []waitingEntry{}}
	for _, list := range [][]story{e.chosen, e.waiting} {
		for _, st := range list {
			for _, i := range st.members() {
				if len(w.Items) == maxWaiting {
					break
				}
				if i.event != "" { // which is stored by itself
					continue
				}
				one := waitingEntry{pastEntry: newPastEntry(i), Since: i.since, Skips: i.skips}
				if i.judged {
					one.Worth = &i.worth
				}
				if one.Since.IsZero() {
					one.Since = now
				}
				w.Items = append(w.Items, one)
			}
		}
	}
	return w
}
