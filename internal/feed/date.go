package feed

import (
	"strings"
	"time"
)

// dateLayouts are the layouts that gofeed does not try, or tries only for some elements.
var dateLayouts = []string{
	time.RFC3339, time.RFC1123Z, time.RFC1123, time.RFC850, time.RFC822Z, time.RFC822, time.ANSIC,
	"Mon, 2 Jan 2006 15:04:05 -0700", "Mon, 2 Jan 2006 15:04:05 MST", "2 Jan 2006 15:04:05 -0700",
	"2 Jan 2006 15:04:05 MST",
	"2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", "Mon, Jan 2 2006 03:04:05 PM",
	"2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05", "2006-01-02 15:04",
	time.DateOnly, "2006-01", "2006", "20060102", "02.01.2006", "January 2, 2006",
}

// parseDate reads a date as feeds write them. It returns the zero time when it knows no layout that fits.
func parseDate(text string) time.Time {
	text = oneLine(text)
	if text == "" || len(text) > 64 {
		return time.Time{}
	}
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t
		}
	}
	if _, after, found := strings.Cut(text, ", "); found { // a weekday in another language
		return parseDate(after)
	}
	return time.Time{}
}
