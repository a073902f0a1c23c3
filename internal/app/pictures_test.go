package app_test

import (
	"encoding/json"
	"os"
	"testing"

	"ravenbot/internal/browsertest"
	simmodel "ravenbot/internal/sim/model"
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
			return simmodel.Say("A feed is a file that a site rewrites whenever it publishes: a few kilobytes that a program " +
				"reads in a moment. [1]")
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
		page.Look(browsertest.View{Width: 940, Height: 560})
		page.Type("#text", question)
		page.Enter(false)
		page.Wait(`document.querySelector("#log").textContent.includes("nothing is shown twice")`)
		page.Screenshot("../../docs/images/answer.png")
	})
	b.browse(browser, func(page *browsertest.Page) {
		page.Look(browsertest.View{Width: 940, Height: 800})
		page.Type("#text", "/forget")
		page.Enter(false)
		page.Wait(`document.querySelector("#log").textContent.includes("Forgotten:")`)
		page.Type("#text", "/digest run morning")
		page.Enter(false)
		page.Wait(`document.querySelectorAll("#log .card").length > 1`)
		page.Screenshot("../../docs/images/digest.png")
	})
}
