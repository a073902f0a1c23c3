package pdftext

import "testing"

// A line that is written as it is seen, with the shapes of Arabic letters, is read in the order of its letters.
func TestMend_ArabicShapes(t *testing.T) {
	for seen, want := range map[string]string{
		"ﺔﻨﻳﺪﻤﻟا ﻲﻓ":             "في المدينة",
		"2026 ﺔﻨﻳﺪﻤﻟا":           "المدينة 2026",
		"Go 1.26 now ﻲﻓ":         "في Go 1.26 now",
		"(ﻲﻓ)":                   "(في)",
		"plain (a) line\nﻲﻓ":     "plain (a) line\nفي",
		"המילה הזאת אינה מצורות": "המילה הזאת אינה מצורות",
	} {
		if got := mend(seen); got != want {
			t.Errorf("%q is read as %q, want %q", seen, got, want)
		}
	}
}
