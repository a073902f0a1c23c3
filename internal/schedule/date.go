package schedule

import (
	"fmt"
	"strconv"
	"time"

	"ravenbot/internal/text"
)

// date is a day of the calendar. Without a year it is of any year, without a month of any month.
type date struct{ year, month, day int }

// in returns midnight of a date, written as if it were UTC. It is another date where there is none such.
func (d date) in(year int) time.Time {
	return time.Date(year, time.Month(d.month), d.day, 0, 0, 0, 0, time.UTC)
}

// dateFrom returns the date of a time, in its own zone.
func dateFrom(t time.Time) date { return date{t.Year(), int(t.Month()), t.Day()} }

var (
	// Dates in digits: with dots the day comes first everywhere, with slashes it depends on the country.
	dottedDate  = text.Pattern(`^(\d{1,2})\.(\d{1,2})\.(\d{4})?$`)
	slashedDate = text.Pattern(`^\d{1,4}/\d{1,2}(/\d{1,4})?$`)
	yearPattern = text.Pattern(`^(19|20|21)\d\d$`)
)

// acceptDate consumes "24 December 2026", "December 24th", "the 24th of December", "the 5th", "2026-12-24" or
// "24.12.2026". found is false where the next words name no date.
func (p *wordParser) acceptDate() (d date, found bool, err error) {
	before := p.words
	p.skip("on", "the")
	word := p.next()
	if slashedDate().MatchString(word) {
		return d, false, fmt.Errorf("%q is read differently in different countries; write \"24 December\" or \"2026-12-24\"",
			word)
	}
	if m := dottedDate().FindStringSubmatch(word); m != nil {
		p.words = p.words[1:]
		d.day, _ = strconv.Atoi(m[1])
		d.month, _ = strconv.Atoi(m[2])
		d.year, _ = strconv.Atoi("0" + m[3])
		return d, true, d.check()
	}
	if isoDate().MatchString(word) {
		p.words = p.words[1:]
		t, err := time.Parse(time.DateOnly, word)
		if err != nil {
			return d, false, fmt.Errorf("%q is no date", word)
		}
		return dateFrom(t), true, nil
	}
	if d, found = p.acceptDayAndMonth(); !found {
		n, ok := acceptFrom(p, parseOrdinal)
		if !ok || n == lastOrdinal {
			p.words = before
			return date{}, false, nil
		}
		d = date{day: n}
		p.accept("of")
		if month, ok := acceptFrom(p, parseMonth); ok {
			d.month = lowestBit(month)
		}
	}
	if d.month == 0 {
		return d, true, nil
	}
	behind := p.words
	p.accept(",")
	if yearPattern().MatchString(p.next()) {
		d.year, _ = strconv.Atoi(p.next())
		p.words = p.words[1:]
	} else {
		p.words = behind
	}
	return d, true, d.check()
}

// acceptDayAndMonth consumes "24 december", "december 24" or "december 24th".
func (p *wordParser) acceptDayAndMonth() (d date, found bool) {
	before := p.words
	if n, ok := acceptFrom(p, parseDateNumber); ok {
		if month, ok := acceptFrom(p, parseMonth); ok {
			return date{day: n, month: lowestBit(month)}, true
		}
	}
	p.words = before
	if month, ok := acceptFrom(p, parseMonth); ok {
		p.accept("the")
		n, ok := acceptFrom(p, parseDateNumber)
		if !ok {
			if n, ok = acceptFrom(p, parseOrdinal); n == lastOrdinal {
				ok = false
			}
		}
		if ok {
			return date{day: n, month: lowestBit(month)}, true
		}
	}
	p.words = before
	return date{}, false
}

// parseDateNumber reads the digits of a day of a month.
func parseDateNumber(word string) (int, bool) {
	n, err := strconv.Atoi(word)
	return n, err == nil && len(word) <= 2 && n >= 1 && n <= 31
}

// check returns an error where no year has the date. The month has to be named.
func (d date) check() error {
	// A date without a year is looked up in the year 0, which is a leap year.
	if d.month < 1 || d.month > 12 || d.in(d.year).Day() != d.day {
		return fmt.Errorf("there is no such date")
	}
	return nil
}
