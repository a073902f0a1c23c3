package app_test

import (
	"encoding/json"
	"os"
	"testing"

	"ravenbot/internal/testing/browsertest"
	simmodel "ravenbot/internal/testing/sim/model"
)

// TestPictures_OfTheDocuments takes the pictures of docs/images from the chat page. It runs
// with RAVENBOT_PICTURES=1, by `make pictures`.
func TestPictures_OfTheDocuments(t *testing.T) {
	if os.Getenv("RAVENBOT_PICTURES") == "" {
		t.Skip("RAVENBOT_PICTURES is not set")
	}
	browser := browsertest.Start(t)
	w := newWorld(t)
	const question = "What does the feed of the handbook say, and how do I follow it?"
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		switch {
		case r.Asked() != question:
			return simmodel.Say(judgePictures(r.Asked(), []pictured{
				{"RSS: a list of items in XML", "RSS", "A channel has a title, a link and as many items as its publisher likes to keep."},
				{"Atom: the same idea, tightly specified", "Atom", "Every entry has an id that never changes, and says when it was updated."},
				{"JSON Feed: no XML at all", "JSON", "The same content as a JSON document, for programs that read no XML."},
			}, "A feed is a file that a site rewrites whenever it publishes, and there are three kinds of it [RSS]."))
		case len(r.Last().Results) == 0:
			return simmodel.Reply{Calls: []simmodel.Call{{Name: "feeds_fetch",
				Args: json.RawMessage(`{"url":"bundled:feeds-primer"}`)}}}
		}
		return simmodel.Say("The *feeds primer* explains in ten short entries how feeds work:\n\n" +
			"- a feed is **a file that a site rewrites** whenever it publishes,\n" +
			"- polite readers ask with `If-None-Match` and wait when they are told to,\n" +
			"- items keep their id, so nothing is shown twice.\n\nSay *every weekday at 9 post me the primer here* and I " +
			"follow it for this channel.")
	})
	settings := w.base()
	settings["digests"] = map[string]any{"morning": map[string]any{"schedule": "0 8 * * *",
		"feeds": []string{"bundled:feeds-primer"},
		"post":  []string{"web:/general"}, "maxItems": 3}}
	b := w.run(settings)
	b.browse(browser, func(page *browsertest.Page) {
		page.Look(browsertest.View{Width: 1000, Height: 560})
		page.Type("#text", question)
		page.Enter(false)
		page.Wait(`document.querySelector("#log").textContent.includes("nothing is shown twice")`)
		page.Screenshot("../../docs/images/answer.png")
	})
	b.browse(browser, func(page *browsertest.Page) {
		page.Look(browsertest.View{Width: 1000, Height: 800})
		page.Type("#text", "/forget")
		page.Enter(false)
		page.Wait(`document.querySelector("#log").textContent.includes("Forgotten:")`)
		page.Type("#text", "/digest run morning")
		page.Enter(false)
		page.Wait(`document.querySelectorAll("#log .card").length > 1`)
		page.Screenshot("../../docs/images/digest.png")
	})
}
