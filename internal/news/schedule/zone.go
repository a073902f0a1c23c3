package schedule

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/text"
)

// zoneNames are the names of the IANA database (2025), a line each: Go reads zones by their names and does not list
// them.
//
//go:embed zones.txt
var zoneNames string

// ZoneNames returns the names of all time zones.
func ZoneNames() []string { return strings.Fields(zoneNames) }

// LoadZone returns a time zone by its IANA name; the empty name is UTC. Its error is a *ZoneError.
func LoadZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(strings.TrimSpace(name))
	if err != nil {
		return nil, &ZoneError{name}
	}
	return zone, nil
}

// ZoneError is returned for a name of no time zone.
type ZoneError struct{ Name string }

// Error names the zone that was probably meant, where one is near.
func (e *ZoneError) Error() string {
	if near := NearestZone(e.Name); near != "" {
		return fmt.Sprintf("unknown time zone %q (did you mean %q?)", e.Name, near)
	}
	return fmt.Sprintf("unknown time zone %q: use an IANA name such as \"Europe/Oslo\" or \"UTC\"", e.Name)
}

// NearestZone returns the IANA name that a name of no time zone most likely misspells, or "". The name of a city alone
// stands for its zone.
func NearestZone(name string) string {
	name = strings.ReplaceAll(strings.TrimSpace(name), " ", "_")
	if zone, ok := findZone(func(zone string) bool { return strings.EqualFold(cityOf(zone), name) }); ok {
		return zone
	}
	return text.Nearest(name, ZoneNames())
}

// cityOf returns the last part of the name of a zone.
func cityOf(zone string) string { return zone[strings.LastIndexByte(zone, '/')+1:] }

// zoneLetters are abbreviations that stand for several zones, or for one half of the year.
var zoneLetters = []string{"cet", "cest", "est", "edt", "cst", "cdt", "mst", "mdt", "pst", "pdt", "bst", "ist", "jst"}

// maxCityWords is how many words the name of a city has at most: "Dumont d Urville".
const maxCityWords = 3

// splitZone takes the time zone out of the words of a schedule: "Europe/Oslo", "UTC", "Oslo time" or "local time". It
// returns nil where they name none, and an error for one that is not known, or a second one.
func splitZone(words []string) (rest []string, zone *time.Location, err error) {
	for i, word := range words {
		bare, name := strings.Trim(word, "()"), ""
		switch {
		case slices.Contains(zoneLetters, bare):
			return nil, nil, fmt.Errorf("%q is not a time zone all year round; say a city, such as \"Oslo time\"",
				strings.ToUpper(bare))
		case bare == "utc" || bare == "gmt":
			name = "UTC"
		case bare == "time" && i > 0 && slices.Contains([]string{"utc", "gmt"}, strings.Trim(words[i-1], "()")):
		case bare == "time":
			name, rest, err = splitCity(rest)
		// "24/12" is a date, of which the parser of dates says what is wrong with it.
		case strings.Contains(bare, "/") && !slashedDate().MatchString(bare) && !isoDate().MatchString(bare):
			name, _ = findZone(func(zone string) bool { return strings.EqualFold(zone, bare) })
			name = cmp.Or(name, bare)
		default:
			rest = append(rest, word)
		}
		if name != "" && zone != nil {
			err = errors.New("it names two time zones")
		} else if name != "" && err == nil {
			zone, err = LoadZone(name)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return rest, zone, nil
}

// splitCity returns the zone of the city that the words end with, and the words before it. The name is empty for
// "local", which is the zone that holds anyhow.
func splitCity(words []string) (name string, rest []string, err error) {
	if n := len(words); n > 0 && words[n-1] == "local" {
		return "", words[:n-1], nil
	}
	for n := min(maxCityWords, len(words)); n > 0; n-- {
		at := len(words) - n
		city := strings.TrimLeft(strings.Join(words[at:], "_"), "(")
		name, ok := findZone(func(zone string) bool {
			return strings.EqualFold(cityOf(zone), city)
		})
		if ok {
			return name, words[:at], nil
		}
	}
	last := ""
	if len(words) > 0 {
		last = words[len(words)-1] + " "
	}
	return "", nil, fmt.Errorf("%q is not a time zone that I know; say \"Europe/Oslo\" or \"Oslo time\"", last+"time")
}

// findZone returns the first zone that is meant.
func findZone(isMeant func(zone string) bool) (string, bool) {
	list := ZoneNames()
	i := slices.IndexFunc(list, isMeant)
	if i < 0 {
		return "", false
	}
	return list[i], true
}
