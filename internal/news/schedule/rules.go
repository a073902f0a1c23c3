package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// toRules returns the rules that the sentence means. It returns an error where something is missing, or said of what
// it cannot be said of.
func (s sentence) toRules() ([]rule, error) {
	s.days = slices.Clone(s.days) // which are completed
	if err := s.checkTimes(); err != nil {
		return nil, err
	}
	if err := s.fillDays(); err != nil {
		return nil, err
	}
	if err := s.limitDays(); err != nil {
		return nil, err
	}
	times, err := s.timeRules()
	if err != nil {
		return nil, err
	}
	var rules []rule
	for _, d := range s.days {
		for _, at := range times {
			d.minute, d.hour, d.elapsed, d.interval = at.minute, at.hour, at.elapsed, at.interval
			rules = append(rules, d)
		}
	}
	return rules, nil
}

// checkTimes returns an error where the times of the sentence are missing or do not go together.
func (s *sentence) checkTimes() error {
	switch {
	case s.has(saidOnce):
		return errors.New("it is one time, and a schedule is wanted, such as \"every monday at 9\"")
	case s.has(saidWindow) && s.every == 0:
		return errors.New("it names a time window, but not how often")
	case len(s.offsets) > 0 && s.every != 60:
		return errors.New("a minute alone goes with \"every hour\", such as \"every hour at :15\"")
	case s.every == 0 && len(s.times) == 0:
		return errors.New("it does not say at what time")
	case s.part.name != "" && s.every > 0:
		return fmt.Errorf("it is not clear when the %s begins and ends; say \"from 8 to 12\"", s.part.name)
	case s.period == periodDay && s.count > 0 && (s.every > 0 || len(s.times) != s.count):
		return errors.New("the number of times a day differs from the times that it names")
	case s.period != "" && s.period != periodDay && s.count > 1:
		return fmt.Errorf("more than once a %s is not understood; name only the days", s.period)
	case s.has(saidWindow) && len(s.offsets) > 0:
		return errors.New("a time window does not go with a minute of the hour")
	}
	return nil
}

// fillDays adds the days and months that the sentence means without naming them.
func (s *sentence) fillDays() error {
	switch {
	case s.everyDays > 0 && len(s.days) > 0:
		return fmt.Errorf("it is not clear how \"every %d days\" goes with other days", s.everyDays)
	case len(s.days) == 0 && s.everyWeeks > 0:
		return errors.New("it does not say on which day of the week")
	case len(s.days) > 0 || s.everyDays == 0 && s.period != periodDay && s.period != "":
	case s.everyDays == 0 && s.period == "" && (s.every == 0 || s.months != 0) && !s.has(saidExcept) && !s.daily:
		return errors.New("it does not say on which days")
	default:
		s.days = []rule{{dow: allWeekdays}}
	}
	if len(s.days) == 0 {
		return fmt.Errorf("it does not say on which day of the %s", s.period)
	}
	for i := range s.days {
		if err := s.fillDay(&s.days[i]); err != nil {
			return err
		}
	}
	return nil
}

// fillDay sets the months and the cycle of a day.
func (s *sentence) fillDay(d *rule) error {
	switch {
	case d.named != 0:
		return errors.New("it is not clear how the date goes with the day before it; say \"and\" between days")
	case s.everyWeeks > 0 && !d.isWeekdays():
		return fmt.Errorf("\"every %d weeks\" goes with days of the week alone", s.everyWeeks)
	case s.period == periodWeek && !d.isWeekdays(),
		(s.period == periodMonth || s.period == periodQuarter) && d.isWeekdays():
		return fmt.Errorf("it does not say on which day of the %s", s.period)
	case s.period == periodWeek && s.count == 1 && bits.OnesCount64(d.dow) != 1:
		return errors.New("it says once a week, and names several days")
	case s.period == periodYear && d.month == 0 && s.months == 0:
		return errors.New("it does not say in which month of the year")
	case d.pooled && d.month == 0 && s.months == 0 && s.period != periodMonth && s.period != periodQuarter:
		return errors.New("it lacks a month or year: write \"of the month\"")
	// "last sunday" alone is the one that was.
	case d.weeks&1 != 0 && d.month == 0 && s.months == 0 && !s.repeated:
		return errors.New("it lacks a month or year: write \"of the month\"")
	case d.month != 0 && d.month != allMonths && s.months != 0:
		return errors.New("it names two kinds of months")
	case s.months != 0:
		d.month = s.months
	case d.month != 0:
	case s.period == periodQuarter:
		var err error
		if d.month, err = d.quarterMonths(); err != nil {
			return err
		}
	default:
		d.month = allMonths
	}
	if d.isOneDate() {
		// In a leap year, since any year may be meant.
		if err := checkDate(0, lowestBit(d.month), lowestBit(d.dom)); err != nil {
			return err
		}
	}
	if d.isOneDate() && !s.repeated {
		return errors.New("it names one date; write \"every year on\" before it to repeat it")
	}
	d.everyDays, d.everyWeeks = s.everyDays, s.everyWeeks
	return nil
}

// isOneDate reports whether a rule names one date of the year.
func (r rule) isOneDate() bool {
	return r.dow == 0 && bits.OnesCount64(r.dom) == 1 && !r.lastDate && bits.OnesCount64(r.month) == 1
}

// quarterMonths returns the months in which a day of a quarter lies: the first ones, or for "last" the last ones.
func (r rule) quarterMonths() (uint64, error) {
	const first, last uint64 = 1<<1 | 1<<4 | 1<<7 | 1<<10, 1<<3 | 1<<6 | 1<<9 | 1<<12
	isLast := r.lastDate || r.weeks&1 != 0
	if isLast && (r.dom != 0 || r.weeks&^1 != 0) {
		return 0, errors.New("the first and the last days of a quarter are in different months; say them apart")
	}
	if isLast {
		return last, nil
	}
	return first, nil
}

// limitDays takes out what stands behind "except".
func (s *sentence) limitDays() error {
	for i := range s.days {
		d := &s.days[i]
		if s.without != 0 && (d.dow == 0 || d.dom != 0 || d.lastDate || d.weeks != 0) {
			return errors.New("\"except\" goes with days of the week alone")
		}
		d.dow &^= s.without
		d.month &^= s.withoutMonths
		if d.month == 0 || s.without != 0 && d.dow == 0 {
			return errors.New("\"except\" leaves out all of it")
		}
	}
	return nil
}

// timeRules returns rules with the times and without days.
func (s sentence) timeRules() (list []rule, err error) {
	var minutes []int
	for _, c := range s.times {
		minute := c.minute
		if s.part.name != "" {
			if minute, err = c.within(s.part); err != nil {
				return nil, err
			}
			// Does "friday night at 1" begin on Friday or on Saturday?
			isEvery := !slices.ContainsFunc(s.days, func(d rule) bool { return d.dow != allWeekdays })
			if s.part.name == "night" && minute <= s.part.to && !isEvery {
				return nil, unclearNightError(c)
			}
		}
		// 24:00 is on the next day, which "weekdays" does not say.
		if minute == 24*60 {
			if slices.ContainsFunc(s.days, func(d rule) bool { return d.dow != allWeekdays }) {
				return nil, errors.New("24:00 is 0:00 of the next day; say that day and 0:00")
			}
			minute = 0
		}
		minutes = append(minutes, minute)
	}
	switch {
	case s.has(saidWindow):
		// Both ends count: "every hour from 9 to 17" is also due at 17.
		for at := s.from; at <= s.to && at < 24*60; at += s.every {
			minutes = append(minutes, at)
		}
	// "every hour at :15" is an hour field of "*" in cron, which follows elapsed time.
	case s.every == 60 && len(s.offsets) > 0:
		r := rule{hour: allHours, elapsed: true}
		for _, minute := range s.offsets {
			r.minute |= 1 << minute
		}
		return []rule{r}, nil
	case s.every > 0 && s.every%60 == 0:
		return []rule{{minute: 1, hour: multiples(s.every/60, 24), elapsed: true}}, nil
	case s.every > 0:
		return []rule{{minute: allMinutes, hour: allHours, elapsed: true, interval: s.every}}, nil
	}
	return mergeTimes(minutes), nil
}

// unclearNightError says that a time after midnight may be of either date.
func unclearNightError(c clock) error {
	return fmt.Errorf("it is not clear on which day %q of that night is; name the day and the time", c.text)
}

// mergeTimes makes as few rules of the times as their minutes and hours allow.
func mergeTimes(times []int) (list []rule) {
	byHour := map[int]uint64{}
	for _, at := range times {
		byHour[at/60] |= 1 << (at % 60)
	}
	for hour := range 24 {
		minutes := byHour[hour]
		if minutes == 0 {
			continue
		}
		// A rule is due at every combination of its hours and minutes, so only hours with the same minutes can share
		// one.
		same := slices.IndexFunc(list, func(r rule) bool { return r.minute == minutes })
		if same < 0 {
			list = append(list, rule{minute: minutes})
			same = len(list) - 1
		}
		list[same].hour |= 1 << hour
	}
	return list
}
