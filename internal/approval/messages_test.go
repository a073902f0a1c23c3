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
