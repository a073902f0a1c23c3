package digest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/feed"
)

// fetchAtOnce is how many feeds of a digest are read side by side, fetchTimeout
// how long all of them may take.
const (
	fetchAtOnce  = 4
	fetchTimeout = 2 * time.Minute
)

// Verdict says what became of an item, and why.
type Verdict struct {
	Title   string `json:"title"`
	Link    string `json:"link"`
	Feed    string `json:"feed"`
	Verdict string `json:"verdict"` // posted | already seen | filtered by … | merged into … | over the limit | no link
}

// item is a feed's item on its way through a digest.
type item struct {
	feed.Item
	source string // the feed's title
	id     string // identity within the digest
	fate   string
}

// edition is a digest in the making.
type edition struct {
	items    []*item
	chosen   []story
	saw      []string // the ids of all items
	fresh    []string // of those that were not seen before
	faults   []string // feeds that could not be read, for readers
	failed   int
	draft    chat.Draft
	verdicts []Verdict
}

// story is what one card tells: an item, and others that tell the same.
type story struct {
	*item
	also []*item
}

// collect reads the feeds and decides over every item.
func (s *Service) collect(ctx context.Context, d Spec) (*edition, error) {
	e := &edition{}
	if err := s.fetch(ctx, d, e); err != nil {
		return e, err
	}
	for _, i := range e.items {
		e.saw = append(e.saw, i.id)
	}
	seen, _, err := s.o.Store.Seen(ctx, d.Name, e.saw)
	if err != nil {
		return e, err
	}
	for _, i := range e.items {
		if !seen[i.id] {
			e.fresh = append(e.fresh, i.id)
		}
		switch {
		case seen[i.id]:
			i.fate = "already seen"
		case !web(i.Link):
			i.fate = "no link"
		default:
			i.fate = filtered(i, d.Filters)
		}
	}
	e.choose(d.MaxItems)
	for _, i := range e.items {
		e.verdicts = append(e.verdicts, Verdict{Title: i.Heading(), Link: i.Link, Feed: i.source, Verdict: i.fate})
	}
	return e, nil
}

// fetch reads the feeds in parallel and keeps their items in the feeds' order.
func (s *Service) fetch(ctx context.Context, d Spec, e *edition) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	results, errs := make([]feed.Result, len(d.Feeds)), make([]error, len(d.Feeds))
	slots := make(chan struct{}, fetchAtOnce)
	var wg sync.WaitGroup
	for n, address := range d.Feeds {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[n], errs[n] = s.o.Feeds.Fetch(ctx, address)
		})
	}
	wg.Wait()
	for n, address := range d.Feeds {
		if errs[n] != nil {
			s.o.Log.Warn("feed not read", "digest", d.Name, "feed", address, "error", errs[n])
			e.faults = append(e.faults, strings.TrimSuffix(feed.Explain(address, errs[n]), "."))
			e.failed++
			continue
		}
		source := cmp.Or(results[n].Feed.Heading(), host(address))
		for _, it := range results[n].Items {
			e.items = append(e.items, &item{Item: it, source: source, id: identity(address, it)})
		}
	}
	if e.failed == len(d.Feeds) {
		return fmt.Errorf("no feed could be read: %w", errors.Join(errs...))
	}
	return nil
}

// identity is short and fits any store.
func identity(address string, it feed.Item) string {
	sum := sha256.Sum256([]byte(address + "\x00" + it.ID))
	return hex.EncodeToString(sum[:12])
}

func host(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return address
}

func web(link string) bool {
	u, err := url.Parse(link)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// filtered names the filter that an item fails, or is empty.
func filtered(i *item, filters []string) string {
	text := strings.ToLower(i.Heading() + " " + feed.Plain(i.Summary) + " " + strings.Join(i.Categories, " "))
	var wanted []string
	found := false
	for _, f := range filters {
		if word, not := strings.CutPrefix(f, "-"); not {
			if strings.Contains(text, strings.ToLower(word)) {
				return "filtered by " + f
			}
			continue
		}
		wanted = append(wanted, f)
		found = found || strings.Contains(text, strings.ToLower(f))
	}
	if len(wanted) > 0 && !found {
		return "filtered by " + strings.Join(wanted, ", ")
	}
	return ""
}

// choose merges what tells the same and takes the newest.
func (e *edition) choose(limit int) {
	byID := map[string]*item{}
	var fresh []feed.Item
	for _, i := range e.items {
		if i.fate == "" {
			byID[i.id] = i
			it := i.Item
			it.ID = i.id
			fresh = append(fresh, it)
		}
	}
	slices.SortStableFunc(fresh, func(a, b feed.Item) int { return b.Time().Compare(a.Time()) })
	for n, same := range feed.Dedupe(fresh) {
		st := story{item: byID[same.Item.ID]}
		if st.fate = "posted"; n >= limit {
			st.fate = "over the limit"
		}
		for _, a := range same.Also {
			also := byID[a.ID]
			also.fate = "merged into " + st.Heading()
			st.also = append(st.also, also)
		}
		if n < limit {
			e.chosen = append(e.chosen, st)
		}
	}
}
