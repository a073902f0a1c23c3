package cli

import (
	"bytes"
	"io"
	"unicode"
)

// printableWriter writes for people's eyes: control characters, by which a feed or an
// answer could steer the terminal, become U+FFFD. A character must not be split
// over two writes.
type printableWriter struct{ w io.Writer }

func (v printableWriter) Write(p []byte) (int, error) {
	shown := bytes.Map(func(r rune) rune {
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
