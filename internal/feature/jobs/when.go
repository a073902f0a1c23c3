package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/news/schedule"
)

// maxWhenWords is how many words may say when: more are hardly about a time.
const maxWhenWords = 16

// whenExample is the example in refusals.
const whenExample = "\"remind tomorrow at 9 call Anna\" or \"remind every friday at 16 write the report\""

// when is a time, or times, that somebody asked for.
type when struct {
	at       time.Time // once; zero: Schedule says when
	schedule string
	zone     string // in which the schedule is due
}

// parseWhen reads a time, or a schedule where the words say that it is repeated.
func parseWhen(words string, zone *time.Location, now time.Time) (when, error) {
	s, err := schedule.ParseReminder(words, zone, now)
	if at, ok := s.Once(); ok || err != nil {
		return when{at: at, zone: at.Location().String()}, err
	}
	return when{schedule: s.String(), zone: s.Zone().String()}, nil
}

// splitRequest divides "tomorrow at 9 to call Anna", "call Anna tomorrow at 9" or "on monday call Anna at 9" into when and
// what. As many words as can be a time belong to it; what may belong to it and was not understood is refused. A label or
// quotes say it outright: `"tomorrow at 9" call Anna`.
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
	// try parses the words before and after the text as a time. It returns the error about the time itself, which
	// helps more than an error about further words.
	try := func(before, behind []string) bool {
		phrase := strings.TrimRight(strings.Join(slices.Concat(before, behind), " "), ":,;–-")
		if w, err = parseWhen(phrase, zone, now); err != nil && fault == nil && !isUnknownWord(err) {
			fault = err
		}
		return err == nil
	}
	for n := min(maxWhenWords, len(list)); n > 0; n-- {
		if !schedule.RepeatsTwice(list[:n]) && try(list[:n], nil) {
			isMarked := strings.HasSuffix(list[n-1], ":") || strings.Trim(list[n-1], ":–-") == ""
			if !isMarked && schedule.ContinuesTime(list[:n], list[n:]) {
				return when{}, "", unclearError(list[:n], list[n:])
			}
			return w, cleanWhat(strings.Join(list[n:], " ")), nil
		}
	}
	for n := min(maxWhenWords, len(list)-1); n > 0; n-- {
		time, text := list[len(list)-n:], list[:len(list)-n]
		if schedule.IsAmount(time) || !try(nil, time) {
			continue
		}
		if n, ok := splitLead(text, func(lead []string) bool { return try(lead, time) }); ok {
			return w, cleanWhat(strings.Join(text[n:], " ")), nil
		}
		if schedule.LeadsToTime(text) {
			return when{}, "", unclearError(time, text)
		}
		_ = try(nil, time)
		return w, cleanWhat(strings.Join(text, " ")), nil
	}
	if fault == nil {
		fault = errors.New("it is not clear when; say for example " + whenExample)
	}
	return when{}, "", fault
}

// splitLead returns the number of words before the text that belong to a time continued after it, as in "on monday
// call Anna at 9".
func splitLead(text []string, isTime func(lead []string) bool) (n int, ok bool) {
	for n = min(maxWhenWords, len(text)-1); n > 0; n-- {
		if isTime(text[:n]) {
			return n, true
		}
	}
	return 0, false
}

// unclearError names the words understood as a time, the remaining words, and the ways to write either meaning.
func unclearError(time, rest []string) error {
	understood, left := strings.TrimRight(strings.Join(time, " "), ":,;–- "), strings.Join(rest, " ")
	return fmt.Errorf("the time %q was understood, and %q may be the text or a part of the time. If it is the text, write: "+
		"\"%[1]s\" %[2]s. If it is a part of the time, write the whole time in quotes before the text, and one reminder for "+
		"each time", understood, left)
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

// cleanWhat returns the subject of a reminder without introductory words.
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
