package pdftext

import "testing"

func TestMend_RightToLeft(t *testing.T) {
	for seen, want := range map[string]string{
		"ﺔﻨﻳﺪﻤﻟا ﻲﻓ":                 "في المدينة",
		"2026 ﺔﻨﻳﺪﻤﻟا":               "المدينة 2026",
		"Go 1.26 now ﻲﻓ\nﺔﻨﻳﺪﻤﻟا ﻲﻓ": "في Go 1.26 now\nفي المدينة",
		"(ﻲﻓ)": "(في)",
		"plain (a) line\nﻲﻓ ﺔﻨﻳﺪﻤﻟا ﺔﻨﻳﺪﻤﻟا":     "plain (a) line\nالمدينة المدينة في",
		"תורוצמ הניא תאזה הלימה":                 "המילה הזאת אינה מצורות",
		"2026 תנשב 26%-ב הלע (ריחמה) John Smith": "John Smith (המחיר) עלה ב-26% בשנת 2026",
		"say םולש 12 םלוע to them":               "say עולם 12 שלום to them",
	} {
		if got := mend(seen); got != want {
			t.Errorf("%q is read as %q, want %q", seen, got, want)
		}
	}
}

// Some programs place the letters of a line one after the other from the right.
func TestLay_LettersPlacedFromTheRight(t *testing.T) {
	var pieces []piece
	for i, letter := range []string{"ש", "ל", "ו", "ם", "", "ל", "ך"} {
		if letter != "" {
			pieces = append(pieces, piece{text: letter, along: 500 - 6*float64(i), across: 700, width: 6, size: 10})
		}
	}
	pieces = append(pieces, piece{text: "abc", along: 100, across: 680, width: 18, size: 10},
		piece{text: "def", along: 90, across: 680, width: 5, size: 10})
	if got, want := lay(pieces), "שלום לך\nabc def"; got != want {
		t.Errorf("read as %q, want %q", got, want)
	}
}
