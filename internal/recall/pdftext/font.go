package pdftext

import (
	"encoding/hex"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ledongthuc/pdf"

	"ravenbot/internal/core/text"
)

// font says what the codes of a string stand for and how wide they are. It is read
// once: the library would look everything up again for each character.
type font struct {
	composite bool // codes have two bytes
	texts     map[int]string
	widths    map[int]float64 // in thousandths of the font's size
	width     float64         // of codes that are not in widths
	left      int             // codes that rows of them may still tell of
}

const (
	usualWidth = 500     // about that of a letter, where a font tells none
	maxCodes   = 1 << 16 // of one font
	maxMapped  = 1 << 20 // the same code may be in many
	// windows are the characters from 0x80 to 0x9f of the encoding that most files
	// mean where they only say what differs from it.
	windows = "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ"
)

// readFont returns a font with the widths of its characters and the texts that they stand for, as far as the file
// tells.
func readFont(v pdf.Value) *font {
	f := &font{composite: v.Key("Subtype").Name() == "Type0", texts: map[int]string{}, widths: map[int]float64{},
		width: usualWidth, left: maxMapped}
	if f.composite {
		f.readWide(v.Key("DescendantFonts").Index(0))
	} else {
		f.readSimple(v)
	}
	// Last, since it says what the others only let one guess.
	if u := v.Key("ToUnicode"); u.Kind() == pdf.Stream {
		f.readUnicode(u)
	}
	return f
}

// readSimple reads a font of one byte a code.
func (f *font) readSimple(v pdf.Value) {
	if w := v.Key("FontDescriptor").Key("MissingWidth").Float64(); w > 0 {
		f.width = w
	}
	scale := 1.0
	if m, ok := numbers(v.Key("FontMatrix")); ok && v.Key("Subtype").Name() == "Type3" {
		scale = m[0] * 1000 // such a font is drawn in a space of its own
	}
	first, widths := int(v.Key("FirstChar").Int64()), v.Key("Widths")
	for i := range min(widths.Len(), 256) {
		f.widths[first+i] = widths.Index(i).Float64() * scale
	}
	encoding, ownAlone := v.Key("Encoding"), v.Key("ToUnicode").Kind() == pdf.Stream
	enc, beyond := (&pdf.Font{V: v}).Encoder(), []rune(windows)
	for code := range 256 {
		raw := string([]byte{byte(code)})
		if encoding.Kind() == pdf.Null && ownAlone { // what its own table leaves out is ASCII
			f.texts[code] = raw
			continue
		}
		// The library leaves the codes from 0x80 to 0x9f as they are where an encoding only says what differs.
		f.texts[code] = enc.Decode(raw)
		if encoding.Kind() == pdf.Dict && code >= 0x80 && code < 0xa0 && f.texts[code] == string(rune(code)) {
			f.texts[code] = string(beyond[code-0x80])
		}
	}
	if encoding.Kind() == pdf.Null && !ownAlone { // as the fonts of TeX are, the one of symbols apart
		for i, text := range []string{"ff", "fi", "fl", "ffi", "ffl"} {
			f.texts[0x0b+i] = text
		}
		if strings.Contains(v.Key("BaseFont").Name(), "CMSY") {
			f.texts[0x0d], f.texts[0x0f] = "©", "•"
		}
	}
	f.readDifferences(encoding.Key("Differences"))
}

// readDifferences takes the characters that are named by their numbers, which the
// library does not know.
func (f *font) readDifferences(list pdf.Value) {
	code := 0
	for i := range min(list.Len(), 1024) {
		x := list.Index(i)
		if x.Kind() == pdf.Integer {
			code = int(x.Int64())
			continue
		}
		digits, long := strings.CutPrefix(x.Name(), "uni")
		if !long {
			digits = strings.TrimPrefix(x.Name(), "u")
		}
		if n, err := strconv.ParseUint(digits, 16, 21); err == nil && len(digits) >= 4 && digits != x.Name() {
			f.texts[code] = string(rune(n))
		}
		code++
	}
}

// readWide reads the widths of a font of two bytes a code.
func (f *font) readWide(v pdf.Value) {
	// The usual width of a composite font where it tells none (PDF 32000-1, 9.7.4.3).
	f.width = 1000
	if w := v.Key("DW"); w.Kind() == pdf.Integer || w.Kind() == pdf.Real {
		f.width = w.Float64()
	}
	list := v.Key("W")
	for i := 0; i+1 < list.Len() && len(f.widths) < maxCodes; {
		first, next := int(list.Index(i).Int64()), list.Index(i+1)
		if next.Kind() == pdf.Array {
			for j := range min(next.Len(), maxCodes) {
				f.widths[first+j] = next.Index(j).Float64()
			}
			i += 2
			continue
		}
		w := list.Index(i + 2).Float64()
		for code := first; code <= min(int(next.Int64()), first+maxCodes) && f.left > 0; code++ {
			f.widths[code] = w
			f.left--
		}
		i += 3
	}
}

// maxTable is the most that is read of such a table, in bytes.
const maxTable = 4 << 20

// token is a piece of the table of a font's characters: a string of hexadecimal digits,
// a bracket or a word.
var token = text.Pattern(`<[0-9A-Fa-f\s]*>|[\[\]]|[a-zA-Z]+`)

// readUnicode reads the table by which a font says what its codes mean. It is a
// program, of which only the lists of characters are looked at.
func (f *font) readUnicode(table pdf.Value) {
	defer func() { _ = recover() }() // of a damaged table: what is before the damage
	data, err := io.ReadAll(io.LimitReader(table.Reader(), maxTable))
	if err != nil && len(data) == 0 {
		return
	}
	var words []string // since the list began
	var list []string  // within brackets; nil: outside
	lists := map[int][]string{}
	for _, t := range token().FindAllString(string(data), -1) {
		switch {
		case t == "[":
			list = []string{}
		case t == "]" && list != nil:
			lists[len(words)] = list
			// An empty word holds the place of the list, because each range has three words.
			words, list = append(words, ""), nil
		case t[0] == '<' && list != nil:
			list = append(list, unhex(t))
		case t[0] == '<':
			words = append(words, unhex(t))
		case t == "endbfchar":
			for i := 0; i+1 < len(words); i += 2 {
				f.means(number(words[i]), inUTF16(words[i+1], 0))
			}
		case t == "endbfrange":
			for i := 0; i+2 < len(words); i += 3 {
				f.meanRange(number(words[i]), number(words[i+1]), words[i+2], lists[i+2])
			}
		default:
			words, list = nil, nil
			clear(lists)
		}
	}
}

// meanRange takes a row of codes, whose characters follow on one, or are listed.
func (f *font) meanRange(first, last int, from string, list []string) {
	for code := first; code <= min(last, first+maxCodes) && f.left > 0; code++ {
		f.left--
		switch at := code - first; {
		case list == nil:
			f.means(code, inUTF16(from, at))
		case at < len(list):
			f.means(code, inUTF16(list[at], 0))
		}
	}
}

// unhex returns the bytes of a string in angle brackets; empty where it is malformed.
func unhex(t string) string {
	digits := strings.Join(strings.Fields(strings.Trim(t, "<>")), "")
	if len(digits)%2 == 1 {
		digits += "0"
	}
	raw, err := hex.DecodeString(digits)
	if err != nil {
		return ""
	}
	return string(raw)
}

// means notes what a code stands for, unless the font has too many.
func (f *font) means(code int, text string) {
	if len(f.texts) < maxCodes {
		f.texts[code] = text
	}
}

// number returns the number that the first four bytes of a string make, the most significant first.
func number(raw string) int {
	n := 0
	for i := range min(len(raw), 4) {
		n = n<<8 | int(raw[i])
	}
	return n
}

// inUTF16 decodes big-endian UTF-16 of which the last unit is raised by some.
func inUTF16(raw string, by int) string {
	if len(raw) == 1 {
		return string(rune(int(raw[0]) + by))
	}
	var units []uint16
	for i := 0; i+1 < len(raw); i += 2 {
		units = append(units, uint16(raw[i])<<8|uint16(raw[i+1]))
	}
	if len(units) > 0 {
		units[len(units)-1] += uint16(by)
	}
	return string(utf16.Decode(units))
}

// read returns the text of a string, its width in thousandths of the font's size, and how many characters and blanks it
// has. A code of which nothing is known has a width and no text.
func (f *font) read(raw string) (text string, width float64, chars, blanks int) {
	var b strings.Builder
	step := 1
	if f.composite {
		step = 2
	}
	for i := 0; i+step <= len(raw); i += step {
		code := number(raw[i : i+step])
		letters := f.texts[code]
		if len(letters) > utf8.UTFMax && rightToLeft().MatchString(letters) {
			letters = reverse(letters) // of one sign, in the order in which lines are seen
		}
		b.WriteString(letters)
		w, ok := f.widths[code]
		if !ok {
			w = f.width
		}
		width += w
		chars++
		if step == 1 && code == ' ' {
			blanks++
		}
	}
	return b.String(), width, chars, blanks
}
