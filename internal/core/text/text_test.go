package text_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"ravenbot/internal/core/text"
)

func TestCut_EndsBetweenCharacters(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"aø", 2, "a"}, {"aø", 3, "aø"}, {"øø", 3, "ø"},
		{"天气", 5, "天"}, {"天", 2, ""}, {"abc", 0, ""}, {"abc", -1, ""},
	} {
		if got := text.Cut(c.in, c.n); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestShorten_CountsTheEllipsis(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"øøø", 3, "øøø"}, {"øøøø", 3, "øø…"}, {"ab", 1, "…"},
	} {
		if got := text.Shorten(c.in, c.n); got != c.want {
			t.Errorf("Shorten(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestOneLine_FoldsWhiteSpaceAndDropsControls(t *testing.T) {
	for in, want := range map[string]string{
		"  likes\n short\u202e \x1banswers ": "likes short answers",
		"a\rb\r\nc\td\u00a0e \x1b f":         "a b c d e f",
		"bad\xffbyte":                        "bad\uFFFDbyte",
		" \n ":                               "",
	} {
		if got := text.OneLine(in); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestErrorLine_LeavesTheTitleOfAPage(t *testing.T) {
	const page = "<!DOCTYPE HTML>\n<html lang=\"en\">\n<head>\n<title>Error &amp;\nresponse</title></head>\n<body><h1>No</h1></body></html>\n"
	for in, want := range map[string]string{
		"status 501: " + page:                  `status 501: an HTML page titled "Error & response"`,
		"502 Bad Gateway <html><body>no":       "502 Bad Gateway an HTML page",
		"x < html, y\n  and <b>bold</b> words": "x < html, y and <b>bold</b> words",
		strings.Repeat("long ", 100):           strings.TrimSpace(strings.Repeat("long ", 12))[:59] + "…",
	} {
		if got := text.ErrorLine(in, 60); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestClean_KeepsLinesAndTabs(t *testing.T) {
	if got, want := text.Clean("a\r\n\tb\x1b[31m\u202ec\U000E0041"), "a\n\tb[31mc"; got != want {
		t.Errorf("Clean = %q, want %q", got, want)
	}
}

// Text must not be hidden from people and shown to models. Emoji sequences and scripts that need joiners keep them.
func TestClean_DropsWhatCannotBeSeen(t *testing.T) {
	for _, c := range []rune{0x3164, 0xFFA0, 0x115F, 0x2800, 0x034F, 0xFE00, 0xFE0F, 0xE0100, 0xE01EF,
		0xE0041, 0x180B, 0x180E,
		0x200B, 0x200E, 0x2060, 0x2063, 0x206A, 0x202E, 0x2066, 0xFEFF, 0x00AD, 0x1D173, 0xFFF0} {
		if got := text.Clean("a" + string(c) + "b"); got != "ab" || !text.IsInvisible(c) {
			t.Errorf("U+%04X stays: %q", c, got)
		}
	}
	for in, want := range map[string]string{
		"\U0001F469\u200D\U0001F4BB":         "\U0001F469\u200D\U0001F4BB",
		"\u0645\u06CC\u200C\u062E\u0648":     "\u0645\u06CC\u200C\u062E\u0648",
		"a\u200C\u200D\u200C\u200C\u200Db":   "a\u200Cb",
		"a\u200D\uFE0F\u200D\u200Bb":         "a\u200Db",
		"\u0600\u0661 ø天 \u0915\u094D\u0937": "\u0600\u0661 ø天 \u0915\u094D\u0937",
	} {
		if got := text.Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestEscapeMarkdown_LeavesNothingToInterpret(t *testing.T) {
	want := `\# \*a\* \_b\_ ` + "\\`c\\`" + ` \[d\](e) \<f> \~g\~ \|h\| \\ i`
	if got := text.EscapeMarkdown("# *a* _b_ `c` [d](e) <f> ~g~ |h| \\\ni"); got != want {
		t.Errorf("EscapeMarkdown = %q, want %q", got, want)
	}
}

func TestRandomID_DiffersEachTime(t *testing.T) {
	a, b := text.RandomID(4), text.RandomID(4)
	if len(a) != 8 || a == b || strings.Trim(a, "0123456789abcdef") != "" {
		t.Errorf("ids %q and %q", a, b)
	}
}

func FuzzCutAndShorten(f *testing.F) {
	f.Add("aø天\xff", 2)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = max(0, n%100)
		cut := text.Cut(s, n)
		if len(cut) > n || !strings.HasPrefix(s, cut) || utf8.ValidString(s) && !utf8.ValidString(cut) {
			t.Errorf("Cut(%q, %d) = %q", s, n, cut)
		}
		if short := text.Shorten(s, n+1); utf8.RuneCountInString(short) > n+1 {
			t.Errorf("Shorten(%q, %d) = %q", s, n+1, short)
		}
	})
}

// The fast path for plain text must have the same result as the full one.
func TestOneLine_EveryShortText_IsOneCleanLine(t *testing.T) {
	alphabet := []string{"a", " ", "\t", "\n", "\r", "\x7f", "\x00", "é", "\u200b", "\xff"}
	texts := []string{""}
	for range 4 {
		var longer []string
		for _, s := range texts {
			for _, c := range alphabet {
				longer = append(longer, s+c)
			}
		}
		texts = longer
		for _, s := range texts {
			line := text.OneLine(s)
			if strings.ContainsAny(line, "\t\n\r\x7f\x00\u200b") || strings.Join(strings.Fields(line), " ") != line ||
				!utf8.ValidString(line) {
				t.Fatalf("%q became %q", s, line)
			}
			if clean := text.Clean(s); strings.ContainsAny(clean, "\r\x7f\x00\u200b") || !utf8.ValidString(clean) ||
				strings.Count(clean, "\n") != strings.Count(s, "\n") || strings.Count(clean, "a") != strings.Count(s, "a") {
				t.Fatalf("%q became %q", s, clean)
			}
		}
	}
}

func TestTerms(t *testing.T) {
	for s, want := range map[string]string{
		"Don't stop, it's 3.9!": "don't|stop|it's|3|9",
		"'Quoted' – words":      "quoted|words",
		"北京大学 met":              "北京|京大|大学|met",
		"a中b":                   "a|中|b",
		"…":                     "",
	} {
		if got := strings.Join(slices.Collect(text.Terms(s)), "|"); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
