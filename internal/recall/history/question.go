package history

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/text"
	"ravenbot/internal/recall/search"
)

// question is what a query asks for beside its words.
type question struct {
	text    string
	answers func(text string) bool // a text may answer it, by its kind
	// sayers are the authors whose words are asked for ("what did Anna say"), named the others that the query names.
	sayers, named []string
	from, to      time.Time // when it was said; zero: any time
}

// parseQuestion returns what a query asks for among the messages of some authors. Times in it are read in the zone of
// now. A word that names an author and means something else only makes that author's messages count more.
func parseQuestion(query string, authors []string, now time.Time) question {
	q := question{text: query, answers: search.Answers(query)}
	words := slices.Collect(search.Words(query))
	for _, author := range authors {
		at := indexOfName(words, author)
		switch {
		case at < 0:
		case isSaying(words, at):
			q.sayers = append(q.sayers, author)
		default:
			q.named = append(q.named, author)
		}
	}
	q.from, q.to = parseRange(strings.ToLower(query), now)
	return q
}

// indexOfName returns where words name an author, by their whole name or one part of it, or -1.
func indexOfName(words []string, author string) int {
	for part := range search.Words(author) {
		if len(part) < 2 {
			continue
		}
		if i := slices.Index(words, part); i >= 0 {
			return i
		}
	}
	return -1
}

// sayingVerbs are verbs by which a query asks for somebody's own words.
var sayingVerbs = []string{"say", "said", "says", "write", "wrote", "written", "mention", "mentioned", "tell", "told",
	"announce", "announced", "report", "reported", "ask", "asked", "think", "thought", "suggest", "suggested", "propose",
	"proposed", "answer", "answered", "promise", "promised", "post", "posted", "share", "shared", "object", "complain"}

// isSaying reports whether a verb of saying stands near the name at a place of the query.
func isSaying(words []string, at int) bool {
	near := words[max(0, at-3):min(len(words), at+4)]
	return slices.ContainsFunc(near, func(w string) bool { return slices.Contains(sayingVerbs, w) })
}

// months are the names of the months, as alternatives of a pattern.
const months = "january|february|march|april|may|june|july|august|september|october|november|december"

var (
	// Ways in which a query names days; parseRange tries them in this order.
	dayMonth   = text.Pattern(`\b(\d{1,2})(?:st|nd|rd|th)?(?: of)? (` + months + `)(?: (\d{4}))?\b`)
	monthDay   = text.Pattern(`\b(` + months + `) (\d{1,2})(?:st|nd|rd|th)?(?:,? (\d{4}))?\b`)
	partMonth  = text.Pattern(`\b(?:(beginning|start|middle|end) of |in |during )(` + months + `)(?: (\d{4}))?\b`)
	isoDay     = text.Pattern(`\b(\d{4})-(\d{2})-(\d{2})\b`)
	agoPattern = text.Pattern(`\b(a|an|one|two|three|four|five|six|\d{1,3}) (day|week|month|year)s? ago\b`)
	onWeekday  = text.Pattern(`\b(?:on|last) (monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b`)
)

// parseRange returns when something was said according to a query in lower case: from is inclusive, to is not. Both
// are zero where the query names no time. A year that is not named is the newest for which the time is not in the
// future.
func parseRange(query string, now time.Time) (from, to time.Time) {
	if _, after, ok := strings.Cut(query, "since "); ok {
		for _, word := range []string{"in ", "on "} { // "since june", "since monday"
			if from, _ := parseSpan(word+after, now); !from.IsZero() {
				return from, time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, now.Location())
			}
		}
	}
	return parseSpan(query, now)
}

// parseSpan is parseRange for times that end by themselves.
func parseSpan(query string, now time.Time) (from, to time.Time) {
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	days := func(from time.Time, n int) (time.Time, time.Time) { return from, from.AddDate(0, 0, n) }
	monday := today.AddDate(0, 0, -(int(today.Weekday())+6)%7)
	date := func(year, month, day string) time.Time {
		m := time.Month(1 + slices.Index(strings.Split(months, "|"), month))
		d, _ := strconv.Atoi(day)
		if y, err := strconv.Atoi(year); err == nil {
			return time.Date(y, m, d, 0, 0, 0, 0, now.Location())
		}
		at := time.Date(now.Year(), m, d, 0, 0, 0, 0, now.Location())
		if at.After(now) {
			at = at.AddDate(-1, 0, 0)
		}
		return at
	}
	if m := isoDay().FindString(query); m != "" {
		if at, err := time.ParseInLocation(time.DateOnly, m, now.Location()); err == nil {
			return days(at, 1)
		}
	}
	if m := dayMonth().FindStringSubmatch(query); m != nil {
		return days(date(m[3], m[2], m[1]), 1)
	}
	if m := monthDay().FindStringSubmatch(query); m != nil {
		return days(date(m[3], m[1], m[2]), 1)
	}
	if m := partMonth().FindStringSubmatch(query); m != nil {
		first := date(m[3], m[2], "1")
		switch m[1] {
		case "beginning", "start":
			return days(first, 11)
		case "middle":
			return days(first.AddDate(0, 0, 9), 12)
		case "end":
			return first.AddDate(0, 0, 19), first.AddDate(0, 1, 0)
		}
		return first, first.AddDate(0, 1, 0)
	}
	if m := agoPattern().FindStringSubmatch(query); m != nil {
		return agoRange(today, m[1], m[2])
	}
	if m := onWeekday().FindStringSubmatch(query); m != nil {
		at := today.AddDate(0, 0, -1)
		for strings.ToLower(at.Weekday().String()) != m[1] {
			at = at.AddDate(0, 0, -1)
		}
		return days(at, 1)
	}
	switch {
	case strings.Contains(query, "yesterday"):
		return days(today.AddDate(0, 0, -1), 1)
	case strings.Contains(query, "today"):
		return days(today, 1)
	case strings.Contains(query, "this week"):
		return days(monday, 7)
	case strings.Contains(query, "last week"):
		return days(monday.AddDate(0, 0, -7), 7)
	case strings.Contains(query, "last month"):
		first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, now.Location())
		return first.AddDate(0, -1, 0), first
	case strings.Contains(query, "last year"):
		first := time.Date(now.Year(), 1, 1, 0, 0, 0, 0, now.Location())
		return first.AddDate(-1, 0, 0), first
	}
	return time.Time{}, time.Time{}
}

// agoRange returns the days around a time that is some days, weeks, months or years ago.
func agoRange(today time.Time, count, unit string) (from, to time.Time) {
	n, err := strconv.Atoi(count)
	if err != nil {
		n = max(1, slices.Index([]string{"", "one", "two", "three", "four", "five", "six"}, count))
	}
	switch unit {
	case "day":
		return today.AddDate(0, 0, -n), today.AddDate(0, 0, 1-n)
	case "week":
		return today.AddDate(0, 0, -7*n-3), today.AddDate(0, 0, 4-7*n)
	case "month":
		return today.AddDate(0, -n, -15), today.AddDate(0, -n, 16)
	}
	return today.AddDate(-n, -3, 0), today.AddDate(-n, 3, 0)
}

// isIn reports whether a time is in the range of the question. It reports false where the question has none.
func (q question) isIn(at time.Time) bool {
	return !q.from.IsZero() && !at.Before(q.from) && at.Before(q.to)
}
