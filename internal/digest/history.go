package digest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/feed"
)

// What was posted is kept, by kinds of items: to know a story again when another
// feed tells it later, to find the entry that somebody asks about, and to learn from
// what people found helpful.
const (
	pastRunKind = "digest run/" // followed by the digest's name; items are named after the due instant
	verdictKind = "digest verdicts"

	keepPastRuns = 30 * 24 * time.Hour
	maxPastRuns  = 150  // runs of a digest
	maxPastText  = 1500 // characters of an item
	maxVerdicts  = 200  // verdicts of a run
	pastVersion  = 1
)

// pastRun is a run that posted something.
type pastRun struct {
	Version int         `json:"version"`
	Due     time.Time   `json:"due"`
	Turn    string      `json:"turn"` // by which the buttons below the post name it
	Entries []pastEntry `json:"entries"`
	// Repeats are items that told again what an earlier run had posted.
	Repeats  []pastEntry `json:"aside,omitempty"`
	Unmerged bool        `json:"apart,omitempty"` // somebody wants them as entries of their own
}

// pastEntry is a story as it was posted, or one that was put together with it.
type pastEntry struct {
	N          int         `json:"n,omitempty"` // its number in the post
	ID         string      `json:"id"`
	Title      string      `json:"title"`
	Link       string      `json:"link"`
	Source     string      `json:"source"`
	Feed       string      `json:"feed"` // short for its address
	Text       string      `json:"text,omitempty"`
	Image      string      `json:"image,omitempty"`
	Time       time.Time   `json:"time,omitzero"`
	Topics     []string    `json:"topics,omitempty"`
	MergedInto string      `json:"with,omitempty"` // the title that it was put together with
	Also       []pastEntry `json:"also,omitempty"`
}

// turnID names a run in the values of buttons, which are short.
func turnID(digest string, due time.Time) string {
	return "digest/" + shortHash(digest+"\x00"+due.UTC().Format(time.RFC3339Nano))
}

// shortHash is short and fits any store.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:12])
}

func newPastEntry(i *item) pastEntry {
	return pastEntry{ID: i.id, Title: i.Heading(), Link: i.Link, Source: i.source, Feed: shortHash(i.feed), Text: shorten(i.text(), maxPastText),
		Image: i.imageURL(), Time: i.Item.Time(), Topics: i.Categories[:min(len(i.Categories), 10)]}
}

// savePastRun keeps what a run is about to post. A run that is not on record then does
// not count (see pasts).
func (s *Service) savePastRun(ctx context.Context, name string, due time.Time, e *edition) error {
	p := pastRun{Version: pastVersion, Due: due.UTC(), Turn: turnID(name, due)}
	for n, st := range e.chosen {
		one := newPastEntry(st.item)
		one.N = n + 1
		for _, a := range st.also {
			one.Also = append(one.Also, newPastEntry(a))
		}
		p.Entries = append(p.Entries, one)
	}
	for _, i := range e.items {
		if i.postedBefore != "" {
			one := newPastEntry(i)
			one.MergedInto = i.postedBefore
			p.Repeats = append(p.Repeats, one)
		}
	}
	if len(p.Entries)+len(p.Repeats) == 0 {
		return nil
	}
	return s.saveItem(ctx, pastRunKind+name, p.Due.Format(time.RFC3339Nano), p)
}

func (s *Service) saveItem(ctx context.Context, kind, name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.o.Store.SaveItem(ctx, kind, name, raw, true)
}

// pastRuns returns the runs of a digest that posted something, newest first.
func (s *Service) pastRuns(ctx context.Context, name string) ([]pastRun, error) {
	items, err := s.o.Store.Items(ctx, pastRunKind+name)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	runs, err := s.o.Store.LastRuns(ctx, name, maxPastRuns+50)
	if err != nil {
		return nil, err
	}
	held := map[time.Time]bool{}
	for _, r := range runs {
		held[r.Due.UTC()] = r.OK
	}
	var list []pastRun
	for key, raw := range items {
		var p pastRun
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, fmt.Errorf("read what digest %s posted at %s: %w", name, key, err)
		}
		if p.Version == pastVersion && held[p.Due] {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b pastRun) int { return b.Due.Compare(a.Due) })
	return list, nil
}

// deleteOldRuns drops what is kept of runs long ago.
func (s *Service) deleteOldRuns(ctx context.Context, name string) error {
	items, err := s.o.Store.Items(ctx, pastRunKind+name)
	if err != nil {
		return err
	}
	old := s.o.Now().Add(-keepPastRuns)
	var dues []time.Time
	for key := range items {
		due, err := time.Parse(time.RFC3339Nano, key)
		if err != nil {
			continue
		}
		dues = append(dues, due)
	}
	slices.SortFunc(dues, func(a, b time.Time) int { return b.Compare(a) })
	for n, due := range dues {
		if n >= maxPastRuns || due.Before(old) {
			if err := s.o.Store.DeleteItem(ctx, pastRunKind+name, due.UTC().Format(time.RFC3339Nano)); err != nil {
				return err
			}
		}
	}
	return nil
}

// RunVerdicts is what became of the items that the last run looked at.
type RunVerdicts struct {
	Due   time.Time `json:"due"`
	Items []Verdict `json:"items"`
	More  int       `json:"more,omitempty"` // that are not kept
}

func (s *Service) saveVerdicts(ctx context.Context, name string, due time.Time, all []Verdict) error {
	x := RunVerdicts{Due: due.UTC(), Items: slices.Clone(all)}
	if len(x.Items) > maxVerdicts {
		x.More, x.Items = len(x.Items)-maxVerdicts, x.Items[:maxVerdicts]
	}
	for i := range x.Items {
		x.Items[i].Title = shorten(x.Items[i].Title, 160)
	}
	return s.saveItem(ctx, verdictKind, name, x)
}

// loadVerdicts is false where no run of a digest is on record.
func (s *Service) loadVerdicts(ctx context.Context, name string) (RunVerdicts, bool, error) {
	var x RunVerdicts
	items, err := s.o.Store.Items(ctx, verdictKind)
	raw, ok := items[name]
	if err == nil && ok {
		err = json.Unmarshal(raw, &x)
	}
	return x, ok, err
}

// feedItem is an entry as feeds give items, to be compared with newer ones.
func (e pastEntry) feedItem() feed.Item {
	return feed.Item{ID: e.ID, Title: escapeHTML(e.Title), Link: e.Link, Summary: escapeHTML(e.Text), Published: e.Time, Categories: e.Topics}
}

// card is an entry as it looks in a post.
func (e pastEntry) card(sentences string) chat.Card {
	return chat.Card{N: e.N, Title: cmp.Or(e.Title, e.Link), URL: e.Link, Source: e.Source, Time: e.Time, Image: e.Image, Text: sentences}
}
