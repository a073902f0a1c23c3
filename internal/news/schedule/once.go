package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxAhead is how far ahead a time may lie.
const maxAhead = 10 * 366 * day

// oneDayParsers read parts that only one day has.
func (p *wordParser) oneDayParsers() []partParser {
	return []partParser{p.parseYear, p.parseWeekLater, p.parseAhead, p.parseOffset, p.parseDate, p.parseNext}
}

// parseYear reads "2026".
func (p *wordParser) parseYear(s *sentence) (found bool, err error) {
	if found = yearPattern().MatchString(p.next()); found {
		s.year, _ = strconv.Atoi(p.next())
		s.said, p.words = saidYear, p.words[1:]
	}
	return found, nil
}

// parseWeekLater reads the end of "monday week" and "tomorrow week".
func (p *wordParser) parseWeekLater(s *sentence) (found bool, err error) {
	unit, _ := parseUnit(p.next())
	isDay := s.known&saidRelative != 0 || len(s.days) == 1 && s.days[0].isWeekdays() && s.known&saidTimes == 0
	if found = isDay && p.accept("week", "fortnight"); found {
		s.ahead, s.said = unit, saidAhead
	}
	return found, nil
}

// parseAhead reads "in 20 minutes", "20 minutes from now", "a week on" a day, and "1h30m" if that is all.
func (p *wordParser) parseAhead(s *sentence) (found bool, err error) {
	before := p.words
	isIn := p.accept("in")
	if isIn && p.next() == "" {
		return false, errors.New("it names no time span")
	}
	a, found, err := p.acceptAmounts()
	hasAnchor := found && p.acceptAnchor()
	switch {
	case isIn && (err != nil || !found):
		return false, err
	case isIn && a == amount{}:
		return false, fmt.Errorf("%q is not a time in the future", p.textSince(before))
	case isIn, found && (hasAnchor || p.acceptAll("from now")):
	case !found || err != nil || s.known != 0 || len(p.words) > 0:
		return false, nil
	case len(before) == 1 && clockTime().MatchString(before[0]) && a.elapsed >= 6*time.Hour:
		return false, fmt.Errorf("%q may be a time of day or an amount; say \"at\" or \"in\" before it", before[0])
	}
	s.ahead, s.said = a, saidAhead
	return true, nil
}

// acceptAnchor consumes "on", "from" or "after" where a day follows from which an amount counts, and reports whether one
// does.
func (p *wordParser) acceptAnchor() bool {
	before := p.words
	p.accept("on", "from", "after")
	_, isWeekday := parseWeekday(p.next())
	isDay := isWeekday && !isRepeating(p.next()) || slices.Contains([]string{"today", "tomorrow"}, p.next())
	if !isDay {
		p.words = before
	}
	return isDay
}

// parseOffset reads "today", "tonight", "tomorrow", "the day after tomorrow" or "this evening".
func (p *wordParser) parseOffset(s *sentence) (found bool, err error) {
	said := saidRelative
	switch {
	case p.accept("today"):
		s.offset = 0
	case p.accept("tomorrow"):
		s.offset = 1
	case p.accept("tonight"):
		s.offset, s.part, said = 0, dayParts[3], said|saidPart
	case p.accept("this"):
		part, ok := acceptFrom(p, parseDayPart)
		if !ok {
			return false, nil
		}
		s.offset, s.part, said = 0, part, said|saidPart
	default:
		p.skip("on", "the")
		if !p.acceptAll("day after tomorrow") {
			return false, nil
		}
		s.offset = 2
	}
	s.said = said
	return true, nil
}

// parseDate reads a date in digits.
func (p *wordParser) parseDate(s *sentence) (found bool, err error) {
	p.skip("on", "the")
	r, year, found, err := parseDigitDate(p.next())
	if !found || err != nil {
		return false, err
	}
	s.days, s.said, p.words = []rule{r}, saidDays, p.words[1:]
	if year != 0 {
		s.year, s.said = year, saidDays|saidYear
	}
	return true, nil
}

// parseNext reads "next monday", "this friday" and "next week".
func (p *wordParser) parseNext(s *sentence) (found bool, err error) {
	p.skip("on", "of", "in")
	before := p.words
	if !p.accept("this", "next") {
		return false, nil
	}
	s.within, s.shift, s.said = periodDay, map[string]int{"this": 0, "next": 1}[before[0]], saidNext
	word := p.next()
	if weekday, ok := acceptFrom(p, parseWeekday); ok && !isRepeating(word) {
		s.days, s.said = []rule{{dow: 1 << weekday}}, saidNext|saidDays
		return true, nil
	}
	if p.accept(periodWeek, periodMonth, periodYear) {
		s.within = word
		return true, nil
	}
	return false, fmt.Errorf("%q was not understood", strings.TrimSpace(before[0]+" "+word))
}

// due returns the one instant that a sentence names. It returns an error for parts that do not go together, or do not
// make a time.
func (s *sentence) due(now time.Time) (time.Time, error) {
	if err := s.checkOnce(); err != nil {
		return time.Time{}, err
	}
	if s.isAmount() && len(s.times) == 0 {
		return s.ahead.addTo(now), nil
	}
	minute, err := s.minuteOfDay()
	if err != nil {
		return time.Time{}, err
	}
	at := func(date time.Time) time.Time {
		return firstPass(date.Add(time.Duration(minute)*time.Minute), now.Location())
	}
	date, err := s.nextDate(now, func(date time.Time) bool { return at(date).After(now) })
	return at(date), err
}

// isAmount reports whether the day is only named by how far ahead it lies.
func (s *sentence) isAmount() bool {
	return s.has(saidAhead) && len(s.days) == 0 && !s.has(saidRelative)
}

// checkOnce returns an error if the sentence does not name one time.
func (s *sentence) checkOnce() error {
	isRepeated := slices.ContainsFunc(s.words, isRepeating)
	switch {
	case isRepeated && s.has(saidOnce):
		return errors.New("it says both that it is repeated and when it is due once")
	case isRepeated || s.every > 0 || s.has(saidCycle|saidExcept|saidWindow) || s.period != "" || s.count > 0:
		return errors.New("it is repeated, and one time is wanted")
	case len(s.times) > 1:
		return fmt.Errorf("it names two times of day, %q and %q", s.times[0].text, s.times[1].text)
	case s.hasSeveralDays():
		return errors.New("it names several days; write \"every\" before them to repeat it")
	case s.has(saidRelative) && (len(s.days)+int(s.months)+s.year > 0 || s.within != ""):
		return errors.New("it names two days")
	case s.ahead.elapsed != 0 && len(s.times) > 0:
		return errors.New("it names both a time of day and how long from now")
	case s.isAmount() && s.has(saidPart|saidMonths), !s.isAmount() && (s.ahead.elapsed != 0 || s.ahead.months != 0):
		return errors.New("it names both a day and how long from now")
	case len(s.times) == 0 && !s.isAmount():
		return errors.New("it does not say at what time")
	case len(s.days) == 0 && s.months != 0:
		return errors.New("it does not say on which day of the month")
	// "9 tomorrow" has no other meaning.
	case s.has(saidRelative) && s.words[0] == s.times[0].text:
		return nil
	}
	return checkBare(s.times)
}

// hasSeveralDays reports whether the sentence names more than one day.
func (s *sentence) hasSeveralDays() bool {
	count := bits.OnesCount64
	return len(s.days) > 1 || count(s.months) > 1 || len(s.days) == 1 && (count(s.days[0].dom) > 1 ||
		count(s.days[0].dow) > 1 && !s.days[0].pooled)
}

// minuteOfDay returns the minute of the day that the one time means: in the night of a day that is known, one of the next
// date.
func (s *sentence) minuteOfDay() (minute int, err error) {
	c := s.times[0]
	if !s.has(saidPart) {
		if c.text == "midnight" && s.has(saidOnce|saidDays) {
			err = errors.New("it is not clear whether that is at the beginning or at the end of the day; say 0:00 and the date")
		}
		return c.minute, err
	}
	if minute, err = c.within(s.part); err != nil || s.part.name != "night" || minute > s.part.to {
		return minute, err
	}
	switch {
	case s.has(saidOnce):
		minute += 24 * 60
	case s.has(saidDays):
		err = unclearNightError(c)
	}
	return minute, err
}

// nextDate returns the first date that the sentence names and that fits, or the only one of the days that it names.
func (s *sentence) nextDate(now time.Time, fits func(time.Time) bool) (date time.Time, err error) {
	r := rule{dow: allWeekdays}
	if len(s.days) > 0 {
		r = s.days[0]
	}
	first, n, err := s.window(dateOf(now), r)
	switch {
	case err != nil:
		return date, err
	// "last friday" alone is the one that was.
	case (r.lastDate || r.weeks&1 != 0 || r.pooled) && r.month|s.months == 0:
		return date, errors.New("it lacks a month or year: write \"of the month\"")
	case s.months != 0 && r.month != 0 && r.month != allMonths:
		return date, errors.New("it names two months")
	case s.months != 0:
		r.month = s.months
	case r.month == 0:
		r.month = allMonths
	}
	var found []time.Time
	for ahead := 0; ahead < cmp.Or(n, maxDaysAhead) && len(found) < 2 && (n > 0 || len(found) == 0); ahead++ {
		if date := first.AddDate(0, 0, ahead); r.matchesDate(date) && (n > 0 || fits(date)) {
			found = append(found, date)
		}
	}
	switch {
	case len(found) == 0:
		return date, errors.New("there is no such date")
	case len(found) > 1:
		return date, errors.New("it does not say on which day")
	case r.named != 0 && r.named != 1<<found[0].Weekday():
		return date, fmt.Errorf("%s is a %s", found[0].Format("2 January 2006"), found[0].Weekday())
	}
	return found[0], nil
}

// maxDaysAhead is how far ahead the next date of its kind may lie: 29 February, across a century.
const maxDaysAhead = 8 * 366

// window returns the first of the days in which the date lies as seen from today, and how many they are; 0: the next date
// of its kind is meant.
func (s *sentence) window(today time.Time, r rule) (first time.Time, days int, err error) {
	isWeekday := r.isWeekdays() && len(s.days) > 0 && s.months == 0 && s.year == 0
	switch {
	case s.has(saidRelative) || s.isAmount():
		return s.ahead.addDays(today).AddDate(0, 0, s.offset), 1, nil
	case s.has(saidAhead) && (!isWeekday || s.within != "" || s.ahead.days%7 != 0):
		return today, 0, errors.New("it names both a day and how long from now")
	case s.has(saidAhead) || s.within == periodDay && isWeekday:
		first, err = s.countedWeekday(lowestBit(r.dow), today)
		return first, 1, err
	case s.within == periodDay, s.within != "" && s.year != 0:
		return today, 0, errors.New("it does not say on which day")
	case s.within == periodWeek:
		return today.AddDate(0, 0, 7*s.shift-(int(today.Weekday())+6)%7), 7, nil
	case s.within == periodMonth:
		first = time.Date(today.Year(), today.Month()+time.Month(s.shift), 1, 0, 0, 0, 0, time.UTC)
		return first, daysIn(first), nil
	case s.within == periodYear, s.year != 0:
		year := cmp.Or(s.year, today.Year()+s.shift)
		first = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		return first, first.AddDate(1, 0, -1).YearDay(), nil
	}
	return today, 0, nil
}

// countedWeekday returns the date of "next monday", "this monday" and "monday in two weeks".
func (s *sentence) countedWeekday(weekday int, today time.Time) (time.Time, error) {
	ahead := (weekday - int(today.Weekday()) + 7) % 7
	due := today.AddDate(0, 0, ahead)
	name := strings.ToLower(weekdayNames[weekday])
	either := func(phrase string, first time.Time) error {
		const layout = "2 January"
		return fmt.Errorf("%q may be %s or %s; say \"this %s\" or the date",
			phrase, first.Format(layout), first.AddDate(0, 0, 7).Format(layout), name)
	}
	later := due.AddDate(0, 0, s.ahead.days)
	switch {
	case s.has(saidAhead) && ahead == 0:
		return due, either(fmt.Sprintf("%d days on %s", s.ahead.days, name), later)
	case s.has(saidAhead):
		return later, nil
	case s.shift == 0:
		return due, nil
	case ahead == 0:
		return due.AddDate(0, 0, 7), nil
	// On a Monday "next friday" is the one in four days to some, and the one of the next week to others.
	case weekNumber(dayNumber(due)) == weekNumber(dayNumber(today)):
		return due, either("next "+name, due)
	}
	return due, nil
}
