package jobs

import (
	"fmt"
	"strings"
	"time"
)

// QuietHours are a part of the day in which repeating jobs post nothing. The zero value means no quiet hours.
type QuietHours struct {
	from, to time.Duration // since midnight
}

// ParseQuietHours parses "22:00-07:00". An empty text means no quiet hours. The end itself is not quiet, and hours can
// cross midnight.
func ParseQuietHours(s string) (QuietHours, error) {
	if s == "" {
		return QuietHours{}, nil
	}
	from, to, ok := strings.Cut(s, "-")
	begin, err := time.Parse("15:04", strings.TrimSpace(from))
	end, endErr := time.Parse("15:04", strings.TrimSpace(to))
	if !ok || err != nil || endErr != nil || begin.Equal(end) {
		return QuietHours{}, fmt.Errorf("%q is not a part of a day: want two times, such as 22:00-07:00", s)
	}
	return QuietHours{sinceMidnight(begin), sinceMidnight(end)}, nil
}

// end returns the end of the quiet hours around a time, by the clock of its zone, or the time itself if it is not
// quiet.
func (q QuietHours) end(at time.Time) time.Time {
	now := sinceMidnight(at)
	days := 0
	switch {
	case q.from < q.to && now >= q.from && now < q.to, q.from > q.to && now < q.to:
	case q.from > q.to && now >= q.from:
		days = 1
	default:
		return at
	}
	year, month, day := at.Date()
	// In a night in which clocks change, what the clock shows counts and not the hours that pass.
	return time.Date(year, month, day+days, 0, int(q.to/time.Minute), 0, 0, at.Location())
}

// sinceMidnight returns what a clock shows as a duration.
func sinceMidnight(t time.Time) time.Duration {
	return time.Duration(t.Hour()*3600+t.Minute()*60+t.Second()) * time.Second
}
