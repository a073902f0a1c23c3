package admin

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"ravenbot/internal/ops/measure"
	"ravenbot/internal/ops/totals"
)

// Totals returns what was counted each day.
type Totals interface {
	// Days returns the last n days, oldest first.
	Days(ctx context.Context, n int) ([]totals.Day, error)
}

const (
	// shownDays is how many days charts have, and recentDays over how many the mean time is shown.
	shownDays  = 30
	recentDays = 7
	// maxCharts is of how many digests or feeds a page has charts: thousands of them would make it too large.
	maxCharts = 200
)

// limitCharts returns of how many things a page has charts, where there are more than that; else 0.
func limitCharts(n int) int {
	if n > maxCharts {
		return maxCharts
	}
	return 0
}

// picture is a chart, or what is said in its place.
type picture struct {
	Chart *chart
	None  string
}

// lastDays are those that charts show. The zero value has none, and its charts are missing.
type lastDays []totals.Day

// lastDays reads the days. Pages are shown without charts where that fails, and the log says why.
func (s *Server) lastDays(r *http.Request) (days lastDays, isUnread bool) {
	days, err := s.o.Totals.Days(r.Context(), shownDays)
	if err != nil {
		s.o.Log.Error("page has no charts", "path", r.URL.Path, "error", err)
		return nil, true
	}
	return days, false
}

// figures returns what a chart is to show: of the days before anything was counted nothing is known.
func (days lastDays) figures(of func(totals.Day) figure) []figure {
	list := make([]figure, len(days))
	for i, d := range days {
		list[i] = of(d)
		list[i].Day, list[i].IsUnknown = d.Day, i < days.first()
	}
	return list
}

// first returns the index of the first day on which anything was counted, of today where none is.
func (days lastDays) first() int {
	n := slices.IndexFunc(days, func(d totals.Day) bool { return d.Counts != nil })
	if n < 0 {
		return len(days) - 1
	}
	return n
}

// span says of how many days something was counted: "in 30 days".
func (days lastDays) span() string {
	return "in " + countText(uint64(len(days)-days.first()), "day", "days")
}

// sum returns what was counted in the last n days.
func (days lastDays) sum(n int, of func(totals.Day) measure.Total) (sum measure.Total) {
	for _, d := range days[max(0, len(days)-n):] {
		sum = sum.Plus(of(d))
	}
	return sum
}

// failedText names what failed behind a number, with a comma before it; "": nothing did.
func failedText(t measure.Total) string {
	if t.Failed == 0 {
		return ""
	}
	return fmt.Sprintf(", %d failed", t.Failed)
}

// noCalls stands in the place of a chart of calls.
const noCalls = "No calls in the last 30 days."

// drawCalls returns the calls of tools a day, of a server or of all ("").
func (days lastDays) drawCalls(server string, of func(totals.Day) measure.Total) picture {
	if len(days) == 0 {
		return picture{}
	}
	all := days.sum(shownDays, of)
	summary := countText(all.Count, "call", "calls") + " " + days.span() + failedText(all)
	if recent := days.sum(recentDays, of); recent.Count > 0 {
		summary += "; " + secondsText(recent.Seconds/float64(recent.Count)) + " a call in the last 7 days"
	}
	return picture{newBars("Calls a day", server, summary, days.figures(func(d totals.Day) figure {
		t := of(d)
		label := countText(t.Count, "call", "calls") + failedText(t)
		if t.Count > 0 {
			label += ", " + secondsText(t.Seconds/float64(t.Count)) + " each"
		}
		return figure{Value: float64(t.Count), Failed: float64(t.Failed), Label: label}
	})), noCalls}
}

// tokensText says how many tokens answers used, with a comma before it; "": none, as of the offline model.
func tokensText(t measure.Total) string {
	if t.Results == 0 {
		return ""
	}
	return ", " + countText(t.Results, "token", "tokens")
}

// drawAnswers returns the answers of an agent a day.
func (days lastDays) drawAnswers(agent string) picture {
	if len(days) == 0 {
		return picture{}
	}
	of := func(d totals.Day) measure.Total { return d.Of(totals.Answers, agent) }
	all := days.sum(shownDays, of)
	summary := countText(all.Count, "answer", "answers") + " " + days.span() + failedText(all) + tokensText(all)
	if recent := days.sum(recentDays, of); recent.Count > 0 {
		summary += "; " + secondsText(recent.Seconds/float64(recent.Count)) + " an answer in the last 7 days"
	}
	return picture{newBars("Answers a day", agent, summary, days.figures(func(d totals.Day) figure {
		t := of(d)
		label := countText(t.Count, "answer", "answers") + failedText(t)
		if t.Count > 0 {
			label += tokensText(t) + ", " + secondsText(t.Seconds/float64(t.Count)) + " each"
		}
		return figure{Value: float64(t.Count), Failed: float64(t.Failed), Label: label}
	})), "No answers in the last 30 days."}
}

// drawCallTimes returns how long a call took on average each day, or nothing.
func (days lastDays) drawCallTimes(of func(totals.Day) measure.Total) picture {
	if len(days) == 0 {
		return picture{}
	}
	longest := 0.0
	figures := days.figures(func(d totals.Day) figure {
		t := of(d)
		mean := 0.0
		if t.Count > 0 {
			mean = t.Seconds / float64(t.Count)
		}
		longest = max(longest, mean)
		return figure{Value: mean, Label: secondsText(mean)}
	})
	return picture{Chart: newBars("Mean time of a call", "",
		"at most "+secondsText(longest)+", without the wait for an approval", figures)}
}

// drawRuns returns whether the runs of a digest went well, and what they posted. Who posts nothing has the first alone.
func (days lastDays) drawRuns(name string) (runs, posted picture) {
	if len(days) == 0 {
		return picture{}, picture{}
	}
	of := func(d totals.Day) measure.Total { return d.Of(totals.DigestRuns, name) }
	all := days.sum(shownDays, of)
	runs = picture{newStrip("Runs", name, countText(all.Count, "run", "runs")+" "+days.span()+failedText(all),
		days.figures(func(d totals.Day) figure {
			t := of(d)
			label := "no run"
			if t.Count > 0 {
				label = countText(t.Count, "run", "runs") + failedText(t)
			}
			return figure{Value: float64(t.Count), Failed: float64(t.Failed), Label: label}
		})), "No runs in the last 30 days."}
	posted = picture{Chart: newBars("Stories a day", name,
		countText(all.Results, "story", "stories")+" posted "+days.span(),
		days.figures(func(d totals.Day) figure {
			n := of(d).Results
			return figure{Value: float64(n), Label: countText(n, "story", "stories")}
		}))}
	return runs, posted
}

// drawReads returns on which days a feed could be read.
func (days lastDays) drawReads(feed string) picture {
	if len(days) == 0 {
		return picture{}
	}
	of := func(d totals.Day) measure.Total { return d.Of(totals.FeedReads, feed) }
	all := days.sum(shownDays, of)
	summary := fmt.Sprintf("read %s %s%s", countText(all.Count-all.Failed, "time", "times"), days.span(), failedText(all))
	return picture{newStrip("Reads", feed, summary, days.figures(func(d totals.Day) figure {
		t := of(d)
		label := "not tried"
		if t.Count > 0 {
			label = "read " + countText(t.Count-t.Failed, "time", "times") + failedText(t)
		}
		return figure{Value: float64(t.Count), Failed: float64(t.Failed), Label: label}
	})), "Not tried in the last 30 days."}
}

// totalItem is what the API shows of something on a day.
type totalItem struct {
	Day     string      `json:"day"` // 2006-01-02, in UTC
	Kind    totals.Kind `json:"kind"`
	Name    string      `json:"name"`
	Count   uint64      `json:"count"`
	Failed  uint64      `json:"failed"` // of count
	Seconds float64     `json:"seconds"`
	Results uint64      `json:"results"`
}

// listTotals serves GET /api/v1/totals: what was counted each day, oldest first; ?kind for one kind alone.
func (s *Server) listTotals(w http.ResponseWriter, r *http.Request) {
	days, err := s.o.Totals.Days(r.Context(), totals.KeepDays)
	if err != nil {
		s.writeFailure(w, r, "the daily totals could not be read", err)
		return
	}
	only := r.URL.Query().Get("kind")
	var items []totalItem
	for _, d := range days {
		for _, kind := range slices.Sorted(maps.Keys(d.Counts)) {
			if only != "" && only != string(kind) {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(d.Counts[kind])) {
				t := d.Counts[kind][name]
				items = append(items, totalItem{d.Day, kind, name, t.Count, t.Failed, t.Seconds, t.Results})
			}
		}
	}
	writeList(w, r, items, func(i totalItem) string { return strings.Join([]string{i.Day, string(i.Kind), i.Name}, " ") })
}
