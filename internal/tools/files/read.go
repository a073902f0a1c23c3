package files

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"ravenbot/internal/core/tool"
)

const (
	// maxShownBytes is how much of a file one call returns.
	maxShownBytes = 64 << 10
	// maxReadBytes is how far into a file lines are counted.
	maxReadBytes = 64 << 20
)

type readArgs struct {
	Path     string
	From, To int
}

// readTool returns the tool that reads a file.
func (p *pack) readTool() tool.Tool {
	return newTool(
		"read",
		"Reads a text file, or a range of its lines. The files are below: "+p.rootNames()+".",
		`{"type":"object","properties":{"path":{"type":"string","description":"the file, beginning with the name of a `+
			`root, such as docs/guide.md"},`+
			`"from":{"type":"integer","minimum":1,"description":"first line, 1 if not given"},`+
			`"to":{"type":"integer","minimum":1,"description":"last line; the end if not given"}},"required":["path"]}`,
		readOnly(),
		p.read,
	)
}

// read returns lines of a text file, from and to included, and says where they stop short of its end.
func (p *pack) read(ctx context.Context, in readArgs) (string, error) {
	from := max(in.From, 1)
	if in.To != 0 && in.To < from {
		return "", fmt.Errorf("line %d is before line %d", in.To, from)
	}
	at, err := p.find(in.Path)
	if err != nil {
		return "", err
	}
	root, err := at.root.open()
	if err != nil {
		return "", err
	}
	defer root.Close()
	f, err := openText(root, at)
	if err != nil {
		return "", err
	}
	defer f.Close()
	r, err := readLines(ctx, f, from, in.To)
	if err != nil {
		return "", describeError("read", at, err)
	}
	return r.describe(at.String(), from), nil
}

// excerpt is a range of a file's lines.
type excerpt struct {
	text  strings.Builder
	last  int  // number of the last line in text; 0: there is none
	lines int  // in the file, as far as it was read
	more  bool // the file has lines after the last
	cut   bool // the last line is not complete
}

// readLines returns the lines from first to last (0: the end) of a file, at most maxShownBytes of them. A line may be
// longer than the buffer, so it is read in parts.
func readLines(ctx context.Context, f io.Reader, first, last int) (*excerpt, error) {
	var e excerpt
	lines := bufio.NewReaderSize(io.LimitReader(f, maxReadBytes), 32<<10)
	for begins := true; ; {
		part, err := lines.ReadSlice('\n')
		if len(part) > 0 && begins {
			e.lines++
		}
		if len(part) > 0 && e.lines >= first {
			if last != 0 && e.lines > last || e.text.Len() >= maxShownBytes || e.cut {
				// A part that begins no line belongs to the last line shown, which is then cut.
				e.more, e.cut = true, e.cut || !begins
				return &e, nil
			}
			e.last = e.lines
			if room := maxShownBytes - e.text.Len(); len(part) > room {
				e.cut = true
				part = wholeRunes(part[:room])
			}
			e.text.Write(part)
		}
		begins = err == nil
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, io.EOF):
			return &e, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// wholeRunes returns b without a last character that is not complete.
func wholeRunes(b []byte) []byte {
	for n := 0; n < utf8.UTFMax && n < len(b); n++ {
		if last := b[len(b)-1-n]; utf8.RuneStart(last) {
			if !utf8.FullRune(b[len(b)-1-n:]) {
				return b[:len(b)-1-n]
			}
			break
		}
	}
	return b
}

// describe returns the excerpt below a line that says which lines of the file it is, and how to read on.
func (e *excerpt) describe(name string, from int) string {
	if e.last == 0 {
		if e.lines == 0 {
			return name + " is empty."
		}
		return fmt.Sprintf("%s has %d lines, so there is no line %d.", name, e.lines, from)
	}
	headline := fmt.Sprintf("%s, lines %d to %d", name, from, e.last)
	switch {
	case e.cut:
		headline += fmt.Sprintf(", the last one cut; %d KiB are shown at once", maxShownBytes>>10)
	case e.more:
		headline += fmt.Sprintf("; the file goes on at line %d", e.last+1)
	default:
		headline += ", its end"
	}
	return headline + ":\n\n" + strings.ToValidUTF8(e.text.String(), "\uFFFD")
}
