package digest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/text"
	"ravenbot/internal/feature/catchup"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/store"
)

// fetchAtOnce is how many feeds of a digest are read in parallel. There is no time limit for all of them: each request
// has its own, which begins with it, and the run has one.
const fetchAtOnce = 4

// maxAhead is how far in the future an item may be dated: clocks of servers are wrong, and some leave out their zone.
const maxAhead = 24 * time.Hour

// lookBack is how many runs are searched for a successful one, where no item was ever seen.
const lookBack = 20

// Verdicts that the code compares. feedFailed is the beginning of the verdict on a feed.
const (
	posted      = "posted"
	seenBefore  = "already seen"
	overLimit   = "over the limit"
	carriedOver = "carried over"
	tooOld      = "too old"
	feedFailed  = "feed failed: "
)

// Verdict is what a run decided about an item, and why.
type Verdict struct {
	Title string `json:"title"`
	Link  string `json:"link"`
	Feed  string `json:"feed"`
	// Verdict is one of: posted, carried over, not worth a place, already seen, too old, filtered by …, merged into …,
	// left out: …, over the limit, no link, muted, advertisement, taken as known; feed failed: … stands for all of a feed.
	Verdict string  `json:"verdict"`
	Reason  string  `json:"reason,omitempty"` // what decided it
	Judged  bool    `json:"judged"`           // a model judged it, in this run or an earlier one
	Worth   float64 `json:"worth"`            // how much it matters, 0 to 10; as it seems, where it was not judged
	Score   *Score  `json:"score,omitempty"`  // of items that could have been posted
}

// Why returns what decided about an item: the reason, and its score with what it is made of.
func (v Verdict) Why() string {
	if v.Score == nil {
		return v.Reason
	}
	return strings.Join(nonEmpty(v.Reason, v.Score.String()), "; ")
}

// item is a feed's item on its way through a digest.
type item struct {
	feed.Item
	source      string // the feed's title
	feed        Feed
	id          string    // identity within the digest
	aliases     []string  // by which the item is known again if its feed names it anew
	since       time.Time // when the digest first saw it; zero: now
	listed      bool      // by its feed, still
	old         bool      // of no known date, and its feed is read for the first time
	event       string    // name of the event that it is; empty: it is of a feed
	verdict     string    // empty: not decided yet
	reason      string    // for the verdict
	score       *Score
	worth       float64     // how much it matters, 0 to 10
	judged      bool        // a model said so, in this run or an earlier one
	skips       int         // how often a model was shown its headline and did not judge it
	mergeReason feed.Reason // why it is told together with others
	pageAsked   bool        // its page was looked at
	pageText    string      // main text of the item's page
	feedText    string      // what text returns without a page; set by it
	heading     string      // what Heading returns; set by it
}

// Heading returns the title as plain text on one line, as feed.Item does. It is made once.
func (i *item) Heading() string {
	if i.heading == "" {
		i.heading = i.Item.Heading()
	}
	return i.heading
}

// lineEnd matches the end of a line behind which no sentence goes on.
var lineEnd = text.Pattern(`\n+([^\p{Ll}\s])`)

// text returns the text of an item's page, else what the feed has, with blank lines between blocks and entries of
// lists.
func (i *item) text() string {
	if i.pageText != "" {
		return i.pageText
	}
	if i.feedText == "" {
		// Line ends of the markup are white space to package feed, so those that are left are breaks and list items.
		i.feedText = lineEnd().ReplaceAllString(i.Item.Text(), "\n\n$1")
	}
	return i.feedText
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

// edition is a digest while it is made, by one goroutine. Nothing of it outlasts the run but what
// newRunItems and buildPosts make of it.
type edition struct {
	items     []*item
	stories   []story // what could be posted, the best first
	chosen    []story
	entries   []story           // what has a card: chosen, but for the style deep
	surplus   []story           // of an instant digest: what is only named
	left      []story           // what got no place
	waiting   []story           // of that, what is carried over to the next run
	unworthy  []story           // and what is not
	waited    bool              // items waited before the run
	seen      map[string]bool   // the items that earlier runs decided about, by id
	seenIDs   []string          // the ids of the items that need no further decision
	newIDs    []string          // of those that were not seen before
	faults    []string          // feeds that could not be read, for readers
	failures  map[string]string // why feeds failed, by address
	unasked   map[string]bool   // feeds by address, for which no request was made
	shownURLs map[string]string // feeds by address, as they may be shown
	readFeeds []string          // addresses of the feeds that were read
	notes     []string          // for readers: what else was left out
	firstRun  bool              // no earlier run succeeded
	markOnly  bool              // nothing is posted, and all items count as seen
	content
	report   catchup.Report // of what was said in channels
	verdicts []Verdict

	like         map[string]float64   // what people here think of sources and topics
	lastShown    map[string]time.Time // by the hash of a feed's address
	postedTitles []string             // of the last days, for the model
	kinds        map[string]string    // how kinds of items are treated
	candidates   []story              // what a model reads
	tellings     []telling            // their items, by the number less 1 under which the model knows them
	asked        bool                 // a model was asked about them
	modelFailed  bool                 // no model has answered
	spent        int                  // tokens, as estimated
	now          time.Time
}

// story is what becomes one card: an item, and others that tell the same story.
type story struct {
	*item
	also     []*item
	series   []*item // the others of a series that it leads
	updateOf string  // title of the earlier post that it has news to
}

// members returns all items of a story.
func (st story) members() []*item { return slices.Concat([]*item{st.item}, st.also, st.series) }

// collect reads the feeds and makes stories of the items that could be posted. It returns an *UnreadError where no feed
// could be read, and else the error of the store or of ctx; the edition is returned with it, as far as it was made.
func (s *Service) collect(ctx context.Context, d spec) (*edition, error) {
	e := &edition{failures: map[string]string{}, unasked: map[string]bool{}, shownURLs: map[string]string{}}
	if d.Style == Weekly {
		return e, s.collectWeekly(ctx, d, e)
	}
	for _, step := range []func(context.Context, spec, *edition) error{s.fetchFeeds, s.addWaiting, s.addEvents} {
		if err := step(ctx, d, e); err != nil {
			e.listVerdicts()
			return e, err
		}
	}
	return e, s.limiter.do(ctx, d, func() error { return s.decide(ctx, d, e) })
}

// decide decides on every item that needs no comparison with others. The others become stories.
func (s *Service) decide(ctx context.Context, d spec, e *edition) error {
	e.nameItems()
	var ids []string
	for _, i := range e.items {
		ids = append(append(ids, i.id), i.aliases...)
	}
	for _, address := range e.readFeeds {
		ids = append(ids, feedHash(address))
	}
	seen, ever, err := s.o.Store.SeenItems(ctx, d.Name, ids)
	if err != nil {
		return err
	}
	// What a run posts stays among the stored items that wait (newWaitingItems), so it comes back with the next run.
	e.items = slices.DeleteFunc(e.items, func(i *item) bool { return !i.since.IsZero() && !i.listed && seen[i.id] })
	// A successful run may have seen no item, where its feeds were empty.
	if e.firstRun = !ever; e.firstRun {
		runs, err := s.o.Store.LastRuns(ctx, d.Name, lookBack)
		if err != nil {
			return err
		}
		e.firstRun = !slices.ContainsFunc(runs, func(r store.Run) bool { return r.OK })
	}
	now := s.o.Now() // one for all items: two of the same age get the same verdict
	e.now = now
	known := map[string]bool{} // feeds of which an earlier run saw something, by address
	for _, i := range e.items {
		known[i.feed.URL] = known[i.feed.URL] || seen[i.id] || seen[feedHash(i.feed.URL)]
	}
	for _, i := range e.items {
		// What a feed has had for long is not told from news without a date.
		i.old = i.listed && i.event == "" && i.Item.Time().IsZero() && !known[i.feed.URL]
		// A site that has moved names its items anew.
		for _, alias := range i.aliases {
			seen[i.id] = seen[i.id] || seen[alias]
		}
		if i.verdict = seenBefore; !seen[i.id] {
			i.verdict, i.reason = d.decideAlone(i, now)
		}
	}
	e.seen = seen
	return s.rankStories(ctx, d, e)
}

// decideAlone returns the verdict on a new item that does not depend on others, and its reason;
// it returns "" where the item may be posted.
func (d spec) decideAlone(i *item, now time.Time) (verdict, reason string) {
	at := i.Item.Time()
	switch {
	case !isWebURL(i.Link) && (i.event == "" || i.Link != ""): // every entry of a feed links to its source
		return "no link", ""
	case i.feed.Mute:
		return "muted", "its feed is muted"
	case d.MaxAge > 0 && i.old:
		return tooOld, "it has no known date, and its feed is read for the first time"
	case d.MaxAge > 0 && !at.IsZero() && now.Sub(at) > time.Duration(d.MaxAge):
		return tooOld, ""
	case !i.since.IsZero() && now.Sub(i.since) > d.maxWait():
		return tooOld, fmt.Sprintf("it has waited for a place since %s", i.since.In(d.zone).Format("2 Jan 15:04"))
	}
	if failed := failedFilter(i, d.filters, now); failed != "" {
		return failed, ""
	}
	if label := advertLabel(i); label != "" && !d.Adverts {
		return advertisement, fmt.Sprintf("it calls itself %q", label)
	}
	return "", ""
}

// listSeen lists what counts as seen after the run: all items but those that are carried over,
// and of them those that are new.
func (e *edition) listSeen(d spec) {
	if d.Style == Weekly { // its items are of other digests
		return
	}
	waiting := map[string]bool{}
	for _, st := range e.waiting {
		for _, i := range st.members() {
			waiting[i.id] = true
		}
	}
	e.seenIDs, e.newIDs = nil, nil
	for _, i := range e.items {
		if waiting[i.id] {
			continue
		}
		e.seenIDs = append(append(e.seenIDs, i.id), i.aliases...)
		if !e.seen[i.id] {
			e.newIDs = append(append(e.newIDs, i.id), i.aliases...)
		}
	}
	for _, address := range e.readFeeds {
		hash := feedHash(address)
		// A poll that finds nothing leaves no run behind for that.
		if e.seenIDs = append(e.seenIDs, hash); !e.seen[hash] && !d.quiet {
			e.newIDs = append(e.newIDs, hash)
		}
	}
	// Messages of channels share the seen items of the digest, under hashes that no item has.
	for _, id := range e.report.IDs {
		e.seenIDs, e.newIDs = append(e.seenIDs, messageHash(id)), append(e.newIDs, messageHash(id))
	}
}

// listVerdicts lists the verdicts on all items, and on the feeds that failed.
func (e *edition) listVerdicts() {
	for _, i := range e.items {
		e.verdicts = append(e.verdicts, Verdict{Title: i.label(), Link: i.Link, Feed: i.source, Verdict: i.verdict,
			Reason: i.reason, Judged: i.judged, Worth: i.worth, Score: i.score})
	}
	for _, address := range slices.Sorted(maps.Keys(e.failures)) {
		e.verdicts = append(e.verdicts, Verdict{Feed: e.shownURLs[address], Verdict: feedFailed + e.failures[address]})
	}
	// Only the first of them are kept, and shown in chat.
	slices.SortStableFunc(e.verdicts, func(a, b Verdict) int { return cmp.Compare(a.order(), b.order()) })
}

// order returns the rank of a verdict in a list: the most informative come first.
func (v Verdict) order() int {
	if strings.HasPrefix(v.Verdict, feedFailed) {
		return -3
	}
	return map[string]int{posted: -2, carriedOver: -1, overLimit: 1, seenBefore: 2}[v.Verdict]
}

// fetchFeeds reads the feeds in parallel, and adds their items in the order of the feeds. It
// returns an *UnreadError where none could be read.
func (s *Service) fetchFeeds(ctx context.Context, d spec, e *edition) error {
	// PollAll makes no request while a feed counts as fresh; a run that somebody waits for asks.
	readAll := s.o.Feeds.FetchAll
	if d.quiet {
		readAll = s.o.Feeds.PollAll
	}
	addresses := make([]string, len(d.Feeds))
	for n, f := range d.Feeds {
		addresses[n] = f.URL
	}
	slots := make(chan struct{}, fetchAtOnce)
	results, errs := readAll(ctx, addresses, func(read func()) {
		slots <- struct{}{}
		defer func() { <-slots }()
		s.limiter.read(ctx, d, read)
	})
	unread := 0
	for n, f := range d.Feeds {
		e.shownURLs[f.URL] = f.displayURL()
		if errs[n] != nil {
			s.o.Log.Warn("failed to read a feed", "digest", d.Name, "feed", f.displayURL(), "error", errs[n])
			// Readers see this reason, so an address in it must not show its secrets.
			reason := strings.ReplaceAll(strings.TrimSuffix(feed.Explain(f.URL, errs[n]), "."), f.URL, f.displayURL())
			unread++
			// Other requests to the same host took too long. That says nothing about the feed.
			if e.faults = append(e.faults, reason); errors.Is(errs[n], feed.ErrQueued) {
				e.unasked[f.URL] = true
			} else {
				e.failures[f.URL] = reason
				// What was cut off says nothing about the feed either, and with it the run ends as none.
				if ctx.Err() == nil {
					s.countRead(f, errs[n])
				}
			}
			continue
		}
		s.countRead(f, nil)
		e.readFeeds = append(e.readFeeds, f.URL)
		source := cmp.Or(results[n].Feed.Heading(), host(f.URL))
		for _, it := range results[n].Items {
			// A date that is still to come says nothing of when the item was published.
			if it.Time().Sub(s.o.Now()) > maxAhead {
				it.Published, it.Updated = time.Time{}, time.Time{}
			}
			e.items = append(e.items,
				&item{Item: it, source: cmp.Or(it.Origin, source), feed: f, id: itemID(f.URL, it), listed: true})
		}
	}
	// Channels and webhooks may have something to tell without any feed.
	if unread == len(d.Feeds) && len(d.channels)+len(d.Hooks) == 0 {
		return &UnreadError{e.faults}
	}
	return nil
}

// UnreadError is returned where none of a digest's feeds could be read. Faults has a sentence for readers about each.
type UnreadError struct{ Faults []string }

func (e *UnreadError) Error() string { return "no feed could be read: " + strings.Join(e.Faults, "; ") }

// itemID returns what identifies an item within a digest: two feeds may give theirs the same identifiers.
func itemID(address string, it feed.Item) string { return shortHash(address + "\x00" + it.ID) }

// feedHash returns the name under which a feed counts as read; no item of a feed has it.
func feedHash(address string) string { return shortHash("feed\x00" + address) }

// minAlias is how many characters a title or text has that tells items of one feed and time apart.
const minAlias = 12

// nameItems sets the aliases of all items: hashes of feed, time and title, and of feed, time and text, where no other
// item of the feed has the same.
func (e *edition) nameItems() {
	count := map[string]int{}
	for _, i := range e.items {
		if at := i.Item.Time(); i.event == "" && !at.IsZero() {
			for _, words := range []string{i.Heading(), shorten(i.Item.Text(), maxPastText)} {
				if len(words) >= minAlias {
					alias := shortHash(strings.Join([]string{i.feed.URL, at.UTC().Format(time.RFC3339), strings.ToLower(words)}, "\x00"))
					i.aliases = append(i.aliases, alias)
					count[alias]++
				}
			}
		}
	}
	for _, i := range e.items {
		i.aliases = slices.DeleteFunc(i.aliases, func(alias string) bool { return count[alias] > 1 })
	}
}

// host returns the host of an address, with its port, else the address itself. It is what people
// see of a feed without a title.
func host(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return address
}

// isWebURL reports whether a link leads to a page of the web.
func isWebURL(link string) bool {
	u, err := url.Parse(link)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// escapeHTML returns plain text as markup, the form in which package feed has the texts of items.
func escapeHTML(s string) string { return html.EscapeString(s) }
