package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/text"
)

var (
	// Dates in digits: with dots the day comes first everywhere, with slashes it depends on the country.
	dottedDate  = text.Pattern(`^(\d{1,2})\.(\d{1,2})\.(\d{4})?$`)
	slashedDate = text.Pattern(`^(\d{1,2})/(\d{1,2})(?:/(\d{4}))?$`)
	isoDate     = text.Pattern(`^(\d{4})[-/](\d{1,2})[-/](\d{1,2})$`)
	weekDate    = text.Pattern(`^(\d{4})-?w(\d{2})(?:-?(\d))?$`)
	yearPattern = text.Pattern(`^(19|20|21)\d\d$`)
)

// parseDigitDate reads "2026-12-24", "2026-W52-4", "24.12.2026", "24.12." or "24/12/2026". The year is 0 where none is named.
func parseDigitDate(word string) (r rule, year int, found bool, err error) {
	var day, month int
	number := func(text string) int { n, _ := strconv.Atoi("0" + text); return n }
	if m := isoDate().FindStringSubmatch(word); m != nil {
		year, month, day = number(m[1]), number(m[2]), number(m[3])
	} else if m := weekDate().FindStringSubmatch(word); m != nil {
		if m[3] == "" {
			return rule{}, 0, false, fmt.Errorf("%q is a whole week; \"%s-W%s-1\" is its Monday", strings.ToUpper(word), m[1], m[2])
		}
		// The week with 4 January is the first one, and weeks begin on Monday (ISO 8601).
		fourth := time.Date(number(m[1]), 1, 4, 0, 0, 0, 0, time.UTC)
		date := fourth.AddDate(0, 0, 7*(number(m[2])-1)+number(m[3])-1-(int(fourth.Weekday())+6)%7)
		if y, w := date.ISOWeek(); y != number(m[1]) || w != number(m[2]) || number(m[3]) < 1 || number(m[3]) > 7 {
			return rule{}, 0, false, errors.New("there is no such date")
		}
		year, month, day = date.Year(), int(date.Month()), date.Day()
	} else if m := dottedDate().FindStringSubmatch(word); m != nil {
		day, month, year = number(m[1]), number(m[2]), number(m[3])
	} else if m := slashedDate().FindStringSubmatch(word); m != nil {
		day, month, year = number(m[1]), number(m[2]), number(m[3])
		switch {
		case m[3] == "" || day <= 12 && month <= 12 && day != month:
			return rule{}, 0, false, fmt.Errorf(
				"%q is read differently in different countries; write \"24 December\" or \"2026-12-24\"", word)
		case month > 12:
			day, month = month, day
		}
	} else {
		return rule{}, 0, false, nil
	}
	return rule{dom: 1 << min(day, 63), month: 1 << min(month, 63)}, year, true, checkDate(year, month, day)
}

// checkDate returns an error where a year has no such date; the year 0 is a leap year.
func checkDate(year, month, day int) error {
	if month < 1 || month > 12 || time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Day() != day {
		return errors.New("there is no such date")
	}
	return nil
}

// acceptDayAndMonth consumes "24 december", "december 24", or "december 24th".
func (p *wordParser) acceptDayAndMonth() (r rule, found bool) {
	before := p.words
	day, ok := acceptFrom(p, parseDateNumber)
	if month, isMonth := acceptFrom(p, parseMonth); ok && isMonth {
		return rule{dom: 1 << day, month: month}, true
	}
	p.words = before
	if month, ok := acceptFrom(p, parseMonth); ok {
		p.accept("the")
		day, ok := acceptFrom(p, parseDateNumber)
		if !ok {
			day, ok = acceptFrom(p, parseOrdinal)
		}
		if ok && day != lastOrdinal {
			return rule{dom: 1 << day, month: month}, true
		}
	}
	p.words = before
	return rule{}, false
}

// parseDateNumber reads the digits of a day of a month.
func parseDateNumber(word string) (int, bool) {
	n, err := strconv.Atoi(word)
	return n, err == nil && len(word) <= 2 && n >= 1 && n <= 31
}
