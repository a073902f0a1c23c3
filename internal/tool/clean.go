package tool

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes a stranger's text safe to show and to send: valid UTF-8, without
// control characters, terminal sequences or characters that hide text.
func Clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\t':
			return c
		case unicode.IsControl(c), '\u202A' <= c && c <= '\u202E', '\u2066' <= c && c <= '\u2069', 0xE0000 <= c && c <= 0xE007F:
			return -1
		}
		return c
	}, s)
}
