package schedule

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/core/text"
)

// parseDays reads the days of a sentence, as rules without times. It returns none where the next words name no days.
func (p *wordParser) parseDays() (list []rule, err error) {
	for {
		before := p.words
		comma := p.accept(",")
		and := p.accept("and")
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
			named := p.textSince(before)
			// "friday the 13th" is one day to most, and two kinds of days to others.
			if last.isWeekdays() && bits.OnesCount64(last.dow) == 1 && !and && bits.OnesCount64(item.dom) == 1 {
				item.named = last.dow
				*last = item
				continue
			}
			if !and && (!comma || last.isWeekdays() != item.isWeekdays()) {
				return nil, fmt.Errorf("it is not clear how %q goes with the day before it; say \"and\" between days", named)
			}
			// "first monday and tuesday" may mean every tuesday or the first one: refuse rather than guess.
			if last.weeks != 0 && item.weeks == 0 && item.dow != 0 {
				return nil, fmt.Errorf("it is not clear whether %q applies to every week; say for instance \"first monday and "+
					"first tuesday\"", named)
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
	case r.month != item.month:
		return false
	case r.pooled || item.pooled:
		// Both have the same weekdays then.
		if r.pooled != item.pooled {
			return false
		}
		r.weeks |= item.weeks
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

// parseDay reads "every day", "weekdays", "monday to friday", "the first and third tuesday of the month", "the 15th" or
// "24 december".
func (p *wordParser) parseDay() (item rule, found bool, err error) {
	before := p.words
	p.skip("on")
	every := p.accept("every")
	p.skip("the", "single")
	if item, ok := p.acceptDayAndMonth(); ok {
		return item, true, nil
	}
	if nth := parseList(p, []string{"the"}, parseOrdinal); len(nth) > 0 {
		item, err = p.parseNth(nth, every)
		return item, err == nil, err
	}
	isEnd := p.acceptAll("end of")
	if isEnd {
		p.skip("the", "this", "every")
	}
	switch {
	case isEnd && p.accept(periodMonth):
		return rule{lastDate: true, month: allMonths}, true, nil
	case isEnd && p.accept(periodYear):
		return rule{dom: 1 << 31, month: 1 << 12}, true, nil
	case every && p.accept("day"):
		return rule{dow: allWeekdays}, true, nil
	case p.acceptBusinessDay():
		return rule{dow: weekdays}, true, nil
	case p.accept("weekend", "weekends"):
		p.accept("day", "days")
		return rule{dow: weekend}, true, nil
	}
	if !isEnd {
		item.dow, err = p.parseWeekdays()
	}
	if item.dow == 0 {
		p.words = before
	}
	return item, item.dow != 0, err
}

// parseWeekdays reads "monday" and "monday to friday". It returns none where the next words name none.
func (p *wordParser) parseWeekdays() (set uint64, err error) {
	before := p.words
	from, ok := acceptFrom(p, parseWeekday)
	if !ok {
		return 0, nil
	}
	behind := p.words
	isRange := p.accept("to")
	if !isRange && !p.accept("until") {
		return 1 << from, nil
	}
	to, ok := acceptFrom(p, parseWeekday)
	switch {
	case isRange && ok:
		p.isRange = true
		return weekdayRange(from, to), nil
	case isRange:
		return 0, fmt.Errorf("a weekday is missing after %q", p.textSince(before))
	case ok:
		const layout = "%q may mean two things; say \"to\" between the weekdays, or until which date"
		return 0, fmt.Errorf(layout, p.textSince(before))
	}
	p.words = behind
	return 1 << from, nil
}

// acceptBusinessDay consumes "weekdays", "workday" or "business days".
func (p *wordParser) acceptBusinessDay() bool {
	phrases := []string{"weekday", "weekdays", "workday", "workdays", "working day", "working days", "business day", "business days"}
	return slices.ContainsFunc(phrases, p.acceptAll)
}

const (
	// weekdays and weekend are sets of weekdays; bit 0 is Sunday.
	weekdays    uint64 = 0b0111110
	weekend     uint64 = 0b1000001
	lastOrdinal        = 0 // the ordinal "last"
	// maxBusinessDay is how many business days every month has at least.
	maxBusinessDay = 20
)

// parseNth reads what follows "first and third": a weekday, business days, or dates. every says that "every" stands
// before it, which makes some of them unclear.
func (p *wordParser) parseNth(nth []int, every bool) (r rule, err error) {
	weekday, isWeekday := acceptFrom(p, parseWeekday)
	r.pooled = !isWeekday && p.acceptBusinessDay()
	if p.accept("weekend", "weekends") {
		return rule{}, fmt.Errorf("\"%s weekend\" may mean several days; say for instance \"%[1]s saturday of the month\"",
			ordinalName(nth[0]))
	}
	if !isWeekday && !r.pooled {
		p.skip("day", "days")
		if _, isPeriod := parsePeriod(p.next()); isPeriod {
			return rule{}, fmt.Errorf("\"%s %s\" names no day", ordinalName(nth[0]), p.next())
		}
	}
	period := p.acceptOfPeriod()
	for _, n := range nth {
		switch {
		case r.pooled && n > maxBusinessDay:
			return rule{}, fmt.Errorf("not every month has a %s business day", ordinalName(n))
		case r.pooled:
			r.dow = weekdays
			r.weeks |= 1 << n
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
	switch period {
	case periodMonth:
		r.month = allMonths
	case periodQuarter:
		r.month, err = r.quarterMonths()
		return r, err
	}
	// "every second monday" is the second of a month to some and every other monday to others.
	if isWeekday && every && period == "" && r.weeks&^0b11 != 0 {
		return rule{}, fmt.Errorf("\"every %s %s\" may mean two things; say \"%[1]s %[2]s of the month\"",
			ordinalName(nth[0]), weekdayNames[weekday])
	}
	return r, nil
}

// acceptOfPeriod consumes "of the month" and returns the period, or an empty string where none is named.
func (p *wordParser) acceptOfPeriod() string {
	before := p.words
	if p.accept("of", "in") {
		p.skip("the", "every", "a")
		period := strings.TrimSuffix(p.next(), "s")
		if p.accept("month", "months", "quarter", "quarters") {
			return period
		}
	}
	p.words = before
	return ""
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

// weekdayNames are the days of the week as time.Weekday numbers them.
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

// ordinalPattern matches an ordinal in digits.
var ordinalPattern = text.Pattern(`^(\d{1,2})(st|nd|rd|th)$`)

// ordinals are the ordinals in words; "last" is lastOrdinal.
var ordinals = [6]string{"last", "first", "second", "third", "fourth", "fifth"}

// parseOrdinal reads "first" and "1st"; "last" is 0.
func parseOrdinal(word string) (int, bool) {
	if n := slices.Index(ordinals[:], word); n >= 0 {
		return n, true
	}
	m := ordinalPattern().FindStringSubmatch(word)
	if m == nil {
		return 0, false
	}
	n, _ := strconv.Atoi(m[1])
	return n, n >= 1 && n <= 31
}

// ordinalName returns "first" to "fifth", "last", and otherwise "6th".
func ordinalName(n int) string {
	if n < len(ordinals) {
		return ordinals[n]
	}
	return ordinalNumber(n)
}

// ordinalNumber returns the number with its ending: 1st, 2nd, 11th.
func ordinalNumber(n int) string {
	if n%100/10 != 1 && n%10 >= 1 && n%10 <= 3 {
		return strconv.Itoa(n) + []string{"st", "nd", "rd"}[n%10-1]
	}
	return strconv.Itoa(n) + "th"
}
