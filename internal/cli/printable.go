package cli

import (
	"bytes"
	"io"
	"unicode"
)

// printableWriter replaces control characters, with which a feed or an answer could control the terminal, by
// U+FFFD. A character must not be split over two writes.
type printableWriter struct{ w io.Writer }

// Write returns the length of p, also where more or fewer bytes were written.
func (v printableWriter) Write(p []byte) (int, error) {
	shown := bytes.Map(func(r rune) rune {
		// Tabs and line breaks move the cursor only forward.
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, p)
	if _, err := v.w.Write(shown); err != nil {
		return 0, err
	}
	return len(p), nil
}
