package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/text"
)

// clock is a time of day as somebody wrote it.
type clock struct {
	minute int // of the day
	// open says that the hour may be one of the afternoon as well: "8", but not "8am", "08:00" or "20:00".
	open bool
	// halfDay says that it has "am" or "pm", fullDay that it can only be one of 24 hours: "17", "08:00".
	halfDay, fullDay bool
	// bare says that it is a number and nothing else, which may be something else than a time.
	bare bool
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
	return 0, fmt.Errorf("%q is not a time of the %s", c.text, part.name)
}

// clockTime matches a time of day in digits; "h" stands between or behind hours and minutes, as in French.
var clockTime = text.Pattern(`^(\d{1,2})(?:[:.h](\d{2}))?(?::00)?(am|pm|h)?$`)

// militaryTime matches "0730" and "1800".
var militaryTime = text.Pattern(`^\d{4}$`)

// hourNames are the hours in words.
var hourNames = strings.Split(" one two three four five six seven eight nine ten eleven twelve", " ")

// parseTimeOfDay reads "8:30", "9am", "18", "eight" or "noon"; false for other words.
func parseTimeOfDay(word string) (clock, bool) {
	switch word {
	case "noon":
		return clock{minute: 12 * 60, text: word}, true
	case "midnight":
		return clock{text: word}, true
	}
	if hour := slices.Index(hourNames, word); hour > 0 {
		return clock{minute: hour * 60, open: true, bare: true, text: word}, true
	}
	m := clockTime().FindStringSubmatch(word)
	isMilitary := militaryTime().MatchString(word)
	if isMilitary {
		m = []string{"", word[:2], word[2:], ""}
	}
	if m == nil {
		return clock{}, false
	}
	hour, _ := strconv.Atoi(m[1])
	minute, _ := strconv.Atoi("0" + m[2])
	c := clock{open: m[3] == "" && m[1][0] != '0' && hour >= 1 && hour <= 12 && !isMilitary, text: word}
	c.fullDay, c.bare = m[3] == "" && !c.open, len(m[0]) == len(m[1])
	if m[3] == "am" || m[3] == "pm" {
		c.halfDay = true
		if hour < 1 || hour > 12 {
			return clock{}, false
		}
		hour %= 12
		if m[3] == "pm" {
			hour += 12
		}
	}
	c.minute = 60*hour + minute
	return c, c.minute <= 24*60 && minute < 60
}

// acceptClock consumes a time of day: "8:30", "half past eight", "quarter to 9", "seven o'clock", "8 in the evening".
// found is false where the next words name none.
func (p *wordParser) acceptClock() (c clock, found bool, err error) {
	before := p.words
	at := p.accept("at")
	if yearPattern().MatchString(p.next()) && !at {
		return clock{}, false, nil
	}
	if c, found, err = p.acceptSpokenClock(); err != nil {
		return c, false, err
	}
	if !found {
		if c, found = acceptFrom(p, parseTimeOfDay); !found {
			p.words = before
			return clock{}, false, nil
		}
	}
	if at || p.accept("o'clock", "oclock", "sharp") {
		c.bare = false
		p.accept("o'clock", "oclock", "sharp")
	}
	if half, ok := acceptFrom(p, parseHalf); ok {
		if !c.open {
			return c, false, fmt.Errorf("%q goes with no \"am\" or \"pm\"", c.text)
		}
		c.minute, c.open, c.bare, c.halfDay = c.minute%(12*60)+half, false, false, true
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
	offset, isNumber := acceptFrom(p, parseNumber)
	isHalf := !isNumber && p.accept("half")
	switch {
	case isNumber:
		p.accept("minutes")
	case isHalf:
		offset = 30
	case p.accept("quarter"), p.acceptAll("a quarter"):
		if offset = 15; p.accept("to") {
			offset = -15
		}
	}
	if p.accept("past") || offset == -15 {
		hour, ok := acceptFrom(p, parseTimeOfDay)
		if ok && hour.minute%60 == 0 && offset != 0 && offset < 60 {
			hour.minute = (hour.minute + offset + 24*60) % (24 * 60)
			hour.bare, hour.text = false, p.textSince(before)
			return hour, true, nil
		}
	} else if _, isClock := acceptFrom(p, parseTimeOfDay); isHalf && isClock {
		// "half eight" is 7:30 to some and 8:30 to others; "half an hour" is no time of day.
		return clock{}, false, fmt.Errorf("%q may mean two times; say \"half past\"", strings.Join(before[:2], " "))
	}
	p.words = before
	return clock{}, false, nil
}

// checkBare returns an error for a number that may be a time or something else.
func checkBare(times []clock) error {
	if i := slices.IndexFunc(times, func(c clock) bool { return c.bare }); i >= 0 {
		return fmt.Errorf("%q may be a time or something else; say \"at %[1]s\"", times[i].text)
	}
	return nil
}

// openHours are the hours that are as likely meant by day as by night where people count to twelve: "at 5", not "at 9".
const openHours = 8 * 60

// checkHours returns an error for a time that may be one of the morning or of the evening: because others of the same
// phrase have "am" or "pm", or because its author counts the hours to twelve.
func checkHours(times []clock, countsToTwelve bool) error {
	isHalf := func(c clock) bool { return c.halfDay }
	isFull := func(c clock) bool { return c.fullDay }
	for _, c := range times {
		if !c.open || !slices.ContainsFunc(times, isHalf) &&
			(!countsToTwelve || c.minute >= openHours || slices.ContainsFunc(times, isFull)) {
			continue
		}
		return fmt.Errorf("%q may be %s or %s; name one", c.text, formatMinute(c.minute%(12*60))+" in the morning",
			formatMinute(c.minute%(12*60)+12*60))
	}
	return nil
}

// formatMinute returns a minute of the day as "17:05".
func formatMinute(minute int) string { return fmt.Sprintf("%d:%02d", minute/60, minute%60) }

// twelveHourZones are the time zones of English-speaking countries where the hours are counted to twelve.
const twelveHourZones = " America/New_York America/Detroit America/Chicago America/Denver America/Boise America/Phoenix " +
	"America/Los_Angeles America/Anchorage America/Juneau America/Toronto America/Winnipeg America/Regina America/Edmonton " +
	"America/Vancouver America/Halifax America/Moncton America/St_Johns Pacific/Honolulu Pacific/Auckland Asia/Kolkata " +
	"Asia/Calcutta Asia/Karachi Asia/Manila "

// countsToTwelve reports whether people in a time zone count the hours to twelve.
func countsToTwelve(zone *time.Location) bool {
	area, _, _ := strings.Cut(zone.String(), "/")
	return slices.Contains([]string{"US", "Canada", "Australia"}, area) ||
		strings.Contains(twelveHourZones, " "+zone.String()+" ")
}
