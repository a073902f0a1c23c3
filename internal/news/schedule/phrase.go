package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// examples and onceExamples end errors about words: they lead to the right words fastest.
	examples = `"weekdays at 8:30", "every monday and thursday at 9am", "first monday of the month at 9", ` +
		`"every 2 hours"`
	onceExamples = `"in 20 minutes", "tomorrow at noon", "next monday at 9", "24 December 18:00"`
)

// phrase is what words say about when.
type phrase struct {
	wordParser
	sentences []sentence
	zone      *time.Location // the one that the words name, or the given one
}

// parsePhrase reads plain English. It accepts the words in any order that people use ("at 9 on mondays") and several
// sentences in one ("weekdays at 8 and saturdays at 10"). Every word has to have a meaning; what may mean two things is
// refused. A zero now says that the words must mean the same at any time.
func parsePhrase(text string, zone *time.Location, now time.Time, countsToTwelve bool) (*phrase, error) {
	words, named, err := splitZone(splitWords(text))
	p := &phrase{zone: cmp.Or(named, zone), wordParser: wordParser{words: words}}
	if err != nil {
		return p, err
	}
	if !now.IsZero() {
		p.now = now.In(p.zone)
	}
	var times []clock
	for len(p.words) > 0 {
		s, err := p.parseSentence()
		if err != nil {
			return p, err
		}
		p.sentences = append(p.sentences, s)
		if s.part.name == "" {
			times = append(times, s.times...)
		}
	}
	if len(p.sentences) == 0 {
		return p, errors.New("it says nothing about when")
	}
	return p, checkHours(times, countsToTwelve)
}

// isOnce reports whether the words can only mean one time, right or wrong.
func (p *phrase) isOnce() bool {
	return slices.ContainsFunc(p.sentences, func(s sentence) bool { return s.has(saidOnce) })
}

// isRepeated reports whether the words say that something is repeated.
func (p *phrase) isRepeated() bool {
	return p.isRange || slices.ContainsFunc(p.sentences, func(s sentence) bool {
		return slices.ContainsFunc(s.words, isRepeating)
	})
}

// checkBare returns an error for a number that may be no time.
func (p *phrase) checkBare() (err error) {
	for _, s := range p.sentences {
		err = cmp.Or(err, checkBare(s.times))
	}
	return err
}

// schedule returns the rules of all sentences, or the error of reading them.
func (p *phrase) schedule(expr string, err error) (Schedule, error) {
	var rules []rule
	for _, s := range p.sentences {
		if err == nil {
			var more []rule
			more, err = s.toRules()
			rules = append(rules, more...)
		}
	}
	if err == nil && p.end != 0 && p.end < p.start {
		err = errors.New("it ends before it starts")
	}
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %q: %w; examples: %s, or cron: \"30 8 * * 1-5\"", expr, err, examples)
	}
	for i := range rules {
		rules[i].start, rules[i].end = p.start, p.end
	}
	return Schedule{expr: strings.TrimSpace(expr), zone: p.zone, rules: rules}, nil
}

// time returns the one time that the words name, or the error of reading them.
func (p *phrase) time(text string, err error) (due time.Time, _ error) {
	switch {
	case err != nil:
	case len(p.sentences) > 1:
		err = errors.New("it names two times; make one reminder for each, or say \"every\"")
	case p.start != 0 || p.end != 0:
		err = errors.New("one time has no first or last day; write \"every\" to repeat it")
	default:
		due, err = p.sentences[0].due(p.now)
	}
	return checkDue(text, due, p.now, err)
}

// text returns the words with the first and the last date as they were counted from now.
func (p *phrase) text() string {
	bounds := Schedule{rules: []rule{{start: p.start, end: p.end}}}
	return strings.ReplaceAll(strings.Join(p.kept, " "), " ,", ",") + bounds.describeBounds(" ")
}

// maxYearless is how far ahead a first or last date without a year may lie: one of last month was rather meant.
const maxYearless = 300 * day

// parseBound reads the first or the last date: "starting 24 November 2026", "until january".
func (p *wordParser) parseBound() (found bool, err error) {
	before := p.words
	word := p.next()
	if !p.accept("until", "starting", "from") {
		return false, nil
	}
	p.skip("on", "from", "the")
	d, err := p.parseBoundDay()
	if p.acceptAll("on at") { // "from tomorrow on at 9"
		p.words = slices.Concat([]string{"at"}, p.words)
	} else if len(p.words) == 1 {
		p.accept("on")
	}
	if word == "from" && (err != nil || d.said == 0 || d.hasSeveralDays()) {
		p.words = before
		return false, nil
	}
	var date time.Time
	if err == nil {
		date, err = p.boundDate(&d, word)
	}
	bound := &p.start
	if word == "until" {
		bound = &p.end
	}
	switch {
	case err != nil:
		return false, err
	case d.year == 0 && date.Sub(dateOf(p.now)) > maxYearless:
		return false, fmt.Errorf("%s %s may have been meant; say the year", word, date.AddDate(-1, 0, 0).Format("2 January 2006"))
	case *bound != 0:
		return false, fmt.Errorf("it says twice when it starts or ends, the second time with %q", word)
	}
	*bound = dayNumber(date)
	p.isMoved = p.isMoved || d.year == 0
	return true, nil
}

// parseBoundDay reads the parts of a day that one phrase has. The sentence has no kind if the next words name none.
func (p *wordParser) parseBoundDay() (d sentence, err error) {
	parseDay := func(s *sentence) (bool, error) {
		r, found, err := p.parseDay()
		if s.days, s.said = []rule{r}, saidDays; found || err != nil {
			return found, err
		}
		s.days, s.months, s.said = nil, p.parseMonths(), saidMonths
		return s.months != 0, nil
	}
	for len(p.words) > 0 {
		rest, known := p.words, d
		p.accept(",")
		found, err := p.parseFirst(&d, append(p.oneDayParsers(), parseDay)...)
		if err != nil && known.said == 0 {
			return d, err
		}
		isRepeated := slices.ContainsFunc(rest[:len(rest)-len(p.words)], isRepeating)
		if err != nil || !found || isRepeated || !d.merge(known) {
			p.words = rest
			return known, nil
		}
	}
	return d, nil
}

// boundDate returns the date of a day behind "starting" or "until". "until january" ends on the last day of December.
func (p *wordParser) boundDate(d *sentence, word string) (date time.Time, err error) {
	now, isEnd := p.now, word == "until"
	if now.IsZero() {
		if d.year == 0 || d.has(saidAhead|saidRelative|saidNext) {
			return date, fmt.Errorf("%q needs a date with its year, such as \"%[1]s 24 November 2026\"", word)
		}
		now = time.Unix(0, 0).UTC() // the year is named
	}
	isMonth := len(d.days) == 0 && d.months != 0
	switch {
	case isMonth:
		d.days = []rule{{dom: 1 << 1}}
	case len(d.days) == 0 && d.within == periodWeek && !isEnd:
		d.days = []rule{{dow: 1 << time.Monday}}
	case len(d.days) == 0 && !d.has(saidOnce), d.hasSeveralDays(), d.ahead.elapsed != 0:
		return date, fmt.Errorf("a date is missing after %q, such as \"%[1]s 24 November 2026\"", word)
	}
	date, err = d.nextDate(now, func(time.Time) bool { return true })
	if isMonth && isEnd {
		date = date.AddDate(0, 0, -1)
	}
	return date, err
}
