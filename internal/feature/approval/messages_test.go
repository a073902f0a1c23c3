package approval_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// People see every character that they decide about, also those that no font shows.
func TestQuestion_InvisibleCharacters_AreWrittenAsTheirCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		b := d.book(t)
		hidden := []rune{0x3164, 0xFFA0, 0x2800, 0x034F, 0xFE0F, 0xE0100, 0x180B, 0x200B, 0x2063, 0x200D, 0xE0041}
		args, err := json.Marshal(map[string]string{"x": "a" + string(hidden) + "bø天"})
		if err != nil {
			t.Fatal(err)
		}
		ask(t.Context(), b, intent("1", anna, string(args)))
		shown := d.last().Text
		for _, c := range hidden {
			code := fmt.Sprintf(`\u%04x`, c)
			if c > 0xFFFF {
				code = fmt.Sprintf(`\U%08x`, c)
			}
			if strings.ContainsRune(shown, c) || !strings.Contains(shown, code) {
				t.Errorf("U+%04X is not shown as %s in %q", c, code, shown)
			}
		}
		if !strings.Contains(shown, "bø天") {
			t.Errorf("visible characters are not shown as they are: %q", shown)
		}
	})
}

// Arguments are shown as the tool reads them: without escapes, with strokes that strike out letters as their code, and
// with a word about hosts whose letters only look like those of English.
func TestQuestion_LookAlikes_AreShown(t *testing.T) {
	for args, want := range map[string]string{
		`{"do":"d\u0065l\u0065te \ud83d\ude00"}`: `"delete 😀"`,
		`{"do":"a\"b\\u0065\n\u0022"}`:           `"a\"b\\u0065\n\u0022"`,
		`{"do":"k\u0336eep s̸trike"}`:            `"k\u0336eep s\u0338trike"`,
		`{"url":"https://аpple.example/"}`:       "Not only English letters are in `\\u0430pple.example`",
		`{"to":"eve@ex\u0430mple.com"}`:          "`ex\\u0430mple.com`: look whether",
		`{"url":"https://а.example/ а.example"}`: "are in `\\u0430.example`: look",
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk()
			b := d.book(t)
			ask(t.Context(), b, intent("1", anna, args))
			if shown := d.last().Text; !strings.Contains(shown, want) {
				t.Errorf("%s is shown as\n%s\nwant %s", args, shown, want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		b := d.book(t)
		ask(t.Context(), b, intent("1", anna, `{"url":"https://apple.example/","text":"Größe"}`))
		if shown := d.last().Text; strings.Contains(shown, "English letters") {
			t.Errorf("plain arguments are shown as\n%s", shown)
		}
	})
}
