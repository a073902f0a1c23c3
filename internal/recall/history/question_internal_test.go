package history

import (
	"testing"
	"time"
)

func TestParseRange_Since_LastsUntilToday(t *testing.T) {
	now := time.Date(2026, 8, 19, 15, 0, 0, 0, time.UTC) // a Wednesday
	for query, want := range map[string]string{
		"what was decided in june?":                      "2026-06-01 2026-07-01",
		"what was decided since june?":                   "2026-06-01 2026-08-20",
		"since december, who joined":                     "2025-12-01 2026-08-20",
		"since the end of june":                          "2026-06-20 2026-08-20",
		"since 5 july":                                   "2026-07-05 2026-08-20",
		"since 2026-07-05":                               "2026-07-05 2026-08-20",
		"what happened since monday":                     "2026-08-17 2026-08-20",
		"since yesterday":                                "2026-08-18 2026-08-20",
		"since last week":                                "2026-08-10 2026-08-20",
		"anything new since two weeks ago":               "2026-08-02 2026-08-20",
		"what did anna say yesterday since she was away": "2026-08-18 2026-08-19",
	} {
		from, to := parseRange(query, now)
		if got := from.Format(time.DateOnly) + " " + to.Format(time.DateOnly); got != want {
			t.Errorf("%q is %s, want %s", query, got, want)
		}
	}
}
