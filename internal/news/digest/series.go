package digest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

// minSeries is how many items of one feed with titles of one form are a series, such as the advisories of a day. A
// digest makes one story of them.
const minSeries = 4

var (
	digitRun      = text.Pattern(`\d+`)
	leadingLabel  = text.Pattern(`^(?:\[[^\]]*\]|\([^)]*\))\s*`)
	severityLabel = text.Pattern(`(?i)\s*[\[(][^\])]*(?:critical|high|medium|moderate|low|kritisk|høy|middels|lav|kritisch|hoch` +
		`|mittel|niedrig|cvss)[^\])]*[\])]`)
)

// seriesKey returns what the titles of a series have in common, or "": the form of the identifier or number with which
// they begin. Advisories with a severity are one series, whatever their titles.
func (i *item) seriesKey() string {
	if name, _ := i.severity(); name != "" {
		return "severity"
	}
	title := leadingLabel().ReplaceAllString(i.Heading(), "")
	first, _, _ := strings.Cut(title, " ")
	if before, _, ok := strings.Cut(title, ": "); ok {
		first = before
	}
	form := digitRun().ReplaceAllString(first, "0")
	if form == first || strings.Trim(form, "0.,:%") == "" {
		return "" // without a number, or nothing but one
	}
	return strings.ToLower(form)
}

// foldSeries makes one story of each series, led by the item that seems to matter most. What several feeds tell stays a
// story of its own.
func foldSeries(stories []story) []story {
	series := map[[2]string][]int{}
	for n, st := range stories {
		if key := st.seriesKey(); key != "" && len(st.also) == 0 && !st.feed.NoMerge {
			series[[2]string{st.feed.URL, key}] = append(series[[2]string{st.feed.URL, key}], n)
		}
	}
	folded := map[int]bool{}
	for _, list := range series {
		if len(list) < minSeries {
			continue
		}
		slices.SortStableFunc(list, func(a, b int) int {
			return cmp.Compare(stories[b].guessWorth(), stories[a].guessWorth())
		})
		lead := &stories[list[0]]
		for _, n := range list[1:] {
			i := stories[n].item
			i.verdict, i.reason = "merged into "+lead.Heading(), "one of a series"
			lead.series = append(lead.series, i)
			folded[n] = true
		}
	}
	var left []story
	for n, st := range stories {
		if !folded[n] {
			left = append(left, st)
		}
	}
	return left
}

// maxSeriesNames is how many items of a severity are named.
const maxSeriesNames = 3

// seriesLine says how many items a series has and names the worst of them, as plain text. It is empty for other stories.
func (st story) seriesLine() string {
	if len(st.series) == 0 {
		return ""
	}
	names := map[string][]string{}
	counts := map[string]int{}
	for _, i := range append([]*item{st.item}, st.series...) {
		severity, _ := i.severity()
		if counts[severity]++; severity != "" {
			names[severity] = append(names[severity], i.seriesName())
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("%d more like it today.", len(st.series))
	}
	var parts []string
	rest := len(st.series) + 1
	for _, severity := range []string{"critical", "high"} {
		n := counts[severity]
		if rest -= n; n > 0 {
			list := strings.Join(names[severity][:min(n, maxSeriesNames)], ", ")
			if n > maxSeriesNames {
				list += ", …"
			}
			parts = append(parts, fmt.Sprintf("%d %s (%s)", n, severity, list))
		}
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%d lower", rest))
	}
	return fmt.Sprintf("%d advisories: %s.", len(st.series)+1, strings.Join(parts, ", "))
}

// seriesName returns what an item of a series is about: its title without identifier and severity.
func (i *item) seriesName() string {
	name := severityLabel().ReplaceAllString(leadingLabel().ReplaceAllString(i.Heading(), ""), "")
	if before, after, ok := strings.Cut(name, ": "); ok {
		if name = before; digitRun().MatchString(before) { // an identifier
			name = after
		}
	}
	return shorten(name, 40)
}
