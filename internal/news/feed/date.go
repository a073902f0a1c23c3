package feed

import (
	"cmp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"ravenbot/internal/core/text"
)

var (
	// clockPattern matches a time of day, clockZone what may stand behind it: "+0100", "GMT+2", "EST".
	clockPattern = text.Pattern(`(下午|午後|오후)?\s*(\d{1,2})[:h](\d{2})(?::(\d{2})(?:[.,]\d+)?)?\s*(?:([ap])\.?m\b\.?)?`)
	clockZone    = text.Pattern(`^\s*\(?([a-z]{1,5})?\)?\s*(?:([+-])\s?(\d{1,2}):?(\d{2})?(?:\D|$))?`)
	// compactDate matches "20261127" and "20261127T100000Z".
	compactDate = text.Pattern(`^(\d{4})(\d{2})(\d{2})(?:[t ]?(\d{2})(\d{2})(\d{2})?)?`)
	// dateParts are the numbers and the words of a date, ordinals such as "27th" are numbers.
	dateParts = text.Pattern(`\d+|\pL+`)
	epoch     = text.Pattern(`^\d{9,10}(\d{3})?$`)
	// urlDate matches the date in an address such as https://example.org/2018/09/18/title.
	urlDate = text.Pattern(`/((?:19|20)\d\d)[/-](\d{2})[/-](\d{2})(?:\D|$)`)
)

// monthPrefixes are the beginnings of the months' names without accents, in English, German, Dutch, Norwegian, Swedish,
// French, Italian, Spanish, Portuguese, Polish, Czech, Turkish, Finnish, Russian and Greek. The longest one counts:
// "marraskuu" is November.
var monthPrefixes = [12]string{
	"jan gen ene sty led oca tammi янв ιαν",
	"feb fev fevr lut uno sub helmi фев φεβ",
	"mar mrt maalis bre мар μαρ",
	"apr avr abr kwi dub nis huhti апр απρ",
	"may mai mei mag maj kve touko маи мая μαι",
	"jun juin giu cze cvn haz kesa июн ιουν",
	"jul juil lug lip cvc tem heina июл ιουλ",
	"aug aou aout ago sie srp agu elo авг αυγ",
	"sep set wrz zar eyl syys сен σεπ",
	"oct okt ott out paz rij eki loka окт οκτ",
	"nov lis kas marras ноя νοε",
	"dec dez des dic gru pro ara joulu дек δεκ",
}

// zoneOffsets are the minutes from UTC of the zones that feeds name. Others count as UTC.
var zoneOffsets = map[string]int{
	"est": -300, "edt": -240, "cst": -360, "cdt": -300, "mst": -420, "mdt": -360, "pst": -480, "pdt": -420, "akst": -540,
	"akdt": -480, "hst": -600, "ast": -240, "adt": -180, "nst": -210, "ndt": -150, "brt": -180, "art": -180,
	"bst": 60, "west": 60, "cet": 60, "met": 60, "mez": 60, "cest": 120, "mest": 120, "mesz": 120, "eet": 120, "sast": 120,
	"eest": 180, "msk": 180, "trt": 180, "pkt": 300, "ist": 330, "wib": 420, "sgt": 480, "hkt": 480, "awst": 480,
	"jst": 540, "kst": 540, "acst": 570, "aest": 600, "acdt": 630, "aedt": 660, "nzst": 720, "nzdt": 780,
}

const maxDate = 100 // bytes

// parseDate reads a date as feeds write them: its parts in any order that is clear, months in many languages. It returns
// the zero time for what is no date, or not clear.
func parseDate(written string) time.Time {
	if len(written) > maxDate {
		return time.Time{}
	}
	s := foldDate(written)
	if epoch().MatchString(s) {
		n, _ := strconv.ParseInt(s, 10, 64)
		if len(s) > 10 {
			n /= 1000
		}
		return time.Unix(n, 0)
	}
	// "20261127T100000Z" has no separators to go by.
	if m := compactDate().FindStringSubmatch(s); m != nil {
		s = m[1] + "-" + m[2] + "-" + m[3] + strings.TrimSuffix(" "+m[4]+":"+m[5]+":"+cmp.Or(m[6], "00"), " ::00") + s[len(m[0]):]
	}
	date, rest, clock := s, "", time.Duration(0)
	if at := clockPattern().FindStringSubmatchIndex(s); at != nil {
		var ok bool
		if clock, ok = parseClock(clockPattern().FindStringSubmatch(s)); !ok {
			return time.Time{}
		}
		date, rest = strings.TrimSuffix(s[:at[0]], "t"), s[at[1]:]
		var shift time.Duration
		shift, rest = cutZone(rest)
		clock -= shift
	}
	year, month, day := parseDay(date + " " + rest)
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if year == 0 || month < 1 || month > 12 || t.Day() != day {
		return time.Time{}
	}
	return t.Add(clock)
}

// parseClock returns the time of day that clockPattern matched. 24:00 and a second 60 are the next day and minute.
func parseClock(m []string) (time.Duration, bool) {
	hour, _ := strconv.Atoi(m[2])
	minute, _ := strconv.Atoi(m[3])
	second, _ := strconv.Atoi("0" + m[4])
	if m[5] != "" && hour == 12 {
		hour = 0
	}
	if (m[5] == "p" || m[1] != "") && hour < 12 {
		hour += 12
	}
	return time.Duration(3600*hour+60*minute+second) * time.Second, hour <= 24 && minute < 60 && second <= 60
}

// cutZone reads the zone at the start of what follows a time of day, and returns it as the distance from UTC, and the
// rest.
func cutZone(s string) (shift time.Duration, rest string) {
	m := clockZone().FindStringSubmatch(s)
	minutes, isZone := zoneOffsets[m[1]]
	isUTC := strings.Contains(" utc gmt ut z ", " "+m[1]+" ")
	switch {
	case m[2] != "" && (m[1] == "" || isZone || isUTC):
		hours, _ := strconv.Atoi(m[3])
		part, _ := strconv.Atoi("0" + m[4])
		if minutes = 60*hours + part; m[2] == "-" {
			minutes = -minutes
		}
		// The zone's name may follow its numbers.
		return time.Duration(minutes) * time.Minute, s[len(strings.TrimRight(m[0], ") ")):]
	case isZone || isUTC && m[1] != "":
		return time.Duration(minutes) * time.Minute, strings.TrimPrefix(strings.TrimLeft(s, " ("), m[1])
	}
	return 0, s
}

// parseDay reads year, month and day. What is not named is 0, but the day, which is then the first.
func parseDay(s string) (year, month, day int) {
	var numbers []string
	for _, part := range dateParts().FindAllString(s, -1) {
		switch n := findMonth(part); {
		case part[0] >= '0' && part[0] <= '9':
			numbers = append(numbers, part)
		case n > 0:
			month = n // the last one: "mar" may be a Tuesday before it
		}
	}
	value := func(i int) int { n, _ := strconv.Atoi(numbers[i]); return n }
	switch n := len(numbers); {
	case n == 3 && len(numbers[0])+len(numbers[2]) > 2:
		return numericDay(s, numbers, value(0), value(1), value(2))
	case n == 2 && month > 0:
		day, year = value(0), value(1)
		if len(numbers[0]) == 4 {
			day, year = year, day
		}
		return fullYear(year, max(len(numbers[0]), len(numbers[1]))), month, day
	case n == 2 && len(numbers[0]) == 4:
		return value(0), value(1), 1
	case n == 1 && len(numbers[0]) == 4:
		return value(0), max(month, 1), 1
	}
	return 0, 0, 0
}

// numericDay returns the parts of a date of three numbers.
func numericDay(s string, numbers []string, a, b, c int) (year, month, day int) {
	switch {
	case len(numbers[0]) == 4:
		return a, b, c
	case b > 12, a <= 12 && strings.Contains(s, numbers[0]+"/"):
		return fullYear(c, len(numbers[2])), a, b // as in the United States
	}
	return fullYear(c, len(numbers[2])), b, a
}

// fullYear returns the year that two digits mean, and that of more digits as it is: programs write the year 0001 for no
// date.
func fullYear(year, digits int) int {
	switch {
	case digits > 2:
		return year
	case year < 70:
		return 2000 + year
	}
	return 1900 + year
}

// findMonth returns the month that a word begins with, or 0.
func findMonth(word string) (month int) {
	longest := 0
	for n, prefixes := range monthPrefixes {
		for prefix := range strings.FieldsSeq(prefixes) {
			if len(prefix) > longest && strings.HasPrefix(word, prefix) {
				month, longest = n+1, len(prefix)
			}
		}
	}
	return month
}

// dateInURL returns the date in the path of an address, or the zero time.
func dateInURL(address string) time.Time {
	if m := urlDate().FindStringSubmatch(address); m != nil {
		return parseDate(m[1] + "-" + m[2] + "-" + m[3])
	}
	return time.Time{}
}

// foldDate returns a text in lower case, without accents, on one line.
func foldDate(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFD.String(strings.ToLower(text.OneLine(s))))
}
