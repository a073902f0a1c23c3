package feed

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parseRSS parses an RSS document with the given items.
func parseRSS(t *testing.T, items string, hint Hint) Document {
	t.Helper()
	doc, err := Parse([]byte(`<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" `+
		`xmlns:feedburner="http://rssnamespace.org/feedburner/ext/1.0"><channel><title>F</title>`+
		`<link>https://f.example/</link>`+items+`</channel></rss>`), hint)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestParse_ItemsShareAnIdentifier_LinksIdentifyThem(t *testing.T) {
	item := func(guid, title, link string) string {
		return fmt.Sprintf(`<item><title>%s</title><link>%s</link><guid isPermaLink="false">%s</guid></item>`, title, link, guid)
	}
	ids := func(doc Document) (list []string) {
		for _, i := range doc.Items {
			list = append(list, i.ID)
		}
		return list
	}
	doc := parseRSS(t, item("x", "A", "https://f.example/a")+item("x", "B", "https://f.example/b"), Hint{})
	if diff := cmp.Diff([]string{"https://f.example/a", "https://f.example/b"}, ids(doc)); diff != "" || !doc.IDsRepeat {
		t.Errorf("identifiers (-want +got):\n%s", diff)
	}
	// What was seen once holds for later documents, in which each identifier is of one item.
	doc = parseRSS(t, item("x", "A", "https://f.example/a"), Hint{IDsRepeat: true})
	if diff := cmp.Diff([]string{"https://f.example/a"}, ids(doc)); diff != "" || !doc.IDsRepeat {
		t.Errorf("identifiers of a later document (-want +got):\n%s", diff)
	}
	// An item that is listed twice, or with a new title, is one item.
	doc = parseRSS(t, item("x", "A", "https://f.example/a")+item("x", "A, edited", "https://f.example/a"), Hint{})
	if diff := cmp.Diff([]string{"x", "x"}, ids(doc)); diff != "" || doc.IDsRepeat {
		t.Errorf("identifiers of an edited item (-want +got):\n%s", diff)
	}
	doc = parseRSS(t, item("x", "A", "")+item("x", "B", ""), Hint{})
	if got := ids(doc); !doc.IDsRepeat || got[0] == got[1] || !strings.HasPrefix(got[0], "sha256:") {
		t.Errorf("without links the identifiers are %q", got)
	}
}

func TestParse_ItemLinks(t *testing.T) {
	const enclosure = `<enclosure url="https://f.example/7.mp3" type="audio/mpeg" length="1"/>`
	for item, want := range map[string]string{
		`<link>https://f.example/a</link>` + enclosure:                                                   "https://f.example/a",
		`<atom:link href="https://f.example/a"/>`:                                                        "https://f.example/a",
		`<atom:link rel="self" href="https://f.example/x"/><atom:link rel="alternate" href="/a"/>`:       "https://f.example/a",
		`<guid>https://f.example/a</guid>` + enclosure:                                                   "https://f.example/a",
		`<guid isPermaLink="false">x</guid>` + enclosure:                                                 "https://f.example/7.mp3",
		`<guid isPermaLink="false">x</guid>`:                                                             "https://f.example/",
		`<link>https://p.example/1</link><feedburner:origLink>https://f.example/a</feedburner:origLink>`: "https://f.example/a",
	} {
		doc := parseRSS(t, "<item><title>T</title>"+item+"</item>", Hint{URL: "https://f.example/feed"})
		if got := doc.Items[0].Link; got != want {
			t.Errorf("%s: the link is %q, want %q", item, got, want)
		}
	}
	for _, link := range []string{
		`<link rel="http://www.iana.org/assignments/relation/alternate" href="https://f.example/a"/>`,
		`<link>https://f.example/a</link>`,
		`<link rel="enclosure" href="https://f.example/a"/>`,
	} {
		doc, err := Parse([]byte(`<feed xmlns="http://www.w3.org/2005/Atom"><title>F</title><entry><title>T</title><id>x</id>`+
			link+`</entry></feed>`), Hint{})
		if err != nil || doc.Items[0].Link != "https://f.example/a" {
			t.Errorf("%s: %+v, %v", link, doc.Items, err)
		}
	}
}

func TestParse_TitlesWithAngleBrackets(t *testing.T) {
	for title, want := range map[string]string{
		"Why our vector<int> was slower":                "Why our vector<int> was slower",
		"How the <template> tag and <script> work":      "How the <template> tag and <script> work",
		"A <b>bold</b> and <em>fine</em> title<br>here": "A bold and fine title here",
		"<p>Wrapped</p>":                                "Wrapped",
		"<span class='x'>Styled</span>":                 "Styled",
		"<img src='https://f.example/x.png'>Pictured":   "Pictured",
		"<script>alert(1)</script>Hello":                "Hello",
		"a < b and c > d":                               "a < b and c > d",
	} {
		doc := parseRSS(t, "<item><title><![CDATA["+title+"]]></title><link>https://f.example/a</link></item>", Hint{})
		if got := doc.Items[0].Heading(); got != want {
			t.Errorf("%q is %q, want %q", title, got, want)
		}
		if markup := doc.Items[0].Title; strings.Contains(strings.ToLower(markup), "<script") {
			t.Errorf("%q is marked up as %q", title, markup)
		}
	}
}

func TestHeading_DirectionOverride_IsRemoved(t *testing.T) {
	doc := parseRSS(t, "<item><title>Invoice \u202egpj.exe\u2066</title><link>https://f.example/a</link></item>", Hint{})
	if got := doc.Items[0].Heading(); got != "Invoice gpj.exe" {
		t.Errorf("the heading is %q", got)
	}
}

func TestParse_LabelOfAnotherEncoding_ValidUTF8Counts(t *testing.T) {
	const body = `<rss><channel><title>Русский Größe</title></channel></rss>`
	for _, c := range []struct{ head, contentType string }{
		{`<?xml version="1.0" encoding="windows-1251"?>`, ""},
		{`<?xml version="1.0" encoding="UTF-8"?>`, "text/xml; charset=ISO-8859-1"},
		{`<?xml version="1.0" encoding="Shift_JIS"?>`, "text/xml"},
	} {
		doc, err := Parse([]byte(c.head+body), Hint{ContentType: c.contentType})
		if err != nil || doc.Feed.Title != "Русский Größe" {
			t.Errorf("%s, %s: the title is %q, %v", c.head, c.contentType, doc.Feed.Title, err)
		}
	}
}

// A date that is not understood must not make an old item look new.
func TestParse_DateNotUnderstood_TheOneInTheAddressCounts(t *testing.T) {
	doc := parseRSS(t, `<item><title>T</title><link>https://f.example/2018/09/18/t</link><pubDate>last week</pubDate></item>`+
		`<item><title>U</title><link>https://f.example/2018/99/18/t</link></item>`, Hint{})
	if got := doc.Items[0].Published.Format("2006-01-02"); got != "2018-09-18" {
		t.Errorf("published %s", got)
	}
	if got := doc.Items[1].Published; !got.IsZero() {
		t.Errorf("an impossible date is %s", got)
	}
}
