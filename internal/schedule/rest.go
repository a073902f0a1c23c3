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
	connectives = strings.Fields(", and or for in next from starting beginning on at of this every each to by before after " +
		"within but not only all since")
	fillers = strings.Fields("the a an next this last end of about around every each")
	// leads are those that a text does not end with.
	leads = strings.Fields("and or every each in from next starting before after not only since")
	// limits only belong to a time: no text begins with them.
	limits = strings.Fields("until till except excluding unless between through thru during")
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
		// In "in 1 hour 30 bread" and "every friday at 16 weekly report" the last word may be of the text as well.
		unit, isUnit := parseUnit(last[n-2])
		isAmount := isMinuteCount(last[n-1:]) && isUnit && unit.elapsed > 0
		_, isPeriod := parsePeriod(last[n-1])
		if isAmount && words[0] != "," && words[0] != "to" || isPeriod && strings.HasSuffix(last[n-1], "ly") {
			return true
		}
	}
	if slices.Contains(limits, words[0]) || slices.Contains(zoneLetters, words[0]) {
		return true
	}
	p := wordParser{words: words}
	if p.accept(connectives...) {
		p.skip(slices.Concat(fillers, connectives)...)
		// "next week", "in an hour"
		if _, isUnit := parseUnit(p.next()); isUnit && len(p.next()) > 1 {
			return true
		}
	}
	return isTimeWord(p.next())
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
	_, isUnit := parseUnit(last)
	switch {
	case slices.Contains(limits, last), slices.Contains(leads, last):
		return true
	case isUnit && n > 2:
		return slices.Contains([]string{"in", "for", "every", "next", "after"}, words[n-3]) || words[n-2] == "next"
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
