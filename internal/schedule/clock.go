package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/text"
)

// clock is a time of day as somebody wrote it.
type clock struct {
	minute int // of the day
	// open says that the hour may be one of the afternoon as well: "8", but not "8am", "08:00" or "20:00".
	open bool
	text string
}

// dayPart is a part of the day, with the hours that it has.
type dayPart struct {
	name     string
	from, to int // minutes of the day; a night ends after midnight
}

// dayParts overlap: six is in the afternoon to some and in the evening to others, and both are right.
var dayParts = [4]dayPart{
	{"morning", 0, 12*60 - 1},
	{"afternoon", 12 * 60, 18*60 - 1},
	{"evening", 16 * 60, 24*60 - 1},
	{"night", 18 * 60, 6*60 - 1},
}

// parseDayPart reads "morning" and its plural.
func parseDayPart(word string) (dayPart, bool) {
	for _, part := range dayParts {
		if strings.TrimSuffix(word, "s") == part.name {
			return part, true
		}
	}
	return dayPart{}, false
}

// contains reports whether a minute of the day is in the part, which may go over midnight.
func (d dayPart) contains(minute int) bool {
	if d.from > d.to {
		return minute >= d.from || minute <= d.to
	}
	return minute >= d.from && minute <= d.to
}

// within returns the minute of the day that a time means in a part of the day. It returns an error where the part has
// no such time.
func (c clock) within(part dayPart) (int, error) {
	const halfDay = 12 * 60
	switch {
	// "12 at night" is midnight, "12 in the morning" is refused: people mean both by it.
	case c.open && c.minute >= halfDay && part.name == "night":
		return c.minute - halfDay, nil
	case part.name == "morning" && c.open && c.minute >= halfDay:
	case c.open && c.minute < halfDay && !part.contains(c.minute) && part.contains(c.minute+halfDay):
		return c.minute + halfDay, nil
	// "6 at night" is the evening's, though the night has an early 5:59.
	case part.contains(c.minute):
		return c.minute, nil
	}
	return 0, fmt.Errorf("%q is no time of the %s", c.text, part.name)
}

// clockTime matches a time of day in digits; "h" stands between or behind hours and minutes, as in French.
var clockTime = text.Pattern(`^(\d{1,2})(?:[:.h](\d{2}))?(am|pm|h)?$`)

// hourNames are the hours in words.
var hourNames = strings.Split(" one two three four five six seven eight nine ten eleven twelve", " ")

// parseTimeOfDay reads "8:30", "9am", "18", "eight" or "noon"; false for other words.
func parseTimeOfDay(word string) (clock, bool) {
	switch word {
	case "noon", "midday":
		return clock{minute: 12 * 60, text: word}, true
	case "midnight":
		return clock{text: word}, true
	}
	if hour := slices.Index(hourNames, word); hour > 0 {
		return clock{minute: hour * 60, open: true, text: word}, true
	}
	m := clockTime().FindStringSubmatch(word)
	if m == nil {
		return clock{}, false
	}
	hour, _ := strconv.Atoi(m[1])
	minute, _ := strconv.Atoi("0" + m[2])
	c := clock{open: m[3] == "" && m[1][0] != '0' && hour >= 1 && hour <= 12, text: word}
	if m[3] == "am" || m[3] == "pm" {
		if hour < 1 || hour > 12 {
			return clock{}, false
		}
		hour %= 12
		if m[3] == "pm" {
			hour += 12
		}
	}
	c.minute = 60*hour + minute
	return c, hour < 24 && minute < 60
}

// acceptClock consumes a time of day: "8:30", "half past eight", "quarter to 9", "seven o'clock", "8 in the evening".
// found is false where the next words name none.
func (p *wordParser) acceptClock() (c clock, found bool, err error) {
	before := p.words
	if c, found, err = p.acceptSpokenClock(); err != nil {
		return c, false, err
	}
	if !found {
		if c, found = acceptFrom(p, parseTimeOfDay); !found {
			p.words = before
			return clock{}, false, nil
		}
	}
	p.accept("o'clock", "oclock", "sharp")
	if half, ok := acceptFrom(p, parseHalf); ok {
		if !c.open {
			return c, false, fmt.Errorf("%q goes with no \"am\" or \"pm\"", c.text)
		}
		c.minute, c.open = c.minute%(12*60)+half, false
	}
	// A month may follow "in" as well, so the words are put back unless a part of the day does.
	behind := p.words
	if p.accept("in", "at") {
		p.skip("the")
		if part, ok := acceptFrom(p, parseDayPart); ok {
			minute, err := c.within(part)
			return clock{minute: minute, text: c.text}, err == nil, err
		}
		p.words = behind
	}
	return c, true, nil
}

// parseHalf reads "am" and "pm" as the minute at which that half of the day begins.
func parseHalf(word string) (minute int, ok bool) {
	if word == "pm" {
		minute = 12 * 60
	}
	return minute, word == "am" || word == "pm"
}

// acceptSpokenClock consumes "half past eight", "quarter past 8", "quarter to nine" or "ten past 9".
func (p *wordParser) acceptSpokenClock() (c clock, found bool, err error) {
	before := p.words
	offset := 0
	switch {
	case p.accept("half"):
		offset = 30
	case p.accept("quarter") || p.accept("a") && p.accept("quarter"):
		offset = 15
	default:
		p.words = before
		n, ok := acceptFrom(p, parseNumber)
		p.accept("minutes")
		if !ok || len(p.words) == 0 || p.words[0] != "past" || n < 1 || n > 59 {
			p.words = before
			return clock{}, false, nil
		}
		offset = n
	}
	switch {
	case p.accept("past"):
	case offset == 15 && p.accept("to"):
		offset = -15
	default:
		// "half eight" is 7:30 to some and 8:30 to others; "half an hour" is no time of day.
		if _, isClock := acceptFrom(p, parseTimeOfDay); isClock && offset == 30 {
			return clock{}, false, fmt.Errorf("%q may mean two times; say \"half past\"", strings.Join(before[:2], " "))
		}
		p.words = before
		return clock{}, false, nil
	}
	hour, ok := acceptFrom(p, parseTimeOfDay)
	if !ok || hour.minute%60 != 0 {
		p.words = before
		return clock{}, false, nil
	}
	hour.minute = (hour.minute + offset + 24*60) % (24 * 60)
	hour.text = strings.Join(before[:len(before)-len(p.words)], " ")
	return hour, true, nil
}
