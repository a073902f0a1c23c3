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

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/feed"
)

// Posted entries are stored, to recognize a story when another feed tells it later, for the page of the digest, and to
// learn from feedback.
const (
	pastRunKind = "digest run/" // followed by the digest's name; items are named after the due instant
	verdictKind = "digest verdicts"

	keepPastRuns = 30 * 24 * time.Hour
	maxPastRuns  = 150  // runs of a digest
	maxPastText  = 1500 // characters of an item
	maxVerdicts  = 200  // verdicts of a run
	pastVersion  = 1
)

// pastRun is what a run posted.
type pastRun struct {
	Version int `json:"version"`
	// Source is where the digest comes from; empty: the record is older than this field.
	Source  string      `json:"source,omitempty"`
	Due     time.Time   `json:"due"`
	Turn    string      `json:"turn"` // by which the buttons below the post name it
	Entries []pastEntry `json:"entries"`
	Summary string      `json:"summary,omitempty"` // Markdown
	By      string      `json:"by,omitempty"`      // who wrote it
}

// pastEntry is a story as it was posted, or one that was merged into it.
type pastEntry struct {
	N      int         `json:"n,omitempty"` // its number in the post
	ID     string      `json:"id"`
	Title  string      `json:"title"`
	Link   string      `json:"link"`
	Source string      `json:"source"`
	Feed   string      `json:"feed"` // short for its address
	Text   string      `json:"text,omitempty"`
	Said   string      `json:"said,omitempty"` // what the post said of it, plain text
	Image  string      `json:"image,omitempty"`
	Time   time.Time   `json:"time,omitzero"`
	Topics []string    `json:"topics,omitempty"`
	Also   []pastEntry `json:"also,omitempty"`
}

// turnID names a run in the values of buttons, whose length is limited.
func turnID(digest string, due time.Time) string {
	return "digest/" + shortHash(digest+"\x00"+due.UTC().Format(time.RFC3339Nano))
}

// shortHash returns a hash in 24 characters that any store takes as a key: 96 bits of SHA-256 in
// hex. Stored records are named by it.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:12])
}

// newPastEntry returns an item as it is kept, its text cut to maxPastText characters.
func newPastEntry(i *item) pastEntry {
	return pastEntry{
		ID:     i.id,
		Title:  i.Heading(),
		Link:   i.Link,
		Source: i.source,
		Feed:   shortHash(i.feed.URL),
		Text:   shorten(i.text(), maxPastText),
		Image:  i.imageURL(),
		Time:   i.Item.Time(),
		Topics: i.Categories[:min(len(i.Categories), 10)],
	}
}

// newPastRun returns what a run is about to post.
func newPastRun(d spec, due time.Time, e *edition) pastRun {
	p := pastRun{Version: pastVersion, Source: d.Source, Due: due.UTC(), Turn: turnID(d.Name, due), Summary: e.summary, By: e.by}
	said := e.statements()
	for n, st := range e.chosen {
		one := newPastEntry(st.item)
		one.N, one.Said = n+1, said[n]
		for _, a := range st.also {
			one.Also = append(one.Also, newPastEntry(a))
		}
		p.Entries = append(p.Entries, one)
	}
	return p
}

// statements returns by the index of a card what the post says of it, as plain text.
func (e *edition) statements() map[int]string {
	said := map[int]string{}
	for n, c := range e.cards {
		said[n] = c.Text
	}
	for _, p := range e.parts {
		for _, l := range p.entries {
			if plain := plainStatement(l.statement); plain != "" {
				said[l.n] = plain
			}
		}
	}
	return said
}

// saveItem stores a value as JSON, in the place of one of the same kind and name.
func (s *Service) saveItem(ctx context.Context, kind, name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.o.Store.SaveItem(ctx, kind, name, raw, true)
}

// pastRuns returns what the successful runs of a digest posted, newest first, without those of another one that had its
// name: those were perhaps posted elsewhere.
func (s *Service) pastRuns(ctx context.Context, d spec) ([]pastRun, error) {
	items, err := s.o.Store.Items(ctx, pastRunKind+d.Name)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	runs, err := s.o.Store.LastRuns(ctx, d.Name, maxPastRuns+50)
	if err != nil {
		return nil, err
	}
	// Entries that no place took were never seen by anybody. Older versions stored them before their run, too, which may
	// have been cut off in between.
	succeeded := map[time.Time]bool{}
	for _, r := range runs {
		succeeded[r.Due.UTC()] = r.OK
	}
	var list []pastRun
	for key, raw := range items {
		var p pastRun
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, fmt.Errorf("read what digest %s posted at %s: %w", d.Name, key, err)
		}
		if p.Version == pastVersion && succeeded[p.Due] && d.has(p.Source) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b pastRun) int { return b.Due.Compare(a.Due) })
	return list, nil
}

// deleteOldRuns deletes the entries of runs that are older than keepPastRuns, or more than maxPastRuns.
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

// RunVerdicts are the verdicts of the last run.
type RunVerdicts struct {
	Due   time.Time `json:"due"`
	Items []Verdict `json:"items"`
	More  int       `json:"more,omitempty"` // verdicts that are not stored
}

// newRunVerdicts returns the verdicts of a run as they are kept: the first maxVerdicts, with short titles.
func newRunVerdicts(due time.Time, all []Verdict) RunVerdicts {
	x := RunVerdicts{Due: due.UTC(), Items: slices.Clone(all)}
	if len(x.Items) > maxVerdicts {
		x.More, x.Items = len(x.Items)-maxVerdicts, x.Items[:maxVerdicts]
	}
	for i := range x.Items {
		x.Items[i].Title = shorten(x.Items[i].Title, 160)
	}
	return x
}

// feedItem returns an entry in the form of a feed's item, to compare it with newer ones.
func (e pastEntry) feedItem() feed.Item {
	return feed.Item{
		ID:         e.ID,
		Title:      escapeHTML(e.Title),
		Link:       e.Link,
		Summary:    escapeHTML(e.Text),
		Published:  e.Time,
		Categories: e.Topics,
		Image:      e.Image,
	}
}

// card returns an entry as a card with the given text.
func (e pastEntry) card(sentences string) chat.Card {
	return chat.Card{
		N:      e.N,
		Title:  cmp.Or(e.Title, e.Link),
		URL:    e.Link,
		Source: e.Source,
		Time:   e.Time,
		Image:  e.Image,
		Text:   sentences,
	}
}
