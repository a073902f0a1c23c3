package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Describe returns in plain words when the schedule is due: "30 8 * * 1-5" is "weekdays at 8:30". Parse can read most
// of these words again, and then they mean the same.
func (s Schedule) Describe() string {
	if !s.once.IsZero() {
		return "once, on " + s.once.Format("2 January 2006 at 15:04")
	}
	var parts []string
	times := map[string][]string{} // times of the same days are named together
	for _, r := range s.rules {
		days := r.describeDays()
		if text := r.describeInterval(); text != "" {
			parts = append(parts, strings.TrimPrefix(days+" "+text, "every day "))
			continue
		}
		if _, told := times[days]; !told {
			parts = append(parts, days)
		}
		times[days] = append(times[days], r.describeTimes()...)
	}
	// parts keeps the order in which the days were first named; the map has none.
	for i, days := range parts {
		if at, ok := times[days]; ok {
			parts[i] = days + " at " + joinList(at)
		}
	}
	// All rules of one text begin and end on the same date.
	return strings.Join(parts, " and ") + s.describeBounds(", ")
}

// describeBounds returns the first and the last date, each behind a separator.
func (s Schedule) describeBounds(separator string) (text string) {
	if len(s.rules) == 0 {
		return ""
	}
	if s.rules[0].start != 0 {
		text += separator + "starting " + formatDate(s.rules[0].start)
	}
	if s.rules[0].end != 0 {
		text += separator + "until " + formatDate(s.rules[0].end)
	}
	return text
}

// formatDate returns a date, in days since 1970, as "2 January 2006".
func formatDate(date int) string {
	return time.Unix(0, 0).UTC().AddDate(0, 0, date).Format("2 January 2006")
}

// describeDays returns the days of a rule, with its months where they are limited.
func (r rule) describeDays() string {
	text := r.describeDates()
	if r.month == allMonths {
		return text
	}
	months := listBits(r.month, func(n int) string { return monthNames[n-1] })
	// One date of the year needs "every": without it the words would name it once.
	if r.isOneDate() {
		return "every year on the " + ordinalNumber(lowestBit(r.dom)) + " of " + months[0]
	}
	return text + " in " + joinList(months)
}

// describeDates returns the days of a rule without its months.
func (r rule) describeDates() string {
	everyDate, everyWeekday := r.dom == allDates, r.dow == allWeekdays && r.weeks == 0
	switch {
	case r.everyDays > 0:
		return formatEvery(r.everyDays, "day")
	case r.everyWeeks > 0:
		return formatEvery(r.everyWeeks, "week") + " on " + joinList(r.listWeekdays())
	}
	dates := "the " + joinList(r.dateNames()) + " of the month"
	// The order matters: an unrestricted field hides the other one with "or" and leaves it alone with "and".
	switch {
	case r.anyDay && everyDate && everyWeekday, !r.anyDay && (everyDate || everyWeekday):
		return "every day"
	case r.anyDay && everyDate, r.dom == 0 && !r.lastDate:
		return r.describeWeekdays()
	case r.anyDay && everyWeekday, r.dow == 0:
		return dates
	case r.anyDay:
		return "every " + joinList(r.listWeekdays()) + " that is " + dates
	}
	return dates + " and " + r.describeWeekdays()
}

// dateNames returns the dates of a month: "1st", "last".
func (r rule) dateNames() []string {
	dates := listBits(r.dom, ordinalNumber)
	if r.lastDate {
		dates = append(dates, "last")
	}
	return dates
}

// listWeekdays returns the names of the weekdays of a rule, Sunday first.
func (r rule) listWeekdays() []string {
	return listBits(r.dow, func(n int) string { return weekdayNames[n] })
}

// describeWeekdays returns the weekdays of a rule, with which of a month's they are.
func (r rule) describeWeekdays() string {
	switch {
	case r.weeks != 0:
		nth := listBits(uint64(r.weeks)&^1, ordinalName)
		if r.weeks&1 != 0 {
			nth = append(nth, "last")
		}
		if r.pooled {
			return "the " + joinList(nth) + " weekday of the month"
		}
		return joinList(listBits(r.dow, func(n int) string {
			return "the " + joinList(nth) + " " + weekdayNames[n] + " of the month"
		}))
	case r.dow == weekdays:
		return "weekdays"
	case r.dow == weekend:
		return "weekends"
	}
	return "every " + joinList(r.listWeekdays())
}

// maxTimes is how many times of day are listed one by one.
const maxTimes = 12

// describeTimes returns the times of day of a rule as a clock shows them, or as minutes and hours where they are many.
func (r rule) describeTimes() []string {
	// A long list is harder to read than its minutes and hours.
	if bits.OnesCount64(r.hour)*bits.OnesCount64(r.minute) > maxTimes {
		return []string{"minute " + joinList(listBits(r.minute, strconv.Itoa)) + " of hour " + joinList(listBits(r.hour, strconv.Itoa))}
	}
	var times []string
	for hours := r.hour; hours != 0; hours &= hours - 1 {
		times = append(times, listBits(r.minute, func(minute int) string {
			return formatMinute(60*lowestBit(hours) + minute)
		})...)
	}
	return times
}

// describeInterval returns "every 2 hours" and the like where the rule is that regular, else "".
func (r rule) describeInterval() string {
	step := 60
	// Ends with the smallest step whose multiples are exactly the minutes of the rule.
	for n := 59; n > 0; n-- {
		if 60%n == 0 && r.minute == multiples(n, 60) {
			step = n
		}
	}
	first, last := lowestBit(r.hour), bits.Len64(r.hour)-1
	switch {
	case r.interval > 0:
		return formatEvery(r.interval, "minute")
	case r.elapsed && r.minute == 1:
		for n := 1; n < 24; n++ {
			if 24%n == 0 && r.hour == multiples(n, 24) {
				return formatEvery(n, "hour")
			}
		}
	case r.elapsed && r.hour == allHours && step < 60:
		return formatEvery(step, "minute")
	case r.elapsed && r.hour == allHours:
		offsets := listBits(r.minute, func(n int) string { return fmt.Sprintf(":%02d", n) })
		return "every hour at " + joinList(offsets)
	case step < 60 && last-first > 2 && bits.OnesCount64(r.hour) == last-first+1:
		return fmt.Sprintf("%s from %d:00 to %d:%02d", formatEvery(step, "minute"), first, last, 60-step)
	}
	return ""
}

// formatEvery returns "every hour" or "every 2 hours".
func formatEvery(n int, unit string) string {
	if n == 1 {
		return "every " + unit
	}
	return fmt.Sprintf("every %d %ss", n, unit)
}

// listBits returns the names of the bits of a set.
func listBits(set uint64, name func(int) string) (names []string) {
	for ; set != 0; set &= set - 1 {
		names = append(names, name(lowestBit(set)))
	}
	return names
}

// joinList returns "a, b and c".
func joinList(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:len(items)-1], ", ") + " and " + items[len(items)-1]
}
