package feed

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"

	"ravenbot/internal/core/text"
)

// byteOrderMarks are byte order marks, and the first bytes by which a document without one shows that its characters
// are wider than a byte. Longer ones come first.
var byteOrderMarks = []struct {
	bytes []byte
	skip  bool
	enc   encoding.Encoding
}{
	{[]byte{0xEF, 0xBB, 0xBF}, true, encoding.Nop},
	{[]byte{0xFF, 0xFE, 0, 0}, true, utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)},
	{[]byte{0, 0, 0xFE, 0xFF}, true, utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)},
	{[]byte{'<', 0, 0, 0}, false, utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)},
	{[]byte{0, 0, 0, '<'}, false, utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)},
	{[]byte{0xFF, 0xFE}, true, unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)},
	{[]byte{0xFE, 0xFF}, true, unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)},
	{[]byte{'<', 0}, false, unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)},
	{[]byte{0, '<'}, false, unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)},
	{[]byte{0x4C, 0x6F, 0xA7, 0x94}, false, charmap.CodePage037},
}

// xmlEncoding matches an XML declaration up to the name of its encoding.
var xmlEncoding = text.Pattern(`^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']`)

// toUTF8 converts the document to valid UTF-8. The byte order mark decides, then whether it is UTF-8, then the server's
// charset, then the XML declaration; a claim that the bytes contradict is ignored. It cannot fail: what no claim
// explains is read as windows-1252, as browsers do.
func toUTF8(data []byte, contentType string) []byte {
	for _, m := range byteOrderMarks {
		if bytes.HasPrefix(data, m.bytes) {
			if m.skip {
				data = data[len(m.bytes):]
			}
			// For UTF-8 the checks below still apply.
			if decoded, err := m.enc.NewDecoder().Bytes(data); err == nil && m.enc != encoding.Nop {
				return bytes.ToValidUTF8(decoded, []byte("\uFFFD"))
			}
			break
		}
	}
	// Text of another encoding is hardly ever valid UTF-8 by chance, so a label that says otherwise is wrong.
	if utf8.Valid(data) && !isASCII(data) {
		return data
	}
	for _, name := range []string{charsetOf(contentType), declaredCharset(data)} {
		if decoded, ok := decodeAs(data, name); ok {
			return decoded
		}
	}
	if utf8.Valid(data) {
		return data
	}
	decoded, err := charmap.Windows1252.NewDecoder().Bytes(data)
	if err != nil || mostlyUTF8(data) {
		return bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	return decoded
}

// charsetOf returns the charset of a Content-Type header, or "".
func charsetOf(contentType string) string {
	_, params, _ := mime.ParseMediaType(contentType)
	return params["charset"]
}

// declaredCharset returns the encoding that the XML declaration names, or "".
func declaredCharset(data []byte) string {
	if match := xmlEncoding().FindSubmatch(data[:min(len(data), 1024)]); match != nil {
		return string(match[1])
	}
	return ""
}

// decodeAs decodes data from the named encoding. It returns false when the name is unknown or the bytes are not in
// that encoding.
func decodeAs(data []byte, name string) ([]byte, bool) {
	name = strings.ToLower(strings.TrimSpace(name))
	switch {
	case name == "":
		return nil, false
	case name == "utf-8" || name == "utf8":
		return data, utf8.Valid(data)
	case strings.HasPrefix(name, "utf-16") || strings.HasPrefix(name, "utf-32") || strings.HasPrefix(name, "ucs-"):
		return nil, false // toUTF8 would have seen it from the first bytes
	case strings.Contains(name, "ascii"):
		return data, isASCII(data)
	}
	// Browsers' names first: they read iso-8859-1 as windows-1252, which is what its users mean.
	enc, err := htmlindex.Get(name)
	if err != nil {
		enc, err = ianaindex.IANA.Encoding(name)
	}
	if err != nil || enc == nil {
		return nil, false
	}
	decoded, err := enc.NewDecoder().Bytes(data)
	if err != nil || bytes.Contains(decoded, []byte("\uFFFD")) {
		return nil, false
	}
	return decoded, true
}

// isASCII reports whether no byte is outside of ASCII, whatever the charset is called.
func isASCII(data []byte) bool {
	return bytes.IndexFunc(data, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// mostlyUTF8 reports whether a few bytes are broken in what is otherwise UTF-8: read as windows-1252, all of its
// other letters would become two.
func mostlyUTF8(data []byte) bool {
	var good, bad int
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			bad++
		case size > 1:
			good++
		}
		data = data[size:]
	}
	return good > bad
}
