package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const rss = `<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/">
<channel>
  <title>Harbour &amp; Town</title><link>https://news.example/</link><description>All of it</description><language>en</language>
  <item>
    <title>Bridge closes</title><link>/bridge?a=1&amp;b=2</link><guid isPermaLink="false">n-1</guid>
    <description>&lt;p onclick="x()"&gt;Closed &lt;a href="more.html"&gt;for two years&lt;/a&gt;.&lt;/p&gt;&lt;script&gt;evil()&lt;/script&gt;</description>
    <content:encoded><![CDATA[<p>The <b>bridge</b>.</p>]]></content:encoded>
    <author>ann@news.example (Ann)</author><category>Traffic</category><category>City</category>
    <pubDate>Tue, 03 Feb 2026 08:30:00 +0100</pubDate>
    <enclosure url="https://news.example/a.mp3" length="1234" type="audio/mpeg"/>
  </item>
  <item><title>Second</title><link>https://news.example/second</link></item>
</channel>
</rss>`

func mustParse(t *testing.T, data string, hint Hint) Document {
	t.Helper()
	doc, err := Parse([]byte(data), hint)
	if err != nil {
		t.Fatal(err)
	}
	checkDocument(t, "document", doc)
	return doc
}

func TestParseRSS(t *testing.T) {
	doc := mustParse(t, rss, Hint{URL: "https://news.example/feeds/all.xml"})
	got, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
 "feed": {
  "title": "Harbour & Town",
  "link": "https://news.example/",
  "description": "All of it",
  "language": "en",
  "copyright": "",
  "author": "",
  "image": "",
  "categories": []
 },
 "items": [
  {
   "id": "n-1",
   "title": "Bridge closes",
   "link": "https://news.example/bridge?a=1&b=2",
   "summary": "<p>Closed <a href=\"https://news.example/feeds/more.html\">for two years</a>.</p>",
   "content": "<p>The <b>bridge</b>.</p>",
   "author": "Ann (ann@news.example)",
   "published": "2026-02-03T07:30:00Z",
   "categories": [
    "Traffic",
    "City"
   ],
   "enclosures": [
    {
     "url": "https://news.example/a.mp3",
     "type": "audio/mpeg",
     "length": 1234
    }
   ]
  },
  {
   "id": "https://news.example/second",
   "title": "Second",
   "link": "https://news.example/second",
   "summary": "",
   "content": "",
   "author": "",
   "categories": [],
   "enclosures": []
  }
 ]
}`
	unescaped := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(got))
	if diff := cmp.Diff(want, unescaped); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	if doc.Items[0].Source != "Harbour & Town" || doc.Items[0].Text() != "The bridge." {
		t.Errorf("source %q, text %q", doc.Items[0].Source, doc.Items[0].Text())
	}
}

func TestParseOtherFormats(t *testing.T) {
	atom := `<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://a.example/x/"><title type="html">A &lt;i&gt;feed&lt;/i&gt;</title>
		<entry xml:base="y/"><id>tag:a,1</id><title>1 &lt; 2</title><link href="z"/><updated>2026-01-02T03:04:05Z</updated>
		<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><a href="w">here</a></div></content></entry></feed>`
	doc := mustParse(t, atom, Hint{})
	item := doc.Items[0]
	if doc.Feed.Heading() != "A feed" || item.Heading() != "1 < 2" || item.Link != "https://a.example/x/y/z" ||
		item.Content != `<a href="https://a.example/x/y/w">here</a>` ||
		!item.Time().Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("Atom: %+v", doc)
	}
	jsonFeed := `{"version":"https://jsonfeed.org/version/1.1","title":"J","home_page_url":"https://j.example/",
		"items":[{"id":"1","url":"post","content_html":"<p><img src=\"p.png\" onerror=\"x\"></p>","date_published":"2026-01-02T03:04:05Z"}]}`
	doc = mustParse(t, jsonFeed, Hint{URL: "https://j.example/feed.json"})
	if item = doc.Items[0]; item.Link != "https://j.example/post" ||
		item.Content != `<p><img src="https://j.example/p.png"></p>` {
		t.Errorf("JSON Feed: %+v", item)
	}
	rdf := `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/">
		<channel><title>R</title></channel><item rdf:about="https://r.example/1"><title>One</title><dc:date>2026-01-02</dc:date></item></rdf:RDF>`
	doc = mustParse(t, rdf, Hint{})
	if item = doc.Items[0]; item.ID != "https://r.example/1" || item.Link != "https://r.example/1" ||
		item.Time().IsZero() {
		t.Errorf("RDF: %+v", item)
	}
}

func TestParseRepairs(t *testing.T) {
	latin := strings.ReplaceAll(strings.ReplaceAll(rss, "UTF-8", "iso-8859-1"), "Harbour", "Caf\xe9")
	utf16 := []byte{0xFF, 0xFE}
	for _, c := range []byte(strings.ReplaceAll(rss, "UTF-8", "UTF-16")) {
		utf16 = append(utf16, c, 0)
	}
	for _, tc := range []struct {
		name, data string
		hint       Hint
		title      string
		items      int
	}{
		{"blank lines before the declaration", "\n\n  " + rss, Hint{}, "Harbour & Town", 2},
		{"a warning before the declaration", "<br />\n<b>Warning</b>: in line 3\n" + rss, Hint{}, "Harbour & Town", 2},
		{"truncated in the second item", rss[:strings.Index(rss, "Second")], Hint{}, "Harbour & Town", 1},
		{"truncated in a tag of the first", rss[:strings.Index(rss, "<guid")+5], Hint{}, "Harbour & Town", 0},
		{"no end tags", strings.NewReplacer("</channel>", "", "</rss>", "").Replace(rss), Hint{}, "Harbour & Town", 2},
		{"control characters", strings.ReplaceAll(rss, "Harbour", "Har\x00\x08bour&#x1f;&#0;"), Hint{}, "Harbour & Town", 2},
		{"bare ampersands and brackets", strings.ReplaceAll(rss, "Second", "Q & A < B ]]> C"), Hint{}, "Harbour & Town", 2},
		{"unknown entity", strings.ReplaceAll(rss, "Harbour", "&nbsp;&foo;Harbour"), Hint{}, "&foo;Harbour & Town", 2},
		{"a few broken bytes", strings.ReplaceAll(strings.ReplaceAll(rss, "Harbour", "Hafen é ü"), "Town", "T\xffown"), Hint{}, "Hafen é ü & T\uFFFDown", 2},
		{"declared Latin-1", latin, Hint{}, "Café & Town", 2},
		{"Latin-1 by the server", strings.ReplaceAll(latin, "iso-8859-1", "utf-8"), Hint{ContentType: "text/xml; charset=iso-8859-1"}, "Café & Town", 2},
		{"undeclared Latin-1", strings.ReplaceAll(latin, "iso-8859-1", "utf-8"), Hint{}, "Café & Town", 2},
		{"UTF-16", string(utf16), Hint{}, "Harbour & Town", 2},
		{"a second declaration", strings.Replace(rss, "<channel>", `<channel><?xml version="1.1"?>`, 1), Hint{}, "Harbour & Town", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			doc := mustParse(t, tc.data, tc.hint)
			if doc.Feed.Heading() != tc.title || len(doc.Items) != tc.items {
				t.Errorf("%q with %d items, want %q with %d", doc.Feed.Heading(), len(doc.Items), tc.title, tc.items)
			}
		})
	}
}

func TestNotAFeed(t *testing.T) {
	for data, want := range map[string]string{
		"<!DOCTYPE html><html><head><title>Some\n page</title></head></html>": `not a feed: it looks like an HTML page ` +
			`titled "Some page"`,
		"":                   "not a feed: the document is empty",
		"just words":         `not a feed: it begins with "just words"`,
		"<opml/>":            "not a feed: its root element is <opml>",
		`{"error":"no"}`:     "not a feed: it is JSON without",
		`{"items":`:          "not a feed: broken JSON",
		"<!-- a comment -->": "not a feed: it is markup without a feed in it",
	} {
		_, err := Parse([]byte(data), Hint{})
		if !errors.Is(err, ErrNotFeed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", data, err, want)
		}
	}
}

func TestItemsHaveStableIDs(t *testing.T) {
	const item = `<rss><channel><item><description>only text</description></item></channel></rss>`
	first, second := mustParse(t, item, Hint{}), mustParse(t, item, Hint{})
	if id := first.Items[0].ID; !strings.HasPrefix(id, "sha256:") || id != second.Items[0].ID {
		t.Errorf("ids %q and %q", id, second.Items[0].ID)
	}
}

func TestExternalEntitiesStayOut(t *testing.T) {
	doc := mustParse(t, `<!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/passwd"><!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>
		<rss><channel><title>T &x; &b;</title></channel></rss>`, Hint{})
	if strings.Contains(doc.Feed.Title, "root:") || strings.Contains(doc.Feed.Title, "aaaa") {
		t.Errorf("title %q", doc.Feed.Title)
	}
}

// TestBombs are documents that cost little to send. None may cost much to read.
func TestBombs(t *testing.T) {
	item := "<item><title>x</title><description>y</description></item>"
	bombs := map[string]string{
		"nested, with namespaces": `<rss xmlns:a="b"><channel>` + strings.Repeat("<a:a>", 2_000_000),
		"nested, plain":           "<feed>" + strings.Repeat("<a>", 3_000_000),
		"nested in an item":       "<rss><channel><item><description>" + strings.Repeat("<div>", 1_500_000),
		"nested JSON":             `{"items":` + strings.Repeat("[", 5_000_000),
		"huge text": "<rss><channel><item><title>a</title><description>" + strings.Repeat("A", 9<<20) +
			"</description></item></channel></rss>",
		"huge attribute":  `<rss><channel a="` + strings.Repeat("A", 9<<20) + `"><title>T</title></channel></rss>`,
		"many items":      "<rss><channel>" + strings.Repeat(item, 100_000) + "</channel></rss>",
		"many attributes": "<rss" + attributesText(200_000) + "><channel></channel></rss>",
		"broken markup":   "<rss><channel>" + strings.Repeat("<<", 4<<20),
		"stray end tags":  "<rss><channel>" + strings.Repeat("</x>", 1<<20),
		"entities":        "<rss><channel><title>" + strings.Repeat("&lt;", 1<<19) + "</title></channel></rss>",
		"HTML in HTML": "<rss><channel><item><description>" + strings.Repeat("&lt;a href=x&gt;", 100_000) +
			"</description></item></channel></rss>",
		"too long": strings.Repeat(" ", maxBytes+1),
	}
	for name, data := range bombs {
		start := time.Now()
		peak := PeakOf(func() {
			doc, err := Parse([]byte(data), Hint{URL: "https://b.example/"})
			if err == nil && len(doc.Items) > maxItems {
				t.Errorf("%s: %d items", name, len(doc.Items))
			}
		})
		took := time.Since(start)
		t.Logf("%-24s %6d ms, heap grew by %d MB", name, took.Milliseconds(), peak>>20)
		if took > 3*Patience*time.Second || peak > 256<<20 {
			t.Errorf("%s: took %s and %d MB", name, took, peak>>20)
		}
	}
}

func attributesText(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ` a%d="1"`, i)
	}
	return b.String()
}

// PeakOf samples the heap while f runs, in bytes above the start.
func PeakOf(f func()) uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base, peak := m.HeapAlloc, m.HeapAlloc
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
		}
	}()
	f()
	close(stop)
	<-done
	return peak - base
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(rss), "text/xml", "https://news.example/")
	f.Add([]byte(`{"version":"https://jsonfeed.org/version/1","items":[{"id":1}]}`), "", "")
	f.Add([]byte("<feed><entry><title mode='base64'>PGI+</title>"), "text/xml; charset=utf-16", ":")
	f.Add([]byte("<CHANNEL HREF='x'><ITEM LASTMOD='2004'>"), "", "http://[")
	f.Fuzz(func(t *testing.T, data []byte, contentType, url string) {
		doc, err := Parse(data, Hint{URL: url, ContentType: contentType})
		if err != nil {
			if strings.Contains(err.Error(), "the feed parser panicked") {
				t.Error(err)
			}
			return
		}
		checkDocument(t, "document", doc)
	})
}

func BenchmarkParse(b *testing.B) {
	data := untar(b, filepath.Join(corpora(b, "feeds/feedparser"), "feeds.tar.gz"))["wellformed/rss/item_description.xml"]
	head, rest, _ := bytes.Cut(data, []byte("<item>"))
	item, tail, _ := bytes.Cut(rest, []byte("</item>"))
	item = fmt.Appendf(nil, "<item>%s</item>", item)
	data = bytes.Join([][]byte{head, bytes.Repeat(item, 100), tail}, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(data, Hint{}); err != nil {
			b.Fatal(err)
		}
	}
}
