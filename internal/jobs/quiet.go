package jobs

import (
	"fmt"
	"strings"
	"time"
)

// QuietHours are a part of the day in which repeating jobs post nothing. The zero value is none.
type QuietHours struct {
	from, to time.Duration // since midnight
}

// ParseQuietHours reads "22:00-07:00"; empty: there are none. The end itself is not quiet; hours may go over midnight.
func ParseQuietHours(s string) (QuietHours, error) {
	if s == "" {
		return QuietHours{}, nil
	}
	from, to, ok := strings.Cut(s, "-")
	begin, err := time.Parse("15:04", strings.TrimSpace(from))
	end, endErr := time.Parse("15:04", strings.TrimSpace(to))
	if !ok || err != nil || endErr != nil || begin.Equal(end) {
		return QuietHours{}, fmt.Errorf("%q is no part of a day: want two times, such as 22:00-07:00", s)
	}
	return QuietHours{sinceMidnight(begin), sinceMidnight(end)}, nil
}

// remaining returns how long it stays quiet, by the clock of a time; 0: it is not quiet.
func (q QuietHours) remaining(at time.Time) time.Duration {
	now := sinceMidnight(at)
	switch {
	case q.from < q.to && now >= q.from && now < q.to:
		return q.to - now
	case q.from > q.to && now >= q.from:
		return 24*time.Hour - now + q.to
	case q.from > q.to && now < q.to:
		return q.to - now
	}
	return 0
}

// sinceMidnight returns what the clock shows as a duration; where clocks change that day, another one has passed.
func sinceMidnight(t time.Time) time.Duration {
	return time.Duration(t.Hour()*3600+t.Minute()*60+t.Second()) * time.Second
}
