package digest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
)

// News about advertising, discounts and links is news: each title is decided as it says.
func TestPreview_AdvertisementsAndListsOfLinks(t *testing.T) {
	links := ""
	for n := range 12 {
		links += fmt.Sprintf(`<p><a href="https://example.org/l/%d">An article about subject number %d</a></p>`, n, n)
	}
	cases := []struct {
		title, topic, content, want string // want: ad, or the kind
	}{
		{title: "Sponsored: Save 40% on hosting", want: "ad"},
		{title: "[Sponsored] The best router of the year", want: "ad"},
		{title: "Sponsored by Acme: how to write faster", want: "ad"},
		{title: "Anzeige: Der neue Drucker", want: "ad"},
		{title: "(Werbung) Jetzt umsteigen", want: "ad"},
		{title: "Ten reasons to switch | Sponsored", want: "ad"},
		{title: "Ten reasons to switch [Ad]", want: "ad"},
		{title: "Publicité : la nouvelle voiture", want: "ad"},
		{title: "Build agents in minutes", topic: "Sponsored Post", want: "ad"},
		{title: "Save 40% on annual plans", want: "offers"},
		{title: "The best early Black Friday laptop deals", want: "offers"},
		{title: "Use this promo code for a free month", want: "offers"},
		{title: "50% off all courses", want: "offers"},
		{title: "Weekly links #212", want: "links"},
		{title: "Friday reading list", want: "links"},
		{title: "News roundup for March", want: "links"},
		{title: "This Week in Rust 642", want: "links"},
		{title: "Links for Tuesday", want: "links"},
		{title: "What I found", content: links, want: "links"},

		{title: "Sponsored hackers attack a water plant"},
		{title: "State-sponsored: how spies got into the ministry"},
		{title: "Google loses its case about advertisements"},
		{title: "Anzeige gegen den Minister erstattet"},
		{title: "Werbung: Aufsicht rügt Sender"},
		{title: "Promoted: the sergeant who said no"},
		{title: "How ad blockers work", topic: "Advertising"},
		{title: "New chip saves 40% of the energy"},
		{title: "Cities save 40% of their water with new pipes"},
		{title: "Inflation falls by 3%, prices do not"},
		{title: "Trade deals of the last ten years"},
		{title: "Union accepts the deal on Black Friday shifts"},
		{title: "Bayer settles the Roundup lawsuits"},
		{title: "The missing links in human evolution"},
		{title: "Weekly jobless claims rise"},
		{title: "This week in parliament: who voted for the bridge, and why it failed"},
		{title: "Discount airline orders 200 aircraft"},
		{title: "The AD brought the company a fine"},
		{title: "Links between sugar and sleep", content: "<p>Researchers found <a href='https://example.org/s'>a study</a>.</p>"},
	}
	for _, c := range cases {
		b := service(t, digest.Plan{Feeds: from(a)})
		it := feed.Item{ID: "1", Title: c.title, Link: "https://example.org/1", Content: c.content, Published: monday}
		if c.topic != "" {
			it.Categories = []string{c.topic}
		}
		b.feeds[a] = []feed.Item{it}
		v := b.preview(t).Items[0]
		switch {
		case c.want == "ad" && (v.Verdict != "advertisement" || !strings.Contains(v.Reason, "it calls itself")):
			t.Errorf("%q: %+v, want an advertisement", c.title, v)
		case c.want != "ad" && (v.Verdict != "posted" || v.Score.Kind != c.want):
			t.Errorf("%q: %s, score %v, want posted of kind %q", c.title, v.Verdict, v.Score, c.want)
		}
	}
}

// Lists of links and offers get no place beside articles, unless the digest says that they count as any other item;
// advertisements are posted only where the digest says so.
func TestPreview_OffersAndListsOfLinksGetNoPlace(t *testing.T) {
	for _, adverts := range []bool{false, true} {
		b := service(t, digest.Plan{Feeds: from(a, b2), MaxItems: 10, Adverts: adverts})
		named := func(n int, title string) feed.Item {
			it := story(n)
			it.Title, it.Summary = title, ""
			return it
		}
		b.feeds[a] = []feed.Item{named(1, "Parliament adopts the law on rivers"),
			named(2, "Old lighthouse becomes a library")}
		b.feeds[b2] = []feed.Item{named(90, "Weekly links #9"), named(91, "50% off everything"),
			named(92, "Sponsored: our shoes")}
		want := "2 1"
		if adverts {
			want = "92 2 1" // a label is no offer
		}
		b.plan(t, digest.Plan{Feeds: from(a, b2), MaxItems: 10, Adverts: adverts})
		b.now = monday.Add(100 * time.Hour)
		if got := strings.Join(urls(b.preview(t).Draft), " "); got != want {
			t.Errorf("adverts %v: order %q, want %q", adverts, got, want)
		}
	}
}
