package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// said is a set of kinds of parts that a sentence has. Each of them may be said once.
type said uint

const (
	saidDays said = 1 << iota
	saidMonths
	saidTimes   // "at 9", "every 2 hours"
	saidOffsets // "at :15"
	saidWindow  // "from 9 to 17"
	saidPart    // "in the morning"
	saidCount   // "twice a day"
	saidCycle   // "every 3 days"
	saidExcept
	saidPeriod // "weekly"
	// Those below make the sentence one that is due once.
	saidAhead    // "in 3 days"
	saidRelative // "tomorrow"
	saidYear
	saidNext // "next monday", "this week"
	saidOnce = saidAhead | saidRelative | saidYear | saidNext
)

// sentence is a set of days and the times that belong to them, or one day as seen from now and its time.
type sentence struct {
	said    said
	known   said // before the part that is being read
	days    []rule
	months  uint64
	times   []clock
	offsets []int // minutes of the hour: "at :15"
	every   int   // minutes between two runs
	from    int   // minutes of the day
	to      int
	period  string // which needs a day, but for periodDay
	count   int    // "once" or "twice" a period; 0: nothing is said
	part    dayPart
	daily   bool // the part stands for every day where no days are named
	// everyDays and everyWeeks are n of "every n days" and "every n weeks".
	everyDays, everyWeeks int
	// without are the weekdays, and withoutMonths the months, behind "except".
	without, withoutMonths uint64
	repeated               bool // "every" was said
	words                  []string

	ahead  amount // "in 3 days", "a week on" the day
	offset int    // days from today: 1 is "tomorrow"
	year   int
	// within is the period that the day is in, "next week", or periodDay in "next monday". shift is 0 for "this", and 1
	// for "next".
	within string
	shift  int
}

// has reports whether a part of one of the kinds was said.
func (s *sentence) has(kinds said) bool { return s.said&kinds != 0 }

// parseSentence reads until something would be said a second time.
func (p *wordParser) parseSentence() (s sentence, err error) {
	start := p.words
	for len(p.words) > 0 {
		before, known := p.words, s
		joined := p.skipAnd()
		if len(p.words) == 0 {
			return s, missingError(before[0])
		}
		behind := p.words
		if isBound, err := p.parseBound(); isBound || err != nil {
			if err != nil {
				return s, err
			}
			continue
		}
		if err := p.parsePart(&s); err != nil {
			return s, err
		}
		if s.merge(known) {
			p.kept = append(p.kept, before[:len(before)-len(p.words)]...)
			continue
		}
		s = known
		// Without an "and" it is not clear where one schedule ends and the next begins.
		if !joined {
			return s, fmt.Errorf("it is unclear how %q belongs to the words before it; write \"and\" between two schedules",
				strings.Join(before, " "))
		}
		p.words = behind
		p.kept = append(p.kept, "and")
		break
	}
	s.words = start[:len(start)-len(p.words)]
	s.repeated = s.period != "" || slices.Contains(s.words, "every")
	return s, nil
}

// merge adds what was known before the last part was read. It returns false where that part was said already.
func (s *sentence) merge(known sentence) bool {
	fits := s.said&known.said == 0 || s.said == saidPeriod && s.period == known.period
	s.said |= known.said
	return fits
}

// partParser reads a part of a sentence, and sets said to its kinds. Its caller puts back the words if it finds none.
type partParser func(s *sentence) (found bool, err error)

// parseFirst reads the first part that the next words are. said is that part's alone then, and known what was said before.
func (p *wordParser) parseFirst(s *sentence, parsers ...partParser) (found bool, err error) {
	before := p.words
	s.known, s.said = s.said, 0
	for _, parse := range parsers {
		if found, err = parse(s); found || err != nil {
			return found, err
		}
		p.words = before
	}
	return false, nil
}

// parsePart reads one part of a sentence.
func (p *wordParser) parsePart(s *sentence) error {
	parsers := []partParser{p.parseExcept, p.parseDayPart, p.parseCount}
	parsers = append(parsers, p.oneDayParsers()...)
	_, err := p.parseFirst(s, append(parsers, p.parseEvery, p.parseRange, p.parseNamedDays, p.parseNamedPeriod,
		p.parseOffsets, p.parseTimes)...)
	return err
}

// parseNamedPeriod reads "every week" and "of the month": "week" alone is no period, as "monday week" is one day.
func (p *wordParser) parseNamedPeriod(s *sentence) (found bool, err error) {
	if p.accept("every", "of") {
		p.skip("every", "of", "the")
		if period, ok := acceptFrom(p, parsePeriod); ok {
			s.period, s.said = period, saidPeriod
			return true, nil
		}
	}
	return false, nil
}

// parseOffsets reads "at :15 and :45" and "on the hour".
func (p *wordParser) parseOffsets(s *sentence) (found bool, err error) {
	offsets := parseList(p, []string{"at"}, parseOffset)
	if len(offsets) == 0 && p.acceptAll("on the hour") {
		offsets = []int{0}
	}
	if len(offsets) > 0 {
		s.offsets, s.said = offsets, saidOffsets
	}
	return len(offsets) > 0, nil
}

// parseNamedDays reads days, or months: "mon" and "mar" are tried in this order, and "1st of may" belongs to the days.
func (p *wordParser) parseNamedDays(s *sentence) (found bool, err error) {
	days, err := p.parseDays()
	if len(days) > 0 {
		s.days, s.said = days, saidDays
	} else if months := p.parseMonths(); err == nil && months != 0 {
		s.months, s.said = months, saidMonths
	}
	return s.said != 0, err
}

// parseRange reads "from 9 to 17", "from monday to friday" and "from june to august".
func (p *wordParser) parseRange(s *sentence) (found bool, err error) {
	between := p.next() == "between"
	if !p.accept("from", "between") {
		return false, nil
	}
	if _, isTime := parseTimeOfDay(p.next()); isTime {
		return true, p.parseWindow(s)
	}
	if between {
		return false, errors.New("no times of day follow \"between\"; say for instance \"from monday to friday\"")
	}
	return p.parseNamedDays(s)
}

// parseTimes reads times of day, joined by "and". It returns an error if there is none.
func (p *wordParser) parseTimes(s *sentence) (found bool, err error) {
	first := p.words
	s.times, s.said = nil, saidTimes
	for {
		before := p.words
		joined := len(s.times) == 0 || p.skipAnd()
		c, found, err := p.acceptClock()
		if err != nil {
			return false, err
		}
		if !found || !joined {
			p.words = before
			break
		}
		s.times = append(s.times, c)
	}
	if len(s.times) > 0 {
		return true, nil
	}
	p.skip("at", "on", "the", "in", "every")
	if p.next() == "" {
		return false, missingError(first[0])
	}
	return false, unknownWordError(p.next())
}

// parseDayPart reads "every morning", "mornings" or "in the evening".
func (p *wordParser) parseDayPart(s *sentence) (found bool, err error) {
	p.skip("on", "in", "the", "at")
	every := p.accept("every")
	word := p.next()
	part, ok := acceptFrom(p, parseDayPart)
	if !ok {
		return false, nil
	}
	s.said = saidPart
	if every {
		s.days, s.said = []rule{{dow: allWeekdays}}, saidPart|saidDays
	}
	// "monday mornings" has its days, "mornings at 7" is every day.
	s.part, s.daily = part, strings.HasSuffix(word, "s")
	return true, nil
}

// parseCount reads "once a week" and "twice a day".
func (p *wordParser) parseCount(s *sentence) (found bool, err error) {
	count := 1 + slices.IndexFunc([]string{"once", "twice", "three times"}, p.acceptAll)
	if count == 0 || !p.accept("a", "per", "every") {
		return false, nil
	}
	period, found := acceptFrom(p, parsePeriod)
	if p.accept(periodDay) {
		period, found = periodDay, true
	}
	if found {
		s.count, s.period, s.said = count, period, saidCount|saidPeriod
	}
	return found, nil
}

// parseExcept reads the weekdays or months behind "except".
func (p *wordParser) parseExcept(s *sentence) (found bool, err error) {
	if !p.accept("except", "but", "not") {
		return false, nil
	}
	p.skip("not", "for", "on", "in")
	days, err := p.parseDays()
	if err != nil {
		return false, err
	}
	for _, d := range days {
		if !d.isWeekdays() || d.dow == allWeekdays {
			return false, errors.New("only weekdays and months can follow \"except\"")
		}
		s.without |= d.dow
	}
	if len(days) == 0 {
		s.withoutMonths = p.parseMonths()
	}
	s.said = saidExcept
	switch {
	case len(days) > 0 || s.withoutMonths != 0:
		return true, nil
	case p.next() == "":
		return false, missingError("except")
	}
	return false, unknownWordError(p.next())
}

// parseEvery reads "every hour", "every 90 minutes", "every half hour", "every 3 days", "every other tuesday" and "every
// 2 weeks".
func (p *wordParser) parseEvery(s *sentence) (found bool, err error) {
	before := p.words
	if p.accept("biweekly", "bimonthly") {
		return false, fmt.Errorf("%q may mean two things; say \"every 2 weeks\" or \"twice a week\"", before[0])
	}
	if !p.accept("every") {
		return false, nil
	}
	rest := p.words
	n, isOrdinal := acceptFrom(p, parseOrdinal)
	isOther := p.accept("other")
	if isOther {
		n = 2
	}
	switch _, isUnit := parseUnit(p.next()); {
	case isUnit && (n > 1 || !isOrdinal):
		p.words = slices.Concat([]string{strconv.Itoa(max(n, 1))}, p.words)
	case isOther:
		return p.parseOther(s)
	default:
		p.words = rest
	}
	a, found, err := p.acceptAmount()
	if err != nil || !found {
		return false, nil // "every 2 mondays" is refused by whoever reads days
	}
	spoken, unit := p.textSince(before), before[len(before)-len(p.words)-1]
	if a.days > 0 && p.accept("of", "in") {
		return false, nil // "every second day of the month" is a date
	}
	return s.setInterval(a, spoken, strings.HasPrefix(unit, "d"))
}

// setInterval sets how often an amount behind "every" is. found is false for a period such as "every week". isDays says
// that the amount was said in days.
func (s *sentence) setInterval(a amount, spoken string, isDays bool) (found bool, err error) {
	switch {
	case a.elapsed > 0 && a.elapsed < time.Minute:
		return false, fmt.Errorf("%q is too often: once a minute is the most", spoken)
	case a.months > 1 && spoken != "every year":
		return false, fmt.Errorf("%q does not say in which months; name them: \"the 1st of january and july at 9\"", spoken)
	case a.days == 1 || a.months > 0 || a.days == 7 && !isDays:
		return false, nil
	case isDays:
		s.everyDays, s.said = a.days, saidCycle
		return true, nil
	case a.days > 0:
		s.everyWeeks, s.said = a.days/7, saidCycle
		return true, nil
	}
	s.every, s.said = int(a.elapsed.Minutes()), saidTimes
	// The last interval of each day would be shorter.
	if a.elapsed%time.Minute != 0 || s.every < 1 || s.every > 12*60 || 24*60%s.every != 0 {
		return false, fmt.Errorf("%s do not divide a day into equal parts; name the times instead",
			strings.TrimPrefix(spoken, "every "))
	}
	return true, nil
}

// parseOther reads the weekdays behind "every other".
func (p *wordParser) parseOther(s *sentence) (found bool, err error) {
	days, err := p.parseDays()
	if err != nil {
		return false, err
	}
	if len(days) != 1 || !days[0].isWeekdays() || days[0].dow == weekdays || days[0].dow == weekend {
		return false, fmt.Errorf("\"every other %s\" was not understood", p.next())
	}
	s.days, s.everyWeeks, s.said = days, 2, saidDays|saidCycle
	return true, nil
}

// isWeekdays reports whether a rule names weekdays and nothing else.
func (r rule) isWeekdays() bool {
	return r.dow != 0 && r.weeks == 0 && r.dom == 0 && !r.lastDate && r.month == 0
}

// parseWindow reads "9 to 17" after "from" or "between".
func (p *wordParser) parseWindow(s *sentence) error {
	from, _ := acceptFrom(p, parseTimeOfDay)
	p.accept("to", "until", "and")
	to, ok := acceptFrom(p, parseTimeOfDay)
	// "9am to 5" can only end at 17:00, "9 to 5pm" only begin at 9:00; "1 to 5pm" may begin twice.
	if ok && from.halfDay != to.halfDay && (from.open || to.open) {
		open := &from
		if to.open {
			open = &to
		}
		open.minute %= 12 * 60
		early := from.minute < to.minute
		open.minute += 12 * 60
		if early && from.minute < to.minute {
			return fmt.Errorf("it is not clear whether %q is in the morning; say \"am\" or \"pm\"", open.text)
		}
		if early {
			open.minute -= 12 * 60
		}
	}
	if !ok || to.minute <= from.minute {
		return fmt.Errorf("\"from\" needs a time of day and a later one, such as \"every hour from 9 to 17\"")
	}
	s.from, s.to, s.said = from.minute, to.minute, saidWindow
	return nil
}
