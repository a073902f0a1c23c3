// Package schedule says when something is due by the clock on a wall, and runs
// jobs at those instants.
//
// It promises that a schedule fires exactly once for every local time it names:
// a time inside a daylight-saving gap fires once, at the gap's end; a time that
// occurs twice fires at its first pass. Only an hour field of "*" or "*/n"
// follows elapsed time instead, so that an hourly job also runs in the repeated
// hour. It holds the time zone database, so results do not depend on the machine.
//
// What a job does, and remembering what was done, are left to the caller.
package schedule

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the same zones on every machine, also in an empty container

	"github.com/robfig/cron/v3"
)

// horizonYears is how far ahead Next looks before it says that nothing is due.
const horizonYears = 30

// Schedule is a parsed cron expression in a time zone. It is a value, safe for
// concurrent use. The zero Schedule is never due.
type Schedule struct {
	expr   string
	zone   *time.Location
	minute uint64
	hour   uint64
	dom    uint64
	month  uint64
	dow    uint64
	// anyDay says that one of the two day fields starts with "*": then both must
	// match, otherwise one is enough (crontab(5)).
	anyDay bool
	// elapsed says that the hour field is "*" or "*/n".
	elapsed bool
}

// descriptors are the named schedules of crontab(5).
var descriptors = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

var fieldNames = [5]string{"minute", "hour", "day of month", "month", "day of week"}

// Parse reads a five-field cron expression (minute, hour, day of month, month,
// day of week) or one of @yearly, @monthly, @weekly, @daily, @hourly. Months and
// weekdays may be written by their English three-letter names; Sunday is 0 or 7.
// The error names the field at fault. A nil zone is UTC.
func Parse(expr string, zone *time.Location) (Schedule, error) {
	if zone == nil {
		zone = time.UTC
	}
	text := strings.TrimSpace(expr)
	if strings.HasPrefix(text, "@") {
		named, ok := descriptors[strings.ToLower(text)]
		if !ok {
			return Schedule{}, fmt.Errorf("schedule %q: unknown name; known are @hourly, @daily, @weekly, @monthly, @yearly", expr)
		}
		text = named
	}
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return Schedule{}, fmt.Errorf("schedule %q: the time zone is a setting of its own, not part of the expression", expr)
	}
	fields := strings.Fields(text)
	if len(fields) != len(fieldNames) {
		return Schedule{}, fmt.Errorf("schedule %q: want 5 fields (minute hour day-of-month month day-of-week), got %d", expr, len(fields))
	}
	fields[4] = sundayAsZero(fields[4])
	s := Schedule{
		expr:    strings.TrimSpace(expr),
		zone:    zone,
		anyDay:  isStar(fields[2]) || isStar(fields[4]),
		elapsed: isPlainStar(fields[1]),
	}
	for i, dst := range []*uint64{&s.minute, &s.hour, &s.dom, &s.month, &s.dow} {
		bits, err := parseField(i, fields[i])
		if err != nil {
			return Schedule{}, fmt.Errorf("schedule %q: %s field %q: %w", expr, fieldNames[i], fields[i], err)
		}
		*dst = bits
	}
	return s, nil
}

// parseField asks the cron parser about one field alone, so that its error can
// be tied to that field.
func parseField(index int, field string) (uint64, error) {
	for part := range strings.SplitSeq(field, ",") {
		if part == "" {
			return 0, fmt.Errorf("an entry of the list is empty")
		}
		if len(part) > 1 && isStar(part) && part[1] != '/' {
			return 0, fmt.Errorf("%q: only \"/n\" may follow a star", part)
		}
	}
	probe := [5]string{"*", "*", "*", "*", "*"}
	probe[index] = field
	parsed, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(strings.Join(probe[:], " "))
	if err != nil {
		return 0, err
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return 0, fmt.Errorf("not a cron field")
	}
	return [5]uint64{spec.Minute, spec.Hour, spec.Dom, spec.Month, spec.Dow}[index], nil
}

func isStar(field string) bool { return strings.HasPrefix(field, "*") || strings.HasPrefix(field, "?") }

func isPlainStar(field string) bool { return isStar(field) && !strings.Contains(field, ",") }

// sundayAsZero rewrites the weekday 7, which crontab(5) knows and the parser
// does not: "7" is "0", "5-7" is "5,6,0".
func sundayAsZero(field string) string {
	parts := strings.Split(field, ",")
	for i, part := range parts {
		span, step, stepped := strings.Cut(part, "/")
		from, to, ranged := strings.Cut(span, "-")
		switch {
		case span == "7":
			parts[i] = "0"
		case ranged && to == "7" && len(from) == 1 && from[0] >= '0' && from[0] <= '7':
			by := 1
			if stepped {
				if len(step) != 1 || step[0] < '1' || step[0] > '9' {
					continue
				}
				by = int(step[0] - '0')
			}
			var days []string
			for day := int(from[0] - '0'); day <= 7; day += by {
				days = append(days, fmt.Sprint(day%7))
			}
			parts[i] = strings.Join(days, ",")
		}
	}
	return strings.Join(parts, ",")
}

// LoadZone finds a time zone by its IANA name; the empty name is UTC.
func LoadZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(strings.TrimSpace(name))
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %q: use an IANA name such as \"Europe/Oslo\" or \"UTC\"", name)
	}
	return zone, nil
}

// String is the expression as it was given.
func (s Schedule) String() string { return s.expr }

// Zone is the time zone the expression is read in; UTC for the zero Schedule.
func (s Schedule) Zone() *time.Location {
	if s.zone == nil {
		return time.UTC
	}
	return s.zone
}

// Next is the first due instant after the given one, which itself does not
// count, in the schedule's zone. It is false when nothing is due within 30 years.
func (s Schedule) Next(after time.Time) (time.Time, bool) {
	if s.zone == nil {
		return time.Time{}, false
	}
	if s.elapsed {
		return s.nextElapsed(after)
	}
	return s.nextOnWall(after)
}

// Latest is the last due instant in (after, until]; false when there is none.
// Its work does not grow with the distance between the two.
func (s Schedule) Latest(after, until time.Time) (time.Time, bool) {
	for _, window := range []time.Duration{time.Hour, 36 * time.Hour, 62 * 24 * time.Hour, 9 * 366 * 24 * time.Hour} {
		from := until.Add(-window)
		if !from.After(after) {
			break
		}
		if due, ok := s.lastFrom(from, until); ok {
			return due, true
		}
	}
	return s.lastFrom(after, until)
}

func (s Schedule) lastFrom(after, until time.Time) (last time.Time, found bool) {
	for {
		due, ok := s.Next(after)
		if !ok || due.After(until) {
			return last, found
		}
		last, found, after = due, true, due
	}
}
