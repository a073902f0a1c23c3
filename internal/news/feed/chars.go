package feed

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"ravenbot/internal/core/text"
)

// charReference matches "&#65;" and "&#x41;".
var charReference = text.Pattern(`&#(?:[xX][0-9a-fA-F]{1,12}|[0-9]{1,12});`)

// removeInvalidChars removes characters that XML does not allow, written plainly or as a numeric reference, which is as
// fatal to a parser. It reads references to 128–159 as the windows-1252 characters that their writers meant, as HTML does.
func removeInvalidChars(data []byte) []byte {
	if bytes.Contains(data, []byte("&#")) {
		data = charReference().ReplaceAllFunc(data, cleanReference)
	}
	// Most feeds need no copy.
	if bytes.IndexFunc(data, func(r rune) bool { return !isXMLChar(r) }) < 0 {
		return data
	}
	return bytes.Map(func(r rune) rune {
		if !isXMLChar(r) {
			return -1
		}
		return r
	}, data)
}

// cleanReference returns a reference in the form of XML, or nothing.
func cleanReference(reference []byte) []byte {
	reference = bytes.ToLower(reference)
	digits, radix := reference[2:len(reference)-1], 10
	if digits[0] == 'x' {
		digits, radix = digits[1:], 16
	}
	code, _ := strconv.ParseInt(string(digits), radix, 64)
	switch {
	case code >= 0x80 && code < 0xA0:
		return utf8.AppendRune(nil, charmap.Windows1252.DecodeByte(byte(code)))
	case code <= utf8.MaxRune && isXMLChar(rune(code)):
		return reference
	}
	return nil
}

// isXMLChar reports whether XML 1.0 allows the character (production 2).
func isXMLChar(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r <= 0xD7FF ||
		r >= 0xE000 && r <= 0xFFFD || r >= 0x10000 && r <= 0x10FFFF
}
