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
	repeated               bool // "every" or the like was said
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
		before := p.words
		joined := p.skipAnd()
		if len(p.words) == 0 {
			return s, fmt.Errorf("something is missing after %q", before[0])
		}
		behind := p.words
		isBound, err := p.parseBound()
		if err != nil {
			return s, err
		}
		if isBound {
			continue
		}
		known := s
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
			return s, fmt.Errorf(
				"it is not clear how %q belongs to what was said before it; say \"and\" between two schedules",
				strings.Join(before, " "),
			)
		}
		p.words = behind
		p.kept = append(p.kept, "and")
		break
	}
	s.words = start[:len(start)-len(p.words)]
	s.repeated = s.period != "" || slices.Contains(s.words, "every") || slices.Contains(s.words, "each")
	return s, nil
}

// merge adds what was known before the last part was read. It returns false where that part was said already.
func (s *sentence) merge(known sentence) bool {
	fits := s.said&known.said == 0 || s.said == saidPeriod && s.period == known.period
	s.said |= known.said
	return fits
}

// parsePart reads one part of a sentence, and sets said to its kinds.
func (p *wordParser) parsePart(s *sentence) error {
	before, known := p.words, s.said
	s.said = 0
	if p.accept("except", "excluding", "but", "not") {
		return p.parseExcept(s)
	}
	if p.parseDayPart(s) || p.parseCount(s) {
		return nil
	}
	for _, parse := range []func(*sentence) (bool, error){
		func(s *sentence) (bool, error) { return p.parseOneDay(known, s) }, p.parseEvery, p.parseRange, p.parseNamedDays,
	} {
		if found, err := parse(s); found || err != nil {
			return err
		}
		p.words = before
	}
	p.skip("every", "each", "of", "the")
	// "week" alone is no period: "monday week" is one day.
	if slices.Contains([]string{"every", "each", "of"}, before[0]) || strings.HasSuffix(p.next(), "ly") {
		if period, ok := acceptFrom(p, parsePeriod); ok {
			s.period, s.said = period, saidPeriod
			return nil
		}
	}
	p.words = before
	offsets := parseList(p, []string{"at"}, parseOffset)
	if len(offsets) == 0 && p.accept("on") && p.accept("the") && p.accept("hour") {
		offsets = []int{0}
	}
	if len(offsets) > 0 {
		s.offsets, s.said = offsets, saidOffsets
		return nil
	}
	p.words = before
	times, err := p.parseTimes()
	s.times, s.said = times, saidTimes
	return err
}

// parseNamedDays reads days, or months: "mon" and "mar" are tried in this order, and "1st of may" belongs to the days.
func (p *wordParser) parseNamedDays(s *sentence) (found bool, err error) {
	days, err := p.parseDays()
	if err != nil {
		return false, err
	}
	if len(days) > 0 {
		s.days, s.said = days, saidDays
		return true, nil
	}
	if months := p.parseMonths(); months != 0 {
		s.months, s.said = months, saidMonths
	}
	return s.said != 0, nil
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
	s.said = saidPart
	if every {
		s.days, s.said = []rule{{dow: allWeekdays}}, saidPart|saidDays
	}
	// "monday mornings" has its days, "mornings at 7" is every day.
	s.part, s.daily = part, strings.HasSuffix(word, "s")
	return true
}

// parseCount reads "once a week" and "twice a day".
func (p *wordParser) parseCount(s *sentence) bool {
	before := p.words
	count := 0
	switch {
	case p.accept("once"):
		count = 1
	case p.accept("twice"):
		count = 2
	case p.accept("three") && p.accept("times"):
		count = 3
	}
	if count > 0 && p.accept("a", "per", "every", "each") {
		period, ok := acceptFrom(p, parsePeriod)
		if !ok && p.accept(periodDay) {
			period, ok = periodDay, true
		}
		if ok {
			s.count, s.period, s.said = count, period, saidCount|saidPeriod
			return true
		}
	}
	p.words = before
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
	switch {
	case len(days) > 0 || s.withoutMonths != 0:
		s.said = saidExcept
		return nil
	case p.next() == "":
		return errors.New("something is missing after \"except\"")
	}
	return unknownWordError(p.next())
}

// parseEvery reads "hourly", "every 90 minutes", "every half hour", "every 3 days", "every other tuesday", "every 2
// weeks" and "fortnightly".
func (p *wordParser) parseEvery(s *sentence) (found bool, err error) {
	before := p.words
	switch {
	case p.accept("hourly"):
		s.every, s.said = 60, saidTimes
		return true, nil
	case p.accept("fortnightly"):
		s.everyWeeks, s.said = 2, saidCycle
		return true, nil
	case p.accept("biweekly", "bimonthly"):
		return false, fmt.Errorf("%q may mean two things; say \"every 2 weeks\" or \"twice a week\"", before[0])
	case !p.accept("every", "each"):
		return false, nil
	}
	rest := p.words
	n, isOrdinal := acceptFrom(p, parseOrdinal)
	_, isUnit := parseUnit(p.next())
	switch {
	case p.accept("other"):
		if found, err = p.parseOther(s); found || err != nil {
			return found, err
		}
		p.words = slices.Concat([]string{"2"}, p.words)
	case isOrdinal && n > 1 && isUnit:
		p.words = slices.Concat([]string{strconv.Itoa(n)}, p.words)
	case isUnit && !isOrdinal:
		p.words = slices.Concat([]string{"a"}, p.words)
	default:
		p.words = rest
	}
	a, found, err := p.acceptAmount()
	if err != nil || !found {
		return false, nil // "every 2 mondays" is refused by whoever reads days
	}
	spoken := strings.Join(before[1:len(before)-len(p.words)], " ")
	unit := before[len(before)-len(p.words)-1]
	switch {
	case a.elapsed > 0 && a.elapsed < time.Minute:
		return false, fmt.Errorf("\"every %s\" is too often: once a minute is the most", spoken)
	case a.months > 1 && unit != periodYear:
		return false, fmt.Errorf("\"every %s\" does not say in which months; name them: \"the 1st of january and july at 9\"",
			spoken)
	// "every week" is a period, "every second day of the month" a date.
	case a.days == 1 || a.months > 0 || a.days == 7 && unit != "days" || a.days > 0 && p.acceptOf():
		return false, nil
	case a.days > 0 && strings.HasPrefix(unit, "d"):
		s.everyDays, s.said = a.days, saidCycle
		return true, nil
	case a.days > 0:
		s.everyWeeks, s.said = a.days/7, saidCycle
		return true, nil
	}
	s.every, s.said = int(a.elapsed.Minutes()), saidTimes
	// The last interval of each day would be shorter.
	if a.elapsed%time.Minute != 0 || s.every < 1 || s.every > 12*60 || 24*60%s.every != 0 {
		return false, fmt.Errorf("%s do not divide a day into equal parts; name the times instead", spoken)
	}
	return true, nil
}

// parseOther reads the weekdays behind "every other". found is false where a unit of time follows.
func (p *wordParser) parseOther(s *sentence) (found bool, err error) {
	if _, isUnit := parseUnit(p.next()); isUnit {
		return false, nil
	}
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

// acceptOf reports whether "of" follows, and puts nothing back: its caller does.
func (p *wordParser) acceptOf() bool { return p.accept("of", "in") }

// parseWindow reads "9 to 17" after "from" or "between".
func (p *wordParser) parseWindow(s *sentence) error {
	from, _ := acceptFrom(p, parseTimeOfDay)
	p.accept("to", "until", "till", "and", "through")
	to, ok := acceptFrom(p, parseTimeOfDay)
	// "9am to 5" can only end at 17:00, "9 to 5pm" only begin at 9:00; "1 to 5pm" may begin twice.
	if ok && from.halfDay != to.halfDay && (from.open || to.open) {
		open, isLater := &from, func() bool { return from.minute < to.minute }
		if to.open {
			open = &to
		}
		open.minute %= 12 * 60
		early := isLater()
		open.minute += 12 * 60
		if early && isLater() {
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
