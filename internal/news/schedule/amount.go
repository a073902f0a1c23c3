package schedule

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/text"
)

// amount is how far ahead a time lies. Days and months are counted on the calendar.
type amount struct {
	elapsed      time.Duration
	days, months int
}

// units are the units of time by their names, without the "s" of several. A month or a year counts on the calendar.
var units = map[string]amount{
	"s": {elapsed: time.Second}, "sec": {elapsed: time.Second}, "second": {elapsed: time.Second},
	"m": {elapsed: time.Minute}, "min": {elapsed: time.Minute}, "minute": {elapsed: time.Minute},
	"h": {elapsed: time.Hour}, "hr": {elapsed: time.Hour}, "hour": {elapsed: time.Hour},
	"d": {days: 1}, "day": {days: 1}, "w": {days: 7}, "week": {days: 7}, "fortnight": {days: 14},
	"month": {months: 1}, "year": {months: 12},
}

// parseUnit reads the name of a unit of time.
func parseUnit(word string) (amount, bool) {
	if len(word) > 2 {
		word = strings.TrimSuffix(word, "s")
	}
	unit, ok := units[word]
	return unit, ok
}

var (
	// compactAmount is such as "1h30m" and "2h15", compactPart one number of it with its unit.
	compactAmount = text.Pattern(`^(?:\d{1,11}(?:\.\d+)?(?:[wdhms]|hrs?|mins?|secs?))+(?:\d\d)?$`)
	compactPart   = text.Pattern(`[\d.]+|[a-z]+`)
)

// acceptAmounts consumes one amount of time or several: "20 minutes", "an hour and a half", "1h 30m", "1 hour 30". found
// is false where the next words name no number.
func (p *wordParser) acceptAmounts() (a amount, found bool, err error) {
	for {
		before := p.words
		if found {
			p.skipAnd()
		}
		one, ok, err := p.acceptAmount()
		// Two numbers, such as "2 hours and 9", are no amount together.
		if err != nil && (!found || err == errTooFar) {
			return a, false, err
		}
		if !ok {
			p.words = before
			return a, found, nil
		}
		if one.elapsed > maxAhead-a.elapsed || one.days+a.days > int(maxAhead/day) {
			return a, false, errTooFar
		}
		a = amount{a.elapsed + one.elapsed, a.days + one.days, a.months + one.months}
		found = true
		// "1 hour 30" and "2h15" end with minutes.
		if len(p.words) > 0 && one.elapsed >= time.Hour && isMinuteCount(p.words) {
			minutes, _ := strconv.Atoi(p.words[0])
			a.elapsed += time.Duration(minutes) * time.Minute
			p.words = p.words[1:]
			return a, true, nil
		}
	}
}

// isMinuteCount reports whether words begin with two digits below 60 that no unit follows.
func isMinuteCount(words []string) bool {
	n, err := strconv.Atoi(words[0])
	isUnit := false
	if len(words) > 1 {
		_, isUnit = parseUnit(words[1])
	}
	return err == nil && len(words[0]) == 2 && n <= 59 && !isUnit
}

// acceptAmount consumes "20 minutes", "half an hour", "an hour and a half" or "1.5 hours".
func (p *wordParser) acceptAmount() (a amount, found bool, err error) {
	if compactAmount().MatchString(p.next()) {
		p.words = slices.Concat(compactPart().FindAllString(p.next(), -1), p.words[1:])
	}
	before := p.words
	n := 1.0
	article := p.accept("a", "an")
	switch number, ok := acceptFrom(p, parseDecimal); {
	case p.accept("half"):
		n = 0.5
		p.accept("a", "an")
	case p.accept("quarter"):
		n = 0.25
		p.skip("of", "a", "an")
	case ok && !article:
		n = number
	case !article || ok:
		p.words = before
		return a, false, nil
	}
	// "two and a half hours" and "an hour and a half" are both said.
	n += p.acceptAndHalf()
	if p.next() == "" {
		return a, false, missingError(strings.Join(before, " "))
	}
	unit, ok := acceptFrom(p, parseUnit)
	if !ok {
		err, p.words = unknownWordError(p.next()), before
		return a, false, err
	}
	n += p.acceptAndHalf()
	if n*(unit.elapsed.Hours()/24+float64(unit.days+30*unit.months)) > maxAhead.Hours()/24 {
		return a, false, errTooFar
	}
	if unit.elapsed == 0 && n != math.Trunc(n) {
		return a, false, fmt.Errorf("%s is not a number of whole days", p.textSince(before))
	}
	return amount{time.Duration(n * float64(unit.elapsed)), int(n) * unit.days, int(n) * unit.months}, true, nil
}

// acceptAndHalf consumes "and a half", and returns 0.5 if it was there.
func (p *wordParser) acceptAndHalf() float64 {
	if p.acceptAll("and a half") {
		return 0.5
	}
	return 0
}

// parseDecimal reads "20", "twenty" or "1.5".
func parseDecimal(word string) (float64, bool) {
	if n, ok := parseNumber(word); ok {
		return float64(n), true
	}
	n, err := strconv.ParseFloat(word, 64)
	return n, err == nil && n >= 0 && !math.IsInf(n, 0) && !math.IsNaN(n)
}

// addTo returns the instant that lies the amount ahead. The 31st plus a month is the last day of a shorter one. A day is
// one of the calendar: at the same time of the clock, also when the clock is changed between.
func (a amount) addTo(now time.Time) time.Time {
	if a.days == 0 && a.months == 0 {
		return now.Add(a.elapsed)
	}
	wall := a.addDays(dateOf(now)).Add(wallTime(now).Sub(dateOf(now)))
	return firstPass(wall, now.Location()).Add(a.elapsed)
}

// addDays returns the date that lies the days and months ahead.
func (a amount) addDays(date time.Time) time.Time {
	month := time.Date(date.Year(), date.Month()+time.Month(a.months), 1, 0, 0, 0, 0, time.UTC)
	return month.AddDate(0, 0, min(date.Day(), daysIn(month))-1+a.days)
}

var errTooFar = errors.New("it is more than ten years ahead")
