package schedule

import (
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
	if err != nil {
		return nil, err
	}
	if named != nil {
		zone = named
	}
	p := &phrase{zone: zone, wordParser: wordParser{words: words}}
	if !now.IsZero() {
		p.now = now.In(zone)
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
	return p != nil && slices.ContainsFunc(p.sentences, func(s sentence) bool { return s.has(saidOnce) })
}

// isRepeated reports whether the words say that something is repeated.
func (p *phrase) isRepeated() bool {
	return slices.ContainsFunc(p.sentences, func(s sentence) bool { return slices.ContainsFunc(s.words, isRepeating) })
}

// rules returns the rules of all sentences.
func (p *phrase) rules() (rules []rule, err error) {
	for _, s := range p.sentences {
		more, err := s.toRules()
		if err != nil {
			return nil, err
		}
		rules = append(rules, more...)
	}
	if p.end != 0 && p.end < p.start {
		return nil, errors.New("it ends before it starts")
	}
	for i := range rules {
		rules[i].start, rules[i].end = p.start, p.end
	}
	return rules, nil
}

// due returns the one time that the words name.
func (p *phrase) due() (time.Time, error) {
	switch {
	case len(p.sentences) > 1:
		return time.Time{}, errors.New("it names two times; make one reminder for each, or say \"every\"")
	case p.start != 0 || p.end != 0:
		return time.Time{}, errors.New("one time has no first or last day; say \"every\", if it is to be repeated")
	}
	return p.sentences[0].due(p.now)
}

// text returns the words with the first and the last date as they were counted from now.
func (p *phrase) text() string {
	text := strings.ReplaceAll(strings.Join(p.kept, " "), " ,", ",")
	if p.start != 0 {
		text += " starting " + formatDate(p.start)
	}
	if p.end != 0 {
		text += " until " + formatDate(p.end)
	}
	return text
}

// maxYearless is how far ahead a first or last date without a year may lie: one of last month was rather meant.
const maxYearless = 300 * day

// parseBound reads the first or the last date: "starting 24 November 2026", "until january".
func (p *wordParser) parseBound() (found bool, err error) {
	before := p.words
	word := p.next()
	isEnd := p.accept("until", "till")
	if !isEnd && !p.accept("starting", "beginning", "from") {
		return false, nil
	}
	p.skip("on", "from", "the")
	var d sentence
	for len(p.words) > 0 {
		rest := p.words
		p.accept(",")
		known := d
		err := p.parseBoundDay(&d)
		if err != nil && known.said == 0 && word != "from" {
			return false, err
		}
		isRepeated := slices.ContainsFunc(rest[:len(rest)-len(p.words)], isRepeating)
		if err != nil || d.said == 0 || isRepeated || !d.merge(known) {
			p.words, d = rest, known
			break
		}
	}
	// "from tomorrow on"
	if p.next() == "on" && (len(p.words) == 1 || p.words[1] == "at") {
		p.words = p.words[1:]
	}
	if word == "from" && (d.said == 0 || d.hasSeveralDays()) {
		p.words = before
		return false, nil
	}
	date, err := p.boundDate(&d, word, isEnd)
	if err == nil && d.year == 0 && date.Sub(dateOf(p.now)) > maxYearless {
		err = fmt.Errorf("%s %s may have been meant; say the year", word, date.AddDate(-1, 0, 0).Format("2 January 2006"))
	}
	if err != nil {
		return false, err
	}
	bound := &p.start
	if isEnd {
		bound = &p.end
	}
	if *bound != 0 {
		return false, fmt.Errorf("it says twice when it starts or ends, the second time with %q", word)
	}
	*bound = dayNumber(date)
	p.isMoved = p.isMoved || d.year == 0
	return true, nil
}

// parseBoundDay reads one part of a day. The sentence has no kind where the next words name none.
func (p *wordParser) parseBoundDay(s *sentence) error {
	before, known := p.words, s.said
	s.said = 0
	if found, err := p.parseOneDay(known, s); found || err != nil {
		return err
	}
	p.words = before
	r, found, err := p.parseDay()
	if found {
		s.days, s.said = []rule{r}, saidDays
	} else if months := p.parseMonths(); months != 0 {
		s.months, s.said = months, saidMonths
	}
	return err
}

// boundDate returns the date of a day behind "starting" or "until". "until january" ends on the last day of December.
func (p *wordParser) boundDate(d *sentence, word string, isEnd bool) (date time.Time, err error) {
	now := p.now
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
	case len(d.days) == 0 && d.has(saidAhead) && !d.has(saidRelative) && d.ahead.elapsed == 0:
		return d.ahead.addDays(dateOf(now)), nil
	case len(d.days) == 0 && d.within == periodWeek && !isEnd:
		d.days = []rule{{dow: 1 << time.Monday}}
	case len(d.days) == 0 && !d.has(saidOnce), d.hasSeveralDays():
		return date, fmt.Errorf("a date is missing after %q, such as \"%[1]s 24 November 2026\"", word)
	}
	date, err = d.nextDate(now, func(time.Time) bool { return true })
	if isMonth && isEnd {
		date = date.AddDate(0, 0, -1)
	}
	return date, err
}
