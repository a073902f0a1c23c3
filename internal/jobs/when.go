package jobs

import (
	"errors"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/schedule"
	"ravenbot/internal/text"
)

// maxWhenWords is how many words may say when: more are hardly about a time.
const maxWhenWords = 16

// whenExample stands in refusals.
const whenExample = "\"remind tomorrow at 9 call Anna\" or \"remind every friday at 16 write the report\""

// repeats matches words that say that something is repeated. A weekday alone does not: "friday at 9" is once.
var repeats = text.Pattern(`(?i)\b(every|each|daily|weekly|monthly|quarterly|yearly|annually|` +
	`hourly|fortnightly|once a|twice a|weekdays?|workdays?|weekends?|mornings|evenings|afternoons|nights|` +
	`(mon|tues|wednes|thurs|fri|satur|sun)days)\b`)

// when is a time, or times, that somebody asked for.
type when struct {
	at       time.Time // once; zero: Schedule says when
	schedule string
	zone     string // in which the schedule is due
}

// parseWhen reads a time, or a schedule where the words say that it is repeated.
func parseWhen(words string, zone *time.Location, now time.Time) (when, error) {
	if !repeats().MatchString(words) {
		at, err := schedule.ParseTime(words, zone, now)
		return when{at: at, zone: at.Location().String()}, err
	}
	s, err := schedule.Parse(words, zone)
	return when{schedule: words, zone: s.Zone().String()}, err
}

// splitRequest divides "tomorrow at 9 to call Anna", or "call Anna tomorrow at 9", into when and what. As many words as
// can be a time belong to it. A label or quotes say it outright: `"tomorrow at 9" call Anna`.
func splitRequest(words string, zone *time.Location, now time.Time) (w when, what string, err error) {
	words = strings.TrimSpace(words)
	if time, text, ok := strings.Cut(words, "\n"+labelText+":"); ok {
		w, err = parseWhen(strings.TrimSpace(time), zone, now)
		return w, strings.TrimSpace(text), err
	}
	if rest, ok := strings.CutPrefix(words, `"`); ok {
		if time, text, ok := strings.Cut(rest, `"`); ok {
			w, err = parseWhen(time, zone, now)
			return w, cleanWhat(text), err
		}
	}
	list := strings.Fields(words)
	if len(list) > 0 && strings.EqualFold(list[0], "me") {
		list = list[1:]
	}
	if len(list) == 0 {
		return when{}, "", errors.New("it says nothing")
	}
	var fault error
	for n := min(maxWhenWords, len(list)); n > 0; n-- {
		w, err := parseWhen(strings.TrimRight(strings.Join(list[:n], " "), ":,;–-"), zone, now)
		if err == nil {
			return w, cleanWhat(strings.Join(list[n:], " ")), nil
		}
		// Of all errors the one about the time itself helps, not that further words are none of it.
		if fault == nil && !isUnknownWord(err) {
			fault = err
		}
	}
	for n := min(maxWhenWords, len(list)-1); n > 0; n-- {
		at := len(list) - n
		w, err := parseWhen(strings.Join(list[at:], " "), zone, now)
		if err == nil {
			return w, cleanWhat(strings.Join(list[:at], " ")), nil
		}
		if fault == nil && !isUnknownWord(err) {
			fault = err
		}
	}
	if fault == nil {
		fault = errors.New("it is not clear when; say for example " + whenExample)
	}
	return when{}, "", fault
}

// isUnknownWord reports whether a time was not understood because of a word that may be none of it.
func isUnknownWord(err error) bool {
	return slices.ContainsFunc([]string{
		"was not understood",
		"is not a time of day",
		"is missing",
		"may be a time or something else",
		"names two",
	}, func(part string) bool { return strings.Contains(err.Error(), part) })
}

// cleanWhat returns what somebody wants to be reminded of without the words that lead to it.
func cleanWhat(words string) string {
	words = strings.TrimLeft(strings.TrimSpace(words), ":,-– ")
	lower := strings.ToLower(words)
	for _, lead := range []string{"me to ", "me ", "to ", "that ", "about "} {
		if strings.HasPrefix(lower, lead) {
			return strings.TrimSpace(words[len(lead):])
		}
	}
	return words
}
