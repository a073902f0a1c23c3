package schedule

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// parseDays reads the days of a sentence, as rules without times. It returns none where the next words name no days.
func (p *wordParser) parseDays() (list []rule, err error) {
	for {
		before := p.words
		// "first monday and tuesday" may mean every tuesday or the first one: refuse rather than guess.
		if len(list) > 0 {
			p.skip("and")
		}
		item, found, err := p.parseDay()
		if err != nil {
			return nil, err
		}
		if !found {
			p.words = before
			return list, nil
		}
		if len(list) > 0 {
			last := &list[len(list)-1]
			if last.weeks != 0 && item.weeks == 0 && item.dow != 0 {
				return nil, fmt.Errorf(
					"it is not clear whether %q applies to every week; say for instance \"first monday and first tuesday\"",
					strings.Join(before[:len(before)-len(p.words)], " "),
				)
			}
			if mergeRule(last, item) {
				continue
			}
		}
		list = append(list, item)
	}
}

// mergeRule adds the item to the rule where one rule can express both, and reports whether it can.
func mergeRule(r *rule, item rule) bool {
	switch {
	case r.weeks == 0 && item.weeks == 0 && r.dow != 0 && item.dow != 0, r.weeks != 0 && r.weeks == item.weeks:
		r.dow |= item.dow
	case r.weeks != 0 && item.weeks != 0 && r.dow == item.dow:
		r.weeks |= item.weeks
	case r.dow == 0 && item.dow == 0:
		r.dom |= item.dom
		r.lastDate = r.lastDate || item.lastDate
	default:
		return false
	}
	return true
}

// parseDay reads "every day", "weekdays", "monday to friday", "the first and third tuesday of the month" or "the
// 15th".
func (p *wordParser) parseDay() (item rule, found bool, err error) {
	before := p.words
	p.skip("on")
	every := p.accept("every", "each")
	p.skip("the")
	nth := parseList(p, []string{"the"}, parseOrdinal)
	if len(nth) > 0 {
		item, err = p.parseNth(nth, every)
		return item, err == nil, err
	}
	switch {
	case p.accept("daily", "everyday"), every && p.accept("day"):
		return rule{dow: allWeekdays}, true, nil
	case p.accept("weekday", "weekdays", "workday", "workdays"):
		return rule{dow: weekdays}, true, nil
	case p.accept("weekend", "weekends"):
		return rule{dow: weekend}, true, nil
	case p.accept("working", "business"):
		if p.accept("day", "days") {
			return rule{dow: weekdays}, true, nil
		}
	}
	from, ok := acceptFrom(p, parseWeekday)
	if !ok {
		p.words = before
		return rule{}, false, nil
	}
	if p.accept("to", "through", "until", "till") {
		to, ok := acceptFrom(p, parseWeekday)
		if !ok {
			return rule{}, false, fmt.Errorf(
				"a weekday is missing after %q",
				strings.Join(before[:len(before)-len(p.words)], " "),
			)
		}
		return rule{dow: weekdayRange(from, to)}, true, nil
	}
	return rule{dow: 1 << from}, true, nil
}

const (
	// weekdays and weekend are sets of weekdays; bit 0 is Sunday.
	weekdays    uint64 = 0b0111110
	weekend     uint64 = 0b1000001
	lastOrdinal        = 0 // the ordinal "last"
)

// parseNth reads what follows "first and third".
func (p *wordParser) parseNth(nth []int, every bool) (r rule, err error) {
	weekday, isWeekday := acceptFrom(p, parseWeekday)
	if !isWeekday {
		p.skip("day", "days")
	}
	monthly := p.acceptOfMonth()
	for _, n := range nth {
		switch {
		case !isWeekday && n == lastOrdinal:
			r.lastDate = true
		case !isWeekday:
			r.dom |= 1 << n
		case n > 5:
			return rule{}, fmt.Errorf("no month has a %s %s", ordinalName(n), weekdayNames[weekday])
		default:
			r.dow = 1 << weekday
			r.weeks |= 1 << n
		}
	}
	// "every second monday" is the second of a month to some and every other monday to others.
	if isWeekday && every && !monthly && r.weeks&^0b11 != 0 {
		return rule{}, fmt.Errorf(
			"\"every %s %s\" may mean two things; say \"%[1]s %[2]s of the month\"",
			ordinalName(nth[0]),
			weekdayNames[weekday],
		)
	}
	return r, nil
}

// acceptOfMonth consumes "of the month" and reports whether it was there.
func (p *wordParser) acceptOfMonth() bool {
	before := p.words
	if p.accept("of", "in") {
		p.skip("the", "every", "each", "a")
		if p.accept("month", "months") {
			return true
		}
	}
	p.words = before
	return false
}

// weekdayRange returns the weekdays from one to another, across Saturday where needed.
func weekdayRange(from, to int) (set uint64) {
	for n := from; ; n = (n + 1) % 7 {
		set |= 1 << n
		if n == to {
			return set
		}
	}
}

var weekdayNames = [7]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}

// parseWeekday reads the name of a weekday, its plural or its first letters.
func parseWeekday(word string) (int, bool) {
	word = strings.TrimSuffix(strings.TrimSuffix(word, "."), "s")
	for n, name := range weekdayNames {
		name = strings.ToLower(name)
		if word == name || len(word) >= 3 && len(word) <= 5 && strings.HasPrefix(name, word) || word == "tue" && n == 2 {
			return n, true
		}
	}
	return 0, false
}

var dayNumber = regexp.MustCompile(`^(\d{1,2})(st|nd|rd|th)$`)

var ordinals = [6]string{"last", "first", "second", "third", "fourth", "fifth"}

// parseOrdinal reads "first" and "1st"; "last" is 0.
func parseOrdinal(word string) (int, bool) {
	for n, name := range ordinals {
		if word == name {
			return n, true
		}
	}
	m := dayNumber.FindStringSubmatch(word)
	if m == nil {
		return 0, false
	}
	n, _ := strconv.Atoi(m[1])
	return n, n >= 1 && n <= 31
}

// ordinalName returns "first" to "fifth", "last", and else "6th".
func ordinalName(n int) string {
	if n < len(ordinals) {
		return ordinals[n]
	}
	return ordinalNumber(n)
}

// ordinalNumber returns the number with its ending: 1st, 2nd, 11th.
func ordinalNumber(n int) string {
	ending := "th"
	if n%100/10 != 1 {
		switch n % 10 {
		case 1:
			ending = "st"
		case 2:
			ending = "nd"
		case 3:
			ending = "rd"
		}
	}
	return strconv.Itoa(n) + ending
}
