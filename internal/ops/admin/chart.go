package admin

import (
	"fmt"
	"math"
	"time"
)

// chart is a picture of some days: bars for a number a day, or a strip that says whether something went well. What
// failed has a pattern beside its colour. Its figures are in pixels of a field of Width by Height, which the page
// stretches.
type chart struct {
	Title, Summary string // in words what it shows, and the figures that matter
	Of             string // whose figures they are, for who does not see the box that the chart is in
	IsStrip        bool
	Width, Height  float64
	Days           []chartDay // those that have anything to show
	First, Last    string     // days
}

// chartDay is what a chart shows of a day. Label has its figures.
type chartDay struct {
	Label string
	Bars  []bar
}

// bar is a rectangle of a chart. Kind is "", "failed", or "none" where nothing was done.
type bar struct {
	Left, Top, Width, Height float64
	Kind                     string
}

// figure is what a chart is to show of a day.
type figure struct {
	Day           string  // 2006-01-02
	Value, Failed float64 // Failed is a part of Value
	Label         string  // of both, in words
	IsUnknown     bool    // nothing was counted yet
}

const (
	barWidth    = 18.0 // with the gap behind it
	barGap      = 3.0
	chartHeight = 80.0
	stripHeight = 16.0
	// minHeight is what is seen of the smallest part of a bar, however large the others are.
	minHeight = 3.0
)

// newBars returns a chart of figures, or nil where all are 0.
func newBars(title, of, summary string, figures []figure) *chart {
	most := 0.0
	for _, f := range figures {
		most = max(most, f.Value)
	}
	if most == 0 {
		return nil
	}
	c := newChart(title, of, summary, chartHeight, figures)
	for i, f := range figures {
		if f.Value == 0 {
			continue
		}
		scale := chartHeight / most
		failed, well := divide(height(f.Value*scale), f)
		c.addDay(i, f, failed, well, 0)
	}
	return c
}

// newStrip returns a chart in which each day is as high as the others, and divided by how much of it failed; nil where
// nothing was done on any of them.
func newStrip(title, of, summary string, figures []figure) *chart {
	c := newChart(title, of, summary, stripHeight, figures)
	c.IsStrip = true
	isEmpty := true
	for i, f := range figures {
		switch {
		case f.IsUnknown:
		case f.Value == 0:
			c.addDay(i, f, 0, 0, stripHeight)
		default:
			isEmpty = false
			failed, well := divide(stripHeight, f)
			c.addDay(i, f, failed, well, 0)
		}
	}
	if isEmpty {
		return nil
	}
	return c
}

func newChart(title, of, summary string, height float64, figures []figure) *chart {
	return &chart{
		Title:   title,
		Of:      of,
		Summary: summary,
		Width:   barWidth * float64(len(figures)),
		Height:  height,
		First:   figures[0].Day,
		Last:    figures[len(figures)-1].Day,
	}
}

// height returns the height of a bar, which is seen if there is any.
func height(exact float64) float64 { return max(minHeight, math.Round(exact*10)/10) }

// divide divides the height of a bar between what failed and what went well. Each is seen if there is any of it, and if
// the bar is high enough; what failed comes first.
func divide(whole float64, f figure) (failed, well float64) {
	switch {
	case f.Failed == 0:
		return 0, whole
	case f.Failed == f.Value:
		return whole, 0
	}
	failed = min(height(f.Failed/f.Value*whole), max(minHeight, whole-minHeight))
	return failed, whole - failed
}

// addDay adds the bar of the day with the index i: from the bottom up what failed, what went well, and an outline where
// nothing was done.
func (c *chart) addDay(i int, f figure, failed, well, none float64) {
	day := chartDay{Label: f.Day + ": " + f.Label}
	bottom := c.Height
	for _, part := range []bar{{Height: failed, Kind: "failed"}, {Height: well}, {Height: none, Kind: "none"}} {
		if part.Height > 0 {
			bottom -= part.Height
			part.Left, part.Top, part.Width = barWidth*float64(i), math.Round(bottom*10)/10, barWidth-barGap
			day.Bars = append(day.Bars, part)
		}
	}
	c.Days = append(c.Days, day)
}

// countText returns a number with what it counts: "1 call", "2 calls".
func countText(n uint64, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// secondsText returns a time for people: "less than 1 ms", "80 ms", "1.2 s", "11 min 28 s" or "2 h 5 min".
func secondsText(seconds float64) string {
	switch d := time.Duration(seconds * float64(time.Second)); {
	case d < time.Millisecond:
		return "less than 1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", seconds)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
}
