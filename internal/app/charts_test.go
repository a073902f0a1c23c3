package app_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/testing/browsertest"
	simfeeds "ravenbot/internal/testing/sim/feeds"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// The pages of agents, servers, calls, digests and feeds show how the last days went, also after a restart, in the
// browser and on a phone; before anything was done they say so.
func TestCharts_ShowHowTheLastDaysWent(t *testing.T) {
	w := newWorld(t)
	to := []string{"slack:" + simslack.TeamID + "/" + w.channel.ID}
	good := w.feeds.AddFeed("/good", "Good", simfeeds.Atom)
	w.feeds.AddItem("/good", simfeeds.Item{Title: "Something happened"})
	settings := w.base()
	settings["mcpServers"] = map[string]any{"kit": map[string]any{"command": must(os.Executable()),
		"env": map[string]string{"RAVENBOT_TOOL_SERVER": w.tools}}}
	settings["digests"] = map[string]any{
		"news": map[string]any{"schedule": "every day at 9", "post": to, "feeds": []string{good}},
		"wrong": map[string]any{"schedule": "every day at 10", "post": to,
			"feeds": []string{w.feeds.Serve("/bad", []byte("<html>no feed</html>"), "text/html")}},
	}
	// What a page has: charts, and their figures in words.
	type content struct {
		charts float64
		words  []string
	}
	browser := browsertest.Start(t)
	look := func(b *bot, want map[string]content) {
		t.Helper()
		b.browse(browser, func(p *browsertest.Page) {
			for _, view := range []browsertest.View{{Width: 1280, Height: 900},
				{Width: 390, Height: 800, Phone: true, Dark: true}} {
				p.Look(view)
				for path, has := range want {
					p.Go("http://" + b.Addr() + path)
					text := p.Text("main")
					if n := p.Eval(`document.querySelectorAll("main svg[role=img][aria-label]").length`); n != has.charts {
						t.Errorf("%s has %v charts, want %v:\n%s", path, n, has.charts, text)
					}
					for _, words := range has.words {
						if !strings.Contains(text, words) {
							t.Errorf("%s lacks %q:\n%s", path, words, text)
						}
					}
					// A chart without a part to see, or wider than the window, is none.
					if bad := p.Eval(`[...document.querySelectorAll("main svg[role=img]")].filter(c => !c.querySelector("rect") ||
						c.getBoundingClientRect().width < 200 || c.getBoundingClientRect().right > innerWidth).length +
						Math.max(0, document.documentElement.scrollWidth - innerWidth)`); bad != 0.0 {
						t.Errorf("%s at %d pixels has %v charts that are not seen, or is too wide", path, view.Width, bad)
					}
				}
			}
		})
	}
	b := w.run(settings)
	look(b, map[string]content{
		"/agents":  {0, []string{"No answers in the last 30 days."}},
		"/servers": {0, []string{"No calls in the last 30 days."}},
		"/calls":   {0, []string{"No tool was called yet."}},
		"/digests": {0, []string{"No runs in the last 30 days."}},
	})
	call := func(server, tool string, args any) {
		t.Helper()
		within(t, "the server connects and "+tool+" is called", func() bool {
			return b.call(http.MethodPost, "/api/v1/mcp/servers/"+server+"/call",
				map[string]any{"tool": tool, "arguments": args}, nil) == http.StatusOK
		})
	}
	call("kit", "look", toolArgs{Question: "q", MS: 20})
	call("kit", "look", map[string]any{}) // its schema wants a question
	b.call(http.MethodPost, "/api/v1/digests/news/run", nil, nil)
	b.call(http.MethodPost, "/api/v1/digests/wrong/run", nil, nil)
	w.model.SetScript(simmodel.Sequence(simmodel.Say("Hello!"), simmodel.Reply{Status: http.StatusForbidden}))
	b.ask("room", "hello")
	b.ask("room", "hello?")
	busy := map[string]content{
		"/agents":  {1, []string{"Answers a day: 2 answers in 1 day, 1 failed, ", "an answer in the last 7 days"}},
		"/servers": {1, []string{"Calls a day: 2 calls in 1 day, 1 failed;", "a call in the last 7 days"}},
		"/calls":   {2, []string{"Calls a day: 2 calls in 1 day, 1 failed;", "Mean time of a call: at most"}},
		"/digests": {3, []string{"Runs: 1 run in 1 day", "Stories a day: 1 story posted in 1 day",
			"1 run in 1 day, 1 failed"}},
		"/feeds": {2, []string{"Reads: read 1 time in 1 day", "Reads: read 0 times in 1 day, 1 failed"}},
	}
	look(b, busy)
	b.stop()
	b = w.run(settings)
	look(b, busy)
	// A page that refreshes itself has the charts of what was called meanwhile.
	b.browse(browser, func(p *browsertest.Page) {
		p.Go("http://" + b.Addr() + "/servers")
		call("kit", "look", toolArgs{Question: "q"})
		p.Wait(`document.querySelector("main svg[role=img]").getAttribute("aria-label").includes(": 3 calls in 1 day")`)
	})
	var list struct {
		Items []struct {
			Day, Kind, Name        string
			Count, Failed, Results int
			Seconds                float64
		}
	}
	b.call(http.MethodGet, "/api/v1/totals", nil, &list)
	if len(list.Items) != 6 || list.Items[5].Name != "kit" || list.Items[5].Count != 3 || list.Items[5].Seconds < 0.02 ||
		list.Items[5].Day != w.now().UTC().Format(time.DateOnly) || list.Items[0].Kind != "answers" ||
		list.Items[0].Name != "default" || list.Items[0].Results == 0 {
		t.Errorf("the API has %s", must(json.Marshal(list.Items)))
	}
}
