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

var (
	// Ways of writing that are brought into one form before words are read.
	separatorPattern = text.Pattern(`\s*[,;]+\s*`)
	rangePattern     = text.Pattern(`^([a-z]{3,}|[\d:.]+(?:am|pm)?)[-–]([a-z]{3,}|[\d:.]+(?:am|pm)?)$`)
	spacedRange      = text.Pattern(`\s[-–]\s`)
	spacedAMPM       = text.Pattern(`(\d)\s*(a\.?m\.?|p\.?m\.?)(\s|$)`)
	isoTime          = text.Pattern(`^(\d{4}-\d{2}-\d{2})t(\d{2}:\d{2}(?::\d{2})?)$`)
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
		case isoTime().MatchString(word):
			words = append(words, isoTime().FindStringSubmatch(word)[1], "at", isoTime().FindStringSubmatch(word)[2])
		case word == "alternate":
			if n := len(words); n == 0 || words[n-1] != "every" {
				words = append(words, "every")
			}
			words = append(words, "other")
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
type wordParser struct {
	words []string
	now   time.Time // zero where the words must mean the same at any time
	// start and end are the first and the last date of all sentences, in days since 1970; 0: there is none.
	start, end int
	// kept are the words without those of start and end. isMoved says that these were counted from now.
	kept    []string
	isMoved bool
}

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

// numberNames are the numbers in words, tenNames the tens.
var (
	numberNames = append(slices.Clone(hourNames), strings.Fields("thirteen fourteen fifteen sixteen seventeen eighteen nineteen")...)
	tenNames    = strings.Split("  twenty thirty forty fifty sixty seventy eighty ninety", " ")
)

// parseNumber reads a number in digits or words, or returns false.
func parseNumber(word string) (int, bool) {
	if n := slices.Index(numberNames, word); n > 0 {
		return n, true
	}
	ten, one, isCompound := strings.Cut(word, "-")
	if n := slices.Index(tenNames, ten); n > 0 {
		digit := slices.Index(numberNames[:10], one)
		return 10*n + max(digit, 0), !isCompound || digit > 0
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
	word = strings.TrimSuffix(word, ".")
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
				for ; month != last; month = (month<<1 | month>>11) & allMonths { // January follows December
					set |= month
				}
			} else {
				p.words = behind
			}
		}
		set |= month
	}
}

var monthNames = strings.Fields("January February March April May June July August September October November December")

// lowestBit returns the position of the lowest bit of a set.
func lowestBit(set uint64) int { return bits.TrailingZeros64(set) }

// isRepeating reports whether a word says that something is repeated. A weekday alone does not: "friday at 9" is once.
func isRepeating(word string) bool {
	_, isWeekday := parseWeekday(word)
	return strings.HasSuffix(word, "days") && isWeekday || slices.Contains(strings.Fields("every each daily everyday weekly "+
		"monthly quarterly yearly annually hourly fortnightly once twice weekdays workdays weekends "+
		"mornings evenings afternoons nights"), word)
}
