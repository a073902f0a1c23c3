package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/news/digest"
	"ravenbot/internal/ops/measure"
	"ravenbot/internal/ops/totals"
	"ravenbot/internal/turn/roster"
)

// counted are the totals of days.
type counted struct {
	days map[string]totals.Counts // by day
	err  error
}

func (c *counted) Days(_ context.Context, n int) ([]totals.Day, error) {
	list := make([]totals.Day, n)
	for i := range list {
		day := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC).AddDate(0, 0, i+1-n).Format(time.DateOnly)
		list[i] = totals.Day{Day: day, Counts: c.days[day]}
	}
	return list, c.err
}

// busy are the totals of three days, of which the second had nothing.
func busy() map[string]totals.Counts {
	return map[string]totals.Counts{
		"2026-02-20": {
			totals.Answers:   {"default": {Count: 3, Failed: 3, Seconds: 6}},
			totals.ToolCalls: {"files": {Count: 10, Failed: 10, Seconds: 20}},
			totals.FeedReads: {"https://example.org/feed": {Count: 2, Failed: 2}},
		},
		"2026-03-04": {
			totals.Answers:    {"default": {Count: 4, Failed: 1, Seconds: 6, Results: 9000}},
			totals.ToolCalls:  {"files": {Count: 2, Failed: 1, Seconds: 0.5}, "web": {Count: 1, Seconds: 1}},
			totals.DigestRuns: {"morning": {Count: 1, Results: 7, Seconds: 3}},
			totals.FeedReads:  {"https://example.org/feed": {Count: 24, Failed: 1}},
		},
	}
}

// oneAgent is a roster with the default agent alone.
type oneAgent struct{ Agents }

func (oneAgent) List() []roster.Agent { return []roster.Agent{{Name: "default", Source: "config"}} }

func (oneAgent) Rooms() map[string]string { return nil }

// Each page shows what was counted, says so in words, and has no chart where nothing was; the pages that refresh
// themselves have the charts in the part that they ask for.
func TestPages_ShowTheLastDays(t *testing.T) {
	b, _, server, client := start(t, func(o *Options) { o.Agents = oneAgent{} })
	get := func(path string, headers ...string) string {
		t.Helper()
		r := do(t, client, http.MethodGet, server.URL+path, nil, append(headers, "Authorization", bearerHeader)...)
		if r.status != http.StatusOK {
			t.Errorf("%s has the status %d", path, r.status)
		}
		return r.body
	}
	pages := map[string]struct {
		refresh bool
		none    string   // what stands in place of a chart
		charts  int      // with data
		want    []string // with data
	}{
		"/agents": {false, "No answers in the last 30 days.", 1, []string{
			"Answers a day: 7 answers in 13 days, 4 failed, 9000 tokens; 1.5 s an answer in the last 7 days",
			`aria-label="Answers a day of default, from 2026-02-03 to 2026-03-04: 7 answers in 13 days, 4 failed`,
			"<title>2026-03-04: 4 answers, 1 failed, 9000 tokens, 1.5 s each</title>",
		}},
		"/servers": {true, "No calls in the last 30 days.", 1, []string{
			"Calls a day: 12 calls in 13 days, 11 failed; 250 ms a call in the last 7 days",
			`aria-label="Calls a day of files, from 2026-02-03 to 2026-03-04: 12 calls in 13 days, 11 failed;`,
			"<title>2026-02-20: 10 calls, 10 failed, 2.0 s each</title>",
			"<title>2026-03-04: 2 calls, 1 failed, 250 ms each</title>",
			"No calls in the last 30 days.", // of the other server
		}},
		"/calls": {true, "", 2, []string{
			"Calls a day: 13 calls in 13 days, 11 failed; 500 ms a call in the last 7 days",
			"<title>2026-03-04: 3 calls, 1 failed, 500 ms each</title>",
			"Mean time of a call: at most 2.0 s, without the wait for an approval",
		}},
		"/digests": {false, "No runs in the last 30 days.", 2, []string{
			"Runs: 1 run in 13 days", `aria-label="Runs of morning, from`, "<title>2026-03-04: 1 run</title>",
			"<title>2026-02-21: no run</title>",
			"Stories a day: 7 stories posted in 13 days", "<title>2026-03-04: 7 stories</title>",
		}},
		"/feeds": {false, "Not tried in the last 30 days.", 1, []string{
			"Reads: read 23 times in 13 days, 3 failed",
			`aria-label="Reads of https://example.org/feed, from`, "<title>2026-02-20: read 0 times, 2 failed</title>",
			"<title>2026-02-21: not tried</title>",
			"<title>2026-03-04: read 23 times, 1 failed</title>",
		}},
	}
	const img = `role="img"`
	for path, p := range pages {
		b.counted.days = nil
		if body := get(path); strings.Contains(body, img) || !strings.Contains(body, p.none) {
			t.Errorf("%s without data has a chart, or does not say %q:\n%s", path, p.none, body)
		}
		b.counted.days = busy()
		bodies := []string{get(path)}
		if p.refresh {
			bodies = append(bodies, get(path, "HX-Request", "true"))
		}
		for _, body := range bodies {
			if n := strings.Count(body, img); n != p.charts {
				t.Errorf("%s has %d charts, want %d", path, n, p.charts)
			}
			for _, want := range p.want {
				if !strings.Contains(body, want) {
					t.Errorf("%s lacks %q:\n%s", path, want, body)
				}
			}
		}
		// What failed is marked by more than its colour, by a pattern that the page has.
		if hasFailed := strings.Contains(bodies[0], `fill="url(#failed-pattern)"`); hasFailed != (path != "/digests") ||
			!strings.Contains(bodies[0], `<pattern id="failed-pattern"`) {
			t.Errorf("%s shows what failed: %t", path, hasFailed)
		}
		b.counted.err = errors.New("the disk is gone")
		if body := get(path); strings.Contains(body, img) || p.none != "" && strings.Contains(body, p.none) ||
			!strings.Contains(body, "The bot&#39;s log says why") && !strings.Contains(body, "The bot's log says why") {
			t.Errorf("%s with days that cannot be read shows\n%s", path, body)
		}
		b.counted.err = nil
	}
}

// many are more digests and feeds than have charts.
type many struct{ digests }

func (many) List(context.Context) (list []digest.Info, err error) {
	for i := range maxCharts + 10 {
		list = append(list, digest.Info{Name: fmt.Sprint("digest ", i)})
	}
	return list, nil
}

func (many) KnownFeeds(context.Context) (list []digest.FeedInfo, err error) {
	for i := range maxCharts + 10 {
		list = append(list, digest.FeedInfo{Name: fmt.Sprint("digest ", i)})
	}
	return list, nil
}

func TestPages_ThousandsOfDigestsAndFeeds_HaveFewCharts(t *testing.T) {
	b, _, server, client := start(t, func(o *Options) { o.Digests = many{o.Digests.(digests)} })
	today := totals.Counts{totals.DigestRuns: {}, totals.FeedReads: {}}
	for i := range maxCharts + 10 {
		name := fmt.Sprint("digest ", i)
		today[totals.DigestRuns][name], today[totals.FeedReads][name] = measure.Total{Count: 1}, measure.Total{Count: 1}
	}
	b.counted.days = map[string]totals.Counts{"2026-03-04": today}
	for _, path := range []string{"/digests", "/feeds"} {
		body := do(t, client, http.MethodGet, server.URL+path, nil, "Authorization", bearerHeader).body
		if n := strings.Count(body, `role="img"`); n != maxCharts ||
			!strings.Contains(body, "Only the first 200 have charts.") {
			t.Errorf("%s has %d charts", path, n)
		}
	}
}

func TestTotals_AreListedByDayKindAndName(t *testing.T) {
	b, _, server, client := start(t, nil)
	list := func(query string) (items []map[string]any, next string) {
		t.Helper()
		r := do(t, client, http.MethodGet, server.URL+"/api/v1/totals"+query, nil, "Authorization", bearerHeader)
		var page struct {
			Items []map[string]any
			Next  string
		}
		if err := json.Unmarshal([]byte(r.body), &page); err != nil || r.status != http.StatusOK || page.Items == nil {
			t.Fatalf("%s: status %d, %v: %s", query, r.status, err, r.body)
		}
		return page.Items, page.Next
	}
	if items, _ := list(""); len(items) != 0 {
		t.Errorf("without data there are %v", items)
	}
	b.counted.days = busy()
	b.counted.days["2025-12-05"] = totals.Counts{totals.ToolCalls: {"files": {Count: 1}}} // the first of 90 days
	b.counted.days["2025-12-04"] = b.counted.days["2025-12-05"]
	var got []string
	for next, begun := "", false; !begun || next != ""; begun = true {
		var items []map[string]any
		items, next = list("?limit=2&cursor=" + next)
		for _, i := range items {
			got = append(got, fmt.Sprint(i["day"], " ", i["kind"], " ", i["name"], " ", i["count"], " ", i["failed"], " ",
				i["seconds"], " ", i["results"]))
		}
	}
	want := `2025-12-05 toolCalls files 1 0 0 0
2026-02-20 answers default 3 3 6 0
2026-02-20 feedReads https://example.org/feed 2 2 0 0
2026-02-20 toolCalls files 10 10 20 0
2026-03-04 answers default 4 1 6 9000
2026-03-04 digestRuns morning 1 0 3 7
2026-03-04 feedReads https://example.org/feed 24 1 0 0
2026-03-04 toolCalls files 2 1 0.5 0
2026-03-04 toolCalls web 1 0 1 0`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("listed are\n%s\nwant\n%s", text, want)
	}
	if items, _ := list("?kind=digestRuns"); len(items) != 1 || items[0]["name"] != "morning" {
		t.Errorf("of runs there are %v", items)
	}
	b.counted.err = errors.New("the disk is gone")
	r := do(t, client, http.MethodGet, server.URL+"/api/v1/totals", nil, "Authorization", bearerHeader)
	if r.status != http.StatusInternalServerError {
		t.Errorf("days that cannot be read have the status %d", r.status)
	}
}

// However different the numbers are, each part of a bar is seen, within the field of its chart.
func TestCharts_SmallPartsAreSeen(t *testing.T) {
	figures := []figure{{Day: "2026-03-01", Value: 100000, Failed: 1}, {Day: "2026-03-02", Value: 1}, {Day: "2026-03-03"},
		{Day: "2026-03-04", Value: 100000, Failed: 99999}, {Day: "2026-03-05", Value: 1, Failed: 1},
		{Day: "2026-03-06", Value: 8000, Failed: 1}}
	parts := func(c *chart) string {
		var list []string
		for _, d := range c.Days {
			top := c.Height
			for _, b := range d.Bars {
				list = append(list, fmt.Sprintf("%s %.0f", b.Kind, b.Height))
				if top -= b.Height; b.Height < minHeight || b.Top != top || b.Top < 0 || b.Left+b.Width > c.Width {
					t.Errorf("%s has the bar %+v", d.Label, b)
				}
			}
			list = append(list, "|")
		}
		return strings.Join(list, ",")
	}
	if got := parts(newBars("", "", "", figures)); got != "failed 3, 77,|, 3,|,failed 77, 3,|,failed 3,|,failed 3, 3,|" {
		t.Errorf("the bars are %s", got)
	}
	want := "failed 3, 13,|, 16,|,none 16,|,failed 13, 3,|,failed 16,|,failed 3, 13,|"
	if got := parts(newStrip("", "", "", figures)); got != want {
		t.Errorf("the strip is %s", got)
	}
}
