package schedule

import (
	"math/bits"
	"time"
)

const day = 24 * time.Hour

// nextOnWall walks the local dates. First passes of ascending wall times are
// ascending instants, so the first one that is late enough is the answer.
func (s Schedule) nextOnWall(after time.Time) (time.Time, bool) {
	// A wall time in a gap fires after its own date's other times and possibly on
	// a later date (Samoa left out a whole day), so start two dates back.
	date := dateOf(after.In(s.zone)).Add(-2 * day)
	for end := date.AddDate(horizonYears, 0, 3); date.Before(end); date = date.Add(day) {
		if !s.matchesDate(date) {
			continue
		}
		for hours := s.hour & (1<<24 - 1); hours != 0; hours &= hours - 1 {
			hour := time.Duration(bits.TrailingZeros64(hours)) * time.Hour
			if s.firstPass(date.Add(hour + 59*time.Minute)).After(after) {
				if due, ok := s.inHour(date.Add(hour), after); ok {
					return due, !due.After(after.AddDate(horizonYears, 0, 0))
				}
			}
		}
	}
	return time.Time{}, false
}

func (s Schedule) inHour(hour, after time.Time) (time.Time, bool) {
	for minutes := s.minute & (1<<60 - 1); minutes != 0; minutes &= minutes - 1 {
		due := s.firstPass(hour.Add(time.Duration(bits.TrailingZeros64(minutes)) * time.Minute))
		if due.After(after) {
			return due, true
		}
	}
	return time.Time{}, false
}

// firstPass is the first instant at which clocks show the wall time (written as
// if it were UTC), or the end of the gap that swallows it.
func (s Schedule) firstPass(wall time.Time) time.Time {
	probe := wall.Add(-26 * time.Hour).In(s.zone) // before any instant of that wall time
	for {
		start, end, shift := stretch(probe)
		at := wall.Add(-shift)
		switch {
		case !start.IsZero() && at.Before(start):
			return start.In(s.zone)
		case end.IsZero() || at.Before(end):
			return at.In(s.zone)
		}
		probe = end.In(s.zone)
	}
}

// nextElapsed walks the stretches of constant offset; within one of them wall
// time is elapsed time.
func (s Schedule) nextElapsed(after time.Time) (time.Time, bool) {
	limit := after.AddDate(horizonYears, 0, 0)
	for probe := after.In(s.zone); probe.Before(limit); {
		_, end, shift := stretch(probe)
		stop := limit
		if !end.IsZero() && end.Before(limit) {
			stop = end
		}
		if wall, ok := s.nextWall(probe.UTC().Add(shift), stop.UTC().Add(shift)); ok {
			return wall.Add(-shift).In(s.zone), true
		}
		if end.IsZero() {
			break
		}
		probe = end.In(s.zone) // an instant exactly at the change counts too
		if wall := wallOf(probe); s.matchesMinute(wall) {
			return probe, !probe.After(limit)
		}
	}
	return time.Time{}, false
}

// nextWall is the first matching wall time in (after, stop).
func (s Schedule) nextWall(after, stop time.Time) (time.Time, bool) {
	wall := after.Truncate(time.Minute).Add(time.Minute)
	for wall.Before(stop) {
		switch {
		case !s.matchesDate(wall):
			wall = dateOf(wall).Add(day)
		case s.hour&(1<<wall.Hour()) == 0:
			wall = wall.Truncate(time.Hour).Add(time.Hour)
		case s.minute&(1<<wall.Minute()) == 0:
			wall = wall.Add(time.Minute)
		default:
			return wall, true
		}
	}
	return time.Time{}, false
}

func (s Schedule) matchesMinute(wall time.Time) bool {
	return wall.Second() == 0 && s.matchesDate(wall) && s.hour&(1<<wall.Hour()) != 0 && s.minute&(1<<wall.Minute()) != 0
}

func (s Schedule) matchesDate(date time.Time) bool {
	if s.month&(1<<int(date.Month())) == 0 {
		return false
	}
	dom := s.dom&(1<<date.Day()) != 0
	dow := s.dow&(1<<int(date.Weekday())) != 0
	if s.anyDay {
		return dom && dow
	}
	return dom || dow
}

// dateOf is midnight of the time's own date, written as if it were UTC.
func dateOf(t time.Time) time.Time {
	year, month, d := t.Date()
	return time.Date(year, month, d, 0, 0, 0, 0, time.UTC)
}

// stretch is the time around t during which the offset from UTC stays what it is
// at t; a zero bound is open. Two stretches in a row may have the same offset.
func stretch(t time.Time) (start, end time.Time, shift time.Duration) {
	_, offset := t.Zone()
	start, end = t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		// Go 1.26 ends a year of a recurring rule after 365 days, leap year or not.
		end = t.Truncate(day).Add(day)
	}
	return start, end, time.Duration(offset) * time.Second
}

// wallOf is what the clock shows at t, written as if it were UTC.
func wallOf(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}
