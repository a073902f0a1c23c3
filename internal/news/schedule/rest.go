package schedule

import (
	"slices"
	"strings"
)

// isTimeWord reports whether a word alone is likely to be a part of a time.
func isTimeWord(word string) bool {
	if _, ok := parseWeekday(word); ok {
		return true
	}
	if _, ok := parseMonth(word); ok && word != "may" {
		return true
	}
	_, isNumber := parseDecimal(word)
	_, isOrdinal := parseOrdinal(word)
	_, isClock := parseTimeOfDay(word)
	_, isPart := parseDayPart(word)
	_, isDate, _ := acceptAnyDate(word)
	return isNumber || isOrdinal && ordinalPattern().MatchString(word) || isClock || isPart || isDate || isRepeating(word) ||
		compactAmount().MatchString(word) || isRelativeDay(word)
}

// acceptAnyDate reads a date in digits, right or wrong.
func acceptAnyDate(word string) (rule, bool, error) {
	r, _, found, err := parseDigitDate(word)
	return r, found || err != nil, err
}

// connectives are words that join one part of a time to another, fillers may stand behind them.
var (
	connectives = strings.Fields(", and or for in next from starting on at of this every to by before after within but not " +
		"only all since")
	fillers = strings.Fields("the a an next this last end of about around every")
	// leads are those that a text does not end with.
	leads = strings.Fields("and or every in from next starting before after not only since")
	// limits only belong to a time: no text begins with them.
	limits = strings.Fields("until except unless between thru during")
)

// ContinuesTime reports whether the words behind a time may belong to it: "and friday", "30 minutes", "until january". A
// text that begins so has to be marked as one.
func ContinuesTime(time, rest []string) bool {
	words := splitWords(strings.Join(rest, " "))
	if len(words) == 0 {
		return false
	}
	last := splitWords(strings.Join(time, " "))
	if n := len(last); n > 1 {
		// "in 1 hour 30 bread" may be one hour, and 30 of it; "in 1 hour 30 the bread" is not.
		unit, isUnit := parseUnit(last[n-2])
		isText := slices.Contains([]string{",", "to", "the", "my", "that", "about"}, words[0])
		if isUnit && unit.elapsed > 0 && isMinuteCount(last[n-1:]) && !isText {
			return true
		}
	}
	// "every friday at 16 weekly report" has its period, in "friday at 16 weekly report" the adverb may be of the text.
	if slices.ContainsFunc(splitWords(strings.Join(time[:len(time)-1], " ")), isRepeating) {
		if isAdverb(rest[0]) {
			return false
		}
	} else if isPeriodAdverb(time[len(time)-1]) {
		return true
	}
	if slices.Contains(limits, words[0]) || slices.Contains(zoneLetters, words[0]) {
		return true
	}
	p := wordParser{words: words}
	if p.accept(connectives...) {
		p.skip(slices.Concat(fillers, connectives)...)
		// "next week", "in an hour"
		if isUnitName(p.next()) {
			return true
		}
	}
	return isTimeWord(p.next())
}

// RepeatsTwice reports whether the last of the words names a period again although a time is repeated. It is rather of the
// text then: "every friday at 16 weekly report".
func RepeatsTwice(words []string) bool {
	n := len(words) - 1
	return n > 0 && isPeriodAdverb(words[n]) && slices.ContainsFunc(splitWords(strings.Join(words[:n], " ")), isRepeating)
}

// isAdverb reports whether a word says how often, such as "daily", and isPeriodAdverb that it is such as "weekly".
func isAdverb(word string) bool { return strings.HasPrefix(synonyms[strings.ToLower(word)], "every ") }

func isPeriodAdverb(word string) bool {
	_, isPeriod := parsePeriod(strings.TrimPrefix(synonyms[strings.ToLower(word)], "every "))
	return isPeriod
}

// isUnitName reports whether a word names a unit of time or a period.
func isUnitName(word string) bool {
	_, isUnit := parseUnit(word)
	_, isPeriod := parsePeriod(word)
	return isUnit && len(word) > 1 || isPeriod
}

// LeadsToTime reports whether the words before a time may belong to it: "monday and", "in two weeks".
func LeadsToTime(text []string) bool {
	words := splitWords(strings.Join(text, " "))
	n := len(words)
	if n == 0 {
		return false
	}
	last := words[n-1]
	_, isNumber := parseDecimal(last)
	switch {
	case slices.Contains(limits, last), slices.Contains(leads, last):
		return true
	case n > 1 && isUnitName(last) && (words[n-2] == "next" || words[n-2] == "every"):
		return true
	case n > 2 && isUnitName(last):
		return slices.Contains([]string{"in", "for", "every", "next", "after"}, words[n-3])
	}
	// "march to the shop" and "second draft" are texts.
	_, isWeekday := parseWeekday(words[0])
	return isTimeWord(last) && !isNumber || isWeekday || isRepeating(words[0]) || isRelativeDay(words[0])
}

// isRelativeDay reports whether a word is a day as seen from today.
func isRelativeDay(word string) bool {
	return slices.Contains([]string{"today", "tomorrow", "tonight"}, word)
}

// IsAmount reports whether words are an amount of time and no time: "20 minutes", "1h30m".
func IsAmount(words []string) bool {
	p := wordParser{words: splitWords(strings.Join(words, " "))}
	_, found, err := p.acceptAmounts()
	return err == nil && found && len(p.words) == 0
}
