// Package schedule computes due times by the wall clock, and runs jobs at those times.
//
// It promises that a schedule is due exactly once for every local time it names. A time inside a daylight-saving gap
// is due once, at the end of the gap. A time that occurs twice is due at its first occurrence. Only an hour field of
// "*" or "*/n", and words such as "every 2 hours", follow elapsed time, so that an hourly job also runs in the
// repeated hour. The package embeds the time zone database, so results do not depend on the machine.
//
// The caller does the work of a job and remembers the completed due times.
//
// Every form of a schedule becomes a set of rules (wall.go), which are sets of wall times as bits. A schedule is due
// whenever one of its rules is. Cron fields already are such sets (cron.go). words.go splits words into tokens, which
// the parser reads part by part into sentences (phrase.go, sentence.go, days.go, clock.go, date.go, amount.go). A
// sentence becomes rules (rules.go) or one time (once.go); ambiguous sentences are refused. The parser holds the
// remaining words: a method that begins with accept consumes the words it recognizes, and puts back the others.
//
// Loop (loop.go) is one goroutine that reads the clock at least every 30 seconds and computes the times that have
// passed from the wall time, never from a timer.
package schedule

import (
	"cmp"
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
	text, zone := strings.TrimSpace(expr), cmp.Or(zone, time.UTC)
	// robfig/cron would accept the prefix and silently override the zone that was configured.
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return Schedule{}, fmt.Errorf("schedule %q: the time zone has its own setting and is not part of the expression", expr)
	}
	if isCron(text) {
		rules, err := parseCron(text)
		if err != nil {
			return Schedule{}, fmt.Errorf("schedule %q: %w", expr, err)
		}
		return Schedule{expr: text, zone: zone, rules: rules}, nil
	}
	p, err := parsePhrase(text, zone, time.Time{}, false)
	return p.schedule(expr, err)
}

// ParseTime reads when something is due once: "in 20 minutes", "tomorrow at noon", "friday at 9", "next monday at 9",
// "24 December 18:00", "2026-12-24 18:00" or RFC 3339. Days and times are those of the zone (nil: UTC) unless the words
// name another ("9 Oslo time"). Without a year or a day the next such time after now is meant. It returns an error for
// what is past, may mean two times, or was not understood as a whole.
func ParseTime(text string, zone *time.Location, now time.Time) (time.Time, error) {
	if due, ok := parseTimestamp(text); ok {
		return checkDue(text, due, now, nil)
	}
	p, err := parsePhrase(text, cmp.Or(zone, time.UTC), now, false)
	return p.time(text, err)
}

// checkDue returns the one time that a text means, or an error if it is not to come soon.
func checkDue(text string, due, now time.Time, err error) (time.Time, error) {
	switch {
	case err != nil:
	case !due.After(now):
		err = fmt.Errorf("%s is past", due.Format("Mon 2 Jan 2006 15:04 MST"))
	case due.Sub(now) > maxAhead:
		err = errTooFar
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("time %q: %w; examples: %s", strings.TrimSpace(text), err, onceExamples)
	}
	return due, nil
}

// parseTimestamp reads RFC 3339, with or without seconds.
func parseTimestamp(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		// RFC 3339 (5.6) allows "t" and "z", which package time does not read.
		if t, err := time.Parse(layout, strings.ToUpper(strings.TrimSpace(text))); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// ParseNext reads a schedule or, where the words are none, one time: "friday at 9" is every Friday. A first or last day
// such as "until january" is counted from now. The error is that of the form that was meant.
func ParseNext(text string, zone *time.Location, now time.Time) (Schedule, error) {
	return parseEither(text, cmp.Or(zone, time.UTC), now, false)
}

// ParseReminder is ParseNext for what people ask to be reminded of: it reads one time where nothing says that it is
// repeated, so that "friday at 9" is the next Friday. It refuses "at 5" without "am" or "pm" in zones where people count
// the hours to twelve, and a bare number.
func ParseReminder(text string, zone *time.Location, now time.Time) (Schedule, error) {
	return parseEither(text, cmp.Or(zone, time.UTC), now, true)
}

// parseEither reads one time or a schedule.
func parseEither(text string, zone *time.Location, now time.Time, isReminder bool) (Schedule, error) {
	text = strings.TrimSpace(text)
	if due, ok := parseTimestamp(text); ok {
		due, err := checkDue(text, due.In(zone), now, nil)
		return At(due), err
	}
	if isCron(text) && !isReminder || strings.Contains(text, "TZ=") {
		return Parse(text, zone)
	}
	p, err := parsePhrase(text, zone, now, isReminder && countsToTwelve(zone))
	if p.isOnce() || err == nil && isReminder && !p.isRepeated() {
		due, err := p.time(text, err)
		return At(due), err
	}
	if err == nil && isReminder {
		err = p.checkBare()
	}
	isRead := err == nil
	s, err := p.schedule(text, err)
	// "24 december at 18:00" is no schedule, but a time.
	if err != nil && isRead && !isReminder {
		if due, onceErr := p.time(text, nil); onceErr == nil {
			return At(due), nil
		}
	}
	if p.isMoved {
		s.expr = p.text()
	}
	return s, err
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

// Once returns the instant of a schedule that is due once, and false for any other.
func (s Schedule) Once() (time.Time, bool) { return s.once, !s.once.IsZero() }

// HasEnded reports whether nothing is due after an instant because the words name a last day, such as "until friday".
func (s Schedule) HasEnded(after time.Time) bool {
	_, isDue := s.Next(after)
	return !isDue && len(s.rules) > 0 && s.rules[0].end != 0
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
