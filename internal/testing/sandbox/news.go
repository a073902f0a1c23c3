package sandbox

import (
	"html"
	"strings"
	"time"

	simfeeds "ravenbot/internal/testing/sim/feeds"
)

// story is one invented item of an invented feed.
type story struct {
	name, title, text string
	age               time.Duration
}

// publishFeeds serves two feeds, and a page for each of their items.
func (w *World) publishFeeds() {
	w.sources = append(w.sources,
		w.publishFeed("/harbour.xml", "Harbour Gazette (simulated)", simfeeds.RSS, []story{
			{
				"ferry",
				"The ferry to the lighthouse runs again",
				"After two weeks in the yard the ferry to the lighthouse runs again, every hour from eight until six. Its new " +
					"engine needs a third less fuel, says the harbour office.",
				3 * time.Hour,
			},
			{
				"cranes",
				"Two old cranes become a playground",
				"The town keeps two of its old harbour cranes and builds a playground below them. Work begins in spring and " +
					"takes four months.",
				20 * time.Hour,
			},
			{
				"herring",
				"More herring than in ten years",
				"Boats came back with more herring than in any autumn of the last ten years. The institute for the sea counts a " +
					"full generation of young fish.",
				30 * time.Hour,
			},
		}),
		w.publishFeed("/workshop.atom", "Workshop Notes (simulated)", simfeeds.Atom, []story{
			{
				"lathe",
				"How to true a lathe without a gauge",
				"A sheet of paper and a lamp show where a lathe is off by less than a tenth of a millimetre. The note has five " +
					"steps and one warning.",
				2 * time.Hour,
			},
			{
				"glue",
				"Hide glue is back",
				"Three makers of instruments tell why they went back to hide glue: it lets go with heat and water, so that what " +
					"was glued can be mended.",
				26 * time.Hour,
			},
		}))
}

// publishFeed serves one feed and returns its address.
func (w *World) publishFeed(at, title string, format simfeeds.Format, stories []story) string {
	address := w.feeds.AddFeed(at, title, format)
	base, _, _ := strings.Cut(at, ".")
	for _, s := range stories {
		page := "<!doctype html><title>" + html.EscapeString(s.title) + "</title><article><h1>" + html.EscapeString(
			s.title,
		) + "</h1><p>" + html.EscapeString(s.text) + "</p></article>"
		// The item's address is its id, so that it stays the same item as long as the world runs.
		link := w.feeds.Serve(base+"/"+s.name+".html", []byte(page), "text/html; charset=utf-8")
		w.feeds.AddItem(at, simfeeds.Item{
			ID:        link,
			Title:     s.title,
			Link:      link,
			Summary:   "<p>" + html.EscapeString(s.text) + "</p>",
			Published: time.Now().Add(-s.age),
		})
	}
	return address
}
