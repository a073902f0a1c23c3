package schedule

import (
	"math"
	"time"
)

const day = 24 * time.Hour

// All values of a field, as bits.
const (
	allMinutes  uint64 = 1<<60 - 1
	allHours    uint64 = 1<<24 - 1
	allDates    uint64 = 1<<32 - 2
	allMonths   uint64 = 1<<13 - 2
	allWeekdays uint64 = 1<<7 - 1
)

// rule is a set of wall times: those whose fields are among the bits, and that its other fields allow.
type rule struct {
	// The sets of values of the five fields; bit n stands for the value n. Sunday is 0.
	minute uint64
	hour   uint64
	dom    uint64
	month  uint64
	dow    uint64
	// weeks says which of a month's weekdays count: bit n for the nth, bit 0 for the last. No bit: all of them.
	weeks uint32
	// pooled says that weeks counts all days of dow together: the first business day of a month is one date, the
	// first Monday and the first Tuesday are two.
	pooled bool
	// lastDate says that the last date of a month counts in addition to those of dom.
	lastDate bool
	// anyDay says that one of the two day fields starts with "*": then both must match, otherwise one is enough
	// (crontab(5)).
	anyDay bool
	// named is the weekday that stands beside a date, as in "friday the 4th". It restricts nothing.
	named uint64
	// elapsed says that hours are counted by a stopwatch and not by the wall clock.
	elapsed bool
	// interval is the number of minutes between two runs that are no whole number of hours apart: those minutes of
	// the day count that it divides. 0: hour and minute decide.
	interval int
	// everyDays and everyWeeks say that only every nth date or week counts, from start on. 0: all of them.
	everyDays, everyWeeks int
	// start is the first date, in days since 1970; 0: there is none, and everyDays counts from then.
	start int
	// end is the last date, in days since 1970; 0: there is none.
	end int
}

// next returns the first due instant after the given one, and false when there is none within the horizon.
func (r rule) next(after time.Time, zone *time.Location) (time.Time, bool) {
	if r.elapsed {
		return r.nextElapsed(after, zone)
	}
	return r.nextOnWall(after, zone)
}

// nextOnWall walks the wall times of the rule. First passes of ascending wall times are ascending instants, so the first
// one that is late enough is the result.
func (r rule) nextOnWall(after time.Time, zone *time.Location) (time.Time, bool) {
	limit := after.AddDate(horizonYears, 0, 0)
	// A wall time in a gap is due at the gap's end, up to a day later (Samoa left out a whole day).
	wall := wallTime(after.In(zone))
	if change, _, _ := offsetPeriod(after.In(zone)); change.After(after.Add(-26 * time.Hour)) {
		wall = wall.Add(-26 * time.Hour)
	}
	for stop := wallTime(limit.In(zone)).Add(day); ; {
		var ok bool
		if wall, ok = r.nextWall(wall, stop); !ok {
			return time.Time{}, false
		}
		if due := firstPass(wall, zone); due.After(after) {
			return due, !due.After(limit)
		}
	}
}

// firstPass returns the first instant at which clocks show the wall time (written as if it were UTC), or the end of the
// gap that it falls into. It walks the periods between two changes of the zone's offset, mostly one or two.
func firstPass(wall time.Time, zone *time.Location) time.Time {
	probe := wall.Add(-26 * time.Hour).In(zone) // before any instant of that wall time
	for {
		start, end, shift := offsetPeriod(probe)
		at := wall.Add(-shift)
		// Within a period of constant offset the wall time is at one place: before it is a gap, behind it the next
		// period is tried.
		switch {
		case !start.IsZero() && at.Before(start):
			return start.In(zone)
		case end.IsZero() || at.Before(end):
			return at.In(zone)
		}
		probe = end.In(zone)
	}
}

// nextElapsed walks the periods of constant offset; within one of them wall time is elapsed time.
func (r rule) nextElapsed(after time.Time, zone *time.Location) (time.Time, bool) {
	limit := after.AddDate(horizonYears, 0, 0)
	for probe := after.In(zone); probe.Before(limit); {
		_, end, shift := offsetPeriod(probe)
		stop := limit
		if !end.IsZero() && end.Before(limit) {
			stop = end
		}
		if wall, ok := r.nextWall(probe.UTC().Add(shift), stop.UTC().Add(shift)); ok {
			return wall.Add(-shift).In(zone), true
		}
		if end.IsZero() {
			break
		}
		probe = end.In(zone) // an instant exactly at the change counts too
		if wall := wallTime(probe); r.matchesMinute(wall) {
			return probe, !probe.After(limit)
		}
	}
	return time.Time{}, false
}

// nextWall returns the first matching wall time in (after, stop).
func (r rule) nextWall(after, stop time.Time) (time.Time, bool) {
	wall := after.Truncate(time.Minute).Add(time.Minute)
	for wall.Before(stop) {
		switch {
		case !r.matchesDate(wall):
			wall = dateOf(wall).Add(day)
		case r.interval > 0 && (wall.Hour()*60+wall.Minute())%r.interval != 0:
			wall = wall.Add(time.Minute)
		case r.hour&(1<<wall.Hour()) == 0:
			wall = wall.Truncate(time.Hour).Add(time.Hour)
		case r.minute&(1<<wall.Minute()) == 0:
			wall = wall.Add(time.Minute)
		default:
			return wall, true
		}
	}
	return time.Time{}, false
}

// matchesMinute reports whether the rule is due when clocks show a time.
func (r rule) matchesMinute(wall time.Time) bool {
	return wall.Second() == 0 && r.matchesDate(wall) && r.hour&(1<<wall.Hour()) != 0 &&
		r.minute&(1<<wall.Minute()) != 0 && (r.interval == 0 || (wall.Hour()*60+wall.Minute())%r.interval == 0)
}

// matchesDate reports whether the rule is due at any time of a date.
func (r rule) matchesDate(date time.Time) bool {
	if r.month&(1<<int(date.Month())) == 0 || !r.matchesCycle(dayNumber(date)) {
		return false
	}
	// The last day counts beside the numbers: "on the 15th and the last".
	dom := r.dom&(1<<date.Day()) != 0 || r.lastDate && date.Day() == daysIn(date)
	dow := r.dow&(1<<int(date.Weekday())) != 0 && r.matchesWeek(date)
	// crontab(5): two restricted day fields are joined by "or".
	if r.anyDay {
		return dom && dow
	}
	return dom || dow
}

// matchesCycle reports whether a date, in days since 1970, is one of every nth date or week since the start.
func (r rule) matchesCycle(date int) bool {
	switch {
	case r.start != 0 && date < r.start, r.end != 0 && date > r.end:
		return false
	case r.everyDays > 0:
		return (date-r.start)%r.everyDays == 0
	case r.everyWeeks > 0:
		return (weekNumber(date)-weekNumber(r.start))%r.everyWeeks == 0
	}
	return true
}

// dayNumber returns the days from 1 January 1970 to a date that is written as if it were UTC.
func dayNumber(date time.Time) int { return int(math.Floor(float64(date.Unix()) / 86400)) }

// weekNumber returns the weeks, which begin on Monday, from the one of 1 January 1970, a Thursday.
func weekNumber(date int) int { return int(math.Floor(float64(date+3) / 7)) }

// matchesWeek reports whether a date is one of the nth or last weekdays that the rule names.
func (r rule) matchesWeek(date time.Time) bool {
	if r.weeks == 0 {
		return true
	}
	nth, last := (date.Day()+6)/7, date.Day()+7 > daysIn(date)
	if r.pooled {
		nth = r.countDays(date, 1, date.Day())
		last = r.countDays(date, date.Day()+1, daysIn(date)) == 0
	}
	return r.weeks&(1<<nth) != 0 || r.weeks&1 != 0 && last
}

// countDays returns how many dates of a month, from one to another, are weekdays of the rule.
func (r rule) countDays(month time.Time, from, to int) (n int) {
	for d := from; d <= to; d++ {
		weekday := (int(month.Weekday()) + d - month.Day() + 35) % 7
		n += int(r.dow >> weekday & 1)
	}
	return n
}

// daysIn returns how many days the month of a date has.
func daysIn(date time.Time) int {
	return time.Date(date.Year(), date.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// dateOf returns midnight of the time's own date, written as if it were UTC.
func dateOf(t time.Time) time.Time {
	year, month, d := t.Date()
	return time.Date(year, month, d, 0, 0, 0, 0, time.UTC)
}

// offsetPeriod returns the period around t with the same offset from UTC. A zero bound is open. Two periods in a row
// may have the same offset.
func offsetPeriod(t time.Time) (start, end time.Time, shift time.Duration) {
	_, offset := t.Zone()
	start, end = t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		// Bug in the standard library, seen 2026-11:
		// Go 1.26 ends a year of a recurring rule after 365 days, leap year or not.
		end = t.Truncate(day).Add(day)
	}
	return start, end, time.Duration(offset) * time.Second
}

// wallTime returns what the clock shows at t, written as if it were UTC.
func wallTime(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}
