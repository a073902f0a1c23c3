package digest

import (
	"cmp"
	"context"
	"html"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/feed"
	"ravenbot/internal/store"
)

// fetchAtOnce is how many feeds of a digest are read in parallel, fetchTimeout how long all
// of them may take.
const (
	fetchAtOnce  = 4
	fetchTimeout = 2 * time.Minute
)

// lookBack is how many runs are searched for a successful one, where no item was ever seen.
const lookBack = 20

// Verdicts that the code compares. feedFailed is the beginning of the verdict on a feed.
const (
	seenBefore = "already seen"
	overLimit  = "over the limit"
	feedFailed = "feed failed: "
)

// Verdict is what a run decided about an item, and why.
type Verdict struct {
	Title string `json:"title"`
	Link  string `json:"link"`
	Feed  string `json:"feed"`
	// Verdict is one of: posted, already seen, too old, filtered by …, merged into …,
	// over the limit, no link, taken as known; feed failed: … stands for all of a feed.
	Verdict string `json:"verdict"`
	Reason  string `json:"reason,omitempty"` // what decided it
}

// item is a feed's item on its way through a digest.
type item struct {
	feed.Item
	source       string // the feed's title
	feed         string // its address
	id           string // identity within the digest
	noMerge      bool   // must not be merged with other items
	verdict      string // empty: not decided yet
	reason       string // for the verdict
	postedBefore string // title of the earlier posted entry that tells the same story
	pageText     string // main text of the item's page
}

// text returns the text of an item's page, else what the feed has.
func (i *item) text() string {
	if i.pageText != "" {
		return i.pageText
	}
	return i.Item.Text()
}

// imageURL returns the address of a picture that comes with the item, or "".
func (i *item) imageURL() string {
	if isWebURL(i.Item.Image) {
		return i.Item.Image
	}
	for _, e := range i.Enclosures {
		if strings.HasPrefix(e.Type, "image/") && isWebURL(e.URL) {
			return e.URL
		}
	}
	return ""
}

// edition is a digest while it is made.
type edition struct {
	items     []*item
	chosen    []story
	surplus   []story  // of an instant digest: what is only named
	seenIDs   []string // the ids of all items
	newIDs    []string // of those that were not seen before
	faults    []string // feeds that could not be read, for readers
	failures  map[string]string
	shownURLs map[string]string // feeds by address, as they may be shown
	notes     []string          // for readers: what else was left out
	firstRun  bool              // no earlier run succeeded
	postpone  bool              // nothing is posted, and nothing counts as seen
	markOnly  bool              // nothing is posted, and all items count as seen
	content
	verdicts []Verdict
}

// story is what becomes one card: an item, and others that tell the same story.
type story struct {
	*item
	also  []*item
	score float64
}

// collect reads the feeds and decides on every item. It returns an *UnreadError where no
// feed could be read.
func (s *Service) collect(ctx context.Context, d spec) (*edition, error) {
	e := &edition{failures: map[string]string{}, shownURLs: map[string]string{}}
	if err := s.fetchFeeds(ctx, d, e); err != nil {
		e.listVerdicts()
		return e, err
	}
	for _, i := range e.items {
		e.seenIDs = append(e.seenIDs, i.id)
	}
	seen, ever, err := s.o.Store.SeenItems(ctx, d.Name, e.seenIDs)
	if err != nil {
		return e, err
	}
	// A successful run may have seen no item, where its feeds were empty.
	if e.firstRun = !ever; e.firstRun {
		runs, err := s.o.Store.LastRuns(ctx, d.Name, lookBack)
		if err != nil {
			return e, err
		}
		e.firstRun = !slices.ContainsFunc(runs, func(r store.Run) bool { return r.OK })
	}
	now := s.o.Now()
	for _, i := range e.items {
		if !seen[i.id] {
			e.newIDs = append(e.newIDs, i.id)
		}
		switch {
		case seen[i.id]:
			i.verdict = seenBefore
		case !isWebURL(i.Link): // every entry of a post links to its source
			i.verdict = "no link"
		case d.MaxAge > 0 && !i.Item.Time().IsZero() && now.Sub(i.Item.Time()) > time.Duration(d.MaxAge):
			i.verdict = "too old"
		default:
			i.verdict = failedFilter(i, d.filters, now)
		}
	}
	if err := s.chooseStories(ctx, d, e); err != nil {
		return e, err
	}
	e.listVerdicts()
	return e, nil
}

// listVerdicts lists the verdicts on all items, and on the feeds that failed.
func (e *edition) listVerdicts() {
	for _, i := range e.items {
		e.verdicts = append(e.verdicts, Verdict{
			Title:   i.Heading(),
			Link:    i.Link,
			Feed:    i.source,
			Verdict: i.verdict,
			Reason:  i.reason,
		})
	}
	for _, address := range slices.Sorted(maps.Keys(e.failures)) {
		e.verdicts = append(e.verdicts, Verdict{Feed: e.shownURLs[address], Verdict: feedFailed + e.failures[address]})
	}
	slices.SortStableFunc(e.verdicts, func(a, b Verdict) int { return cmp.Compare(a.order(), b.order()) })
}

// order returns the rank of a verdict in a list: the most informative come first.
func (v Verdict) order() int {
	switch {
	case strings.HasPrefix(v.Verdict, feedFailed):
		return 0
	case v.Verdict == "posted":
		return 1
	case v.Verdict == overLimit:
		return 3
	case v.Verdict == seenBefore:
		return 4
	}
	return 2
}

// fetchFeeds reads the feeds in parallel, and adds their items in the order of the feeds. It
// returns an *UnreadError where none could be read.
func (s *Service) fetchFeeds(ctx context.Context, d spec, e *edition) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	results, errs := make([]feed.Result, len(d.Feeds)), make([]error, len(d.Feeds))
	// Poll makes no request while a feed counts as fresh; a run that somebody waits for asks.
	read := s.o.Feeds.Fetch
	if d.quiet {
		read = s.o.Feeds.Poll
	}
	slots := make(chan struct{}, fetchAtOnce)
	var wg sync.WaitGroup
	for n, f := range d.Feeds {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[n], errs[n] = read(ctx, f.URL) // an element of its own, so no lock is needed
		})
	}
	wg.Wait()
	for n, f := range d.Feeds {
		e.shownURLs[f.URL] = f.displayURL()
		if errs[n] != nil {
			s.o.Log.Warn("feed not read", "digest", d.Name, "feed", f.displayURL(), "error", errs[n])
			// Readers see this reason, so an address in it must not show its secrets.
			reason := strings.ReplaceAll(strings.TrimSuffix(feed.Explain(f.URL, errs[n]), "."), f.URL, f.displayURL())
			e.faults, e.failures[f.URL] = append(e.faults, reason), reason
			continue
		}
		source := cmp.Or(results[n].Feed.Heading(), host(f.URL))
		for _, it := range results[n].Items {
			e.items = append(e.items, &item{Item: it, source: source, feed: f.URL, id: itemID(f.URL, it), noMerge: f.NoMerge})
		}
	}
	if len(e.failures) == len(d.Feeds) {
		return &UnreadError{e.faults}
	}
	return nil
}

// UnreadError is returned where none of a digest's feeds could be read. Faults has a
// sentence for readers about each.
type UnreadError struct{ Faults []string }

func (e *UnreadError) Error() string { return "no feed could be read: " + strings.Join(e.Faults, "; ") }

func itemID(address string, it feed.Item) string { return shortHash(address + "\x00" + it.ID) }

func host(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return address
}

func isWebURL(link string) bool {
	u, err := url.Parse(link)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func escapeHTML(s string) string { return html.EscapeString(s) }
