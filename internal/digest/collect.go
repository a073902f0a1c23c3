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
	source string // the feed's title
	feed   string // its address
	id     string // identity within the digest
	apart  bool   // to be put together with no other
	fate   string
	why    string // the fate
	before string // title of what an earlier run posted, that it tells again
	page   string // main text of its page
}

// text is what is known of an item's contents.
func (i *item) text() string {
	if i.page != "" {
		return i.page
	}
	return i.Item.Text()
}

// picture is the address of a picture that comes with the item, or empty.
func (i *item) picture() string {
	if web(i.Item.Image) {
		return i.Item.Image
	}
	for _, e := range i.Enclosures {
		if strings.HasPrefix(e.Type, "image/") && web(e.URL) {
			return e.URL
		}
	}
	return ""
}

// edition is a digest in the making.
type edition struct {
	items   []*item
	chosen  []story
	surplus []story  // of an instant digest: what was too much
	saw     []string // the ids of all items
	fresh   []string // of those that were not seen before
	faults  []string // feeds that could not be read, for readers
	failed  map[string]string
	shown   map[string]string // feeds by address, as they may be shown
	notes   []string          // what else was left out
	first   bool              // no run before this one went well
	hold    bool              // nothing is posted and nothing counts as seen
	stock   bool              // everything counts as seen, nothing is posted
	page
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
	e := &edition{failed: map[string]string{}, shown: map[string]string{}}
	if err := s.fetch(ctx, d, e); err != nil {
		e.verdict()
		return e, err
	}
	for _, i := range e.items {
		e.saw = append(e.saw, i.id)
	}
	seen, ever, err := s.o.Store.SeenItems(ctx, d.Name, e.saw)
	if err != nil {
		return e, err
	}
	if e.first = !ever; e.first {
		runs, err := s.o.Store.LastRuns(ctx, d.Name, lookBack)
		if err != nil {
			return e, err
		}
		e.first = !slices.ContainsFunc(runs, func(r store.Run) bool { return r.OK })
	}
	now := s.o.Now()
	for _, i := range e.items {
		if !seen[i.id] {
			e.fresh = append(e.fresh, i.id)
		}
		switch {
		case seen[i.id]:
			i.fate = seenBefore
		case !web(i.Link):
			i.fate = "no link"
		case d.MaxAge > 0 && !i.Item.Time().IsZero() && now.Sub(i.Item.Time()) > time.Duration(d.MaxAge):
			i.fate = "too old"
		default:
			i.fate = filtered(i, d.filters, now)
		}
	}
	if err := s.choose(ctx, d, e); err != nil {
		return e, err
	}
	e.verdict()
	return e, nil
}

// verdict writes down what became of every item, and of the feeds without any.
func (e *edition) verdict() {
	for _, i := range e.items {
		e.verdicts = append(e.verdicts, Verdict{Title: i.Heading(), Link: i.Link, Feed: i.source, Verdict: i.fate, Reason: i.why})
	}
	for _, address := range slices.Sorted(maps.Keys(e.failed)) {
		e.verdicts = append(e.verdicts, Verdict{Feed: e.shown[address], Verdict: feedFailed + e.failed[address]})
	}
	slices.SortStableFunc(e.verdicts, func(a, b Verdict) int { return cmp.Compare(a.place(), b.place()) })
}

// place orders verdicts by how much they tell.
func (v Verdict) place() int {
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

// fetch reads the feeds in parallel and keeps their items in the feeds' order.
func (s *Service) fetch(ctx context.Context, d spec, e *edition) error {
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
		e.shown[f.URL] = f.shown()
		if errs[n] != nil {
			s.o.Log.Warn("feed not read", "digest", d.Name, "feed", f.shown(), "error", errs[n])
			reason := strings.ReplaceAll(strings.TrimSuffix(feed.Explain(f.URL, errs[n]), "."), f.URL, f.shown())
			e.faults, e.failed[f.URL] = append(e.faults, reason), reason
			continue
		}
		source := cmp.Or(results[n].Feed.Heading(), host(f.URL))
		for _, it := range results[n].Items {
			e.items = append(e.items, &item{Item: it, source: source, feed: f.URL, id: identity(f.URL, it), apart: f.Apart})
		}
	}
	if len(e.failed) == len(d.Feeds) {
		return &UnreadError{e.faults}
	}
	return nil
}

// UnreadError says that none of a digest's feeds could be read, and in a sentence for
// people why each could not.
type UnreadError struct{ Faults []string }

func (e *UnreadError) Error() string { return "no feed could be read: " + strings.Join(e.Faults, "; ") }

func identity(address string, it feed.Item) string { return hash(address + "\x00" + it.ID) }

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

func escapeHTML(s string) string { return html.EscapeString(s) }
