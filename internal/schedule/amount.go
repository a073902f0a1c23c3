package schedule

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/text"
)

// parseFromNow reads "20 minutes from now". It reports false, and consumes nothing, where the next words are no such.
func (p *onceParser) parseFromNow() bool {
	before := *p
	if p.isAfter || p.parseAmounts() != nil || !p.accept("from") || !p.accept("now") {
		*p = before
		return false
	}
	p.isAfter = true
	return true
}

// parseAfter reads what follows "in": "20 minutes", "an hour and a half", "1h30m", "3 days".
func (p *onceParser) parseAfter(before []string) error {
	if err := p.parseAmounts(); err != nil {
		return err
	}
	if p.after == 0 && p.days == 0 && p.months == 0 {
		return fmt.Errorf("%q is no time ahead", strings.Join(before[:len(before)-len(p.words)], " "))
	}
	p.isAfter = true
	return nil
}

// compactAmount is such as "1h30m"; months are not written so.
var compactAmount = text.Pattern(`^(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,7})m(?:in)?)?$`)

// parseAmounts reads one amount of time or several, joined by "and".
func (p *onceParser) parseAmounts() error {
	if m := compactAmount().FindStringSubmatch(p.next()); m != nil && p.next() != "" {
		p.words = p.words[1:]
		p.days, _ = strconv.Atoi("0" + m[1])
		hours, _ := strconv.Atoi("0" + m[2])
		minutes, _ := strconv.Atoi("0" + m[3])
		p.after = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
		return nil
	}
	if p.next() == "" {
		return errors.New("it does not say how long from now")
	}
	for first := true; ; first = false {
		before := p.words
		if !first {
			p.skipAnd()
		}
		found, err := p.parseAmount()
		switch {
		case err != nil:
			return err
		case !found && first:
			return unknownWordError(p.next())
		case !found:
			p.words = before
			return nil
		}
	}
}

// parseAmount reads "20 minutes", "half an hour", "an hour and a half" or "1.5 hours".
func (p *onceParser) parseAmount() (found bool, err error) {
	before := p.words
	n := 1.0
	article := p.accept("a", "an")
	switch number, ok := acceptFrom(&p.wordParser, parseDecimal); {
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
		return false, nil
	}
	unit := p.next()
	if unit == "" {
		return false, fmt.Errorf("something is missing after %q", strings.Join(before, " "))
	}
	p.words = p.words[1:]
	behind := p.words
	if p.accept("and") && p.accept("a") && p.accept("half") {
		n += 0.5
	} else {
		p.words = behind
	}
	return p.addAmount(n, unit)
}

// addAmount adds n of a unit. found is false where there is no such unit.
func (p *onceParser) addAmount(n float64, unit string) (found bool, err error) {
	switch unit {
	case "s", "sec", "secs", "second", "seconds":
		return true, p.addDuration(n, time.Second)
	case "m", "min", "mins", "minute", "minutes":
		return true, p.addDuration(n, time.Minute)
	case "h", "hr", "hrs", "hour", "hours":
		return true, p.addDuration(n, time.Hour)
	case "day", "days", "week", "weeks", "fortnight", "month", "months", "year", "years":
		if n > maxAhead.Hours()/24 {
			return false, errTooFar
		}
		if n != math.Trunc(n) {
			return false, fmt.Errorf("%v %s is no number of whole days", n, unit)
		}
		p.addCalendar(int(n), strings.TrimSuffix(unit, "s"))
	default:
		return false, unknownWordError(unit)
	}
	return true, nil
}

// addDuration adds n of a unit of elapsed time.
func (p *onceParser) addDuration(n float64, unit time.Duration) error {
	if n*float64(unit) > float64(maxAhead-p.after) { // a Duration holds 292 years
		return errTooFar
	}
	p.after += time.Duration(n * float64(unit))
	return nil
}

// addCalendar adds n days, weeks, fortnights, months or years, which are counted on the calendar.
func (p *onceParser) addCalendar(n int, unit string) {
	switch unit {
	case "day":
		p.days += n
	case "week":
		p.days += 7 * n
	case "fortnight":
		p.days += 14 * n
	case "month":
		p.months += n
	case "year":
		p.months += 12 * n
	}
}

// parseDecimal reads "20", "twenty" or "1.5".
func parseDecimal(word string) (float64, bool) {
	if n, ok := parseNumber(word); ok {
		return float64(n), true
	}
	n, err := strconv.ParseFloat(word, 64)
	return n, err == nil && n >= 0 && !math.IsInf(n, 0) && !math.IsNaN(n)
}
