package feed

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPictures(t *testing.T) {
	item := func(inner string) string {
		return `<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/" ` +
			`xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"><channel><title>x</title><item>` +
			inner + `</item></channel></rss>`
	}
	for text, want := range map[string]string{
		item(`<media:thumbnail url="t.jpg"/>`):                                                                           "https://a.example/t.jpg",
		item(`<media:thumbnail url="t.jpg"/><media:content url="c.jpg" medium="image"/>`):                                "https://a.example/c.jpg",
		item(`<media:group><media:content url="v.mp4" type="video/mp4"/><media:thumbnail url="g.jpg"/></media:group>`):   "https://a.example/g.jpg",
		item(`<media:content url="v.mp4" type="video/mp4"><media:thumbnail url="in.jpg"/></media:content>`):              "https://a.example/in.jpg",
		item(`<enclosure url="e.png" type="image/png" length="3"/>`):                                                     "https://a.example/e.png",
		item(`<itunes:image href="i.jpg"/>`):                                                                             "https://a.example/i.jpg",
		item(`<description>&lt;img src="dot.gif" width="1" height="1"&gt;&lt;img src="d.png"&gt;</description>`):         "https://a.example/d.png",
		item(`<media:thumbnail url="javascript:alert(1)"/>`):                                                             "",
		item(`<description>no picture</description>`):                                                                    "",
		`{"version":"https://jsonfeed.org/version/1.1","items":[{"id":"1","banner_image":"/b.png","content_text":"x"}]}`: "https://a.example/b.png",
	} {
		doc := mustParse(t, text, Hint{URL: "https://a.example/feed"})
		if got := doc.Items[0].Image; got != want {
			t.Errorf("%s: picture %q, want %q", text, got, want)
		}
	}
}

func TestMediaAreEnclosures(t *testing.T) {
	doc := mustParse(t, `<feed xmlns="http://www.w3.org/2005/Atom" xmlns:media="http://search.yahoo.com/mrss/"><title>y</title><entry><id>1</id>
		<link rel="enclosure" href="https://a.example/v.mp4" type="video/mp4" length="7"/><media:group><media:description>What is &lt;b&gt;seen&lt;/b&gt;</media:description>
		<media:content url="https://a.example/v.mp4" type="video/mp4"/><media:content url="https://a.example/s.mp4" type="video/mp4" fileSize="5"/></media:group></entry></feed>`, Hint{})
	want := []Enclosure{{"https://a.example/v.mp4", "video/mp4", 7}, {"https://a.example/s.mp4", "video/mp4", 5}}
	if diff := cmp.Diff(want, doc.Items[0].Enclosures); diff != "" {
		t.Errorf("enclosures (-want +got):\n%s", diff)
	}
	if PlainText(doc.Items[0].Summary) != "What is seen" {
		t.Errorf("summary %q", doc.Items[0].Summary)
	}
}

func TestJSONFeed(t *testing.T) {
	const start = `{"version":"https://jsonfeed.org/version/1.1","title":"J","items":[{"id":"1","content_text":"a < ` +
		`b"},{"id":"2","content_html":"<i>x</i>"}`
	for name, text := range map[string]string{
		"whole":              start + `,null,{"id":"3","content_text":"& so on"}]}`,
		"cut in an item":     start + `,{"id":"3","content_text":"& so on"},{"id":"4","content`,
		"cut after an item":  start + `,{"id":"3","content_text":"& so on"},`,
		"cut after the list": start + `,{"id":"3","content_text":"& so on"}],"home`,
		"the title comes late": strings.Replace(start, `"title":"J",`, "", 1) +
			`,{"id":"3","content_text":"& so on"}],"title":"J"}`,
	} {
		doc := mustParse(t, text, Hint{})
		var got []string
		for _, i := range doc.Items {
			got = append(got, i.ID+" "+i.Content)
		}
		if diff := cmp.Diff([]string{"1 a &lt; b", "2 <i>x</i>", "3 &amp; so on"}, got); diff != "" || doc.Feed.Title != "J" {
			t.Errorf("%s, %q: items (-want +got):\n%s", name, doc.Feed.Title, diff)
		}
	}
	for _, text := range []string{"{", `{"version":"https://jsonfeed.org/version/1.1","items":[{"id":`, `{"a":1}`,
		`{"items":5`, "{5:6}"} {
		if _, err := Parse([]byte(text), Hint{}); err == nil {
			t.Errorf("%s is a feed", text)
		}
	}
}

func TestJSONFeedIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"items": `{"version":"https://jsonfeed.org/version/1","items":[` + strings.Repeat(`{"id":"1"},`, maxBytes/11-100) +
			`{}]}`,
		"depth":  `{"version":"https://jsonfeed.org/version/1","items":[` + strings.Repeat(`{"_x":[`, maxBytes/7-100),
		"fields": `{"version":"https://jsonfeed.org/version/1","items":[]` + strings.Repeat(`,"x":1`, maxBytes/6-100) + `}`,
	} {
		start := time.Now()
		peak := PeakOf(func() {
			if doc, err := Parse([]byte(text), Hint{}); err == nil && len(doc.Items) > maxItems {
				t.Errorf("%s: %d items", name, len(doc.Items))
			}
		})
		if took := time.Since(start); took > Patience*time.Second || peak > 100<<20 {
			t.Errorf("%s: %s and %d MB", name, took, peak>>20)
		}
		t.Logf("%s: %s, %d MB", name, time.Since(start).Round(time.Millisecond), peak>>20)
	}
}
