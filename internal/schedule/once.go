package schedule

import (
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

// parseOneDay reads a part that only one day has: "in 20 minutes", "tomorrow", "next monday", "24.12.2026" or "2026".
// known are the kinds of the parts before it.
func (p *wordParser) parseOneDay(known said, s *sentence) (found bool, err error) {
	before := p.words
	if yearPattern().MatchString(p.next()) {
		s.year, _ = strconv.Atoi(p.next())
		s.said, p.words = saidYear, p.words[1:]
		return true, nil
	}
	// "monday week" and "tomorrow week" are a week later.
	afterDay := known&saidRelative != 0 || len(s.days) == 1 && s.days[0].isWeekdays() && known&saidTimes == 0
	if unit, _ := parseUnit(p.next()); afterDay && p.accept("week", "fortnight") {
		s.ahead, s.said = unit, saidAhead
		return true, nil
	}
	if found, err := p.parseAhead(known, s); found || err != nil {
		return found, err
	}
	p.words = before
	if p.acceptOffset(s) {
		s.said |= saidRelative
		return true, nil
	}
	p.words = before
	p.skip("on", "the")
	r, year, found, err := parseDigitDate(p.next())
	if found && err == nil {
		p.words = p.words[1:]
		s.days, s.said = []rule{r}, saidDays
		if year != 0 {
			s.year, s.said = year, saidDays|saidYear
		}
	}
	if found || err != nil {
		return found, err
	}
	p.words = before
	p.skip("on", "of", "in")
	return p.parseNext(s)
}

// parseAhead reads "in 20 minutes", "20 minutes from now", "a week on" a day, and "1h30m" if that is all.
func (p *wordParser) parseAhead(known said, s *sentence) (found bool, err error) {
	before := p.words
	isIn := p.accept("in")
	if isIn && p.next() == "" {
		return false, errors.New("it does not say how long from now")
	}
	a, found, err := p.acceptAmounts()
	hasAnchor := found && p.acceptAnchor()
	switch {
	case isIn && (err != nil || !found):
		return false, err
	case isIn && a == amount{}:
		return false, fmt.Errorf("%q is no time ahead", strings.Join(before[:len(before)-len(p.words)], " "))
	case isIn, found && (hasAnchor || p.accept("from") && p.accept("now")):
	case !found || err != nil || known != 0 || len(p.words) > 0:
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

// acceptOffset consumes "today", "tonight", "tomorrow", "day after tomorrow" or "this evening".
func (p *wordParser) acceptOffset(s *sentence) bool {
	offset := 0
	switch {
	case p.accept("today"):
	case p.accept("tonight"):
		s.part, s.said = dayParts[3], saidPart
	case p.accept("tomorrow"):
		offset = 1
	case p.accept("this"):
		part, ok := acceptFrom(p, parseDayPart)
		if !ok {
			return false
		}
		s.part, s.said = part, saidPart
	default:
		p.skip("on", "the")
		if !p.accept("day") || !p.accept("after") || !p.accept("tomorrow") {
			return false
		}
		offset = 2
	}
	s.offset = offset
	return true
}

// parseNext reads "next monday", "this friday" and "next week".
func (p *wordParser) parseNext(s *sentence) (found bool, err error) {
	before := p.words
	if !p.accept("this", "next") {
		return false, nil
	}
	s.within, s.shift, s.said = periodDay, map[string]int{"this": 0, "next": 1}[before[0]], saidNext
	if weekday, ok := acceptFrom(p, parseWeekday); ok && !isRepeating(before[1]) {
		s.days, s.said = []rule{{dow: 1 << weekday}}, saidNext|saidDays
		return true, nil
	}
	if p.accept(periodWeek, periodMonth, periodYear) {
		s.within = before[1]
		return true, nil
	}
	return false, fmt.Errorf("%q was not understood", strings.Join(before[:min(2, len(before))], " "))
}

// due returns the one instant that a sentence names. It returns an error for parts that do not go together, or do not
// make a time.
func (s *sentence) due(now time.Time) (time.Time, error) {
	if err := s.checkOnce(); err != nil {
		return time.Time{}, err
	}
	isAlone := s.has(saidAhead) && len(s.days) == 0 && !s.has(saidRelative)
	switch {
	case isAlone && len(s.times) == 0 && !s.has(saidPart|saidMonths):
		return s.ahead.addTo(now), nil
	case s.ahead.elapsed != 0 && len(s.times) > 0:
		return time.Time{}, errors.New("it names both a time of day and how long from now")
	case isAlone && s.has(saidPart|saidMonths), !isAlone && s.ahead.elapsed != 0, !isAlone && s.ahead.months != 0:
		return time.Time{}, errors.New("it names both a day and how long from now")
	case len(s.times) == 0:
		return time.Time{}, errors.New("it does not say at what time")
	case len(s.days) == 0 && s.months != 0:
		return time.Time{}, errors.New("it does not say on which day of the month")
	}
	minute, err := s.minuteOfDay()
	if err != nil {
		return time.Time{}, err
	}
	at := func(date time.Time) time.Time {
		return firstPass(date.Add(time.Duration(minute)*time.Minute), now.Location())
	}
	if isAlone {
		return at(s.ahead.addDays(dateOf(now))), nil
	}
	date, err := s.nextDate(now, func(date time.Time) bool { return at(date).After(now) })
	return at(date), err
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

// nextDate returns the first date that the sentence names and that fits.
func (s *sentence) nextDate(now time.Time, fits func(time.Time) bool) (date time.Time, err error) {
	date, found, err := s.fixedDate(now)
	if err != nil {
		return date, err
	}
	r := rule{dow: allWeekdays}
	if len(s.days) > 0 {
		r = s.days[0]
	}
	switch {
	// "last friday" alone is the one that was.
	case (r.lastDate || r.weeks&1 != 0 || r.pooled) && r.month|s.months == 0:
		return date, errors.New("it does not say of what: say \"of the month\"")
	case s.months != 0:
		r.month = s.months
	case r.month == 0:
		r.month = allMonths
	}
	// Any other day than a fixed one is the next one of its kind.
	for ahead := 0; !found && ahead < 8*366; ahead++ {
		date = dateOf(now).AddDate(0, 0, ahead)
		found = r.matchesDate(date) && fits(date)
	}
	switch {
	case !found:
		return date, errors.New("there is no such date")
	case r.named != 0 && r.named != 1<<date.Weekday():
		return date, fmt.Errorf("%s is a %s", date.Format("2 January 2006"), date.Weekday())
	}
	return date, nil
}

// checkOnce returns an error where the sentence names more than one time.
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
		return errors.New("it names several days; say \"every\" before them, if it is to be repeated")
	case s.has(saidRelative) && (len(s.days)+int(s.months)+s.year > 0 || s.within != ""):
		return errors.New("it names two days")
	}
	// "9 tomorrow" has no other meaning.
	if s.has(saidRelative) && len(s.times) > 0 && s.words[0] == s.times[0].text {
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

// fixedDate returns the date that the sentence names as seen from now. found is false where it is the next one of its
// kind.
func (s *sentence) fixedDate(now time.Time) (date time.Time, found bool, err error) {
	today := dateOf(now)
	if s.has(saidRelative) {
		return today.AddDate(0, 0, s.offset+s.ahead.days), true, nil
	}
	var r rule
	if len(s.days) > 0 {
		r = s.days[0]
	}
	if isMonth := r.month != 0 && r.month != allMonths; isMonth && (s.months != 0 || s.within == periodMonth) {
		return date, false, errors.New("it names two months")
	}
	r.month |= s.months
	switch {
	case s.year == 0 && s.within == "" && !s.has(saidAhead):
		return date, false, nil
	case r.isWeekdays() && s.months == 0 && s.year == 0:
		date, err = s.fixedWeekday(lowestBit(r.dow), today)
		return date, err == nil, err
	case s.has(saidAhead):
		return date, false, errors.New("it names both a day and how long from now")
	case s.within == periodMonth && r.dom != 0:
		date = time.Date(today.Year(), today.Month()+time.Month(s.shift), lowestBit(r.dom), 0, 0, 0, 0, time.UTC)
	case (s.year != 0) != (s.within == periodYear) && r.isOneDate():
		year := max(s.year, 0)
		if s.within == periodYear {
			year = today.Year() + s.shift
		}
		date = time.Date(year, time.Month(lowestBit(r.month)), lowestBit(r.dom), 0, 0, 0, 0, time.UTC)
	default:
		return date, false, errors.New("it does not say on which day")
	}
	if date.Day() != lowestBit(r.dom) {
		return date, false, errors.New("there is no such date")
	}
	return date, true, nil
}

// fixedWeekday returns the date of "next monday", "monday next week" and "monday in two weeks".
func (s *sentence) fixedWeekday(weekday int, today time.Time) (time.Time, error) {
	ahead := (weekday - int(today.Weekday()) + 7) % 7
	due := today.AddDate(0, 0, ahead)
	name := strings.ToLower(weekdayNames[weekday])
	either := func(phrase string, second time.Time) error {
		const layout = "2 January"
		return fmt.Errorf("%q may be %s or %s; say \"this %s\" or the date",
			phrase, due.Format(layout), second.Format(layout), name)
	}
	switch {
	case s.has(saidAhead) && (s.within != "" || s.ahead.days%7 != 0):
		return due, errors.New("it names both a day and how long from now")
	case s.has(saidAhead) && ahead == 0:
		due = due.AddDate(0, 0, s.ahead.days)
		return due, either(fmt.Sprintf("%d days on %s", s.ahead.days, name), due.AddDate(0, 0, 7))
	case s.has(saidAhead):
		return due.AddDate(0, 0, s.ahead.days), nil
	case s.within == periodWeek:
		monday := today.AddDate(0, 0, -(int(today.Weekday())+6)%7)
		return monday.AddDate(0, 0, (weekday+6)%7+7*s.shift), nil
	case s.within != periodDay:
		return due, errors.New("it does not say on which day")
	case s.shift == 0:
		return due, nil
	case ahead == 0:
		return due.AddDate(0, 0, 7), nil
	// On a Monday "next friday" is the one in four days to some, and the one of the next week to others.
	case weekNumber(dayNumber(due)) == weekNumber(dayNumber(today)):
		return due, either("next "+name, due.AddDate(0, 0, 7))
	}
	return due, nil
}
