package feed

import (
	"strings"
	"testing"
)

// planet returns a feed with one item.
func planet(item string) string {
	if strings.HasPrefix(item, "<entry") {
		return `<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en-GB"><title>Planet</title>` + item + `</feed>`
	}
	return `<rss version="2.0"><channel><title>Planet</title>` + item + `</channel></rss>`
}

// Items of a planet name the feed that they were first in.
func TestParse_Origin(t *testing.T) {
	for item, want := range map[string]string{
		`<item><title>A</title><source url="https://x.example/feed">Ann &amp;amp; Bob</source></item>`: "Ann & Bob",
		`<item><title>A</title></item>`: "Planet",
		`<entry><id>1</id><title>A</title><source><id>x</id><title>Blog of Ann</title></source></entry>`: "Blog of Ann",
		`<entry><id>1</id><title>A</title><source><id>x</id></source></entry>`:                           "Planet",
	} {
		if got := mustParse(t, planet(item), Hint{}).Items[0].Source; got != want {
			t.Errorf("%s: the source is %q, want %q", item, got, want)
		}
	}
}

// Of several pages of an entry the one in the feed's language counts, and no other form of it.
func TestParse_AtomLink_IsThePage(t *testing.T) {
	link := func(attributes string) string { return "<link " + attributes + "/>" }
	pdf, html := link(`href="https://x.example/a.pdf" type="application/pdf"`), link(`href="https://x.example/a" type="text/html"`)
	german := link(`rel="alternate" hreflang="de" href="https://x.example/de"`)
	english := link(`rel="alternate" hreflang="en" href="https://x.example/en"`)
	for links, want := range map[string]string{
		pdf + html:       "a",
		pdf:              "a.pdf",
		german + english: "en",
		german + html:    "a",
		german:           "de",
		link(`rel="self" href="https://x.example/self"`) + german + pdf: "de",
	} {
		item := mustParse(t, planet(`<entry><id>1</id><title>A</title>`+links+`</entry>`), Hint{}).Items[0]
		if item.Link != "https://x.example/"+want {
			t.Errorf("%s: the link is %s, want %s", links, item.Link, want)
		}
	}
}

// What Reddit writes below each post is none of it.
func TestParse_Reddit_LinksAreLeftOut(t *testing.T) {
	const below = `&lt;span&gt;&lt;a href="https://i.example/1"&gt;[link]&lt;/a&gt;&lt;/span&gt; &lt;span&gt;` +
		`&lt;a href="https://www.reddit.com/r/x/comments/1"&gt;[comments]&lt;/a&gt;&lt;/span&gt;`
	for text, want := range map[string]string{"&lt;p&gt;Hello, all.&lt;/p&gt;": "Hello, all.", "": ""} {
		item := mustParse(t, planet(`<entry><id>1</id><title>A</title><content type="html">`+text+` &amp;#32; submitted by &amp;#32; `+
			`&lt;a href="https://www.reddit.com/user/ann"&gt; /u/ann &lt;/a&gt; &lt;br/&gt; `+below+`</content></entry>`), Hint{}).Items[0]
		if got := item.Text(); got != want {
			t.Errorf("the text is %q, want %q", got, want)
		}
	}
}
