// Package text holds the small operations on text that several packages need: cutting it to a limit, joining it into
// one line, removing characters that hide or reorder the displayed text, and escaping Markdown. Every cut is valid
// UTF-8. It imports only the standard library, so that every package can import it. Limits of one platform or file
// format belong to the package that handles it.
package text

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

const ellipsis = "…"

// Cut returns the beginning of s, at most maxBytes bytes of it, and never ends within a character.
func Cut(s string, maxBytes int) string {
	if len(s) <= maxBytes {
		return s
	}
	end := max(maxBytes, 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// Shorten returns s or, if it has more than maxChars characters, its beginning and an ellipsis, with a total of
// maxChars characters. maxChars is at least 1.
func Shorten(s string, maxChars int) string {
	if len(s) <= maxChars {
		return s // a character takes at least one byte
	}
	chars, cutAt := 0, 0
	for at := range s {
		if chars++; chars == maxChars {
			cutAt = at
		}
		if chars > maxChars {
			return s[:cutAt] + ellipsis
		}
	}
	return s
}

// OneLine returns Clean(s) with one space in place of every run of white space, including line breaks.
func OneLine(s string) string {
	if isPlainLine(s) {
		return s
	}
	spaced := strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) {
			return ' ' // before Clean, which would join the words around a carriage return
		}
		return c
	}, s)
	return strings.Join(strings.Fields(Clean(spaced)), " ")
}

// htmlDocument finds the beginning of an HTML document, and htmlTitle its title.
var (
	htmlDocument = Pattern(`(?i)<(?:!doctype html|html|head|body)\b`)
	htmlTitle    = Pattern(`(?is)<title[^>]*>(.*?)</title`)
)

// ErrorLine returns the text of an error as one line of at most maxChars characters. It reduces an HTML page, such as
// a proxy sends instead of a response, to its title.
func ErrorLine(s string, maxChars int) string {
	if at := htmlDocument().FindStringIndex(s); at != nil {
		page := "an HTML page"
		if title := htmlTitle().FindStringSubmatch(s[at[0]:]); title != nil {
			page += fmt.Sprintf(" titled %q", Shorten(OneLine(html.UnescapeString(title[1])), 80))
		}
		s = s[:at[0]] + page
	}
	return Shorten(OneLine(s), maxChars)
}

// isPlainLine reports whether s consists of visible ASCII with single spaces between, as most lines do.
func isPlainLine(s string) bool {
	before := byte(' ')
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == ' ' && before == ' ' {
			return false
		}
		before = s[i]
	}
	return before != ' ' || s == ""
}

// isPlain reports whether s consists of visible ASCII, line feeds and tabs.
func isPlain(s string) bool {
	for i := range len(s) {
		if (s[i] < ' ' || s[i] > '~') && s[i] != '\n' && s[i] != '\t' {
			return false
		}
	}
	return true
}

// Clean makes a stranger's text safe to show and to send. It returns valid UTF-8 without control characters, terminal
// sequences and invisible characters (see IsInvisible). It keeps line feeds and tabs, and removes carriage returns. Of
// several consecutive joiners, which Persian, Indian scripts and emoji need, it keeps the first.
func Clean(s string) string {
	if isPlain(s) {
		return s
	}
	joined := false
	return strings.Map(func(c rune) rune {
		if isJoiner(c) && !joined {
			joined = true
			return c
		}
		if c != '\n' && c != '\t' && (unicode.IsControl(c) || IsInvisible(c)) {
			return -1
		}
		// Keep the state after a removed character, because the joiners around it would become neighbours.
		joined = false
		return c
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// isJoiner reports whether c is U+200C or U+200D.
func isJoiner(c rune) bool { return c == '\u200C' || c == '\u200D' }

// IsInvisible reports whether c is invisible, so that text can hide in it, or changes the direction of other text:
// Unicode's Default_Ignorable_Code_Point (its derivation is in DerivedCoreProperties.txt of Unicode 15) and the blank
// of Braille. Blanks and control characters are not included.
func IsInvisible(c rune) bool {
	if c == '\u2800' || unicode.In(c, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
		return true
	}
	// These formatting characters are visible.
	seen := unicode.Is(unicode.Prepended_Concatenation_Mark, c) || 0xFFF9 <= c && c <= 0xFFFB ||
		0x13430 <= c && c <= 0x1343F
	return unicode.Is(unicode.Cf, c) && !seen || 0xE0000 <= c && c <= 0xE0FFF
}

var markdownEscapes = strings.NewReplacer(
	`\`, `\\`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`,
	"<", `\<`, "~", `\~`, "|", `\|`, "#", `\#`, "\n", " ",
)

// EscapeMarkdown returns s in a form that Markdown shows literally. Line breaks become spaces, since a new line could
// begin a list or a heading.
func EscapeMarkdown(s string) string { return markdownEscapes.Replace(s) }

// RandomID returns n random bytes in hexadecimal digits: an identifier that nobody can guess and that people can read
// aloud.
func RandomID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // documented to never fail
	return hex.EncodeToString(b)
}
