package feed

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"ravenbot/internal/ops/egress"
)

// memory is a StateStore that keeps the JSON a real one would keep.
type memory struct {
	mu     sync.Mutex
	states map[string][]byte
	saves  int // calls of SaveFeeds
	fail   error
}

func (m *memory) LoadFeed(_ context.Context, url string) (s State, found bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, found := m.states[url]
	if found {
		err = json.Unmarshal(data, &s)
	}
	return s, found, err
}

func (m *memory) SaveFeeds(_ context.Context, states ...State) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saves++
	if m.fail != nil {
		return m.fail
	}
	if m.states == nil {
		m.states = map[string][]byte{}
	}
	for _, s := range states {
		data, err := json.Marshal(s)
		if err != nil {
			return err
		}
		m.states[s.URL] = data
	}
	return nil
}

// Poll polls one feed.
func (f *Fetcher) Poll(ctx context.Context, address string) (Result, error) {
	results, errs := f.PollAll(ctx, []string{address}, func(read func()) { read() })
	return results[0], errs[0]
}

// site is a loopback server with a fetcher that may reach it.
type site struct {
	*httptest.Server
	mux   *http.ServeMux
	store *memory
	now   time.Time
}

func newSite(t *testing.T) (*site, *Fetcher) {
	t.Helper()
	s := &site{mux: http.NewServeMux(), store: &memory{}, now: time.Date(2026, 2, 3, 8, 0, 0, 0, time.UTC)}
	s.Server = httptest.NewServer(s.mux)
	t.Cleanup(s.Close)
	client, err := egress.New(egress.Options{AllowPrivateHosts: []string{strings.TrimPrefix(s.URL, "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdle)
	return s, NewFetcher(client, s.store, Options{
		Now:     func() time.Time { return s.now },
		Bundled: fstest.MapFS{"demo.xml": {Data: []byte(rss)}, "bad.xml": {Data: []byte("no feed")}},
	})
}

func TestFetchAsksOnlyForWhatChanged(t *testing.T) {
	s, f := newSite(t)
	var asked []string
	s.mux.HandleFunc("/feed", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("If-None-Match")+" "+r.Header.Get("If-Modified-Since"))
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Last-Modified", "Tue, 03 Feb 2026 07:00:00 GMT")
		if r.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(w, rss)
	})
	first, err := f.Fetch(t.Context(), s.URL+"/feed")
	if err != nil || first.NotModified || len(first.Items) != 2 || first.FinalURL != s.URL+"/feed" {
		t.Fatalf("first: %+v, %v", first, err)
	}
	second, err := f.Fetch(t.Context(), s.URL+"/feed")
	if err != nil || !second.NotModified || len(second.Items) != 2 || second.Items[0].Source != "Harbour & Town" ||
		second.Items[0].ID != "n-1" {
		t.Fatalf("second: %+v, %v", second, err)
	}
	if want := []string{" ", `"v1" Tue, 03 Feb 2026 07:00:00 GMT`}; fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("conditions %q, want %q", asked, want)
	}
}

func TestFetchRemembersMoves(t *testing.T) {
	s, f := newSite(t)
	var old, gone atomic.Int64
	s.mux.HandleFunc("/old", func(w http.ResponseWriter, r *http.Request) {
		old.Add(1)
		if gone.Load() > 0 {
			fmt.Fprint(w, rss)
			return
		}
		http.Redirect(w, r, "/new", http.StatusMovedPermanently)
	})
	s.mux.HandleFunc("/new", func(w http.ResponseWriter, r *http.Request) {
		if gone.Load() > 0 {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, rss)
	})
	for range 3 {
		if res, err := f.Fetch(t.Context(), s.URL+"/old"); err != nil || res.MovedTo != s.URL+"/new" {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	if old.Load() != 2 {
		t.Errorf("the old address was asked %d times, want twice: a move counts when it is said again", old.Load())
	}
	gone.Store(1)
	if res, err := f.Fetch(t.Context(), s.URL+"/old"); err != nil || res.MovedTo != "" || len(res.Items) != 2 {
		t.Errorf("after the new address was gone: %+v, %v", res, err)
	}
}

func TestFetchHonoursRetryAfter(t *testing.T) {
	s, f := newSite(t)
	var asked atomic.Int64
	s.mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, rss)
	})
	for range 2 {
		_, err := f.Fetch(t.Context(), s.URL+"/busy")
		wait, ok := errors.AsType[*WaitError](err)
		if !ok || !wait.Until.Equal(s.now.Add(10*time.Minute)) || !strings.Contains(err.Error(), "2026-02-03T08:10:00Z") {
			t.Fatalf("error %v", err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("the server was asked %d times though it wanted to be left alone", asked.Load())
	}
	s.now = s.now.Add(10 * time.Minute)
	if _, err := f.Fetch(t.Context(), s.URL+"/busy"); err != nil {
		t.Errorf("after the wait: %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 2, 3, 8, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"120": 2 * time.Minute, "": defaultRetryAfter, "soon": defaultRetryAfter, "-5": defaultRetryAfter,
		"999999999":                     maxRetryAfter,
		"Tue, 03 Feb 2026 08:30:00 GMT": 30 * time.Minute, "Tue, 03 Feb 2026 07:30:00 GMT": 0,
	} {
		if got, _ := retryAfter(header, now); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

func TestFetchOfAPage(t *testing.T) {
	s, f := newSite(t)
	page := func(links string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "<!doctype html><html><head><title>Blog</title>%s</head></html>", links)
		}
	}
	const one = `<link rel="alternate" type="application/rss+xml" title="All" href="feed">`
	s.mux.HandleFunc("/one", page(one))
	s.mux.HandleFunc("/two", page(one+`<link rel=alternate type="application/atom+xml" href="/other">`))
	s.mux.HandleFunc("/none", page(""))
	s.mux.HandleFunc("/liar", page(`<link rel="alternate" type="application/rss+xml" href="/none">`))
	s.mux.HandleFunc("/feed", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, rss) })
	for range 2 {
		res, err := f.Fetch(t.Context(), s.URL+"/one")
		if err != nil || len(res.Items) != 2 || res.MovedTo != s.URL+"/feed" {
			t.Errorf("one feed: %+v, %v", res, err)
		}
	}
	for path, want := range map[string]string{
		"/two":  `"Blog"; it names these feeds: ` + s.URL + "/feed, " + s.URL + "/other",
		"/none": `"Blog", and it names no feed`,
		"/liar": "/none: not a feed",
	} {
		_, err := f.Fetch(t.Context(), s.URL+path)
		if !errors.Is(err, ErrNotFeed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}
}

func TestFetchErrors(t *testing.T) {
	s, f := newSite(t)
	s.mux.HandleFunc("/304", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	s.mux.HandleFunc("/500", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	s.mux.HandleFunc("/503", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	for address, want := range map[string]string{
		s.URL + "/404":   "the server answered 404 Not Found",
		s.URL + "/304":   "the server answered 304",
		s.URL + "/500":   "the server answered 500",
		s.URL + "/503":   "the server answered 503",
		"ftp://x.test/f": "not a URL that can be fetched",
		"bundled:none":   "no bundled feed of that name",
		"bundled:../x":   "no bundled feed of that name",
		"bundled:bad":    "not a feed",
	} {
		if _, err := f.Fetch(t.Context(), address); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", address, err, want)
		}
	}
	s.store.fail = errors.New("disk full")
	s.mux.HandleFunc("/feed", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, rss) })
	if _, err := f.Fetch(t.Context(), s.URL+"/feed"); !errors.Is(err, s.store.fail) {
		t.Errorf("a store that fails: error %v", err)
	}
}

func TestFetchBundled(t *testing.T) {
	_, f := newSite(t)
	res, err := f.Fetch(t.Context(), "bundled:demo")
	if err != nil || len(res.Items) != 2 || res.FinalURL != "bundled:demo" {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := NewFetcher(nil, nil, Options{}).Fetch(t.Context(), "bundled:demo"); err == nil {
		t.Error("a feed came from nowhere")
	}
}

// TestFetchOneAtATime sends eight requests to one host: never two at once.
func TestFetchOneAtATime(t *testing.T) {
	s, f := newSite(t)
	var busy, most, total atomic.Int64
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		now := busy.Add(1)
		defer busy.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		total.Add(1)
		fmt.Fprint(w, rss)
	})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if _, err := f.Fetch(t.Context(), fmt.Sprintf("%s/%d", s.URL, i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 || total.Load() != 8 {
		t.Errorf("%d requests, up to %d at once", total.Load(), most.Load())
	}
	if len(f.hosts.byName) != 0 {
		t.Errorf("%d host locks are left over", len(f.hosts.byName))
	}
}

func TestFetchWaitingEndsWithItsContext(t *testing.T) {
	s, f := newSite(t)
	turn, err := f.hosts.acquire(t.Context(), hostOf(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer turn.release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Fetch(ctx, s.URL+"/feed"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestFetchGzipBomb(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 64 {
		if _, err := z.Write(bytes.Repeat([]byte("<a:a>"), 100_000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	s, f := newSite(t)
	s.mux.HandleFunc("/bomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	})
	peak := PeakOf(func() {
		if _, err := f.Fetch(t.Context(), s.URL+"/bomb"); !errors.Is(err, egress.ErrTooLarge) {
			t.Errorf("error %v", err)
		}
	})
	if peak > 100<<20 {
		t.Errorf("the heap grew by %d MB", peak>>20)
	}
}

func TestStateIsBounded(t *testing.T) {
	var many strings.Builder
	for i := range 220 {
		fmt.Fprintf(&many, "<item><guid>%d</guid><description>&lt;p&gt;%s</description></item>", i,
			strings.Repeat("word &lt;b&gt;x&lt;/b&gt; ", 400))
	}
	doc := mustParse(t, "<rss><channel>"+many.String()+"</channel></rss>", Hint{})
	excerpt := doc.excerpt()
	data, err := json.Marshal(State{Document: excerpt})
	if err != nil || len(excerpt.Items) != maxKeptItems || len(data) > 2<<20 {
		t.Errorf("%d items in %d bytes, %v", len(excerpt.Items), len(data), err)
	}
	if len(doc.Items) != 220 || len(doc.Items[0].Summary) < 4_000 {
		t.Error("the document itself was cut")
	}
	checkDocument(t, "excerpt", excerpt)
}

// TestExcerptKeepsTheNewest has the oldest item first, as some feeds do.
func TestExcerptKeepsTheNewest(t *testing.T) {
	var doc Document
	for i := range 3 * maxKeptItems {
		doc.Items = append(doc.Items, Item{ID: fmt.Sprint(i), Published: time.Date(2026, 1, 1, i, 0, 0, 0, time.UTC)})
	}
	items := doc.excerpt().Items
	if len(items) != maxKeptItems || items[0].ID != fmt.Sprint(2*maxKeptItems) ||
		items[maxKeptItems-1].ID != fmt.Sprint(3*maxKeptItems-1) {
		t.Errorf("%d items from %s on", len(items), items[0].ID)
	}
}

// TestStoredStateOfVersion1 holds what the first release wrote.
func TestStoredStateOfVersion1(t *testing.T) {
	const stored = `{"version":1,"url":"https://a.example/f","movedTo":"https://a.example/g","etag":"\"e\"","lastModified":"Tue, 03 Feb 2026 07:00:00 GMT",
		"fetchedAt":"2026-02-03T08:00:00Z","document":{"feed":{"title":"T","link":"","description":"","language":"","copyright":"","author":"","image":"","categories":[]},
		"items":[{"id":"1","title":"One","link":"https://a.example/1","summary":"","content":"","author":"","published":"2026-02-03T07:00:00Z","categories":[],"enclosures":[]}]}}`
	var s State
	if err := json.Unmarshal([]byte(stored), &s); err != nil {
		t.Fatal(err)
	}
	h := s.conditionalHeader("https://a.example/g")
	if s.Version != stateVersion || s.fetchAddress() != "https://a.example/g" || h.Get("If-None-Match") != `"e"` ||
		s.Document.Items[0].ID != "1" {
		t.Errorf("state %+v, conditions %v", s, h)
	}
	if h := s.conditionalHeader("https://a.example/other"); len(h) != 0 {
		t.Errorf("conditions of another address: %v", h)
	}
}

// A fetch that ends while it waits for another request to its host says so, and is no failure of the feed.
func TestFetch_EndsBeforeItsRequestBegins(t *testing.T) {
	s, f := newSite(t)
	begun, gate := make(chan struct{}), make(chan struct{})
	s.mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-gate
		fmt.Fprint(w, rss)
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := f.Fetch(t.Context(), s.URL+"/slow"); err != nil {
			t.Error(err)
		}
	})
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Fetch(ctx, s.URL+"/other")
	close(gate)
	wg.Wait()
	if !errors.Is(err, ErrQueued) || !strings.Contains(Explain(s.URL+"/other", err), "was not read this time") {
		t.Errorf("error %v, explained as %q", err, Explain(s.URL+"/other", err))
	}
	state, err := f.State(t.Context(), s.URL+"/other")
	if times := state.Failures; times != 0 || err != nil {
		t.Errorf("the feed has failed %d times, %v", times, err)
	}
}

func TestFetch_NoMemoryForALargeFeed_IsNoFailureOfTheFeed(t *testing.T) {
	s, f := newSite(t)
	s.mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, rss+strings.Repeat(" ", 1<<20))
	})
	held, err := f.client.Get(t.Context(), s.URL+"/large", egress.GetOptions{MaxBytes: 1 << 30}) // all that there is
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err = f.Fetch(ctx, s.URL+"/large"); !errors.Is(err, ErrQueued) {
		t.Errorf("error %v, want ErrQueued", err)
	}
	state, err := f.State(t.Context(), s.URL+"/large")
	if times := state.Failures; times != 0 || err != nil {
		t.Errorf("the feed has failed %d times, %v", times, err)
	}
	held.Close()
	for range 3 { // each gives back what it took
		if res, err := f.Fetch(t.Context(), s.URL+"/large"); err != nil || len(res.Items) == 0 {
			t.Fatalf("%d items, %v", len(res.Items), err)
		}
	}
}
