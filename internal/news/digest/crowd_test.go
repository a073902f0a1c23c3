package digest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/ops/egress"
	"ravenbot/internal/store"
)

// gatedFeeds holds up the requests for feeds until its gate opens, and counts them.
type gatedFeeds struct {
	feeds
	gate      chan struct{}
	entered   chan struct{} // receives for each request that the gate holds up
	underWay  atomic.Int32
	mostAtOne atomic.Int32
}

func (g *gatedFeeds) Fetch(ctx context.Context, address string) (feed.Result, error) {
	if strings.HasSuffix(address, "/free") {
		return g.feeds.Fetch(ctx, address)
	}
	now := g.underWay.Add(1)
	defer g.underWay.Add(-1)
	for most := g.mostAtOne.Load(); now > most && !g.mostAtOne.CompareAndSwap(most, now); most = g.mostAtOne.Load() {
	}
	g.entered <- struct{}{}
	<-g.gate
	return g.feeds.Fetch(ctx, address)
}

func (g *gatedFeeds) FetchAll(ctx context.Context, urls []string, turn func(func())) ([]feed.Result, []error) {
	return fetchEach(ctx, g.Fetch, urls, turn)
}

// lockedDelivery is for many runs at once.
type lockedDelivery struct {
	*bench
	mu sync.Mutex
}

func (l *lockedDelivery) Deliver(posts []store.Post) func(context.Context) []store.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bench.Deliver(posts)
}

// manyDigests are digests that are due at the same time, each with feeds of its own.
func manyDigests(digests, feedsEach int, address func(digest, feed int) string) []digest.Plan {
	var plans []digest.Plan
	for n := range digests {
		p := digest.Plan{Name: fmt.Sprintf("d%d", n), Schedule: "0 8 * * *",
			Post: []string{"web:/r" + fmt.Sprint(n)}, MaxItems: 5}
		for f := range feedsEach {
			p.Feeds = append(p.Feeds, digest.Feed{URL: address(n, f)})
		}
		plans = append(plans, p)
	}
	return plans
}

// Of many digests that are due at once a few run at a time, all are posted, and a run that somebody asks for waits for
// none of them.
func TestRun_ManyDueAtOnce_FewRunAtATime(t *testing.T) {
	const many = 200
	g := &gatedFeeds{feeds: feeds{}, gate: make(chan struct{}), entered: make(chan struct{}, many)}
	l := &lockedDelivery{}
	b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) { o.Feeds, o.Delivery = g, l })
	l.bench = b
	plans := manyDigests(many, 1, func(d, _ int) string {
		url := fmt.Sprintf("https://example.org/many/%d", d)
		g.feeds[url] = []feed.Item{story(d)}
		return url
	})
	free := digest.Plan{Name: "free", Schedule: "0 8 * * *", Post: []string{"web:/free"},
		Feeds: from("https://example.org/free")}
	g.feeds["https://example.org/free"] = []feed.Item{story(1)}
	if err := b.Configure(append(plans, free)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var failed atomic.Int32
	for _, p := range plans {
		all.Go(func() {
			if run, err := b.Run(context.Background(), p.Name, monday, false); err != nil || run.Posted != 1 {
				failed.Add(1)
			}
		})
	}
	for range 4 {
		<-g.entered
	}
	if run, err := b.Run(t.Context(), "free", monday, true); err != nil || run.Posted != 1 {
		t.Errorf("a run that somebody asked for: %+v, %v", run, err)
	}
	close(g.gate)
	all.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d digests failed", n, many)
	}
	if n := g.mostAtOne.Load(); n > 4 {
		t.Errorf("%d feeds of scheduled digests were read at once, want 4 at most", n)
	}
	if len(b.sent) != many+1 {
		t.Errorf("%d posts, want %d", len(b.sent), many+1)
	}
}

// A feed whose request never began, because others to its host took too long, has not failed.
func TestRun_FeedNotAsked_IsNotCalledFailing(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a, b2)}, func(o *digest.Options) {
		o.Feeds = queuedFeeds{o.Feeds.(feeds)}
	})
	b.feeds[a] = []feed.Item{story(1)}
	b.run(t, monday)
	if told := b.notices(); len(told) != 0 {
		t.Errorf("the channel was told %q", told)
	}
	if footer := b.sent[0].Draft.Footer; !strings.Contains(footer, b2+" was not read this time") {
		t.Errorf("the footer says %q", footer)
	}
}

// queuedFeeds never begins a request for feed b.
type queuedFeeds struct{ feeds }

func (q queuedFeeds) Fetch(ctx context.Context, address string) (feed.Result, error) {
	if address == b2 {
		return feed.Result{}, fmt.Errorf("fetch: %w: %w", feed.ErrQueued, context.DeadlineExceeded)
	}
	return q.feeds.Fetch(ctx, address)
}

func (q queuedFeeds) FetchAll(ctx context.Context, urls []string, turn func(func())) ([]feed.Result, []error) {
	return fetchEach(ctx, q.Fetch, urls, turn)
}

// Answers in chat wait for the transactions of runs: one for what was learned of the feeds, and one for the run.
func TestRun_OfManyFeeds_TakesTwoTransactions(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `<rss version="2.0"><channel><title>Feed %[1]s</title><item><guid>%[1]s</guid><title>Item of `+
			`%[1]s</title>`+
			`<link>https://example.org%[1]s</link></item></channel></rss>`, r.URL.Path)
	}))
	defer server.Close()
	client, err := egress.New(egress.Options{AllowPrivateHosts: []string{strings.TrimPrefix(server.URL, "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdle()
	var feeds []digest.Feed
	for n := range 8 {
		feeds = append(feeds, digest.Feed{URL: fmt.Sprintf("%s/%d", server.URL, n)})
	}
	b := service(t, digest.Plan{Feeds: feeds}, func(o *digest.Options) {
		o.Feeds = feed.NewFetcher(client, feed.StoredStates{Records: o.Store.(feed.Records)}, feed.Options{})
	})
	before := b.db.Commits()
	if run := b.run(t, monday); run.Posted != len(feeds) {
		t.Errorf("run %+v", run)
	}
	if n := b.db.Commits() - before; n != 2 {
		t.Errorf("the run took %d transactions, want 2", n)
	}
}

// TestLoad_5000DigestsInOneMinute runs as many digests of four feeds each, all of one host, as findings about memory
// and false failures were made with. It prints what they cost, and runs where RAVENBOT_LOAD says how many.
func TestLoad_5000DigestsInOneMinute(t *testing.T) {
	digests := 0
	if _, err := fmt.Sscan(os.Getenv("RAVENBOT_LOAD"), &digests); err != nil {
		t.Skip("RAVENBOT_LOAD does not say how many digests: it takes minutes")
	}
	const each = 4
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", "application/rss+xml")
		fmt.Fprintf(w, `<rss version="2.0"><channel><title>Feed %s</title>`, r.URL.Path)
		for n := range 20 {
			fmt.Fprintf(w, `<item><guid>%s-%d</guid><title>Item %d of feed `+
				`%s</title><link>%s%s/%d</link><description>%s</description></item>`,
				r.URL.Path, n, n, r.URL.Path, "https://example.org", r.URL.Path, n, strings.Repeat("Some words of the item. ", 20))
		}
		fmt.Fprint(w, `</channel></rss>`)
	}))
	defer server.Close()
	client, err := egress.New(egress.Options{AllowPrivateHosts: []string{strings.TrimPrefix(server.URL, "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdle()
	l := &lockedDelivery{}
	b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) {
		o.Feeds = feed.NewFetcher(client, feed.StoredStates{Records: o.Store.(feed.Records)}, feed.Options{})
		o.Delivery, o.Now = l, time.Now
	})
	l.bench = b
	if err := b.Configure(manyDigests(digests, each, func(d, f int) string {
		return fmt.Sprintf("%s/%d/%d", server.URL, d, f)
	})); err != nil {
		t.Fatal(err)
	}
	idle := probeStore(t, b, func(stop <-chan struct{}) { <-stop })
	var failed, highest atomic.Int64
	begin := time.Now()
	busy := probeStore(t, b, func(stop <-chan struct{}) {
		var all sync.WaitGroup
		for n := range digests {
			all.Go(func() {
				if run, err := b.Run(context.Background(), fmt.Sprintf("d%d", n), monday, false); err != nil || run.Posted == 0 ||
					run.Note != "" {
					failed.Add(1)
				}
				var m runtime.MemStats
				if n%50 == 0 {
					runtime.ReadMemStats(&m)
					highest.Store(max(highest.Load(), int64(m.HeapInuse+m.StackInuse)))
				}
			})
		}
		all.Wait()
	})
	took := time.Since(begin)
	t.Logf("%d digests of %d feeds: %s, %d requests, %d failed, %d MB at most; a write to the store took %s idle, %s "+
		"busy (95th percentile)",
		digests, each, took.Round(time.Second), requests.Load(), failed.Load(), highest.Load()>>20, idle, busy)
	if failed.Load() > 0 || highest.Load() > 200<<20 {
		t.Errorf("%d digests failed, %d MB were in use; want none, and 200 MB at most", failed.Load(), highest.Load()>>20)
	}
}

// probeStore returns the 95th percentile of the time that a write takes, as each chat message needs one, while work is
// done. Work that only waits is ended after two seconds.
func probeStore(t *testing.T, b *bench, work func(stop <-chan struct{})) time.Duration {
	t.Helper()
	done := make(chan struct{})
	stop := time.After(2 * time.Second)
	ended := make(chan struct{})
	go func() {
		<-stop
		close(ended)
	}()
	go func() {
		work(ended)
		close(done)
	}()
	var all []time.Duration
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			slices.Sort(all)
			return all[len(all)*95/100]
		case <-tick.C:
			begin := time.Now()
			if err := b.db.SaveItem(t.Context(), "probe", filepath.Base(t.Name()), []byte(`{}`), true); err != nil {
				t.Error(err)
			}
			all = append(all, time.Since(begin))
		}
	}
}

// countedRuns counts the digests whose runs are looked up.
type countedRuns struct {
	digest.Store
	lookUps atomic.Int32
}

func (c *countedRuns) LastRuns(ctx context.Context, name string, n int) ([]store.Run, error) {
	c.lookUps.Add(1)
	return c.Store.LastRuns(ctx, name, n)
}

func TestPage_OfManyDigests_LooksUpThoseAlone(t *testing.T) {
	c := &countedRuns{}
	b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) { c.Store, o.Store = o.Store, c })
	if err := b.Configure(manyDigests(20, 1, func(int, int) string { return a })); err != nil {
		t.Fatal(err)
	}
	for _, page := range []struct {
		after   string
		n, want int
		more    bool
	}{{"", 6, 6, true}, {"d13", 6, 6, true}, {"d7", 6, 2, false}, {"d3", 6, 6, false}, {"e", 6, 0, false}} {
		c.lookUps.Store(0)
		list, more, err := b.Page(t.Context(), page.after, page.n)
		if err != nil || len(list) != page.want || more != page.more || int(c.lookUps.Load()) != page.want {
			t.Errorf("%d after %q: %d, more %v, %d looked up, %v", page.n, page.after, len(list), more, c.lookUps.Load(), err)
		}
	}
	if list, _, err := b.Page(t.Context(), "d0", 1); err != nil || list[0].Name != "d1" {
		t.Errorf("the second is %v, %v", list, err)
	}
}
