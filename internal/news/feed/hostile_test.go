package feed_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ravenbot/internal/news/feed"
	"ravenbot/internal/ops/egress"
	simfeeds "ravenbot/internal/testing/sim/feeds"
)

// shelf is a store that keeps the bytes a real one would keep.
type shelf struct{ states sync.Map }

func (s *shelf) LoadFeed(_ context.Context, url string) (state feed.State, found bool, err error) {
	data, found := s.states.Load(url)
	if found {
		err = json.Unmarshal(data.([]byte), &state)
	}
	return state, found, err
}

func (s *shelf) SaveFeeds(_ context.Context, states ...feed.State) error {
	for _, state := range states {
		data, err := json.Marshal(state)
		if err != nil {
			return err
		}
		s.states.Store(state.URL, data)
	}
	return nil
}

func world(t testing.TB) (*simfeeds.Server, *feed.Fetcher) {
	t.Helper()
	s, err := simfeeds.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	client, err := egress.New(egress.Options{AllowPrivateHosts: []string{strings.TrimPrefix(s.URL(), "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdle)
	return s, feed.NewFetcher(client, &shelf{}, feed.Options{})
}

// packed is the page, compressed and served so.
func packed(t testing.TB, s *simfeeds.Server, path string, pieces int, piece string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for range pieces {
		if _, err := z.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return s.Serve(path, b.Bytes(), "application/rss+xml", simfeeds.Header("Content-Encoding", "gzip"))
}

// TestHostileServers are those of the open web at their worst: each answer is a
// plain error or a feed, within 15 seconds and 100 MB; JSON is copied more often.
func TestHostileServers(t *testing.T) {
	s, f := world(t)
	zeros, err := s.GzipBomb("/zeros", 512<<20)
	if err != nil {
		t.Fatal(err)
	}
	const start = `<rss version="2.0"><channel><title>x</title>`
	const atom = `<feed xmlns="http://www.w3.org/2005/Atom"><title>x</title><entry><id>a</id><content type="xhtml">`
	const item = `{"version":"https://jsonfeed.org/version/1.1","title":"x","items":[{"id":"1","content_text":"a",`
	var fields strings.Builder
	for n := range 800_000 {
		fmt.Fprintf(&fields, `"%x":0,`, n)
	}
	laughs := "<!DOCTYPE rss [<!ENTITY a \"ha\">"
	for c := 'b'; c < 'm'; c++ {
		laughs += fmt.Sprintf("<!ENTITY %c \"%s\">", c, strings.Repeat(fmt.Sprintf("&%c;", c-1), 10))
	}
	for _, tc := range []struct{ name, url, want string }{
		{"zeros that unpack to 512 MB", zeros, "response is too large"},
		{"elements unpacked to 9 MB, one in the other", packed(t, s, "/nested", 9, strings.Repeat("<a:a>", 1<<20/5)), "nested more than 256 deep"},
		{"a feed of them", s.Serve("/deep", []byte(start+strings.Repeat("<item>", 1_500_000)), "text/xml"), "nested more than 256 deep"},
		{"one text of 9 MB", packed(t, s, "/text", 9, start+"<item><description>"+strings.Repeat("word ", 1<<20/5)), ""},
		{"a million items", packed(t, s, "/items", 1, start+strings.Repeat("<item/>", 1_000_000)), ""},
		{"entities of entities", s.Serve("/laughs", []byte(laughs+"]>"+start+"<item><title>&l;</title></item></channel></rss>"), "text/xml"), ""},
		{"a file of the machine", s.Serve("/file", []byte(`<!DOCTYPE rss [<!ENTITY f SYSTEM "file:///etc/passwd">]>`+start+"<item><title>&f;</title></item></channel></rss>"), "text/xml"), ""},
		{"a body without end", s.Endless("/endless", []byte("<item><title>more</title></item>"), "text/xml"), "response is too large"},
		{"a redirect to itself", s.RedirectLoop("/loop"), "too many redirects"},
		{"an item of a million elements", packed(t, s, "/elements", 9, start+"<item>"+strings.Repeat(`<a:b c=""/>`, 1<<20/11)), ""},
		{"a tag of two million attributes", packed(t, s, "/attributes", 9, start+`<item a=">" `+strings.Repeat(` b=""`, 1<<20/5)), ""},
		{"markup of a million elements", packed(t, s, "/markup", 1, atom+strings.Repeat("<b/>", 9<<20/4)), ""},
		{"JSON with a million tags", s.Serve("/tags", []byte(item+`"tags":[`+strings.Repeat(`"",`, 3<<20)+`""]}]}`), "application/json"), ""},
		{"JSON with three million attachments", s.Serve("/attachments", []byte(item+`"attachments":[`+strings.Repeat(`{},`, 3<<20)+`{}]}]}`), "application/json"), ""},
		{"JSON with a million fields", s.Serve("/fields", []byte(item+fields.String()+`"x":0}]}`), "application/json"), ""},
		{"JSON with 9 MB of markup", s.Serve("/html", []byte(item+`"content_html":"`+strings.Repeat("<b>", 3<<20)+`"}]}`), "application/json"), ""},
		{"brackets of JSON", s.Serve("/json", []byte(`{"version":"https://jsonfeed.org/version/1","items":`+strings.Repeat("[", 9<<20)), "application/json"), "not a feed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			began := time.Now()
			peak := feed.PeakOf(func() {
				res, err := f.Fetch(t.Context(), tc.url)
				switch {
				case tc.want == "" && err != nil:
					t.Errorf("error %v", err)
				case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
					t.Errorf("error %v, want %q", err, tc.want)
				}
				for _, i := range res.Items {
					if len(i.Title) > 1000 || strings.Contains(i.Title, "root:") {
						t.Errorf("title %.100q", i.Title)
					}
				}
			})
			most := uint64(128 << 20)
			if strings.HasPrefix(tc.name, "JSON") {
				most = 160 << 20
			}
			if took := time.Since(began); took > (15+feed.Patience)*time.Second || peak > most {
				t.Errorf("it took %s and %d MB", took.Round(time.Millisecond), peak>>20)
			}
		})
	}
}

// TestServersThatTakeTheirTime takes as long as a fetch may.
func TestServersThatTakeTheirTime(t *testing.T) {
	s, _ := world(t)
	slow := s.Slow("/slow", bytes.Repeat([]byte("<rss>"), 1000), "text/xml", 100*time.Millisecond)
	hanging := strings.Replace(s.Hang("/hang"), "127.0.0.1",
		"localhost", 1) // another host, so that neither waits for the other
	client, err := egress.New(egress.Options{AllowPrivateHosts: []string{"127.0.0.1", "localhost"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdle)
	f := feed.NewFetcher(client, nil, feed.Options{})
	var wg sync.WaitGroup
	for _, url := range []string{slow, hanging} {
		wg.Go(func() {
			began := time.Now()
			_, err := f.Fetch(t.Context(), url)
			if took := time.Since(began); !errors.Is(err, egress.ErrTimeout) || took > (15+feed.Patience)*time.Second {
				t.Errorf("%s: %v after %s", url, err, took)
			}
		})
	}
	wg.Wait()
}

// BenchmarkPollNotModified asks for 10,000 feeds that have not changed, and fails
// above a millisecond of the processor for each, the simulated server's part included.
func BenchmarkPollNotModified(b *testing.B) {
	for feeds, items := range map[int]int{10_000: 10, 1_000: 500} {
		b.Run(fmt.Sprintf("%d feeds of %d items", feeds, items), func(b *testing.B) {
			s, f := world(b)
			var page strings.Builder
			page.WriteString(`<rss version="2.0"><channel><title>x</title>`)
			for n := range items {
				fmt.Fprintf(&page, "<item><guid>%d</guid><title>Item "+
					"%[1]d</title><link>https://a.example/%[1]d</link><description>%s</description></item>", n,
					strings.Repeat("Some words. ", 40))
			}
			page.WriteString("</channel></rss>")
			for n := range feeds {
				url := s.Serve(fmt.Sprintf("/%d", n), []byte(page.String()), "text/xml", simfeeds.Header("ETag", `"1"`))
				if _, err := f.Poll(b.Context(), url); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				before := cpu(b)
				for n := range feeds {
					if res, err := f.Poll(b.Context(), fmt.Sprintf("%s/%d", s.URL(), n)); err != nil || !res.NotModified ||
						len(res.Items) == 0 {
						b.Fatalf("%+v, %v", res.NotModified, err)
					}
				}
				each := (cpu(b) - before) / time.Duration(feeds)
				b.ReportMetric(float64(each.Microseconds()), "cpu-µs/feed")
				if each > time.Millisecond {
					b.Errorf("%s of the processor for each feed", each)
				}
			}
		})
	}
}

// cpu is what the process has used so far.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
