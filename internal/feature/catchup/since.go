package catchup

import (
	"fmt"
	"strings"
	"time"

	"ravenbot/internal/news/schedule"
)

// sinceExamples are the examples in refusals.
const sinceExamples = "say for example 3 hours, 2 days, today, yesterday, yesterday at 14:00 or monday"

// parseSince parses a period: "3 hours", "today", "monday", "yesterday at 14:00". It returns zero for an empty text,
// and an error for an unknown or too long period.
func parseSince(words string, now time.Time) (time.Time, error) {
	words = strings.ToLower(strings.TrimSpace(words))
	words = strings.TrimSpace(strings.TrimPrefix(words, "since "))
	if words == "" {
		return time.Time{}, nil
	}
	since, err := parseDay(words, now)
	if err != nil {
		// "3 hours" is as long ago as "in 3 hours" is ahead.
		amount := strings.TrimSuffix(strings.TrimPrefix(words, "last "), " ago")
		ahead, aheadErr := schedule.ParseTime("in "+amount, now.Location(), now)
		if aheadErr != nil {
			return time.Time{}, fmt.Errorf("it is not clear when %q was; %s", words, sinceExamples)
		}
		since = now.Add(now.Sub(ahead))
	}
	switch {
	case !since.Before(now):
		return time.Time{}, fmt.Errorf("%q is not over yet; %s", words, sinceExamples)
	case now.Sub(since) > maxPeriod:
		return time.Time{}, fmt.Errorf("%q is more than %d days ago, which is too long; %s",
			words, int(maxPeriod.Hours()/24), sinceExamples)
	}
	return since, nil
}

// parseDay reads "today", "yesterday" or a weekday, and perhaps a time of it.
func parseDay(words string, now time.Time) (time.Time, error) {
	word, clock, hasClock := strings.Cut(words, " at ")
	back := -1
	switch word {
	case "today", "this morning":
		back = 0
	case "yesterday":
		back = 1
	default:
		for d := range 7 {
			// Today's weekday means a week ago, because people say "today" for today.
			day := strings.ToLower(now.AddDate(0, 0, -d-1).Weekday().String())
			if word == day || word == "last "+day {
				back = d + 1
			}
		}
	}
	if back < 0 {
		return time.Time{}, fmt.Errorf("%q is not a day", word)
	}
	year, month, day := now.AddDate(0, 0, -back).Date()
	if !hasClock {
		return time.Date(year, month, day, 0, 0, 0, 0, now.Location()), nil
	}
	// The time of a day is read as of that day, seen from the end of the one before it.
	eve := time.Date(year, month, day, 0, 0, 0, 0, now.Location()).Add(-time.Minute)
	return schedule.ParseTime("at "+clock, now.Location(), eve)
}
