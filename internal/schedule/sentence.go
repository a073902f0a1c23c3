package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// sentence is a set of days and the times that belong to them.
type sentence struct {
	days    []rule
	months  uint64
	times   []clock
	offsets []int // minutes of the hour: "at :15"
	every   int   // minutes between two runs
	from    int   // minutes of the day
	to      int
	window  bool
	period  string // which needs a day, but for periodDay
	count   int    // "once" or "twice" a period; 0: nothing is said
	part    dayPart
	daily   bool // the part stands for every day where no days are named
	// everyDays and everyWeeks are n of "every n days" and "every n weeks".
	everyDays, everyWeeks int
	// without are the weekdays, and withoutMonths the months, behind "except".
	without, withoutMonths uint64
	repeated               bool // "every" or the like was said
}

// parseSentence reads until something would be said a second time.
func (p *wordParser) parseSentence() ([]rule, error) {
	var s sentence
	start := p.words
	for len(p.words) > 0 {
		before := p.words
		joined := p.skipAnd()
		if len(p.words) == 0 {
			return nil, fmt.Errorf("something is missing after %q", before[0])
		}
		behind := p.words
		one, err := p.parsePart()
		if err != nil {
			return nil, err
		}
		if s.add(one) {
			continue
		}
		// Without an "and" it is not clear where one schedule ends and the next begins.
		if !joined {
			return nil, fmt.Errorf(
				"it is not clear how %q belongs to what was said before it; say \"and\" between two schedules",
				strings.Join(before, " "),
			)
		}
		p.words = behind
		break
	}
	s.repeated = s.period != "" || slices.ContainsFunc(start[:len(start)-len(p.words)], func(w string) bool {
		return w == "every" || w == "each"
	})
	return s.toRules()
}

// add merges a part into the sentence. It returns false where the sentence has such a part already.
func (s *sentence) add(one sentence) bool {
	if len(one.days) > 0 && len(s.days) > 0 || one.months != 0 && s.months != 0 || one.window && s.window ||
		len(one.offsets) > 0 && len(s.offsets) > 0 || one.isTimed() && s.isTimed() ||
		one.isCycle() && s.isCycle() || one.part.name != "" && s.part.name != "" || one.count > 0 && s.count > 0 ||
		one.isLimited() && s.isLimited() || one.period != "" && s.period != "" && one.period != s.period {
		return false
	}
	s.days = append(s.days, one.days...)
	s.times = append(s.times, one.times...)
	s.offsets = append(s.offsets, one.offsets...)
	s.months |= one.months
	s.every += one.every
	s.count += one.count
	s.everyDays += one.everyDays
	s.everyWeeks += one.everyWeeks
	s.without |= one.without
	s.withoutMonths |= one.withoutMonths
	if one.window {
		s.from, s.to, s.window = one.from, one.to, true
	}
	if one.period != "" {
		s.period = one.period
	}
	if one.part.name != "" {
		s.part, s.daily = one.part, one.daily
	}
	return true
}

// isTimed, isCycle and isLimited report whether the sentence says at what time, every how many days or weeks, and what
// is excepted: each may be said once.
func (s *sentence) isTimed() bool   { return len(s.times) > 0 || s.every > 0 }
func (s *sentence) isCycle() bool   { return s.everyDays > 0 || s.everyWeeks > 0 }
func (s *sentence) isLimited() bool { return s.without != 0 || s.withoutMonths != 0 }

// parsePart reads one part of a sentence.
func (p *wordParser) parsePart() (s sentence, err error) {
	before := p.words
	if p.accept("except", "excluding", "but") {
		return s, p.parseExcept(&s)
	}
	if found, err := p.parseCycle(&s); found || err != nil {
		return s, err
	}
	if s.every, err = p.parseInterval(); err != nil || s.every > 0 {
		return s, err
	}
	if p.parseDayPart(&s) || p.parseCount(&s) {
		return s, nil
	}
	if p.accept("from", "between") {
		// "from monday to friday" are days, "from june to august" months.
		if _, isTime := parseTimeOfDay(p.next()); isTime {
			return s, p.parseWindow(&s)
		}
	}
	// Days before months: "mon" and "mar" are tried in this order, and "1st of may" belongs to the days.
	if s.days, err = p.parseDays(); err != nil || len(s.days) > 0 {
		return s, err
	}
	if s.months = p.parseMonths(); s.months != 0 {
		return s, nil
	}
	p.skip("every", "each", "the", "a", "of", "in")
	if period, ok := acceptFrom(p, parsePeriod); ok {
		s.period = period
		return s, nil
	}
	p.words = before
	if s.offsets = parseList(p, []string{"at"}, parseOffset); len(s.offsets) > 0 {
		return s, nil
	}
	if p.accept("on") && p.accept("the") && p.accept("hour") {
		s.offsets = []int{0}
		return s, nil
	}
	p.words = before
	s.times, err = p.parseTimes()
	return s, err
}

// next returns the next word, or an empty string.
func (p *wordParser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

// parseTimes reads times of day, joined by "and".
func (p *wordParser) parseTimes() (times []clock, err error) {
	first := p.words
	for {
		before := p.words
		joined := len(times) == 0 || p.skipAnd()
		p.accept("at")
		c, found, err := p.acceptClock()
		if err != nil {
			return nil, err
		}
		if !found || !joined {
			p.words = before
			break
		}
		times = append(times, c)
	}
	if len(times) > 0 {
		return times, nil
	}
	p.skip("at", "on", "the", "in", "every", "each")
	if len(p.words) == 0 {
		return nil, fmt.Errorf("something is missing after %q", first[0])
	}
	return nil, unknownWordError(p.words[0])
}

// parseDayPart reads "every morning", "mornings" or "in the evening".
func (p *wordParser) parseDayPart(s *sentence) bool {
	before := p.words
	p.skip("on", "in", "the", "at")
	every := p.accept("every", "each")
	word := p.next()
	part, ok := acceptFrom(p, parseDayPart)
	if !ok {
		p.words = before
		return false
	}
	if every {
		s.days = []rule{{dow: allWeekdays}}
	}
	// "monday mornings" has its days, "mornings at 7" is every day.
	s.part, s.daily = part, strings.HasSuffix(word, "s")
	return true
}

// parseCount reads "once a week" and "twice a day".
func (p *wordParser) parseCount(s *sentence) bool {
	before := p.words
	switch {
	case p.accept("once"):
		s.count = 1
	case p.accept("twice"):
		s.count = 2
	case p.accept("three") && p.accept("times"):
		s.count = 3
	}
	if s.count > 0 && p.accept("a", "per", "every", "each") {
		if p.accept(periodDay) {
			s.period = periodDay
			return true
		}
		if period, ok := acceptFrom(p, parsePeriod); ok {
			s.period = period
			return true
		}
	}
	p.words, s.count = before, 0
	return false
}

// parseExcept reads the weekdays or months behind "except".
func (p *wordParser) parseExcept(s *sentence) error {
	p.skip("not", "for", "on", "in")
	days, err := p.parseDays()
	if err != nil {
		return err
	}
	for _, d := range days {
		if !d.isWeekdays() || d.dow == allWeekdays {
			return errors.New("only weekdays and months can follow \"except\"")
		}
		s.without |= d.dow
	}
	if len(days) == 0 {
		s.withoutMonths = p.parseMonths()
	}
	if !s.isLimited() {
		if p.next() == "" {
			return errors.New("something is missing after \"except\"")
		}
		return unknownWordError(p.next())
	}
	return nil
}

// parseCycle reads "every 3 days", "every other tuesday", "every 2 weeks" and "fortnightly".
func (p *wordParser) parseCycle(s *sentence) (found bool, err error) {
	before := p.words
	if p.accept("fortnightly") {
		s.everyWeeks = 2
		return true, nil
	}
	every := p.accept("every", "each")
	if every && p.accept("fortnight") {
		s.everyWeeks = 2
		return true, nil
	}
	n, spoken := 0, strings.Join(before[:min(3, len(before))], " ")
	switch {
	case p.accept("biweekly", "bimonthly"):
		return false, fmt.Errorf("%q may mean two things; say \"every 2 weeks\" or \"twice a week\"", before[0])
	case every && p.accept("other"):
		n = 2
	case every:
		var ok bool
		if n, ok = acceptFrom(p, parseNumber); !ok {
			n, _ = acceptFrom(p, parseOrdinal)
		}
	}
	rest := p.words
	switch {
	case n < 2:
	case p.accept("day", "days"):
		// "every second day of the month" is a date.
		if !p.acceptOf() {
			s.everyDays = n
			return true, nil
		}
	case p.accept("week", "weeks"):
		s.everyWeeks = n
		return true, nil
	case p.accept("month", "months", "quarter", "quarters", "year", "years"):
		return false, fmt.Errorf("%q does not say in which months; name them: \"the 1st of january and july at 9\"", spoken)
	case p.accept("second", "seconds"):
		return false, fmt.Errorf("%q is too often: once a minute is the most", spoken)
	case before[1] == "other":
		if s.days, err = p.parseDays(); err != nil {
			return false, err
		}
		if len(s.days) == 1 && s.days[0].isWeekdays() && s.days[0].dow != weekdays && s.days[0].dow != weekend {
			s.everyWeeks = 2
			return true, nil
		}
		if p.words = rest; !slices.Contains([]string{"hour", "hours", "minute", "minutes"}, p.next()) {
			return false, fmt.Errorf("%q was not understood", spoken)
		}
	}
	p.words, s.days = before, nil
	return false, nil
}

// isWeekdays reports whether a rule names weekdays and nothing else.
func (r rule) isWeekdays() bool {
	return r.dow != 0 && r.weeks == 0 && r.dom == 0 && !r.lastDate && r.month == 0
}

// acceptOf reports whether "of" follows, and puts nothing back: its caller does.
func (p *wordParser) acceptOf() bool { return p.accept("of", "in") }

// parseInterval reads "hourly", "every 2 hours" or "every half hour" as minutes. It returns 0 where the next words
// name no interval.
func (p *wordParser) parseInterval() (minutes int, err error) {
	before := p.words
	if p.accept("hourly") {
		return 60, nil
	}
	if !p.accept("every", "each") {
		return 0, nil
	}
	n := 1
	switch number, ok := acceptFrom(p, parseNumber); {
	case ok:
		n = number
	case p.accept("other"):
		n = 2
	case p.accept("half"):
		p.skip("an", "a")
		if p.accept("hour") {
			return 30, nil
		}
	case p.accept("quarter"):
		p.skip("of", "an", "a")
		if p.accept("hour") {
			return 15, nil
		}
		p.words = before
		return 0, nil
	}
	switch {
	case p.accept("hour", "hours", "hrs", "h"):
		n *= 60
	case p.accept("minute", "minutes", "min", "mins", "m"):
	default:
		p.words = before
		return 0, nil
	}
	// The last interval of each day would be shorter.
	if n < 1 || n > 12*60 || 24*60%n != 0 {
		return 0, fmt.Errorf("%s do not divide a day into equal parts; name the times instead",
			strings.Join(before[1:len(before)-len(p.words)], " "))
	}
	return n, nil
}

// parseWindow reads "9 to 17" after "from" or "between".
func (p *wordParser) parseWindow(s *sentence) error {
	from, _ := acceptFrom(p, parseTimeOfDay)
	p.accept("to", "until", "till", "and", "through")
	to, ok := acceptFrom(p, parseTimeOfDay)
	if !ok || to.minute <= from.minute {
		return fmt.Errorf("\"from\" needs a time of day and a later one, such as \"every hour from 9 to 17\"")
	}
	s.from, s.to, s.window = from.minute, to.minute, true
	return nil
}
