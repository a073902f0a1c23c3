package feed

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// removeInvalidChars removes characters that XML does not allow, written plainly or as a numeric reference. It reads
// references to 128–159 as the windows-1252 characters that their writers meant.
func removeInvalidChars(data []byte) []byte {
	if hasOnlyValidChars(data) {
		return data
	}
	out := make([]byte, 0, len(data))
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		// A reference to a forbidden character is as fatal to an XML parser as the character itself.
		if r == '&' && len(data) > 2 && data[1] == '#' {
			if code, length := parseCharReference(data); length > 0 {
				// HTML reads references to these control characters as windows-1252, which is what their authors mean.
				if code >= 0x80 && code < 0xA0 {
					out = utf8.AppendRune(out, charmap.Windows1252.DecodeByte(byte(code)))
				} else if isXMLChar(code) {
					out = append(out, bytes.ToLower(data[:length])...)
				}
				data = data[length:]
				continue
			}
		}
		if isXMLChar(r) {
			out = append(out, data[:size]...)
		}
		data = data[size:]
	}
	return out
}

// hasOnlyValidChars reports whether removeInvalidChars has nothing to do, which is true of most feeds.
func hasOnlyValidChars(data []byte) bool {
	return !bytes.Contains(data, []byte("&#")) && bytes.IndexFunc(data, func(r rune) bool { return !isXMLChar(r) }) < 0
}

// isXMLChar reports whether XML 1.0 allows the character (production 2).
func isXMLChar(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r <= 0xD7FF ||
		r >= 0xE000 && r <= 0xFFFD || r >= 0x10000 && r <= 0x10FFFF
}

// parseCharReference reads "&#65;" or "&#x41;" at the start of data. length is 0 when there is none, and code is 0
// when it lies beyond Unicode.
func parseCharReference(data []byte) (code rune, length int) {
	// The longest valid reference has ten bytes; 16 leaves room for leading zeros.
	end := bytes.IndexByte(data[:min(len(data), 16)], ';')
	if end < 3 {
		return 0, 0
	}
	digits, radix := string(data[2:end]), 10
	if digits[0] == 'x' || digits[0] == 'X' {
		digits, radix = digits[1:], 16
	}
	n, err := strconv.ParseUint(digits, radix, 64)
	if err != nil {
		return 0, 0
	}
	if n > utf8.MaxRune {
		n = 0
	}
	return rune(n), end + 1
}
