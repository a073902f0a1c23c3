package web

import (
	"math"
	"regexp"
	"strconv"
	"testing"
)

// luminance returns the relative luminance of a color written as RRGGBB (WCAG 2.2).
func luminance(t *testing.T, color string) float64 {
	t.Helper()
	rgb, err := strconv.ParseUint(color, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	linear := func(part uint64) float64 {
		c := float64(part&0xff) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(rgb>>16) + 0.7152*linear(rgb>>8) + 0.0722*linear(rgb)
}

// All words on the pages can be read in both themes.
func TestPalette_HasContrast(t *testing.T) {
	css, err := files.ReadFile("static/app.css")
	if err != nil {
		t.Fatal(err)
	}
	variable := regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`)
	themes := []map[string]string{{}, {}}
	for _, found := range variable.FindAllStringSubmatch(string(css), -1) {
		theme := themes[0]
		if theme[found[1]] != "" {
			theme = themes[1]
		}
		theme[found[1]] = found[2]
	}
	for n, theme := range themes {
		for word, grounds := range map[string][]string{
			"ink": {"paper", "sheet", "soft", "said", "code"}, "faint": {"paper", "sheet", "soft"}, "accent": {"paper", "sheet", "code"},
			"bad": {"paper", "sheet", "bad-soft"}, "good": {"sheet", "code"}, "number": {"code"}, "sheet": {"accent", "bad"},
		} {
			for _, ground := range grounds {
				a, b := luminance(t, theme[word])+0.05, luminance(t, theme[ground])+0.05
				if ratio := max(a, b) / min(a, b); ratio < 4.5 {
					t.Errorf("theme %d: %s on %s has a contrast of %.2f, want 4.5", n, word, ground, ratio)
				}
			}
		}
	}
}
