package app_test

import (
	"net/http"
	"strings"
	"testing"

	"ravenbot/internal/testing/browsertest"
	simfeeds "ravenbot/internal/testing/sim/feeds"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// The page Overview names what fails, and shows what runs next and what was used.
func TestOverview_NamesWhatNeedsAttention(t *testing.T) {
	w := newWorld(t)
	to := []string{"slack:" + simslack.TeamID + "/" + w.channel.ID}
	settings := w.base()
	settings["digests"] = map[string]any{
		"news": map[string]any{"schedule": "every day at 9", "post": to,
			"feeds": []string{w.feeds.AddFeed("/good", "Good", simfeeds.Atom)}},
		"wrong": map[string]any{"schedule": "every day at 10", "post": to,
			"feeds": []string{w.feeds.AddFeed("/bad", "No more", simfeeds.Atom)}},
	}
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		if strings.Contains(r.Asked(), "broken") {
			return simmodel.Reply{Status: http.StatusServiceUnavailable, Message: "overloaded"}
		}
		return simmodel.Say("done")
	})
	b := w.run(settings)
	b.browse(browsertest.Start(t), func(p *browsertest.Page) {
		p.Go("http://" + b.Addr() + "/overview")
		p.Wait(`document.body.innerText.includes("Running well")`)
		if text := p.Text("main"); strings.Contains(text, "Needs attention") || strings.Contains(text, "Digests and feeds") ||
			!strings.Contains(text, "No language model has answered yet") || !strings.Contains(text, "wrong") {
			t.Errorf("a bot in which nothing was done shows\n%s", text)
		}
		w.feeds.Serve("/bad", []byte("<html>no feed</html>"), "text/html")
		b.ask("room", "hello")
		b.call(http.MethodPost, "/api/v1/digests/wrong/run", nil, nil)
		b.ask("room", "broken")
		p.Go("http://" + b.Addr() + "/overview")
		text := p.Text("main")
		for _, want := range []string{"Needs attention", "The model default fails", "The last run of the digest wrong failed",
			"1 of 2 feeds fail", "Answers of language models a day: at most", "Today (UTC): 1 answer of models, $0.00"} {
			if !strings.Contains(text, want) {
				t.Errorf("the page lacks %q:\n%s", want, text)
			}
		}
		if bars := p.Eval(`document.querySelectorAll("main svg rect").length`); bars != 1.0 {
			t.Errorf("the chart has %v bars, want one for each day with an answer", bars)
		}
	})
}
