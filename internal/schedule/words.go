package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// examples end every error about words: they lead to the right words fastest.
const examples = `"weekdays at 8:30", "every monday and thursday at 9am", "first monday of the month at 9", "every 2 hours"`

// parseWords reads plain English. It accepts the words in any order that people use ("at 9 on mondays") and several
// sentences in one ("weekdays at 8 and saturdays at 10"), and refuses what it would have to guess.
func parseWords(text string) ([]rule, error) {
	p := &wordParser{words: splitWords(text)}
	var rules []rule
	for len(p.words) > 0 {
		more, err := p.parseSentence()
		if err != nil {
			return nil, fmt.Errorf("%w; examples: %s, or cron: \"30 8 * * 1-5\"", err, examples)
		}
		rules = append(rules, more...)
	}
	return rules, nil
}

var (
	separatorPattern = regexp.MustCompile(`[,;&]+`)
	rangePattern     = regexp.MustCompile(`([a-z]{3,}|\d)\s*[-–]\s*([a-z]{3,}|\d)`)
	spacedAMPM       = regexp.MustCompile(`(\d)\s*(a\.?m\.?|p\.?m\.?)(\s|$)`)
)

// splitWords returns the words of a text in lower case, with "&" as "and", "9-17" as "9 to 17" and "7 a.m." as "7am".
func splitWords(text string) []string {
	text = separatorPattern.ReplaceAllString(strings.ToLower(text), " and ")
	text = rangePattern.ReplaceAllString(text, "$1 to $2")
	text = spacedAMPM.ReplaceAllStringFunc(text, func(s string) string {
		return strings.NewReplacer(" ", "", ".", "").Replace(s) + " "
	})
	return strings.Fields(text)
}

// wordParser holds the words that are still to be read.
type wordParser struct{ words []string }

// accept consumes the next word if it is one of the given ones, and reports whether it was.
func (p *wordParser) accept(words ...string) bool {
	if len(p.words) == 0 || !slices.Contains(words, p.words[0]) {
		return false
	}
	p.words = p.words[1:]
	return true
}

// skip consumes as many of the given words as follow.
func (p *wordParser) skip(words ...string) {
	for p.accept(words...) {
	}
}

// acceptFrom consumes the next word if the table knows it.
func acceptFrom[T any](p *wordParser, table func(string) (T, bool)) (value T, ok bool) {
	if len(p.words) > 0 {
		if value, ok = table(p.words[0]); ok {
			p.words = p.words[1:]
		}
	}
	return value, ok
}

// parseList reads one value or more, joined by "and".
func parseList[T any](p *wordParser, filler []string, table func(string) (T, bool)) (list []T) {
	for {
		before := p.words
		if len(list) > 0 {
			p.skip("and")
		}
		p.skip(filler...)
		value, ok := acceptFrom(p, table)
		// The "and" belongs to whatever comes next, so it is put back.
		if !ok {
			p.words = before
			return list
		}
		list = append(list, value)
	}
}

// sentence is a set of days and the times that belong to them.
type sentence struct {
	days    []rule
	months  uint64
	times   []int // minutes of the day
	offsets []int // minutes of the hour: "at :15"
	every   int   // minutes between two runs
	from    int   // minutes of the day
	to      int
	window  bool
	period  string // "week" or "month", which need a day
}

// parseSentence reads until something would be said a second time.
func (p *wordParser) parseSentence() ([]rule, error) {
	var s sentence
	for len(p.words) > 0 {
		before := p.words
		p.skip("and")
		if len(p.words) == 0 {
			return nil, fmt.Errorf("something is missing after %q", before[0])
		}
		one, err := p.parsePart()
		if err != nil {
			return nil, err
		}
		if s.add(one) {
			continue
		}
		// Without an "and" it is not clear where one schedule ends and the next begins.
		if before[0] != "and" {
			return nil, fmt.Errorf(
				"it is not clear how %q belongs to what was said before it; say \"and\" between two schedules",
				strings.Join(before, " "),
			)
		}
		p.words = before[1:]
		break
	}
	return s.toRules()
}

// add merges a part into the sentence. It returns false where the sentence has such a part already.
func (s *sentence) add(one sentence) bool {
	if len(one.days) > 0 && len(s.days) > 0 || one.months != 0 && s.months != 0 || one.window && s.window ||
		len(one.offsets) > 0 && len(s.offsets) > 0 || one.isTimed() && s.isTimed() {
		return false
	}
	s.days = append(s.days, one.days...)
	s.times = append(s.times, one.times...)
	s.offsets = append(s.offsets, one.offsets...)
	s.months |= one.months
	s.every += one.every
	if one.window {
		s.from, s.to, s.window = one.from, one.to, true
	}
	if one.period != "" {
		s.period = one.period
	}
	return true
}

func (s *sentence) isTimed() bool { return len(s.times) > 0 || s.every > 0 }

// parsePart reads one part of a sentence.
func (p *wordParser) parsePart() (s sentence, err error) {
	before := p.words
	if s.every, err = p.parseInterval(); err != nil || s.every > 0 {
		return s, err
	}
	if p.accept("from", "between") {
		return s, p.parseWindow(&s)
	}
	// Days before months: "mon" and "mar" are tried in this order, and "1st of may" belongs to the days.
	if s.days, err = p.parseDays(); err != nil || len(s.days) > 0 {
		return s, err
	}
	for _, month := range parseList(p, []string{"in", "of", "on", "every", "each"}, parseMonth) {
		s.months |= month
	}
	if s.months != 0 {
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
	s.times, err = p.parseTimes()
	return s, err
}

// parseTimes reads times of day.
func (p *wordParser) parseTimes() ([]int, error) {
	before := p.words
	times := parseList(p, []string{"at"}, parseTimeOfDay)
	if len(times) == 0 {
		p.skip("at", "on", "the", "in", "every", "each")
		if len(p.words) == 0 {
			return nil, fmt.Errorf("something is missing after %q", before[0])
		}
		return nil, unknownWordError(p.words[0])
	}
	p.skip("o'clock", "sharp")
	before = p.words
	if p.accept("in") {
		p.skip("the")
		switch {
		case p.accept("morning"):
		case p.accept("afternoon", "evening"):
			for i := range times {
				if times[i] < 12*60 {
					times[i] += 12 * 60
				}
			}
		default:
			p.words = before // a month may follow
		}
	}
	return times, nil
}

// unknownWordError says what is wrong with a word, and hints at the usual mistakes.
func unknownWordError(word string) error {
	// The zone is the most common mistake, and the error should lead to its setting.
	switch {
	case strings.Contains(word, "/") || slices.Contains([]string{"utc", "gmt", "cet", "est", "pst"}, word):
		return fmt.Errorf("%q looks like a time zone, which has its own setting", word)
	case word != "" && word[0] >= '0' && word[0] <= '9':
		return fmt.Errorf("%q is not a time of day", word)
	}
	return fmt.Errorf("%q was not understood", word)
}

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
	if p.accept("half") {
		p.skip("an", "a")
		if p.accept("hour") {
			return 30, nil
		}
	} else if number, ok := acceptFrom(p, parseNumber); ok {
		n = number
	}
	switch {
	case p.accept("hour", "hours", "hrs", "h"):
		return 60 * n, checkDivides(n, 24, "hours", "a day")
	case p.accept("minute", "minutes", "min", "mins", "m"):
		if n%60 == 0 {
			return n, checkDivides(n/60, 24, "hours", "a day")
		}
		return n, checkDivides(n, 60, "minutes", "an hour")
	case n != 1 && p.accept("day", "days", "week", "weeks", "month", "months", "second", "seconds", "year", "years"):
		return 0, fmt.Errorf(
			"%q is not supported: a schedule names days of the week or of the month",
			strings.Join(before[:len(before)-len(p.words)], " "),
		)
	}
	p.words = before
	return 0, nil
}

// checkDivides returns an error where n does not divide the whole: the last interval of each day would be shorter.
func checkDivides(n, whole int, units, of string) error {
	if n < 1 || n >= whole || whole%n != 0 {
		return fmt.Errorf("%d %s do not divide %s into equal parts; name the times instead", n, units, of)
	}
	return nil
}

// parseWindow reads "9 to 17" after "from" or "between".
func (p *wordParser) parseWindow(s *sentence) error {
	from, ok := acceptFrom(p, parseTimeOfDay)
	if !ok {
		return fmt.Errorf("\"from\" needs two times of day, such as \"every hour from 9 to 17\"")
	}
	p.accept("to", "until", "till", "and", "through")
	to, ok := acceptFrom(p, parseTimeOfDay)
	if !ok || to <= from {
		return fmt.Errorf("\"from\" needs a time of day and a later one, such as \"every hour from 9 to 17\"")
	}
	s.from, s.to, s.window = from, to, true
	return nil
}

// toRules returns the rules that the sentence means. It returns an error where something is missing.
func (s sentence) toRules() ([]rule, error) {
	switch {
	case s.window && s.every == 0:
		return nil, errors.New("it names a time window, but not how often")
	case len(s.offsets) > 0 && s.every != 60:
		return nil, errors.New("a minute alone goes with \"every hour\", such as \"every hour at :15\"")
	case s.every == 0 && len(s.times) == 0:
		return nil, errors.New("it does not say at what time")
	case len(s.days) == 0 && s.period != "":
		return nil, fmt.Errorf("it does not say on which day of the %s", s.period)
	case len(s.days) == 0 && (s.every == 0 || s.months != 0):
		return nil, errors.New("it does not say on which days")
	case len(s.days) == 0:
		s.days = []rule{{dow: allWeekdays}}
	}
	if s.months == 0 {
		s.months = allMonths
	}
	var rules []rule
	for _, d := range s.days {
		for _, at := range s.timeRules() {
			d.month, d.minute, d.hour, d.elapsed = s.months, at.minute, at.hour, at.elapsed
			rules = append(rules, d)
		}
	}
	return rules, nil
}

// timeRules returns rules with the times and without days.
func (s sentence) timeRules() (list []rule) {
	switch {
	case s.window:
		for at := s.from; at <= s.to; at += s.every {
			s.times = append(s.times, at)
		}
	// "every hour at :15" is an hour field of "*" in cron, which follows elapsed time.
	case s.every == 60 && len(s.offsets) > 0:
		r := rule{hour: allHours, elapsed: true}
		for _, minute := range s.offsets {
			r.minute |= 1 << minute
		}
		return []rule{r}
	case s.every >= 60:
		return []rule{{minute: 1, hour: multiples(s.every/60, 24), elapsed: true}}
	case s.every > 0:
		return []rule{{minute: multiples(s.every, 60), hour: allHours, elapsed: true}}
	}
	return mergeTimes(s.times)
}

// mergeTimes makes as few rules of the times as their minutes and hours allow.
func mergeTimes(times []int) (list []rule) {
	byHour := map[int]uint64{}
	for _, at := range times {
		byHour[at/60] |= 1 << (at % 60)
	}
	for hour := range 24 {
		minutes := byHour[hour]
		if minutes == 0 {
			continue
		}
		// A rule is due at every combination of its hours and minutes, so only hours with the same minutes can share
		// one.
		same := slices.IndexFunc(list, func(r rule) bool { return r.minute == minutes })
		if same < 0 {
			list = append(list, rule{minute: minutes})
			same = len(list) - 1
		}
		list[same].hour |= 1 << hour
	}
	return list
}

// multiples returns the set of 0, of, 2·of and so on below a bound.
func multiples(of, below int) (set uint64) {
	for n := 0; n < below; n += of {
		set |= 1 << n
	}
	return set
}

var clockTime = regexp.MustCompile(`^(\d{1,2})(?:[:.h](\d{2}))?(am|pm|h)?$`)

// parseTimeOfDay reads "8:30", "9am", "18" or "noon" as minutes of the day.
func parseTimeOfDay(word string) (int, bool) {
	switch word {
	case "noon", "midday":
		return 12 * 60, true
	case "midnight":
		return 0, true
	}
	m := clockTime.FindStringSubmatch(word)
	if m == nil {
		return 0, false
	}
	hour, _ := strconv.Atoi(m[1])
	minute, _ := strconv.Atoi("0" + m[2])
	if m[3] == "am" || m[3] == "pm" {
		if hour < 1 || hour > 12 {
			return 0, false
		}
		hour %= 12
		if m[3] == "pm" {
			hour += 12
		}
	}
	return 60*hour + minute, hour < 24 && minute < 60
}

// parseOffset reads ":15" as minutes of an hour.
func parseOffset(word string) (int, bool) {
	text, ok := strings.CutPrefix(word, ":")
	n, err := strconv.ParseUint(text, 10, 8)
	return int(n), ok && len(text) == 2 && err == nil && n < 60
}

func parseNumber(word string) (int, bool) {
	if n, ok := map[string]int{"other": 2, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "eight": 8, "ten": 10,
		"twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30}[word]; ok {
		return n, true
	}
	n, err := strconv.ParseUint(word, 10, 16)
	return int(n), err == nil
}

func parsePeriod(word string) (string, bool) {
	period, ok := map[string]string{"week": "week", "weekly": "week", "month": "month", "monthly": "month"}[word]
	return period, ok
}

func parseMonth(word string) (uint64, bool) {
	for n, name := range monthNames {
		if word == strings.ToLower(name) || word == strings.ToLower(name[:3]) || word == "sept" && name == "September" {
			return 1 << (n + 1), true
		}
	}
	return 0, false
}

var monthNames = [12]string{
	"January",
	"February",
	"March",
	"April",
	"May",
	"June",
	"July",
	"August",
	"September",
	"October",
	"November",
	"December",
}

// lowestBit returns the position of the lowest bit of a set.
func lowestBit(set uint64) int { return bits.TrailingZeros64(set) }
