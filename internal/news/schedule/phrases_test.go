package schedule

import (
	"strings"
	"testing"
	"time"
)

// refused stands for the due instants of a phrase that must not be understood.
const refused = "refused"

// phrases are ways in which people write schedules, with the first due instants in Oslo after noon of Sunday, 22
// November 2026, or the word refused. Those that may mean two things have to be refused.
var phrases = []struct{ text, due string }{
	{"every morning at 7", "23 Nov 07:00, 24 Nov 07:00"},
	{"every evening at 6", "22 Nov 18:00, 23 Nov 18:00"},
	{"every night at midnight", "23 Nov 00:00, 24 Nov 00:00"},
	{"every night at 10", "22 Nov 22:00, 23 Nov 22:00"},
	{"every night at 2", "23 Nov 02:00, 24 Nov 02:00"},
	{"every afternoon at 3", "22 Nov 15:00, 23 Nov 15:00"},
	{"mornings at 8:15", "23 Nov 08:15, 24 Nov 08:15"},
	{"monday mornings at 9", "23 Nov 09:00, 30 Nov 09:00"},
	{"weekday evenings at 7", "23 Nov 19:00, 24 Nov 19:00"},
	{"every monday in the evening at 8", "23 Nov 20:00, 30 Nov 20:00"},
	{"every day at 8 in the evening", "22 Nov 20:00, 23 Nov 20:00"},
	{"weekdays at seven in the morning", "23 Nov 07:00, 24 Nov 07:00"},
	{"every day at 12 at night", "23 Nov 00:00, 24 Nov 00:00"},
	{"once a week on monday at 9", "23 Nov 09:00, 30 Nov 09:00"},
	{"once a day at 18:00", "22 Nov 18:00, 23 Nov 18:00"},
	{"twice a day at 9 and 17", "22 Nov 17:00, 23 Nov 09:00, 23 Nov 17:00"},
	{"once a month on the 1st at 9", "1 Dec 09:00, 1 Jan 09:00"},
	{"weekly on friday at 16:30", "27 Nov 16:30, 4 Dec 16:30"},
	{"every day except sunday at 9", "23 Nov 09:00, 24 Nov 09:00, 25 Nov 09:00, 26 Nov 09:00, 27 Nov 09:00, 28 Nov 09:00, 30 Nov 09:00"},
	{"every day at 9 except saturdays and sundays", "23 Nov 09:00, 24 Nov 09:00, 25 Nov 09:00, 26 Nov 09:00, 27 Nov 09:00, 30 Nov 09:00"},
	{"weekdays except friday at 9", "23 Nov 09:00, 24 Nov 09:00, 25 Nov 09:00, 26 Nov 09:00, 30 Nov 09:00"},
	{"daily at 9, but not on weekends", "23 Nov 09:00, 24 Nov 09:00, 25 Nov 09:00, 26 Nov 09:00, 27 Nov 09:00, 30 Nov 09:00"},
	{"every monday at 9 except in december", "23 Nov 09:00, 30 Nov 09:00, 4 Jan 09:00"},
	{"every day at half past eight", "23 Nov 08:30, 24 Nov 08:30"},
	{"weekdays at quarter past 9", "23 Nov 09:15, 24 Nov 09:15"},
	{"weekdays at quarter to nine", "23 Nov 08:45, 24 Nov 08:45"},
	{"weekdays at a quarter past 9", "23 Nov 09:15, 24 Nov 09:15"},
	{"every day at a past 9", refused},
	{"every day at 1 past 9", "23 Nov 09:01, 24 Nov 09:01"},
	{"every day at 59 minutes past 8", "23 Nov 08:59, 24 Nov 08:59"},
	{"every day at 0 past 9", refused},
	{"every day at 60 past 9", refused},
	{"every day at half past 8:30", refused},
	{"weekly on monday every week at 9", "23 Nov 09:00, 30 Nov 09:00"},
	{"every day at twenty past 7", "23 Nov 07:20, 24 Nov 07:20"},
	{"every day at half past six in the evening", "22 Nov 18:30, 23 Nov 18:30"},
	{"mondays at eight o'clock", "23 Nov 08:00, 30 Nov 08:00"},
	{"fridays at five pm", "27 Nov 17:00, 4 Dec 17:00"},
	{"every other tuesday at 9", "1 Dec 09:00, 15 Dec 09:00, 29 Dec 09:00, 12 Jan 09:00"},
	{"every other tuesday and thursday at 9", "1 Dec 09:00, 3 Dec 09:00, 15 Dec 09:00, 17 Dec 09:00"},
	{"every 2 weeks on monday at 10", "30 Nov 10:00, 14 Dec 10:00"},
	{"fortnightly on friday at 15:00", "4 Dec 15:00, 18 Dec 15:00"},
	{"every second week on monday at 10", "30 Nov 10:00, 14 Dec 10:00"},
	{"every other tuesday at 9 starting 24 November 2026", "24 Nov 09:00, 8 Dec 09:00"},
	{"every 3 weeks on wednesday at 8, starting 2026-12-02", "2 Dec 08:00, 23 Dec 08:00, 13 Jan 08:00"},
	{"every 3 days at 9 starting 2026-11-25", "25 Nov 09:00, 28 Nov 09:00, 1 Dec 09:00"},
	{"every other day at 9 starting 1 january 2027", "1 Jan 09:00, 3 Jan 09:00"},
	{"every second day at 9 starting 1 january 2027", "1 Jan 09:00, 3 Jan 09:00"},
	{"weekdays at 9 starting 2026-12-05", "7 Dec 09:00, 8 Dec 09:00"},
	{"every 90 minutes", "22 Nov 13:30, 22 Nov 15:00, 22 Nov 16:30"},
	{"every 45 minutes on weekdays", "23 Nov 00:00, 23 Nov 00:45, 23 Nov 01:30"},
	{"every 90 minutes from 9 to 17 on weekdays", "23 Nov 09:00, 23 Nov 10:30, 23 Nov 12:00, 23 Nov 13:30, 23 Nov 15:00, 23 Nov 16:30, 24 Nov 09:00"},
	{"every quarter of an hour", "22 Nov 12:15, 22 Nov 12:30"},
	{"every hour on the hour", "22 Nov 13:00, 22 Nov 14:00"},
	{"every hour from 9am to 11am on mondays", "23 Nov 09:00, 23 Nov 10:00, 23 Nov 11:00, 30 Nov 09:00"},
	{"last weekday of the month at 17:00", "30 Nov 17:00, 31 Dec 17:00, 29 Jan 17:00"},
	{"first business day of the month at 9", "1 Dec 09:00, 1 Jan 09:00, 1 Feb 09:00"},
	{"last working day of the month at 9", "30 Nov 09:00, 31 Dec 09:00, 29 Jan 09:00"},
	{"the 3rd business day of every month at 9", "3 Dec 09:00, 5 Jan 09:00, 3 Feb 09:00"},
	{"the first and last weekday of the month at 9", "30 Nov 09:00, 1 Dec 09:00, 31 Dec 09:00, 1 Jan 09:00"},
	{"monthly on the last workday at 16:00", "30 Nov 16:00, 31 Dec 16:00"},
	{"last day of the month at 9", "30 Nov 09:00, 31 Dec 09:00"},
	{"every second tuesday of the month at 18:00", "8 Dec 18:00, 12 Jan 18:00"},
	{"last friday of the month at 16", "27 Nov 16:00, 25 Dec 16:00"},
	{"quarterly on the 1st at 9", "1 Jan 09:00, 1 Apr 09:00, 1 Jul 09:00"},
	{"the first monday of the quarter at 9", "4 Jan 09:00, 5 Apr 09:00"},
	{"last business day of the quarter at 17:00", "31 Dec 17:00, 31 Mar 17:00, 30 Jun 17:00"},
	{"on the 1st monthly at 9", "1 Dec 09:00, 1 Jan 09:00"},
	{"every year on 24 december at 18:00", "24 Dec 18:00, 24 Dec 18:00"},
	{"yearly on the 1st of may at 9", "1 May 09:00, 1 May 09:00"},
	{"annually on march 3rd at 9", "3 Mar 09:00, 3 Mar 09:00"},
	{"every december 24 at noon", "24 Dec 12:00, 24 Dec 12:00"},
	{"every monday from june to august at 9", "7 Jun 09:00, 14 Jun 09:00"},
	{"every monday from november to february at 9",
		"23 Nov 09:00, 30 Nov 09:00, 7 Dec 09:00, 14 Dec 09:00, 21 Dec 09:00, " +
			"28 Dec 09:00, 4 Jan 09:00, 11 Jan 09:00, 18 Jan 09:00, 25 Jan 09:00, 1 Feb 09:00, 8 Feb 09:00, 15 Feb 09:00, 22 " +
			"Feb 09:00, 1 Nov 09:00"},
	{"monday - friday at 9", "23 Nov 09:00, 24 Nov 09:00"},
	{"every hour from 9 - 11 on mondays", "23 Nov 09:00, 23 Nov 10:00, 23 Nov 11:00, 30 Nov 09:00"},
	{"weekdays at 9 utc time", "23 Nov 10:00, 24 Nov 10:00"},
	{"weekdays at 9 (Oslo time)", "23 Nov 09:00, 24 Nov 09:00"},
	{"0 9 * * 5-7", "27 Nov 09:00, 28 Nov 09:00, 29 Nov 09:00"},
	{"0 9 * * 1-7/9", "23 Nov 09:00, 30 Nov 09:00"},
	{"0 9 * * 1-7/3", "23 Nov 09:00, 26 Nov 09:00, 29 Nov 09:00"},
	{"0 9 * * 7", "29 Nov 09:00, 6 Dec 09:00"},
	{"@DAILY", "23 Nov 00:00, 24 Nov 00:00"},
	{"fifth monday of the month at 9", "30 Nov 09:00, 29 Mar 09:00"},
	{"the 20th business day of the month at 9", "27 Nov 09:00, 28 Dec 09:00"},
	{"every day at 9 starting 2026-11-24", "24 Nov 09:00, 25 Nov 09:00"},
	{"first monday and first tuesday of the month at 9", "1 Dec 09:00, 7 Dec 09:00, 4 Jan 09:00, 5 Jan 09:00"},
	{"first monday and second monday of the month at 9", "7 Dec 09:00, 14 Dec 09:00, 4 Jan 09:00, 11 Jan 09:00"},
	{"friday to sunday at 9", "27 Nov 09:00, 28 Nov 09:00, 29 Nov 09:00, 4 Dec 09:00"},
	{"saturday through monday at 9", "23 Nov 09:00, 28 Nov 09:00, 29 Nov 09:00, 30 Nov 09:00"},
	{"weekend days at 9", "28 Nov 09:00, 29 Nov 09:00"},
	{"the 15th and the last day of the month at 9", "30 Nov 09:00, 15 Dec 09:00, 31 Dec 09:00"},
	{"mon, wed and fri at 9", "23 Nov 09:00, 25 Nov 09:00, 27 Nov 09:00, 30 Nov 09:00"},
	{"the first day of the quarter at 9", "1 Jan 09:00, 1 Apr 09:00, 1 Jul 09:00, 1 Oct 09:00, 1 Jan 09:00"},
	{"last day of the quarter at 9", "31 Dec 09:00, 31 Mar 09:00, 30 Jun 09:00, 30 Sep 09:00, 31 Dec 09:00"},
	{"first weekday of the month and first monday of the month at 9",
		"1 Dec 09:00, 7 Dec 09:00, 1 Jan 09:00, 4 Jan 09:00"},
	{"first monday and last monday of the month at 9", "30 Nov 09:00, 7 Dec 09:00, 28 Dec 09:00"},
	{"first monday of the month and the 15th of the month at 9", "7 Dec 09:00, 15 Dec 09:00, 4 Jan 09:00"},
	{"every day at half-past eight", "23 Nov 08:30, 24 Nov 08:30"},
	{"every day at quarter-to nine and quarter-past ten", "23 Nov 08:45, 23 Nov 10:15"},
	{"first monday and second tuesday of the month at 9", "7 Dec 09:00, 8 Dec 09:00, 4 Jan 09:00, 12 Jan 09:00"},
	{"every day at 12am", "23 Nov 00:00, 24 Nov 00:00"},
	{"every day at 12pm", "23 Nov 12:00, 24 Nov 12:00"},
	{"every day at 1pm", "22 Nov 13:00, 23 Nov 13:00"},
	{"every day at five past 7", "23 Nov 07:05, 24 Nov 07:05"},
	{"every day at 59 minutes past 23", "22 Nov 23:59, 23 Nov 23:59"},
	{"every day at quarter to 0:00", "22 Nov 23:45, 23 Nov 23:45"},
	{"every hour at :15 on weekdays", "23 Nov 00:15, 23 Nov 01:15"},
	{"weekdays every hour at :15 and :59", "23 Nov 00:15, 23 Nov 00:59, 23 Nov 01:15"},
	{"every hour at :00", "22 Nov 13:00, 22 Nov 14:00"},
	{"every 1 hours", "22 Nov 13:00, 22 Nov 14:00"},
	{"every thirty minutes", "22 Nov 12:30, 22 Nov 13:00"},
	{"every forty-five minutes", "22 Nov 12:45, 22 Nov 13:30"},
	{"every ninety minutes", "22 Nov 13:30, 22 Nov 15:00"},
	{"every sixty minutes", "22 Nov 13:00, 22 Nov 14:00"},
	{"every fifteen minutes", "22 Nov 12:15, 22 Nov 12:30"},
	{"every twenty minutes", "22 Nov 12:20, 22 Nov 12:40"},
	{"every forty minutes from 9 to 11 on weekdays",
		"23 Nov 09:00, 23 Nov 09:40, 23 Nov 10:20, 23 Nov 11:00, 24 Nov 09:00"},
	{"every 4 hours except on mondays", "22 Nov 16:00, 22 Nov 20:00, 24 Nov 00:00"},
	{"every day at 9 except in november and december", "1 Jan 09:00, 2 Jan 09:00"},
	{"every monday in january, may and december at 9",
		"7 Dec 09:00, 14 Dec 09:00, 21 Dec 09:00, 28 Dec 09:00, 4 Jan 09:00"},
	{"sept 1 every year at 9", "1 Sep 09:00, 1 Sep 09:00"},
	{"the 31st of every month at 9", "31 Dec 09:00, 31 Jan 09:00, 31 Mar 09:00"},
	{"the 1st and 15th of the month at 9", "1 Dec 09:00, 15 Dec 09:00, 1 Jan 09:00"},
	{"every day at 9 Oslo time", "23 Nov 09:00, 24 Nov 09:00"},
	{"every day at 9 new york time", "22 Nov 15:00, 23 Nov 15:00"},
	{"weekdays at 9 UTC", "23 Nov 10:00, 24 Nov 10:00"},
	{"weekdays at 9 Asia/Tokyo", "23 Nov 01:00, 24 Nov 01:00"},
	{"9am local time every sunday", "29 Nov 09:00, 6 Dec 09:00"},
	{"from monday to thursday at 9", "23 Nov 09:00, 24 Nov 09:00, 25 Nov 09:00, 26 Nov 09:00, 30 Nov 09:00"},
	{"tue/thu at 9", "24 Nov 09:00, 26 Nov 09:00"},
	{"every satur. at 9", "28 Nov 09:00, 5 Dec 09:00"},
	{"every single day at 9", "23 Nov 09:00, 24 Nov 09:00"},
	{"friday and the 13th at 9", "27 Nov 09:00, 4 Dec 09:00, 11 Dec 09:00, 13 Dec 09:00"},
	{"weekends at 10", "28 Nov 10:00, 29 Nov 10:00"},

	{"every saturd at 9", refused},
	{"every day at half past 9:30 10:00", refused},
	{"friday the 13th at 9", refused},
	{"friday, the 13th at 9", refused},
	{"last weekday at 9", refused},
	{"twice a week on monday and friday at 9", refused},
	{"twice a month on the 1st and 15th at 9", refused},
	{"three times a day at 9 and 17", refused},
	{"every hour at :60", refused},
	{"every hour at :5", refused},
	{"every hour at :15 at :45", refused},
	{"every 30 minutes at :15", refused},
	{"weekdays at 9 at :15", refused},
	{"every day at 13pm", refused},
	{"every day at 0am", refused},
	{"every day at 9:60", refused},
	{"every day at 60 past 7", refused},
	{"every day at 0 past 7", refused},
	{"every day at quarter past 9:30", refused},
	{"every day except the 1st at 9", refused},
	{"every day except the last day of the month at 9", refused},
	{"every day except the first monday of the month at 9", refused},
	{"every day except days at 9", refused},
	{"every day except at 9", refused},
	{"every day at 9 except", refused},
	{"every day at 9 except in snow", refused},
	{"the 1st of the month except monday at 9", refused},
	{"monday except monday at 9", refused},
	{"every monday in may except in may at 9", refused},
	{"weekly on the 1st at 9", refused},
	{"every 2 weeks on the 1st at 9", refused},
	{"every 2 weeks at 9", refused},
	{"every 2 days on monday at 9", refused},
	{"yearly on the 1st at 9", refused},
	{"every december 24 in may at 9", refused},
	{"every hour in the morning", refused},
	{"from 9 to 17 on weekdays at 9", refused},
	{"every hour from 17 to 9", refused},
	{"the first and last day of the quarter at 9", refused},
	{"every day at 9 Oslo time UTC", refused},
	{"every day at 9 time", refused},
	{"every day at 9 Europe/Olso", refused},
	{"every 0 minutes", refused},
	{"every 0 days at 9", refused},
	{"every 32nd of the month at 9", refused},
	{"per day at 9", refused},
	{"last monday and tuesday of the month at 9", refused},
	{"first monday and sunday at 9", refused},
	{"first monday and tuesday at 9", refused},
	{"sixth monday of the month at 9", refused},
	{"6th monday of the month at 9", refused},
	{"monday to at 9", refused},
	{"monday to noon", refused},
	{"the 0th of the month at 9", refused},
	{"every third monday at 9", refused},
	{"mon wed at 9", refused},
	{"monday, the 15th at 9", refused},
	{"time", refused},
	{"time for tea every day at 9", refused},
	{"*5 9 * * *", refused},
	{"0 9 * * 1-7/0", refused},
	{"0 9 * * 1-7/12", refused},
	{"0 9, * * *", refused},
	{"0 9 * *", refused},
	{"@often", refused},
	{"a day at 9", refused},
	{"last weekend of the month at 9", refused},
	{"first business day at 9", refused},
	{"monthly on monday at 9", refused},
	{"monthly at 9", refused},
	{"quarterly at 9", refused},
	{"every second tuesday at 9", refused},
	{"every other weekday at 9", refused},
	{"every 2 months on the 1st at 9", refused},
	{"biweekly on monday at 9", refused},
	{"every day at half eight", refused},
	{"every morning", refused},
	{"every morning at 7pm", refused},
	{"every morning at 12", refused},
	{"friday night at 1", refused},
	{"every day at 8 9", refused},
	{"monday 3 at 9", refused},
	{"every day except holidays at 9", refused},
	{"weekdays except saturday and monday to friday at 9", refused},
	{"once a week on monday and friday at 9", refused},
	{"twice a day at 9", refused},
	{"every 7 hours", refused},
	{"every 50 minutes", refused},
	{"every day at 9 CET", refused},
	{"every day at 9 Springfield time", refused},
	{"every other tuesday at 9 starting 24 november", refused},
	{"24 december at 18:00", refused},
	{"the 24th of december at 18:00", refused},
	{"every monday at 9 for three weeks", refused},
	{"weekdays at 9 until christmas", refused},
	{"every full moon at 9", refused},
	{"when it rains", refused},
	{"every 2 mondays at 9", refused},
	{"last sunday at 9", refused},
	{"1st quarter at 9", refused},
	{"first week at 9", refused},
	{"monday tuesday at 9", refused},
	{"every monday or tuesday at 9", refused},
	{"hourly at 9", refused},
	{"every 100 minutes", refused},
	{"every day at 9am pm", refused},
	{"the 15th business day of the week at 9", refused},
	{"21st business day of the month at 9", refused},
	{"jeden Montag um 9", refused},
	{"tous les jours à 9h", refused},
	{"at 25:00 every day", refused},
	{"the 30th of february at 9", refused},
	{"every day between 9 and 17", refused},
	{"every day from noon", refused},
	{"on-new", refused},
}

// TestPhrases_UnderstoodOrRefused reads each phrase as a person means it, or refuses it. What it understood it can
// write in words that mean the same.
func TestPhrases_UnderstoodOrRefused(t *testing.T) {
	oslo := zone(t, "Europe/Oslo")
	from := time.Date(2026, 11, 22, 12, 0, 0, 0, oslo)
	if len(phrases) < 100 {
		t.Fatalf("%d phrases, want 100 or more", len(phrases))
	}
	for _, tc := range phrases {
		s, err := Parse(tc.text, oslo)
		if (err != nil) != (tc.due == refused) {
			t.Errorf("%q: error %v, want %s", tc.text, err, tc.due)
			continue
		}
		if err != nil {
			continue
		}
		back, err := Parse(s.Describe(), s.Zone())
		if err != nil {
			t.Errorf("%q, in words %q: %v", tc.text, s.Describe(), err)
		}
		n := strings.Count(tc.due, ",") + 1
		if got := dueInstants(s, from, n, oslo); got != tc.due {
			t.Errorf("%q is due %s, want %s", tc.text, got, tc.due)
		}
		if got := dueInstants(back, from, n, oslo); got != tc.due {
			t.Errorf("%q, in words %q, is due %s, want %s", tc.text, s.Describe(), got, tc.due)
		}
	}
}

// dueInstants returns the next n instants in a zone.
func dueInstants(s Schedule, from time.Time, n int, in *time.Location) string {
	var list []string
	for range n {
		next, ok := s.Next(from)
		if !ok {
			break
		}
		list = append(list, next.In(in).Format("2 Jan 15:04"))
		from = next
	}
	return strings.Join(list, ", ")
}

func TestParseTime(t *testing.T) {
	oslo := zone(t, "Europe/Oslo")
	now := time.Date(2026, 11, 25, 12, 0, 30, 0, oslo) // a Wednesday
	for text, want := range map[string]string{
		"in 20 minutes":                    "2026-11-25T12:20:30+01:00",
		"in an hour":                       "2026-11-25T13:00:30+01:00",
		"in half an hour":                  "2026-11-25T12:30:30+01:00",
		"in an hour and a half":            "2026-11-25T13:30:30+01:00",
		"in 1.5 hours":                     "2026-11-25T13:30:30+01:00",
		"in a quarter of an hour":          "2026-11-25T12:15:30+01:00",
		"in one hour":                      "2026-11-25T13:00:30+01:00",
		"in 0.5 hours":                     "2026-11-25T12:30:30+01:00",
		"in forty-five minutes":            "2026-11-25T12:45:30+01:00",
		"in sixty minutes":                 "2026-11-25T13:00:30+01:00",
		"in 2 days and an hour":            "2026-11-27T13:00:30+01:00",
		"in a fortnight":                   "2026-12-09T12:00:30+01:00",
		"in 2 years":                       "2028-11-25T12:00:30+01:00",
		"in 3 months at 9":                 "2027-02-25T09:00:00+01:00",
		"in 3660 days":                     "2036-12-02T12:00:30+01:00", // about ten years, the most
		"24.12. 18:00":                     "2026-12-24T18:00:00+01:00",
		"31 january, 2027 at 9":            "2027-01-31T09:00:00+01:00",
		"31 october 2027 at 2:30":          "2027-10-31T02:30:00+02:00", // the first of the two
		"midnight":                         "2026-11-26T00:00:00+01:00",
		"tomorrow night at 11":             "2026-11-26T23:00:00+01:00",
		"tomorrow night at 1":              "2026-11-27T01:00:00+01:00",
		"in the evening at 8":              "2026-11-25T20:00:00+01:00",
		"in the morning at 8":              "2026-11-26T08:00:00+01:00",
		"tonight at 1":                     "2026-11-26T01:00:00+01:00",
		"this afternoon at 3":              "2026-11-25T15:00:00+01:00",
		"25.11.2026 12:01":                 "2026-11-25T12:01:00+01:00",
		"25 november at 12":                "2027-11-25T12:00:00+01:00",
		"the 25th at 12:01":                "2026-11-25T12:01:00+01:00",
		"the 25th at 12":                   "2026-12-25T12:00:00+01:00",
		"12:01":                            "2026-11-25T12:01:00+01:00",
		"2026-11-25t12:01":                 "2026-11-25T12:01:00+01:00",
		"in 1h30m":                         "2026-11-25T13:30:30+01:00",
		"in 2 hours and 5 minutes":         "2026-11-25T14:05:30+01:00",
		"in 2 hours, 90 seconds":           "2026-11-25T14:02:00+01:00",
		"20 minutes from now":              "2026-11-25T12:20:30+01:00",
		"in two weeks":                     "2026-12-09T12:00:30+01:00",
		"in 3 days at 9":                   "2026-11-28T09:00:00+01:00",
		"in a month":                       "2026-12-25T12:00:30+01:00",
		"in 5 months":                      "2027-04-25T12:00:30+02:00", // the same time of the clock, in summer
		"tomorrow at noon":                 "2026-11-26T12:00:00+01:00",
		"tomorrow, at 9":                   "2026-11-26T09:00:00+01:00",
		"tomorrow morning at 8":            "2026-11-26T08:00:00+01:00",
		"tomorrow at 8 in the evening":     "2026-11-26T20:00:00+01:00",
		"9am tomorrow":                     "2026-11-26T09:00:00+01:00",
		"the day after tomorrow at 7":      "2026-11-27T07:00:00+01:00",
		"today at 18:00":                   "2026-11-25T18:00:00+01:00",
		"tonight at 8":                     "2026-11-25T20:00:00+01:00",
		"tonight at midnight":              "2026-11-26T00:00:00+01:00",
		"this evening at 7":                "2026-11-25T19:00:00+01:00",
		"at 9":                             "2026-11-26T09:00:00+01:00",
		"at half past two pm":              "2026-11-25T14:30:00+01:00",
		"17:30":                            "2026-11-25T17:30:00+01:00",
		"noon":                             "2026-11-26T12:00:00+01:00",
		"friday at 9":                      "2026-11-27T09:00:00+01:00",
		"on wednesday at 11":               "2026-12-02T11:00:00+01:00",
		"wednesday at 15:00":               "2026-11-25T15:00:00+01:00",
		"this friday at 9":                 "2026-11-27T09:00:00+01:00",
		"next monday at 9":                 "2026-11-30T09:00:00+01:00",
		"next wednesday at 9":              "2026-12-02T09:00:00+01:00",
		"24 December 18:00":                "2026-12-24T18:00:00+01:00",
		"December 24th at 6pm":             "2026-12-24T18:00:00+01:00",
		"on the 24th of december at 18:00": "2026-12-24T18:00:00+01:00",
		"3 march at 9":                     "2027-03-03T09:00:00+01:00",
		"29 february at 9":                 "2028-02-29T09:00:00+01:00",
		"2026-12-24 18:00":                 "2026-12-24T18:00:00+01:00",
		"2026-12-24T18:00:00Z":             "2026-12-24T18:00:00Z",
		"24.12.2026 18:00":                 "2026-12-24T18:00:00+01:00",
		"the 5th at 9":                     "2026-12-05T09:00:00+01:00",
		"the 31st at 9":                    "2026-12-31T09:00:00+01:00",
		"tomorrow at 9 Tokyo time":         "2026-11-26T09:00:00+09:00",
		"28 march 2027 at 2:30":            "2027-03-28T03:00:00+02:00", // the clock is put ahead over it

		"2026-13-01 at 9": refused, "2026-02-30 at 9": refused, "wednesday night at 1": refused,
		"friday at midnight": refused,
		"the last at 9":      refused, "the last of december at 9": "2026-12-31T09:00:00+01:00",
		"in 3661 days": refused, "in half a day": refused, "in 1.5 months": refused, "in -5 minutes": refused,
		"in 2 fathoms": refused, "in the 20 minutes": refused,
		"32.1.2027 at 9": refused, "1.13.2027 at 9": refused, "29.2.2027 at 9": refused, "the 32nd at 9": refused,
		"24.0.2027 at 9": refused, "24.0. at 9": refused, "0.5.2027 at 9": refused, "in 5000000 years": refused,
		"the 0th at 9":         refused,
		"friday tomorrow at 9": refused, "tomorrow in the morning in the evening at 8": refused,
		"tomorrow in 2 hours": refused,
		"next friday at 9":    refused, "tomorrow at 9 and": refused, "and": refused, "tomorrow": refused,
		"friday 3": refused, "tomorrow at midnight": refused,
		"today at 9": refused, "24/12 at 9": refused, "30 february at 9": refused, "in 0 minutes": refused, "now": refused,
		"in a while": refused, "soon": refused, "yesterday at 9": refused, "in 20": refused, "in 2 hours at 9": refused,
		"tomorrow at 9 and 17": refused, "monday or tuesday at 9": refused, "mondays at 9": refused,
		"every monday at 9":     refused,
		"24 december 2020 at 9": refused, "in 200 years": refused, "at 9 at 10": refused, "": refused,
		"in 99999999999 hours": refused,
	} {
		got, err := ParseTime(text, oslo, now)
		switch {
		case (err != nil) != (want == refused):
			t.Errorf("%q is %s (%v), want %s", text, got, err, want)
		case err == nil && got.Format(time.RFC3339) != want:
			t.Errorf("%q is %s, want %s", text, got.Format(time.RFC3339), want)
		case err != nil && !strings.Contains(err.Error(), `"in 20 minutes"`):
			t.Errorf("%q: no example in %v", text, err)
		}
	}
}

func TestParseNext_NamesTheFaultOfTheFormThatWasMeant(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"":                  "want 5 fields",
		"each day tomorrow": "both that it is repeated and when it is due once",
		"tomorrow":          "at what time",
		"in a while":        `"while" was not understood`,
		"next friday at 9":  "may be 27 November or 4 December",
		"weekdays":          "at what time",
		"every 7 hours":     "do not divide a day",
		"on wednesdays":     "at what time",
		"31 april at 10:00": "no such date",
	} {
		if _, err := ParseNext(text, time.UTC, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want it to mention %q", text, err, want)
		}
	}
	s, err := ParseNext("saturday at 10", time.UTC, now)
	if err != nil || dueInstants(s, now, 2, time.UTC) != "28 Nov 10:00, 5 Dec 10:00" {
		t.Errorf("a weekday is %s (%v), want every week", dueInstants(s, now, 2, time.UTC), err)
	}
	s, err = ParseNext("in 20 minutes", time.UTC, now)
	if err != nil || dueInstants(s, now, 2, time.UTC) != "25 Nov 12:20" {
		t.Errorf("a time is %s (%v), want once", dueInstants(s, now, 2, time.UTC), err)
	}
}

// Days, weeks, months and years ahead are those of the calendar: at the same time of the clock, and on the last day of
// a month that has no such date.
func TestParseTime_CountsOnTheCalendar(t *testing.T) {
	oslo := zone(t, "Europe/Oslo")
	for _, c := range []struct{ now, text, want string }{
		{"2027-01-31T10:00:00+01:00", "in a month", "2027-02-28T10:00:00+01:00"},
		{"2027-01-31T10:00:00+01:00", "in a month and a day", "2027-03-01T10:00:00+01:00"},
		{"2027-01-31T10:00:00+01:00", "in 2 months", "2027-03-31T10:00:00+02:00"},
		{"2028-02-29T10:00:00+01:00", "in a year", "2029-02-28T10:00:00+01:00"},
		{"2027-03-27T10:00:00+01:00", "in a day", "2027-03-28T10:00:00+02:00"},
		{"2027-03-27T10:00:00+01:00", "in 24 hours", "2027-03-28T11:00:00+02:00"},
		{"2027-03-27T10:00:00+01:00", "in a day and 2 hours", "2027-03-28T12:00:00+02:00"},
		{"2026-12-31T23:59:59+01:00", "at 0:00", "2027-01-01T00:00:00+01:00"},
		{"2026-12-31T10:00:00+01:00", "tomorrow at 9", "2027-01-01T09:00:00+01:00"},
		{"2026-12-31T10:00:00+01:00", "the 30th at 9", "2027-01-30T09:00:00+01:00"},
		{"2027-01-30T10:00:00+01:00", "the 30th at 9", "2027-03-30T09:00:00+02:00"},
		{"2026-11-29T10:00:00+01:00", "next monday at 9", "2026-11-30T09:00:00+01:00"},
		{"2026-11-30T10:00:00+01:00", "next monday at 9", "2026-12-07T09:00:00+01:00"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseTime(c.text, oslo, now)
		if err != nil || got.Format(time.RFC3339) != c.want {
			t.Errorf("on %s, %q is %s, %v, want %s", c.now, c.text, got.Format(time.RFC3339), err, c.want)
		}
	}
}

// A part of the day has its times from its first to its last minute; a time of twelve hours is the one that is in it.
func TestParseTime_PartsOfTheDay(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"tomorrow morning at 0:00": "26 00:00", "tomorrow morning at 11:59": "26 11:59",
		"tomorrow morning at 12:00": refused,
		"tomorrow morning at 7pm":   refused, "tomorrow morning at 12": refused,
		"tomorrow afternoon at 12:00": "26 12:00", "tomorrow afternoon at 17:59": "26 17:59",
		"tomorrow afternoon at 18:00": refused,
		"tomorrow afternoon at 11am":  refused, "tomorrow afternoon at 5": "26 17:00", "tomorrow afternoon at 6": refused,
		"tomorrow evening at 16:00": "26 16:00", "tomorrow evening at 23:59": "26 23:59",
		"tomorrow evening at 15:59": refused,
		"tomorrow evening at 4":     "26 16:00", "tomorrow evening at 3": refused, "tomorrow evening at 11": "26 23:00",
		"tomorrow night at 18:00": "26 18:00", "tomorrow night at 17:59": refused, "tomorrow night at 5:59": "27 05:59",
		"tomorrow night at 6:00": "26 18:00", "tomorrow night at 06:00": refused, "tomorrow night at 12": "27 00:00",
		"tomorrow night at 12:30": "27 00:30",
	} {
		got, err := ParseTime(text, time.UTC, now)
		switch {
		case (err != nil) != (want == refused):
			t.Errorf("%q is %s (%v), want %s", text, got, err, want)
		case err == nil && got.Format("2 15:04") != want:
			t.Errorf("%q is %s, want %s", text, got.Format("2 15:04"), want)
		}
	}
}

// What cannot be understood as a time is told with the words that are wrong.
func TestParseTime_NamesWhatIsWrong(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 30, 0, time.UTC)
	for text, want := range map[string]string{
		"at": `something is missing after "at"`, "tomorrow at": `something is missing after "at"`,
		"in": "it names no time span", "in 20": `something is missing after "20"`,
		"in a":           `something is missing after "a"`,
		"in 2 hours and": `something is missing after "and"`, "in half an": `something is missing after "half an"`,
		"tomorrow at 9 and 17": `two times of day, "9" and "17"`, "friday 3": `"3" may be a time or something else`,
		"tomorrow friday at 9": "it names two days",
		"in 0 days at 9":       `"in 0 days" is not a time in the future`,
		"morning evening at 8": `how "evening at 8" belongs`,
		"in the morning":       "it does not say at what time", "now": `"now" was not understood`,
		"24/12 at 9":     `"24/12" is read differently in different countries`,
		"next year at 9": "it does not say on which day",
		"this at 9":      `"this at" was not understood`, "2026-13-01 at 9": "there is no such date",
		"today at 9":           "Wed 25 Nov 2026 09:00 UTC is past",
		"in 99999999999 hours": "more than ten years ahead", "in 4000000 hours": "more than ten years ahead",
		"in 2 hours and 2562047 hours": "more than ten years ahead", "in 4000 days": "more than ten years ahead",
		"at half eight":        `"half eight" may mean two times`,
		"in 2 hours at 9":      "both a time of day and how long from now",
		"tomorrow in 2 hours":  "both a day and how long from now",
		"wednesday night at 1": `on which day "1" of that night is`, "30 february at 9": "no such date",
		"in 1.5 days": "1.5 days is not a number of whole days", "in 2 fathoms": `"fathoms" was not understood`,
		"tomorrow at 7pm in the morning": `"7pm" is not a time of the morning`, "at 25": `"25" is not a time of day`,
	} {
		if _, err := ParseTime(text, time.UTC, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want it to mention %q", text, err, want)
		}
	}
}

// nexts are schedules and times as `ravenbot schedule next` reads them on Wednesday, 25 November 2026, at noon in Oslo. A
// dot stands where nothing is due any more.
var nexts = []struct{ text, due string }{
	{"monday week at 9", "7 Dec 09:00."},
	{"a week on monday at 9", "7 Dec 09:00."},
	{"in a week on monday at 9", "7 Dec 09:00."},
	{"friday week at 5pm", "4 Dec 17:00."},
	{"monday at 9 in two weeks", "14 Dec 09:00."},
	{"next week monday at 9", "30 Nov 09:00."},
	{"quarter to nine", "26 Nov 08:45."},
	{"friday kl. 10.00", "27 Nov 10:00, 4 Dec 10:00"},
	{"every friday um 14 Uhr", "27 Nov 14:00, 4 Dec 14:00"},
	{"2026-W49-3 at 14h30", "2 Dec 14:30."},
	{"tomorrow 10 Uhr 30", "26 Nov 10:30."},
	{"2027W011 kl 8", "4 Jan 08:00."},
	{"weekdays at 9 starting 2026-W53-3", "30 Dec 09:00, 31 Dec 09:00"},
	{"2026-W49 at 9", refused},
	{"2027-W53-1 at 9", refused},
	{"2026-W49-8 at 9", refused},
	{"2026-W00-1 at 9", refused},
	{"friday kl. 25", refused},
	{"friday 10 Uhr 60", refused},
	{"friday kl 9-10", refused},
	{"2026-12-24T18:00", "24 Dec 18:00."},
	{"2026-12-24T18:00+01:00", "24 Dec 18:00."},
	{"24/12/2026 18:00", "24 Dec 18:00."},
	{"24:00", "26 Nov 00:00."},
	{"0730", "26 Nov 07:30."},
	{"in 1h 30m", "25 Nov 13:30."},
	{"9 tomorrow", "26 Nov 09:00."},
	{"friday the 4th at 9", "4 Dec 09:00."},
	{"weekdays at 0730", "26 Nov 07:30, 27 Nov 07:30, 30 Nov 07:30"},
	{"end of month at 9", "30 Nov 09:00, 31 Dec 09:00, 31 Jan 09:00"},
	{"alternate mondays at 9", "30 Nov 09:00, 14 Dec 09:00"},
	{"alternate days at 9", "27 Nov 09:00, 29 Nov 09:00"},
	{"every day at 9 starting tomorrow", "26 Nov 09:00, 27 Nov 09:00"},
	{"every monday at 9 until 14 december", "30 Nov 09:00, 7 Dec 09:00, 14 Dec 09:00."},
	{"every monday until january at 9", "30 Nov 09:00, 7 Dec 09:00, 14 Dec 09:00, 21 Dec 09:00, 28 Dec 09:00."},
	{"weekdays at 9 and saturdays at 10 until sunday", "26 Nov 09:00, 27 Nov 09:00, 28 Nov 10:00."},
	{"every 12 hours until friday", "26 Nov 00:00, 26 Nov 12:00, 27 Nov 00:00, 27 Nov 12:00."},
	{"weekdays at 9am and 5pm", "25 Nov 17:00, 26 Nov 09:00"},
	{"weekdays at 5 and 17:30", "25 Nov 17:30, 26 Nov 05:00"},
	{"every 2 hours from 9am to 5", "25 Nov 13:00, 25 Nov 15:00, 25 Nov 17:00, 26 Nov 09:00"},
	{"every 2 hours from 9 to 5pm", "25 Nov 13:00, 25 Nov 15:00, 25 Nov 17:00, 26 Nov 09:00"},
	{"weekdays at 9am and 5", refused},
	{"every hour from 1 to 5pm", refused},
	{"week on monday at 9", refused},
	{"every monday a week at 9", refused},
	{"every monday week at 9", refused},
	{"monday until friday at 9", refused},
	{"monday and thursday at 9 in two weeks", refused},
	{"last friday at 9 tomorrow", refused},
	{"every day at 9 until november", refused},
	{"every day at 9 until yesterday", refused},
	{"every day at 9 until friday until sunday", refused},
	{"every day at 9 starting sunday until friday", refused},
	{"tomorrow at 9 until friday", refused},
	{"until friday", refused},
	{"friday the 5th at 9", refused},
	{"every day at 9 in december 2026", refused},
	{"mondays at 24:00", refused},
}

func TestParseNext_UnderstoodOrRefused(t *testing.T) {
	oslo := zone(t, "Europe/Oslo")
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, oslo)
	for _, tc := range nexts {
		s, err := ParseNext(tc.text, oslo, now)
		if (err != nil) != (tc.due == refused) {
			t.Errorf("%q: error %v, want %s", tc.text, err, tc.due)
			continue
		}
		if err != nil {
			continue
		}
		want, isAll := strings.CutSuffix(tc.due, ".")
		n := strings.Count(want, ",") + 1
		if isAll {
			n++
		}
		if got := dueInstants(s, now, n, oslo); got != want {
			t.Errorf("%q is due %s, want %s", tc.text, got, want)
		}
		if _, isOnce := s.Once(); isOnce {
			continue
		}
		// The text of a schedule is stored, and has to mean the same in a year.
		back, err := Parse(s.String(), oslo)
		if got := dueInstants(back, now, n, oslo); err != nil || got != want {
			t.Errorf("%q, stored as %q, is due %s (%v), want %s", tc.text, s, got, err, want)
		}
		if end := now.AddDate(1, 0, 0); isAll != s.HasEnded(end) {
			t.Errorf("%q has ended: %t, want %t", tc.text, s.HasEnded(end), isAll)
		}
	}
}

// What has to mean the same at any time names its year, and is no single time.
func TestParse_CountedFromNow_IsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"every day at 9 until january":   "needs a date with its year",
		"every day at 9 until tomorrow":  "needs a date with its year",
		"every day at 9 starting 24.12.": "needs a date with its year",
		"a week on monday at 9":          "it is one time, and a schedule is wanted",
		"monday week at 9":               "it is one time, and a schedule is wanted",
		"tomorrow at 9":                  "it is one time, and a schedule is wanted",
	} {
		if _, err := Parse(text, time.UTC); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want it to mention %q", text, err, want)
		}
	}
}

// Where people count the hours to twelve, "at 5" is refused unless the phrase has a time of 24 hours.
func TestParseReminder_HoursToTwelve(t *testing.T) {
	for _, c := range []struct{ zone, text, due string }{
		{"America/New_York", "at 5", refused},
		{"America/New_York", "tomorrow at 5", refused},
		{"America/New_York", "every day at 5:30", refused},
		{"America/New_York", "every day at 5 and 17:30", "25 Nov 17:30, 26 Nov 05:00"},
		{"America/New_York", "tomorrow at 05:00", "26 Nov 05:00"},
		{"America/New_York", "tomorrow morning at 5", "26 Nov 05:00"},
		{"America/New_York", "tomorrow at 5 in the morning", "26 Nov 05:00"},
		{"America/New_York", "tomorrow at 5pm", "26 Nov 17:00"},
		{"America/New_York", "tomorrow at 9", "26 Nov 09:00"},
		{"Australia/Perth", "tomorrow at 5", refused},
		{"Europe/Oslo", "tomorrow at 5", "26 Nov 05:00"},
	} {
		loc := zone(t, c.zone)
		now := time.Date(2026, 11, 25, 12, 0, 0, 0, loc)
		s, err := ParseReminder(c.text, loc, now)
		if (err != nil) != (c.due == refused) {
			t.Errorf("%q in %s: error %v, want %s", c.text, c.zone, err, c.due)
		} else if n := strings.Count(c.due, ",") + 1; err == nil && dueInstants(s, now, n, loc) != c.due {
			t.Errorf("%q in %s is due %s, want %s", c.text, c.zone, dueInstants(s, now, n, loc), c.due)
		}
	}
}
