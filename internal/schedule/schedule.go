// Package schedule computes when something is due by the wall clock, and runs jobs at those instants.
//
// It promises that a schedule is due exactly once for every local time it names: a time inside a daylight-saving gap
// is due once, at the gap's end; a time that occurs twice is due at its first pass. Only an hour field of "*" or
// "*/n", and words such as "every 2 hours", follow elapsed time instead, so that an hourly job also runs in the
// repeated hour. The package holds the time zone database, so results do not depend on the machine.
//
// What a job does, and remembering which instants were done, are left to the caller.
//
// Every way of writing a schedule ends in rules (wall.go), sets of wall times as bits; a schedule is due whenever one
// of its rules is. Cron fields are such sets already (cron.go). Words are divided into words.go's tokens, read part by
// part into a sentence (sentence.go, days.go, clock.go, date.go), and a sentence is turned into rules (rules.go), which
// refuses whatever may mean two things. A time that is due once has a parser of its own over the same parts (once.go,
// amount.go). Parsers hold the words that are left: a method that begins with accept consumes what it finds, and puts
// back what it does not.
//
// Loop (loop.go) is one goroutine that looks at the clock at least every 30 seconds and computes from the wall time,
// never from a timer, which instants have passed.
package schedule

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the same zones on every machine, also in an empty container
)

// horizonYears is how far ahead Next looks before it reports that nothing is due: 29 February on a certain weekday
// comes back after 28 years, but for the turn of a century.
const horizonYears = 30

// Schedule is a parsed expression in a time zone. It is a value, safe for
// concurrent use. The zero Schedule is never due.
type Schedule struct {
	expr  string
	zone  *time.Location
	rules []rule    // the schedule is due whenever any of them is
	once  time.Time // the one instant of a schedule without rules
}

// Parse reads when something is due: a five-field cron expression (minute, hour, day of month, month, day of week), one
// of @yearly, @monthly, @weekly, @daily and @hourly, or plain English such as "weekdays at 8:30", "every monday and
// thursday at 9am", "first monday of the month at 9", "every other tuesday at 9" and "every 2 hours". In cron, months
// and weekdays may be English three-letter names; Sunday is 0 or 7. Words may name the zone ("9 Oslo time"), which
// otherwise is the given one; nil: UTC. The error names the field or the word that is wrong. That the schedule is ever
// due is not checked: see Next.
func Parse(expr string, zone *time.Location) (Schedule, error) {
	if zone == nil {
		zone = time.UTC
	}
	text := strings.TrimSpace(expr)
	// robfig/cron would accept the prefix and silently override the zone that was configured.
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return Schedule{}, fmt.Errorf(
			"schedule %q: the time zone has its own setting and is not part of the expression",
			expr,
		)
	}
	var rules []rule
	var err error
	if isCron(text) {
		rules, err = parseCron(text)
	} else {
		var named *time.Location
		if rules, named, err = parseWords(text); named != nil {
			zone = named
		}
	}
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %q: %w", expr, err)
	}
	return Schedule{expr: text, zone: zone, rules: rules}, nil
}

// At returns a schedule that is due once, and shown in the zone of the time.
func At(t time.Time) Schedule {
	return Schedule{expr: t.Format(time.RFC3339), zone: t.Location(), once: t}
}

// String returns the expression as it was given.
func (s Schedule) String() string { return s.expr }

// Zone returns the time zone that the expression is read in. It returns UTC for the zero Schedule.
func (s Schedule) Zone() *time.Location {
	if s.zone == nil {
		return time.UTC
	}
	return s.zone
}

// isSame reports whether two schedules are written the same way in the same zone.
func (s Schedule) isSame(o Schedule) bool {
	return s.expr == o.expr && s.Zone().String() == o.Zone().String()
}

// Next returns the first due instant after the given one, which itself does not count, in the schedule's zone. It
// returns false when nothing is due within 30 years.
func (s Schedule) Next(after time.Time) (first time.Time, found bool) {
	if s.once.After(after) {
		return s.once, true
	}
	for _, r := range s.rules {
		due, ok := r.next(after, s.zone)
		if ok && (!found || due.Before(first)) {
			first, found = due, true
		}
	}
	return first, found
}

// Latest returns the last due instant in (after, until], and false when there is none. Its work does not grow with
// the distance between the two.
func (s Schedule) Latest(after, until time.Time) (time.Time, bool) {
	// Look back over growing windows: most schedules are due in the first one. Nine years cover 29 February across a
	// century year that is not a leap year.
	for _, window := range []time.Duration{time.Hour, 36 * time.Hour, 62 * 24 * time.Hour, 9 * 366 * 24 * time.Hour} {
		from := until.Add(-window)
		if !from.After(after) {
			break
		}
		if due, ok := s.lastDue(from, until); ok {
			return due, true
		}
	}
	return s.lastDue(after, until)
}

// lastDue walks all due instants in (after, until] and returns the last one.
func (s Schedule) lastDue(after, until time.Time) (last time.Time, found bool) {
	for {
		due, ok := s.Next(after)
		if !ok || due.After(until) {
			return last, found
		}
		last, found, after = due, true, due
	}
}
