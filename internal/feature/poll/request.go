package poll

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Labels of the options of the command that stand on lines of their own.
const (
	labelOptions = "Options"
	labelCloses  = "Closes"
)

const usage = "Say for example `/raven poll Where do we have lunch? | Pizza | Soup | closes 2h`: a question, then " +
	"two to ten answers with | between them."

// request is a poll that somebody asks for.
type request struct {
	question string
	options  []string
	duration time.Duration
}

// parseRequest reads "Lunch? | Pizza | Soup | closes 2h", or the same with options and time on lines of their own as
// platforms with options send it. The error is an inputError.
func parseRequest(words string) (request, error) {
	q := request{duration: defaultDuration}
	closes, labelled := "", false
	var pieces []string
	for line := range strings.Lines(words) {
		line = strings.TrimSpace(line)
		if after, ok := strings.CutPrefix(line, labelCloses+":"); ok {
			closes, labelled = after, true
			continue
		}
		line, ok := strings.CutPrefix(line, labelOptions+":")
		labelled = labelled || ok
		for piece := range strings.SplitSeq(line, "|") {
			if piece = strings.Join(strings.Fields(piece), " "); piece != "" {
				pieces = append(pieces, piece)
			}
		}
	}
	if len(pieces) > 0 {
		q.question, q.options = pieces[0], pieces[1:]
	}
	if last := len(q.options) - 1; !labelled && last >= 0 {
		when, ok := strings.CutPrefix(strings.ToLower(q.options[last]), "closes ")
		_, err := parseDuration(when)
		// An answer may begin with the same word: "The shop: | closes early | closes late".
		if ok && (err == nil || last >= minOptions) {
			closes, q.options = when, q.options[:last]
		}
	}
	if closes = strings.TrimSpace(closes); closes != "" {
		var err error
		if q.duration, err = parseDuration(closes); err != nil {
			return q, err
		}
	}
	return q, q.check()
}

// check returns an inputError where a poll cannot be made of a request. Answers that differ in
// letter case alone are the same.
func (q request) check() error {
	switch {
	case q.question == "" || len(q.options) < minOptions:
		return inputError(usage)
	case len(q.options) > maxOptions:
		return inputError(fmt.Sprintf("A poll has at most %d answers; this has %d.", maxOptions, len(q.options)))
	case utf8.RuneCountInString(q.question) > maxQuestionChars:
		return inputError(fmt.Sprintf("The question is longer than %d characters.", maxQuestionChars))
	}
	for n, option := range q.options {
		if utf8.RuneCountInString(option) > maxOptionChars {
			return inputError(fmt.Sprintf("Answer %d is longer than %d characters.", n+1, maxOptionChars))
		}
		if slices.ContainsFunc(q.options[:n], func(other string) bool { return strings.EqualFold(other, option) }) {
			return inputError(fmt.Sprintf("The answer %q is there twice.", option))
		}
	}
	return nil
}

// parseDuration parses 30m, 2h, 3d, also with "in" before it, or a space or a word after the number.
func parseDuration(words string) (time.Duration, error) {
	words = strings.TrimSpace(strings.TrimPrefix(strings.ToLower(words), "in "))
	digits := strings.TrimRight(words, "abcdefghijklmnopqrstuvwxyz ")
	n, err := strconv.Atoi(digits)
	units := map[string]time.Duration{
		"m": time.Minute, "min": time.Minute, "minute": time.Minute,
		"h": time.Hour, "hour": time.Hour,
		"d": 24 * time.Hour, "day": 24 * time.Hour,
	}
	name := strings.TrimSpace(words[len(digits):])
	unit, ok := units[name]
	if !ok {
		unit, ok = units[strings.TrimSuffix(name, "s")]
	}
	// The number is bounded before it is multiplied: it must not overflow.
	if err != nil || !ok || n < 1 || n > int(maxDuration/time.Minute) || time.Duration(n)*unit < minDuration ||
		time.Duration(n)*unit > maxDuration {
		return 0, inputError(
			fmt.Sprintf("I do not understand when the poll closes (%q): say for example 30m, 2h or 3d, at most 30 days.", words),
		)
	}
	return time.Duration(n) * unit, nil
}
