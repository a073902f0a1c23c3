package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestNext(t *testing.T) {
	for _, tc := range []struct {
		name, expr, zone, from string
		want                   []string
	}{
		{"weekdays", "30 8 * * 1-5", "Europe/Oslo", "2026-01-02T08:30:00+01:00",
			[]string{"2026-01-05T08:30:00+01:00", "2026-01-06T08:30:00+01:00"}},
		{"from is exclusive", "0 0 * * *", "UTC", "2026-01-01T00:00:00Z", []string{"2026-01-02T00:00:00Z"}},
		{"just before", "0 0 * * *", "UTC", "2026-01-01T23:59:59.999Z", []string{"2026-01-02T00:00:00Z"}},
		{"names", "0 9 * jan MON", "UTC", "2026-01-01T00:00:00Z", []string{"2026-01-05T09:00:00Z"}},
		{"day of month or weekday", "0 0 13 * 5", "UTC", "2026-01-01T00:00:00Z",
			[]string{"2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"}},
		{"starred day of month and weekday", "0 0 */2 * 1", "UTC", "2026-01-01T00:00:00Z",
			[]string{"2026-01-05T00:00:00Z", "2026-01-19T00:00:00Z"}},
		{"seven is Sunday", "0 8 * * 6-7", "UTC", "2026-01-03T08:00:00Z",
			[]string{"2026-01-04T08:00:00Z", "2026-01-10T08:00:00Z"}},
		{"leap day", "0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
		{"gap: once at its end", "30 2 * * *", "America/New_York", "2026-03-07T02:30:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
		{"gap swallows many minutes", "*/10 2 * * *", "America/New_York", "2026-03-08T00:00:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00"}},
		{"overlap: first pass", "30 1 * * *", "America/New_York", "2026-10-31T12:00:00-04:00",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"midnight gap in Cairo", "0 0 * * *", "Africa/Cairo", "2026-04-23T00:00:00+02:00",
			[]string{"2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"}},
		{"midnight gap in Santiago", "0 0 * * *", "America/Santiago", "2026-09-05T00:00:00-04:00",
			[]string{"2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"}},
		{"Santiago, Sundays", "0 8 * * 0", "America/Santiago", "2026-09-05T00:00:00-04:00",
			[]string{"2026-09-06T08:00:00-03:00"}},
		{"half an hour on Lord Howe", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"two hours at Troll", "15 2 * * *", "Antarctica/Troll", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:15:00+02:00"}},
		{"Samoa left out a day", "0 8 * * *", "Pacific/Apia", "2011-12-29T08:00:00-10:00",
			[]string{"2011-12-31T00:00:00+14:00", "2011-12-31T08:00:00+14:00"}},
		{"hourly in the repeated hour", "0 * * * *", "America/New_York", "2026-11-01T00:00:00-04:00",
			[]string{"2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"}},
		{"hourly over the gap", "30 * * * *", "America/New_York", "2026-03-08T00:30:00-05:00",
			[]string{"2026-03-08T01:30:00-05:00", "2026-03-08T03:30:00-04:00"}},
		{"minutes follow elapsed time", "*/30 */1 * * *", "Australia/Lord_Howe", "2026-04-05T01:00:00+11:00",
			[]string{"2026-04-05T01:30:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T02:00:00+10:30"}},
		{"every second hour in an overlap", "0 */2 * * *", "Europe/Berlin", "2026-10-25T00:00:00+02:00",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T04:00:00+01:00"}},
		{"@daily", "@daily", "UTC", "2026-01-01T10:00:00Z", []string{"2026-01-02T00:00:00Z"}},
		{"@weekly is Sunday", "@weekly", "UTC", "2026-01-01T10:00:00Z", []string{"2026-01-04T00:00:00Z"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := Parse(tc.expr, zone(t, tc.zone))
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339Nano, tc.from)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for range tc.want {
				next, ok := s.Next(at)
				if !ok {
					t.Fatalf("nothing due after %s", at)
				}
				got = append(got, next.Format(time.RFC3339))
				at = next
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("due instants (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNeverDue(t *testing.T) {
	for _, expr := range []string{"0 0 30 2 *", "0 * 31 4,6,9,11 *"} {
		s, err := Parse(expr, zone(t, "Europe/Oslo"))
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := s.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); ok {
			t.Errorf("%q is due at %s", expr, at)
		}
	}
	if _, ok := (Schedule{}).Next(time.Now()); ok {
		t.Error("the zero schedule is due")
	}
}

func TestParseNamesTheFaultyField(t *testing.T) {
	for expr, want := range map[string]string{
		"61 * * * *":       "minute field",
		"0 24 * * *":       "hour field",
		"0 0 0 * *":        "day of month field",
		"0 0 x * *":        "day of month field",
		"0 0 * foo *":      "month field",
		"0 0 * * 8":        "day of week field",
		"0 0 * * 1-8":      "day of week field",
		"*/0 * * * *":      "minute field",
		"1,,2 * * * *":     "minute field",
		"*-5 * * * *":      "minute field",
		"*/90 * * * *":     "the step is longer than the field",
		"0 9 LW * *":       "extensions such as L, W and #",
		"0 9 * * 5L":       "extensions such as L, W and #",
		"0 9 * * fri#3":    "extensions such as L, W and #",
		"5 4 * *":          "want 5 fields",
		"0 5 4 * * *":      "want 5 fields",
		"":                 "want 5 fields",
		"@every 5m":        "unknown name",
		"TZ=UTC":           "time zone",
		"TZ=UTC * * * * *": "time zone",
	} {
		_, err := Parse(expr, time.UTC)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "strconv") {
			t.Errorf("Parse(%q): error %v, want it to mention %q", expr, err, want)
		}
	}
	if _, err := LoadZone("Europe/Olso"); err == nil || !strings.Contains(err.Error(), `"Europe/Olso"`) {
		t.Errorf("LoadZone: error %v does not name the zone", err)
	}
}

// TestOneRunADate compares 400 days of daily schedules with a clock that is
// simply watched: a time is due when the clock first shows it or a later one.
func TestOneRunADate(t *testing.T) {
	zones := []string{"Australia/Lord_Howe", "Africa/Cairo", "America/Santiago", "America/New_York", "Antarctica/Troll",
		"Europe/London", "Europe/Berlin", "America/Havana", "Asia/Beirut", "Pacific/Chatham", "Asia/Kathmandu", "UTC"}
	const step = 15 * time.Minute
	for _, name := range zones {
		loc := zone(t, name)
		start := time.Date(2028, 1, 1, 0, 0, 0, 0, loc) // a leap year
		for _, minute := range []int{0, 75, 135, 150, 180, 1425} {
			s, err := Parse(fmt.Sprintf("%d %d * * *", minute%60, minute/60), loc)
			if err != nil {
				t.Fatal(err)
			}
			due, ok := s.Next(start.Add(-1))
			seen := 0
			for at := start; at.Before(start.AddDate(0, 0, 400)); at = at.Add(step) {
				local := at.In(loc)
				if local.YearDay() == seen || local.Hour()*60+local.Minute() < minute {
					continue
				}
				seen = local.YearDay()
				if !ok || !due.Equal(at) {
					t.Fatalf("%s %q: due %s, want %s", name, s, due, local)
				}
				due, ok = s.Next(due)
			}
		}
	}
}

func TestLatestAgreesWithNext(t *testing.T) {
	loc := zone(t, "Europe/Oslo")
	until := time.Date(2026, 6, 1, 12, 34, 56, 0, loc)
	for _, expr := range []string{"* * * * *", "0 8 * * *", "0 0 1 1 *", "0 0 29 2 *"} {
		s, err := Parse(expr, loc)
		if err != nil {
			t.Fatal(err)
		}
		due, ok := s.Latest(until.AddDate(-12, 0, 0), until)
		next, _ := s.Next(due)
		if !ok || due.After(until) || !next.After(until) {
			t.Errorf("%q: latest before %s is %s (%v), then %s", expr, until, due, ok, next)
		}
		if _, ok := s.Latest(due, until); ok {
			t.Errorf("%q: an instant was found after the latest", expr)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"30 8 * * 1-5", "@daily", "*/5 */2 1,15 jan-mar mon", "0 0 * * 5-7/2",
		"TZ=UTC", "? ? ? ? ?",
		"weekdays at 8:30", "every 2 hours from 9 to 17", "the 1st, last and 3rd friday of may at :15 and 9 a.m.",
		"every every and and",
		"every day at 9 until january", "a week on friday at 24:00", "starting tomorrow alternate mondays at 0730",
		"in an hour and a half", "next monday at 9", "24 December 18:00", "in and",
		"the 31st at half past 8 in the evening"} {
		f.Add(seed, int64(1767225600))
	}
	loc := zone(f, "America/New_York")
	f.Fuzz(func(t *testing.T, expr string, unix int64) {
		// Its result is tested by others: here it has to come to one.
		_, _ = ParseTime(expr, loc, time.Unix(unix%4e9, 0))
		if s, err := ParseReminder(expr, loc, time.Unix(unix%4e9, 0)); err == nil {
			if _, isOnce := s.Once(); !isOnce {
				if _, err := Parse(s.String(), s.Zone()); err != nil {
					t.Fatalf("%q is stored as %q: %v", expr, s, err)
				}
			}
		}
		s, err := Parse(expr, loc)
		if err != nil {
			return
		}
		after := time.Unix(unix%4e9, 0)
		due, ok := s.Next(after)
		if ok && (!due.After(after) || due.Second() != 0) {
			t.Fatalf("%q after %s is due at %s", expr, after, due)
		}
		if s.Describe() == "" {
			t.Fatalf("%q has no words", expr)
		}
	})
}
