package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// onceExamples end every error about a time.
const onceExamples = `"in 20 minutes", "tomorrow at noon", "next monday at 9", "24 December 18:00"`

// maxAhead is how far ahead a time may lie.
const maxAhead = 10 * 366 * day

var errTooFar = errors.New("it is more than ten years ahead")

// ParseTime reads when something is due once: "in 20 minutes", "tomorrow at noon", "friday at 9", "next monday at 9",
// "24 December 18:00", "2026-12-24 18:00" or RFC 3339. Days and times are those of the zone (nil: UTC) unless the words
// name another ("9 Oslo time"). Without a year or a day the next such time after now is meant. It returns an error for
// what is past, may mean two times, or was not understood as a whole.
func ParseTime(text string, zone *time.Location, now time.Time) (time.Time, error) {
	if zone == nil {
		zone = time.UTC
	}
	due, err := parseTime(strings.TrimSpace(text), zone, now)
	switch {
	case err != nil:
	case !due.After(now):
		err = fmt.Errorf("%s is past", due.Format("Mon 2 Jan 2006 15:04 MST"))
	case due.Sub(now) > maxAhead:
		err = errTooFar
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("time %q: %w; examples: %s", text, err, onceExamples)
	}
	return due, nil
}

// ParseNext reads a schedule or, where the words are none, one time. The error is that of the form that was meant.
func ParseNext(text string, zone *time.Location, now time.Time) (Schedule, error) {
	s, err := Parse(text, zone)
	if err == nil {
		return s, nil
	}
	due, onceErr := ParseTime(text, zone, now)
	if onceErr == nil {
		return At(due), nil
	}
	// The error of the form that was meant leads to the right words.
	if isOnce(text) {
		err = onceErr
	}
	return Schedule{}, err
}

// isOnce reports whether words speak of one time, right or wrong.
func isOnce(text string) bool {
	words := splitWords(text)
	if len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return w == "every" || w == "each" }) {
		return false
	}
	p := &wordParser{words: words}
	_, isDate, err := p.acceptDate()
	once := []string{"in", "today", "tonight", "tomorrow", "next", "this", "now", "day", "yesterday"}
	return isDate || err != nil || slices.Contains(once, words[0]) || slices.Contains(words, "tomorrow")
}

// parseTime reads when something is due once: RFC 3339, or words of which each has to be understood. The zone counts
// where the text names none.
func parseTime(text string, zone *time.Location, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04"} {
		// RFC 3339 (5.6) allows "t" and "z", which package time does not read.
		if t, err := time.ParseInLocation(layout, strings.ToUpper(text), zone); err == nil {
			return t, nil
		}
	}
	words, named, err := splitZone(splitWords(text))
	if err != nil {
		return time.Time{}, err
	}
	if named != nil {
		zone = named
	}
	p := &onceParser{wordParser: wordParser{words: words}, zone: zone, now: now.In(zone)}
	for len(p.words) > 0 {
		if err := p.parsePart(); err != nil {
			return time.Time{}, err
		}
	}
	return p.result()
}

// onceParser reads the parts of one time.
type onceParser struct {
	wordParser
	zone *time.Location
	now  time.Time

	after  time.Duration // "in 20 minutes"
	days   int           // "in 3 days"
	months int
	// isAfter: the time is counted from now, by after, days and months together.
	isAfter   bool
	date      date
	hasDate   bool
	isNearest bool // the date is a weekday that may be today
	clock     clock
	hasClock  bool
	part      dayPart
}

// parsePart reads one part of the words: a day, a time, a part of the day or an amount.
func (p *onceParser) parsePart() error {
	last := p.words[0]
	p.skipAnd()
	before := p.words
	if len(before) == 0 {
		return fmt.Errorf("something is missing after %q", last)
	}
	switch {
	case !p.isAfter && p.accept("in"):
		if part, ok := p.acceptPart(); ok {
			return p.setPart(part)
		}
		return p.parseAfter(before)
	case p.next() == "at":
		return p.parseClock(before)
	}
	if p.parseFromNow() {
		return nil
	}
	if found, err := p.parseDay(); found || err != nil {
		return err
	}
	p.skip("in", "the")
	if part, ok := acceptFrom(&p.wordParser, parseDayPart); ok {
		return p.setPart(part)
	}
	p.words = before
	return p.parseClock(before)
}

// acceptPart consumes "the morning".
func (p *onceParser) acceptPart() (dayPart, bool) {
	before := p.words
	p.skip("the")
	part, ok := acceptFrom(&p.wordParser, parseDayPart)
	if !ok {
		p.words = before
	}
	return part, ok
}

// setPart notes the part of the day. It returns an error at the second one.
func (p *onceParser) setPart(part dayPart) error {
	if p.part.name != "" {
		return fmt.Errorf("it names both %s and %s", p.part.name, part.name)
	}
	p.part = part
	return nil
}

// parseClock reads a time of day. A bare number needs "at" before it.
func (p *onceParser) parseClock(before []string) error {
	at := p.accept("at")
	c, found, err := p.acceptClock()
	switch {
	case err != nil:
		return err
	case !found && p.next() == "":
		return fmt.Errorf("something is missing after %q", before[0])
	case !found:
		return unknownWordError(p.next())
	case p.hasClock:
		return fmt.Errorf("it names two times of day, %q and %q", p.clock.text, c.text)
	case !at && c.open && !strings.ContainsAny(c.text, ":. "):
		return fmt.Errorf("%q may be a time or something else; say \"at %[1]s\"", c.text)
	}
	p.clock, p.hasClock = c, true
	return nil
}

// parseDay reads a day: "tomorrow", "friday", "next monday", "24 December" or "the 5th".
func (p *onceParser) parseDay() (found bool, err error) {
	before := p.words
	d, isNearest, found, err := p.acceptDay()
	if !found || err != nil {
		p.words = before
		return false, err
	}
	if p.hasDate {
		return false, fmt.Errorf("it names two days, the second by %q", strings.Join(before[:len(before)-len(p.words)], " "))
	}
	p.date, p.isNearest, p.hasDate = d, isNearest, true
	return true, nil
}

// acceptDay reads a day. isNearest says that it is the next one of a weekday, which may be today.
func (p *onceParser) acceptDay() (d date, isNearest, found bool, err error) {
	today := dateOf(p.now)
	switch {
	case p.accept("today"):
		return dateFrom(today), false, true, nil
	case p.accept("tonight"):
		return dateFrom(today), false, true, p.setPart(dayParts[3])
	case p.accept("tomorrow"):
		return dateFrom(today.Add(day)), false, true, nil
	}
	before := p.words
	p.skip("on", "the")
	if p.accept("day") && p.accept("after") && p.accept("tomorrow") {
		return dateFrom(today.Add(2 * day)), false, true, nil
	}
	p.words = before
	p.skip("on")
	this, next := p.accept("this"), p.accept("next")
	if part, ok := acceptFrom(&p.wordParser, parseDayPart); ok && this {
		return dateFrom(today), false, true, p.setPart(part)
	}
	// "mondays" are all of them.
	isPlural := strings.HasSuffix(p.next(), "days")
	if weekday, ok := acceptFrom(&p.wordParser, parseWeekday); ok && !isPlural {
		return p.weekdayDate(weekday, next)
	}
	if this || next {
		return date{}, false, false, fmt.Errorf("%q was not understood", strings.Join(before[:min(2, len(before))], " "))
	}
	d, found, err = p.acceptDate()
	return d, false, found, err
}

// weekdayDate returns the next date of a weekday. Today counts unless "next" was said.
func (p *onceParser) weekdayDate(weekday int, next bool) (d date, isNearest, found bool, err error) {
	today := dateOf(p.now)
	ahead := (weekday - int(today.Weekday()) + 7) % 7
	if !next {
		return dateFrom(today.Add(time.Duration(ahead) * day)), true, true, nil
	}
	if ahead == 0 {
		ahead = 7
	}
	due := today.Add(time.Duration(ahead) * day)
	// On a Monday "next friday" is the one in four days to some, and the one of the next week to others.
	if weekNumber(dayNumber(due)) == weekNumber(dayNumber(today)) {
		const layout = "2 January"
		return date{}, false, false, fmt.Errorf("\"next %s\" may be %s or %s; say \"this %[1]s\" or the date",
			strings.ToLower(weekdayNames[weekday]), due.Format(layout), due.Add(7*day).Format(layout))
	}
	return dateFrom(due), false, true, nil
}

// result returns the time that all parts make, which may be past. It returns an error for parts that do not go
// together, or do not make a time.
func (p *onceParser) result() (time.Time, error) {
	minute := p.clock.minute
	if p.hasClock && p.part.name != "" {
		var err error
		if minute, err = p.clock.within(p.part); err != nil {
			return time.Time{}, err
		}
	}
	switch {
	case p.isAfter && (p.hasDate || p.part.name != ""):
		return time.Time{}, errors.New("it names both a day and how long from now")
	case p.isAfter && p.hasClock && p.after != 0:
		return time.Time{}, errors.New("it names both a time of day and how long from now")
	case p.isAfter && p.hasClock:
		return p.at(p.addDays(), minute), nil
	case p.isAfter && p.days == 0 && p.months == 0:
		return p.now.Add(p.after), nil
	case p.isAfter:
		// A day is one of the calendar: at the same time of the clock, also when the clock is changed between.
		wall := p.addDays().Add(wallTime(p.now).Sub(dateOf(p.now)))
		return firstPass(wall, p.zone).Add(p.after), nil
	case !p.hasClock:
		return time.Time{}, errors.New("it does not say at what time")
	case !p.hasDate && p.part.name == "":
		return p.next24Hours(minute), nil
	}
	return p.onDate(minute)
}

// addDays returns the date that lies the days and months ahead. The 31st plus a month is the last day of a shorter one.
func (p *onceParser) addDays() time.Time {
	today := dateOf(p.now)
	month := time.Date(today.Year(), today.Month()+time.Month(p.months), 1, 0, 0, 0, 0, time.UTC)
	return month.AddDate(0, 0, min(today.Day(), daysIn(month))-1+p.days)
}

// at returns the instant at which clocks show a minute of a day; where they show it twice, the first.
func (p *onceParser) at(date time.Time, minute int) time.Time {
	return firstPass(date.Add(time.Duration(minute)*time.Minute), p.zone)
}

// next24Hours returns the next time at which clocks show the minute of a day.
func (p *onceParser) next24Hours(minute int) time.Time {
	today := dateOf(p.now)
	if due := p.at(today, minute); due.After(p.now) {
		return due
	}
	return p.at(today.Add(day), minute)
}

// onDate returns the time on the date that was named, in the next month or year that has it where none was.
func (p *onceParser) onDate(minute int) (time.Time, error) {
	if !p.hasDate {
		p.date = dateFrom(dateOf(p.now)) // "at 8 in the evening"
		if !p.at(dateOf(p.now), minute).After(p.now) {
			p.date = dateFrom(dateOf(p.now).Add(day))
		}
	}
	isNight := p.part.name == "night" && minute <= p.part.to
	switch {
	// The small hours of a night belong to the next date.
	case isNight && p.isNearest, p.clock.text == "midnight" && p.part.name == "":
		return time.Time{}, errors.New("it is not clear whether that is at the beginning or at the end of the day; " +
			"say 0:00 and the date")
	case isNight:
		minute += 24 * 60
	}
	for ahead := range 13 {
		var at time.Time
		switch d := p.date; {
		case d.year != 0:
			at = d.in(d.year)
		case d.month != 0:
			at = d.in(p.now.Year() + ahead)
		default:
			at = date{month: int(p.now.Month()) + ahead, day: d.day}.in(p.now.Year())
		}
		// The 29th of February is not in every year, the 31st not in every month.
		if at.Day() != p.date.day {
			if p.date.year != 0 {
				break
			}
			continue
		}
		due := p.at(at, minute)
		if p.isNearest && !due.After(p.now) {
			due = p.at(at.Add(7*day), minute)
		}
		if due.After(p.now) || p.date.year != 0 {
			return due, nil
		}
	}
	return time.Time{}, errors.New("there is no such date")
}
