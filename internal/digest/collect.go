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

// fetchAtOnce is how many feeds of a digest are read side by side, fetchTimeout
// how long all of them may take.
const (
	fetchAtOnce  = 4
	fetchTimeout = 2 * time.Minute
)

// lookBack is how many runs are looked through for one that went well, where nothing
// was ever seen.
const lookBack = 20

// Verdicts that are looked for: on what an earlier run looked at, on what was too much,
// and the beginning of that on a feed.
const (
	seenBefore = "already seen"
	overLimit  = "over the limit"
	feedFailed = "feed failed: "
)

// Verdict says what became of an item, and why.
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
	noMerge      bool   // to be put together with no other
	verdict      string
	reason       string // the fate
	postedBefore string // title of what an earlier run posted, that it tells again
	pageText     string // main text of its page
}

// text is what is known of an item's contents.
func (i *item) text() string {
	if i.pageText != "" {
		return i.pageText
	}
	return i.Item.Text()
}

// imageURL is the address of a picture that comes with the item, or empty.
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

// edition is a digest in the making.
type edition struct {
	items     []*item
	chosen    []story
	surplus   []story  // of an instant digest: what was too much
	seenIDs   []string // the ids of all items
	newIDs    []string // of those that were not seen before
	faults    []string // feeds that could not be read, for readers
	failures  map[string]string
	shownURLs map[string]string // feeds by address, as they may be shown
	notes     []string          // what else was left out
	firstRun  bool              // no run before this one went well
	postpone  bool              // nothing is posted and nothing counts as seen
	markOnly  bool              // everything counts as seen, nothing is posted
	content
	verdicts []Verdict
}

// story is what one card tells: an item, and others that tell the same.
type story struct {
	*item
	also  []*item
	score float64
}

// collect reads the feeds and decides over every item.
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
		case !isWebURL(i.Link):
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

// listVerdicts writes down what became of every item, and of the feeds without any.
func (e *edition) listVerdicts() {
	for _, i := range e.items {
		e.verdicts = append(e.verdicts, Verdict{Title: i.Heading(), Link: i.Link, Feed: i.source, Verdict: i.verdict, Reason: i.reason})
	}
	for _, address := range slices.Sorted(maps.Keys(e.failures)) {
		e.verdicts = append(e.verdicts, Verdict{Feed: e.shownURLs[address], Verdict: feedFailed + e.failures[address]})
	}
	slices.SortStableFunc(e.verdicts, func(a, b Verdict) int { return cmp.Compare(a.order(), b.order()) })
}

// order orders verdicts by how much they tell.
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

// fetchFeeds reads the feeds in parallel and keeps their items in the feeds' order.
func (s *Service) fetchFeeds(ctx context.Context, d spec, e *edition) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	results, errs := make([]feed.Result, len(d.Feeds)), make([]error, len(d.Feeds))
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
			results[n], errs[n] = read(ctx, f.URL)
		})
	}
	wg.Wait()
	for n, f := range d.Feeds {
		e.shownURLs[f.URL] = f.displayURL()
		if errs[n] != nil {
			s.o.Log.Warn("feed not read", "digest", d.Name, "feed", f.displayURL(), "error", errs[n])
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

// UnreadError says that none of a digest's feeds could be read, and in a sentence for
// people why each could not.
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
