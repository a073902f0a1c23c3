package schedule

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/text"
)

var (
	// Ways of writing that are brought into one form before words are read.
	separatorPattern = text.Pattern(`\s*[,;]+\s*`)
	rangePattern     = text.Pattern(`^([a-z]{3,}|[\d:.]+(?:am|pm)?)[-–]([a-z]{3,}|[\d:.]+(?:am|pm)?)$`)
	spacedRange      = text.Pattern(`\s[-–]\s`)
	spacedAMPM       = text.Pattern(`(\d)\s*(a\.?m\.?|p\.?m\.?)(\s|$)`)
	isoTime          = text.Pattern(`^(\d{4}-\d{2}-\d{2})t(\d{2}:\d{2}(?::\d{2})?)$`)
	// foreignClock matches "14 Uhr", "10 Uhr 30" and "kl. 10.00", which are times of 24 hours.
	foreignClock = text.Pattern(`\b(?:at |um )?(?:(\d{1,2})(?:[.:](\d{2}))?\s?uhr(?:\s(\d{2}))?|kl\.?\s?(\d{1,2})(?:[.:](\d{2}))?)(\s|$)`)
)

// synonyms are words that stand for others.
var synonyms = map[string]string{
	"hourly": "every hour", "daily": "every day", "everyday": "every day", "weekly": "every week",
	"fortnightly": "every 2 weeks", "monthly": "every month", "quarterly": "every quarter", "yearly": "every year",
	"annually": "every year", "alternate": "every other", "midday": "noon", "till": "until", "through": "to",
	"beginning": "starting", "excluding": "except", "each": "every", "half-past": "half past",
	"quarter-past": "quarter past", "quarter-to": "quarter to",
}

// splitWords returns the words of a text in lower case, with "&" as "and", "9-17" as "9 to 17" and "7 a.m." as "7am", and
// without synonyms. Commas are words of their own.
func splitWords(text string) (words []string) {
	text = strings.ReplaceAll(strings.ToLower(text), "&", " and ")
	text = separatorPattern().ReplaceAllString(text, " , ")
	text = spacedRange().ReplaceAllString(text, " to ")
	text = foreignClock().ReplaceAllStringFunc(text, func(s string) string {
		m := foreignClock().FindStringSubmatch(s)
		return strings.TrimSuffix("at "+m[1]+m[4]+"."+m[2]+m[3]+m[5], ".") + "h "
	})
	text = spacedAMPM().ReplaceAllStringFunc(text, func(s string) string {
		return strings.NewReplacer(" ", "", ".", "").Replace(s) + " "
	})
	for _, word := range strings.Fields(strings.TrimRight(text, " ,.!")) {
		m := rangePattern().FindStringSubmatch(word)
		parts := strings.Split(word, "/")
		_, isNumber := parseNumber(word) // "forty-five" is no range
		switch {
		case isoTime().MatchString(word):
			word = isoTime().ReplaceAllString(word, "$1 at $2")
		case synonyms[word] != "":
			word = synonyms[word]
			if n := len(words); n > 0 && words[n-1] == "every" {
				word = strings.TrimPrefix(word, "every ") // "every alternate monday"
			}
		case m != nil && !isNumber && !isoDate().MatchString(word):
			word = m[1] + " to " + m[2]
		// "tue/thu" are days, "Europe/Oslo" is a zone.
		case len(parts) > 1 && !slices.ContainsFunc(parts, func(s string) bool { _, ok := parseWeekday(s); return !ok }):
			word = strings.Join(parts, " and ")
		}
		words = append(words, strings.Fields(word)...)
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
	isRange bool // "monday to friday" was said, which is of every week
}

// accept consumes the next word if it is one of the given ones, and reports whether it was.
func (p *wordParser) accept(words ...string) bool {
	if len(p.words) == 0 || !slices.Contains(words, p.words[0]) {
		return false
	}
	p.words = p.words[1:]
	return true
}

// next returns the next word, or an empty string.
func (p *wordParser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

// acceptAll consumes the words of a phrase if all of them follow.
func (p *wordParser) acceptAll(phrase string) bool {
	words := strings.Fields(phrase)
	if len(p.words) < len(words) || !slices.Equal(p.words[:len(words)], words) {
		return false
	}
	p.words = p.words[len(words):]
	return true
}

// textSince returns the words that were consumed since some others were the next ones.
func (p *wordParser) textSince(before []string) string {
	return strings.Join(before[:len(before)-len(p.words)], " ")
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

// missingError says that a word is not enough.
func missingError(word string) error { return fmt.Errorf("something is missing after %q", word) }

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
const periodDay, periodWeek, periodMonth, periodQuarter, periodYear = "day", "week", "month", "quarter", "year"

// parsePeriod reads a period of more than a day.
func parsePeriod(word string) (string, bool) {
	return word, slices.Contains([]string{periodWeek, periodMonth, periodQuarter, periodYear}, word)
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
		p.skip("in", "of", "on", "every")
		month, ok := acceptFrom(p, parseMonth)
		if !ok || !joined {
			p.words = before
			return set
		}
		behind := p.words
		if p.accept("to", "until") {
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
	_, isPart := parseDayPart(word)
	return isWeekday && strings.HasSuffix(word, "days") || isPart && strings.HasSuffix(word, "s") ||
		slices.Contains(strings.Fields("every once twice weekdays workdays weekends"), word)
}
