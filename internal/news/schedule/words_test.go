package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWords reads each text, and compares it with cron expressions of which any
// may say when it is due, over a year with both changes of the clock. Said back, it
// means the same.
func TestWords(t *testing.T) {
	loc := zone(t, "Europe/Oslo")
	for _, tc := range []struct{ text, said, cron string }{
		{"weekdays at 8:30", "weekdays at 8:30", "30 8 * * 1-5"},
		{"every weekday at 08:30", "weekdays at 8:30", "30 8 * * 1-5"},
		{"every monday and thursday at 9am", "every Monday and Thursday at 9:00", "0 9 * * 1,4"},
		{"Mondays, Wednesdays & Fridays at 9.15", "every Monday, Wednesday and Friday at 9:15", "15 9 * * 1,3,5"},
		{"mon-fri at 7 a.m.", "weekdays at 7:00", "0 7 * * 1-5"},
		{"friday to monday at noon", "every Sunday, Monday, Friday and Saturday at 12:00", "0 12 * * 0,1,5,6"},
		{"daily at 18:00", "every day at 18:00", "0 18 * * *"},
		{"every day at 8 and 18:00", "every day at 8:00 and 18:00", "0 8,18 * * *"},
		{"daily at 8:30 and at 17", "every day at 8:30 and 17:00", "30 8 * * *|0 17 * * *"},
		{"9pm every sunday", "every Sunday at 21:00", "0 21 * * 0"},
		{"at 6 in the evening on weekends", "weekends at 18:00", "0 18 * * 0,6"},
		{"at 8 on weekdays and at 10 on saturdays", "weekdays at 8:00 and every Saturday at 10:00", "0 8 * * 1-5|0 10 * * 6"},
		{"weekdays at 8 and saturday at 10:30", "weekdays at 8:00 and every Saturday at 10:30", "0 8 * * 1-5|30 10 * * 6"},
		{"every 2 hours", "every 2 hours", "0 */2 * * *"},
		{"every two hours on weekdays", "weekdays every 2 hours", "0 */2 * * 1-5"},
		{"every other hour", "every 2 hours", "0 */2 * * *"},
		{"hourly", "every hour", "0 * * * *"},
		{"every hour at :15 and :45", "every hour at :15 and :45", "15,45 * * * *"},
		{"every 15 minutes", "every 15 minutes", "*/15 * * * *"},
		{"every half hour", "every 30 minutes", "*/30 * * * *"},
		{"every 120 minutes", "every 2 hours", "0 */2 * * *"},
		{"every 30 minutes from 9 to 17 on weekdays", "", "*/30 9-16 * * 1-5|0 17 * * 1-5"},
		{"every 2 hours between 8 and 18", "every day at 8:00, 10:00, 12:00, 14:00, 16:00 and 18:00", "0 8-18/2 * * *"},
		{"on the 1st and the 15th at 9", "the 1st and 15th of the month at 9:00", "0 9 1,15 * *"},
		{"monthly on the 3rd at midnight", "the 3rd of the month at 0:00", "0 0 3 * *"},
		{"every week on tuesday at 10", "every Tuesday at 10:00", "0 10 * * 2"},
		{"first day of the month at 6", "the 1st of the month at 6:00", "0 6 1 * *"},
		{"the 1st of january and july at 9", "the 1st of the month in January and July at 9:00", "0 9 1 1,7 *"},
		{"every day at 9 in march", "every day in March at 9:00", "0 9 * 3 *"},
		{"the 13th and every friday at 9", "", "0 9 13 * 5"},
	} {
		got, err := Parse(tc.text, loc)
		if err != nil {
			t.Errorf("%q: %v", tc.text, err)
			continue
		}
		want := Schedule{zone: loc}
		for expr := range strings.SplitSeq(tc.cron, "|") {
			one, err := Parse(expr, loc)
			if err != nil {
				t.Fatal(err)
			}
			want.rules = append(want.rules, one.rules...)
		}
		sameYear(t, tc.text, got, want)
		if said := got.Describe(); tc.said != "" && said != tc.said {
			t.Errorf("%q is %q, want %q", tc.text, said, tc.said)
		}
		back, err := Parse(got.Describe(), loc)
		if err != nil {
			t.Errorf("%q, said back as %q: %v", tc.text, got.Describe(), err)
			continue
		}
		sameYear(t, got.Describe(), back, got)
	}
}

func sameYear(t *testing.T, name string, got, want Schedule) {
	t.Helper()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for end := at.AddDate(1, 0, 0); at.Before(end); {
		due, ok := got.Next(at)
		expected, _ := want.Next(at)
		if !ok || !due.Equal(expected) {
			t.Errorf("%q: after %s due at %s, want %s", name, at, due, expected)
			return
		}
		at = due
	}
}

func TestNthWeekday(t *testing.T) {
	for text, want := range map[string]string{
		"first monday of the month at 9":            "2026-01-05 2026-02-02 2026-03-02",
		"every first monday at 9":                   "2026-01-05 2026-02-02 2026-03-02",
		"the 2nd and 4th tuesday of every month, 9": "2026-01-13 2026-01-27 2026-02-10",
		"last friday of the month at 9":             "2026-01-30 2026-02-27 2026-03-27",
		"fifth sunday of the month at 9":            "2026-03-29 2026-05-31 2026-08-30",
		"last day of the month at 9":                "2026-01-31 2026-02-28 2026-03-31",
		"first monday of may at 9":                  "2026-05-04 2027-05-03 2028-05-01",
	} {
		s, err := Parse(text, time.UTC)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		for _, s := range []Schedule{s, parsed(t, s.Describe())} {
			var dates []string
			at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for range 3 {
				at, _ = s.Next(at)
				dates = append(dates, at.Format(time.DateOnly))
			}
			if got := strings.Join(dates, " "); got != want || at.Hour() != 9 {
				t.Errorf("%q: %s at %d, want %s", s, got, at.Hour(), want)
			}
		}
	}
}

func parsed(t *testing.T, text string) Schedule {
	t.Helper()
	s, err := Parse(text, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWordsNotUnderstood(t *testing.T) {
	for text, want := range map[string]string{
		"weekdays":                                   "does not say at what time",
		"at 9":                                       "does not say on which days",
		"weekly at 9":                                "on which day of the week",
		"monthly at 9":                               "on which day of the month",
		"weekdays at banana":                         `"banana" was not understood`,
		"weekdays at 25:00":                          `"25:00" is not a time of day`,
		"weekdays at 13pm":                           `"13pm" is not a time of day`,
		"weekdays at":                                `missing after "at"`,
		"weekdays at 9 and":                          `missing after "and"`,
		"every 7 hours":                              "7 hours do not divide a day",
		"every 0 minutes":                            "0 minutes do not divide a day",
		"every 50 minutes":                           "50 minutes do not divide a day",
		"every 2 days":                               "at what time",
		"every other week at 9":                      "on which day of the week",
		"every second monday at 9":                   "may mean two things",
		"every hour at 9":                            "belongs to",
		"weekdays at :15":                            "goes with \"every hour\"",
		"every hour from 17 to 9":                    "a later one",
		"from 9 to 17 on weekdays":                   "how often",
		"6th monday at 9":                            "no month has a 6th Monday",
		"first monday and tuesday at 9":              "every week",
		"weekdays at 9 Europe/Olso":                  `unknown time zone "europe/olso" (did you mean "Europe/Oslo"?)`,
		"march 3 at 9":                               "it names one date",
		"monday to at 9":                             "weekday is missing",
		"weekdays at 8 saturday at 10":               "belongs to",
		"monday at 9 and tuesday":                    "does not say at what time",
		"weekly monthly on monday at 9":              "belongs to",
		"weekdays at 9 starting 32.1.2027":           "there is no such date",
		"weekdays at 9 starting 30.2.2027":           "there is no such date",
		"weekdays at 9 starting 0.5.2027":            "there is no such date",
		"weekdays at 9 starting 1.13.2027":           "there is no such date",
		"when the cows come home":                    `"when" was not understood`,
		"on-new":                                     `"on-new" was not understood`,
		"every working":                              "was not understood",
		"every day at half eight":                    `"half eight" may mean two times`,
		"weekdays at 9 except":                       `something is missing after "except"`,
		"weekdays at 9 except snow":                  `"snow" was not understood`,
		"every day at 9am pm":                        `"9am" goes with no`,
		"monday tuesday at 9":                        `how "tuesday" goes with the day before it`,
		"first weekend at 9":                         `"first weekend" may mean several days`,
		"1st quarter at 9":                           `"first quarter" names no day`,
		"every 2 days on monday at 9":                `how "every 2 days" goes with other days`,
		"every hour in the morning":                  "when the morning begins and ends",
		"twice a day at 9":                           "the number of times a day differs",
		"twice a week on monday at 9":                "more than once a week is not understood",
		"weekly on monday and the 1st":               "at what time",
		"weekly on the 1st at 9":                     "on which day of the week",
		"yearly on monday at 9":                      "in which month of the year",
		"last sunday at 9":                           `write "of the month"`,
		"first business day at 9":                    `write "of the month"`,
		"every december 24 in may at 9":              "two kinds of months",
		"the 1st except monday at 9":                 `"except" goes with days of the week alone`,
		"monday except monday at 9":                  `"except" leaves out all of it`,
		"every day at 9 except the 1st":              `only weekdays and months can follow "except"`,
		"friday night at 1":                          `on which day "1" of that night is`,
		"every day at 9 CET":                         `"CET" is not a time zone all year round`,
		"every day at 9 UTC Oslo time":               "it names two time zones",
		"at 9 Springfield time":                      `"springfield time" is not a time zone`,
		"every day at 9 on holidays":                 "I know no calendar of holidays",
		"once a week on monday and friday at 9":      "once a week, and names several days",
		"every hour from 9 to 17 at :15":             "does not go with a minute of the hour",
		"21st business day of the month at 9":        "not every month has a 21st business day",
		"the first and last day of the quarter at 9": "are in different months",
	} {
		_, err := Parse(text, time.UTC)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want it to mention %q", text, err, want)
		} else if !strings.Contains(err.Error(), `"weekdays at 8:30"`) {
			t.Errorf("%q: no example in %v", text, err)
		}
	}
}

func TestDescribeCron(t *testing.T) {
	for expr, want := range map[string]string{
		"30 8 * * 1-5": "weekdays at 8:30",
		"0 9 1,2,3,4,11,12,13,21,22,23,31 * *": "the 1st, 2nd, 3rd, 4th, 11th, 12th, 13th, 21st, 22nd, 23rd and 31st of " +
			"the month at 9:00",
		"0 9 1 5 *":      "the 1st of the month in May at 9:00",
		"0 9 1 5,6 *":    "the 1st of the month in May and June at 9:00",
		"0 9 1,2 5 *":    "the 1st and 2nd of the month in May at 9:00",
		"0 9 * 12 1":     "every Monday in December at 9:00",
		"0 9 1 * 1":      "the 1st of the month and every Monday at 9:00",
		"0 9 * * 0,6":    "weekends at 9:00",
		"0,7 4-9 * * *":  "every day at 4:00, 4:07, 5:00, 5:07, 6:00, 6:07, 7:00, 7:07, 8:00, 8:07, 9:00 and 9:07",
		"*/20 3-5 * * *": "every day at 3:00, 3:20, 3:40, 4:00, 4:20, 4:40, 5:00, 5:20 and 5:40",
		"*/20 3-6 * * *": "every 20 minutes from 3:00 to 6:40",
		"*/30 0-3 * * 1": "every Monday every 30 minutes from 0:00 to 3:30",
		"5,35 * * * *":   "every hour at :05 and :35",
		"*/15 * * * *":   "every 15 minutes",
		"0 */3 * * *":    "every 3 hours",
		"0 1-23/2 * * *": "every day at 1:00, 3:00, 5:00, 7:00, 9:00, 11:00, 13:00, 15:00, 17:00, 19:00, 21:00 and 23:00",
		"@hourly":        "every hour",
		"@weekly":        "every Sunday at 0:00",
		"* * * * *":      "every minute",
		"0 9 */10 * 1":   "every Monday that is the 1st, 11th, 21st and 31st of the month at 9:00",
		"0 9 1-31 * 5":   "every day at 9:00",
		"*/20 3-8 * * *": "every 20 minutes from 3:00 to 8:40",
		"1,2 5-11 * * *": "every day at minute 1 and 2 of hour 5, 6, 7, 8, 9, 10 and 11",
	} {
		if got := parsed(t, expr).Describe(); got != want {
			t.Errorf("%q is %q, want %q", expr, got, want)
		}
	}
}

// What is due once says so, and of what is never due there is nothing to say.
func TestDescribe_WithoutRules(t *testing.T) {
	if got := (Schedule{}).Describe(); got != "" {
		t.Errorf("the zero schedule is %q", got)
	}
	at := time.Date(2026, 12, 24, 18, 5, 0, 0, time.UTC)
	if got := At(at).Describe(); got != "once, on 24 December 2026 at 18:05" {
		t.Errorf("one time is %q", got)
	}
}

// Times make no more rules than they need: each costs a walk over the days.
func TestMergeTimes_SameMinutes_ShareARule(t *testing.T) {
	want := []rule{{minute: 1, hour: 1<<9 | 1<<17}, {minute: 1 << 30, hour: 1 << 10}}
	if got := mergeTimes([]int{9 * 60, 10*60 + 30, 17 * 60}); !slices.Equal(got, want) {
		t.Errorf("the rules are %+v, want %+v", got, want)
	}
}
