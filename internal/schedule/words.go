package schedule

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/text"
)

// examples end every error about words: they lead to the right words fastest.
const examples = `"weekdays at 8:30", "every monday and thursday at 9am", "first monday of the month at 9", ` +
	`"every 2 hours"`

// parseWords reads plain English. It accepts the words in any order that people use ("at 9 on mondays") and several
// sentences in one ("weekdays at 8 and saturdays at 10"). Every word has to have a meaning; what may mean two things is
// refused. The zone is nil where the words name none.
func parseWords(text string) (rules []rule, zone *time.Location, err error) {
	words, zone, err := splitZone(splitWords(text))
	if err == nil {
		rules, err = parseSentences(words)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w; examples: %s, or cron: \"30 8 * * 1-5\"", err, examples)
	}
	return rules, zone, nil
}

// parseSentences reads sentences that each say when, of which every word has to be understood.
func parseSentences(words []string) (rules []rule, err error) {
	start, words, err := splitStart(words)
	if err != nil {
		return nil, err
	}
	p := &wordParser{words: words}
	for len(p.words) > 0 {
		more, err := p.parseSentence()
		if err != nil {
			return nil, err
		}
		rules = append(rules, more...)
	}
	if len(rules) == 0 {
		return nil, fmt.Errorf("it says nothing about when")
	}
	for i := range rules {
		rules[i].start = start
	}
	return rules, nil
}

// splitStart takes "starting 24 November 2026" out of the words, and returns the date in days since 1970.
func splitStart(words []string) (start int, rest []string, err error) {
	at := slices.IndexFunc(words, func(w string) bool { return w == "starting" || w == "beginning" })
	if at < 0 {
		return 0, words, nil
	}
	p := &wordParser{words: words[at+1:]}
	p.skip("on", "from")
	date, found, err := p.acceptDate()
	switch {
	case err != nil:
		return 0, nil, err
	case !found || date.year == 0:
		return 0, nil, fmt.Errorf("%q needs a date with its year, such as \"starting 24 November 2026\"", words[at])
	}
	before := words[:at]
	if len(before) > 0 && before[len(before)-1] == "," {
		before = before[:len(before)-1]
	}
	return dayNumber(date.in(date.year)), slices.Concat(before, p.words), nil
}

var (
	// Ways of writing that are brought into one form before words are read.
	separatorPattern = text.Pattern(`\s*[,;]+\s*`)
	rangePattern     = text.Pattern(`^([a-z]{3,}|[\d:.]+(?:am|pm)?)[-–]([a-z]{3,}|[\d:.]+(?:am|pm)?)$`)
	spacedRange      = text.Pattern(`\s[-–]\s`)
	spacedAMPM       = text.Pattern(`(\d)\s*(a\.?m\.?|p\.?m\.?)(\s|$)`)
	isoDate          = text.Pattern(`^\d{4}-\d{2}-\d{2}$`)
)

// splitWords returns the words of a text in lower case, with "&" as "and", "9-17" as "9 to 17" and "7 a.m." as "7am".
// Commas are words of their own.
func splitWords(text string) []string {
	text = strings.ReplaceAll(strings.ToLower(text), "&", " and ")
	text = separatorPattern().ReplaceAllString(text, " , ")
	text = spacedRange().ReplaceAllString(text, " to ")
	text = spacedAMPM().ReplaceAllStringFunc(text, func(s string) string {
		return strings.NewReplacer(" ", "", ".", "").Replace(s) + " "
	})
	var words []string
	for _, word := range strings.Fields(strings.TrimRight(text, " ,.!")) {
		m := rangePattern().FindStringSubmatch(word)
		parts := strings.Split(word, "/")
		_, isNumber := parseNumber(word) // "forty-five" is no range
		switch {
		case word == "half-past" || word == "quarter-past" || word == "quarter-to":
			words = append(words, strings.Split(word, "-")...)
		case m != nil && !isNumber && !isoDate().MatchString(word):
			words = append(words, m[1], "to", m[2])
		// "tue/thu" are days, "Europe/Oslo" is a zone.
		case len(parts) > 1 && !slices.ContainsFunc(parts, func(s string) bool { _, ok := parseWeekday(s); return !ok }):
			words = append(words, strings.Fields(strings.Join(parts, " and "))...)
		default:
			words = append(words, word)
		}
	}
	return words
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

// skipAnd consumes ",", "and" or both, and reports whether one was there.
func (p *wordParser) skipAnd() bool {
	comma := p.accept(",")
	return p.accept("and") || comma
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
		// Without an "and" the next value is none of this list.
		joined := len(list) == 0 || p.skipAnd()
		p.skip(filler...)
		value, ok := acceptFrom(p, table)
		// The "and" belongs to whatever comes next, so it is put back.
		if !ok || !joined {
			p.words = before
			return list
		}
		list = append(list, value)
	}
}

// unknownWordError says what is wrong with a word, and hints at the usual mistakes.
func unknownWordError(word string) error {
	switch {
	case strings.HasPrefix(word, "holiday") || strings.HasSuffix(word, "holidays"):
		return fmt.Errorf("%q was not understood: I know no calendar of holidays", word)
	case word != "" && word[0] >= '0' && word[0] <= '9':
		return fmt.Errorf("%q is not a time of day", word)
	}
	return fmt.Errorf("%q was not understood", word)
}

// multiples returns the set of 0, of, 2·of and so on below a bound.
func multiples(of, below int) (set uint64) {
	for n := 0; n < below; n += of {
		set |= 1 << n
	}
	return set
}

// parseOffset reads ":15" as minutes of an hour.
func parseOffset(word string) (int, bool) {
	text, ok := strings.CutPrefix(word, ":")
	n, err := strconv.ParseUint(text, 10, 8)
	return int(n), ok && len(text) == 2 && err == nil && n < 60
}

// parseNumber reads a number in digits or words, or returns false.
func parseNumber(word string) (int, bool) {
	if n := slices.Index(hourNames, word); n > 0 {
		return n, true
	}
	n, ok := map[string]int{
		"fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "forty-five": 45, "sixty": 60, "ninety": 90,
	}[word]
	if ok {
		return n, true
	}
	digits, err := strconv.ParseUint(word, 10, 16)
	return int(digits), err == nil
}

// The periods that a sentence may name beside its days.
const (
	periodDay     = "day"
	periodWeek    = "week"
	periodMonth   = "month"
	periodQuarter = "quarter"
	periodYear    = "year"
)

// parsePeriod returns the period that a word names, or false.
func parsePeriod(word string) (string, bool) {
	period, ok := map[string]string{
		"week": periodWeek, "weekly": periodWeek, "month": periodMonth, "monthly": periodMonth,
		"quarter": periodQuarter, "quarterly": periodQuarter,
		"year": periodYear, "yearly": periodYear, "annually": periodYear,
	}[word]
	return period, ok
}

// parseMonth returns the bit of the month that a word names, or false.
func parseMonth(word string) (uint64, bool) {
	for n, name := range monthNames {
		if word == strings.ToLower(name) || word == strings.ToLower(name[:3]) || word == "sept" && name == "September" {
			return 1 << (n + 1), true
		}
	}
	return 0, false
}

// parseMonths reads "in january and july" and "in june to august".
func (p *wordParser) parseMonths() (set uint64) {
	for {
		before := p.words
		joined := set == 0 || p.skipAnd()
		p.skip("in", "of", "on", "every", "each")
		month, ok := acceptFrom(p, parseMonth)
		if !ok || !joined {
			p.words = before
			return set
		}
		behind := p.words
		if p.accept("to", "through", "until", "till") {
			if last, ok := acceptFrom(p, parseMonth); ok {
				for ; month != last; month = nextMonth(month) {
					set |= month
				}
			} else {
				p.words = behind
			}
		}
		set |= month
	}
}

// nextMonth returns the bit of the month behind another: January follows December.
func nextMonth(month uint64) uint64 {
	if month == 1<<12 {
		return 1 << 1
	}
	return month << 1
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
