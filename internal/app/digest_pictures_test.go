package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/testing/browsertest"
	simfeeds "ravenbot/internal/testing/sim/feeds"
	simmodel "ravenbot/internal/testing/sim/model"
)

// pictured is what a model says of an item in a picture.
type pictured struct{ title, topic, text string }

// pictureNews is made-up news of two papers.
var pictureNews = []pictured{
	{"Parliament adopts the law on free-flowing rivers", "Politics", "Weirs without a licence have to be removed within ten years."},
	{"Old lighthouse on the north cape becomes a library", "Town", "Volunteers carried four thousand books up the stairs."},
	{"Kernel 7.4 brings real-time scheduling to every build", "Software", "Audio and machine control need no patches any more."},
	{"Night trains return to the coast line in May", "Travel", "Six trains a week connect the capital with the harbour towns."},
	{"A battery of iron and air passes its first winter", "Science", "It kept two hundred houses warm for four days without wind."},
	{"Harbour bridge closes for two years of repairs", "Town", "Ferries run every ten minutes and are free for pedestrians."},
}

// TestPictures_OfDigestStyles takes the pictures of docs/digests.md from the chat page, in light and dark. It runs with
// RAVENBOT_PICTURES=1, by `make pictures`.
func TestPictures_OfDigestStyles(t *testing.T) {
	if os.Getenv("RAVENBOT_PICTURES") == "" {
		t.Skip("RAVENBOT_PICTURES is not set")
	}
	browser := browsertest.Start(t)
	b := newWorld(t).runPictures(nil, "web:/general")
	for _, style := range []string{"brief", "topics", "deep", "weekly"} {
		b.browse(browser, func(page *browsertest.Page) {
			for _, dark := range []bool{false, true} {
				page.Look(browsertest.View{Width: 1000, Height: 1010, Dark: dark})
				if !dark {
					page.Type("#text", "/digest run "+style)
					page.Enter(false)
					page.Wait(`document.querySelector("#log").textContent.includes("` + style + ` · ")`)
				}
				name := "../../docs/images/digest-" + style
				if dark {
					name += "-dark"
				}
				page.Wait(`[...document.images].every(i => i.complete)`)
				page.Eval(`document.getElementById("scroll").scrollTop = 1e9`) // pictures that came late moved the end
				page.Screenshot(name + ".png")
			}
		})
	}
}

// runPictures runs a bot with a digest of each style, which are posted to the places. mail is the settings of a mail
// server to which they are sent, too; it may be nil.
func (w *world) runPictures(mail map[string]any, places ...string) *bot {
	feeds := []string{w.feeds.AddFeed("/gazette", "Coast Gazette", simfeeds.RSS),
		w.feeds.AddFeed("/post", "Morning Post", simfeeds.Atom)}
	for n, news := range pictureNews {
		picture := w.feeds.Serve(fmt.Sprintf("/%d.png", n), paint(n), "image/png")
		words := strings.Repeat(news.text+" The paper has asked three people who know about it what they expect, and all "+
			"of them were careful. ", 14)
		w.feeds.AddItem([]string{"/gazette", "/post"}[n%2], simfeeds.Item{
			Title: news.title, Content: `<p><img src="` + picture + `"/>` + news.text + " " + words + "</p>",
			Categories: []string{news.topic}, Published: time.Now().Add(-time.Duration(n+1) * 100 * time.Minute),
		})
		if n < 2 { // told by both
			w.feeds.AddItem([]string{"/post", "/gazette"}[n%2], simfeeds.Item{
				Title: news.title, Content: "<p>" + news.text + " " + words + "</p>",
				Published: time.Now().Add(-time.Duration(n+2) * time.Hour),
			})
		}
	}
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		if strings.HasPrefix(r.System, "You explain one news story") {
			return simmodel.Say("Parliament has adopted the law on free-flowing rivers [1]. Weirs without a licence have to " +
				"be removed within ten years [1][2]. Both papers asked three people who know about it, and all of them were " +
				"careful [1][2].")
		}
		if !strings.HasPrefix(r.System, "You edit") {
			return simmodel.Say("The week brought a law on rivers [1] and a library in a lighthouse [2]. Night trains come " +
				"back in May [3].")
		}
		return simmodel.Say(judgePictures(r.Asked(), pictureNews,
			"Rivers get their law after nine years of debate [Politics].", "Night trains return to the coast in spring [Travel]."))
	})
	digest := func(style string) map[string]any {
		return map[string]any{"schedule": "0 8 * * *", "feeds": feeds, "post": places, "style": style,
			"maxItems": 5}
	}
	settings := w.base()
	settings["egress"] = map[string]any{"allowPrivateHosts": []string{"127.0.0.1"}}
	settings["digests"] = map[string]any{"brief": digest("brief"), "topics": digest("topics"), "deep": digest("deep"),
		"weekly": map[string]any{"schedule": "fridays at 16:00", "style": "weekly", "post": places, "maxItems": 3}}
	if mail != nil {
		settings["smtp"] = mail
		for _, d := range settings["digests"].(map[string]any) {
			d.(map[string]any)["email"] = []string{"anna@example.org"}
		}
	}
	return w.run(settings)
}

var askedItem = regexp.MustCompile(`(?m)^\[(\d+)\] (.*?) \(`)

// judgePictures answers about news as a model would. The opening names items by their topics.
func judgePictures(asked string, list []pictured, opening ...string) string {
	var items []map[string]any
	for _, m := range askedItem.FindAllStringSubmatch(asked, -1) {
		for n, news := range list {
			if news.title != m[2] {
				continue
			}
			items = append(items, map[string]any{"n": json.Number(m[1]), "relevance": 9 - n, "kind": "news",
				"sameAs": 0, "told": 0, "topic": news.topic, "text": news.text + " [" + m[1] + "]"})
			for i := range opening {
				opening[i] = strings.ReplaceAll(opening[i], "["+news.topic+"]", "["+m[1]+"]")
			}
		}
	}
	raw, _ := json.Marshal(map[string]any{"items": items, "opening": opening})
	return string(raw)
}

// paint returns a small picture with a gradient.
func paint(n int) []byte {
	p := image.NewRGBA(image.Rect(0, 0, 240, 160))
	for y := range 160 {
		for x := range 240 {
			p.Set(x, y, color.RGBA{uint8(60 + 30*n), uint8(90 + y/2), uint8(200 - x/2), 255})
		}
	}
	var b bytes.Buffer
	_ = png.Encode(&b, p) // into memory, which does not fail
	return b.Bytes()
}
