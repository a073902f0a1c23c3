package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"regexp/syntax"
	"strings"

	"ravenbot/internal/core/tool"
)

const (
	defaultMatches = 50
	maxMatches     = 200
	// maxSearchedBytes is how much one call reads. A file larger than maxFileBytes is skipped.
	maxSearchedBytes = 64 << 20
	maxFileBytes     = 8 << 20
	// chunkBytes is the size of the parts in which a long line is searched. It and maxProgram limit the time in which a
	// search cannot be cancelled: a match of the regexp package does not stop.
	chunkBytes   = 16 << 10
	maxProgram   = 2000 // instructions of a compiled expression
	maxExprBytes = 500  // bytes
	// around is how many bytes of a line are shown on each side of a match.
	around = 120
)

type searchArgs struct {
	Pattern, Path string
	Limit         int
}

// searchTool returns the tool that searches in files.
func (p *pack) searchTool() tool.Tool {
	return newTool(
		"search",
		"Finds the lines of text files that a regular expression matches, with file and line number. "+
			"The files are below: "+p.rootNames()+".",
		`{"type":"object","properties":{"pattern":{"type":"string","description":"regular expression (RE2), for one line; `+
			`(?i) before it ignores case"},`+
			`"path":{"type":"string",`+
			`"description":"a file, a folder or a pattern such as docs/**/*.md, beginning with the name of a root; all roots `+
			`if not given"},`+
			`"limit":{"type":"integer","minimum":1,"maximum":200,"description":"how many lines, 50 if not given"}},`+
			`"required":["pattern"]}`,
		readOnly(),
		p.search,
	)
}

// search returns the lines that a regular expression matches, at most limit of them over all files.
func (p *pack) search(ctx context.Context, in searchArgs) (string, error) {
	expr, err := compile(in.Pattern)
	if err != nil {
		return "", err
	}
	targets, err := p.targets(in.Path)
	if err != nil {
		return "", err
	}
	s := &searcher{expr: expr, limit: min(in.Limit, maxMatches)}
	if in.Limit <= 0 {
		s.limit = defaultMatches
	}
	for _, t := range targets {
		// Of several roots one that cannot be read, such as a folder that is missing, must not hide what the others have.
		if err := s.searchTarget(ctx, t); err != nil && len(targets) == 1 {
			return "", err
		} else if err != nil {
			s.noteOmitted(err.Error())
		}
	}
	return s.describe(), nil
}

// compile returns a regular expression, and refuses those that would take long.
func compile(s string) (*regexp.Regexp, error) {
	if s == "" || len(s) > maxExprBytes {
		return nil, fmt.Errorf("the regular expression has %d bytes, want 1 to %d", len(s), maxExprBytes)
	}
	parsed, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("the regular expression cannot be read: %w", err)
	}
	// Matching takes longer with a larger program, and a short text such as (a{30}){30} can make a large one.
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(prog.Inst) > maxProgram {
		return nil, errors.New("the regular expression is too large: its repetitions multiply")
	}
	return regexp.Compile(s)
}

type searcher struct {
	expr    *regexp.Regexp
	limit   int
	text    strings.Builder
	matches int
	files   int // that were read
	bytes   int64
	seen    int
	omitted string
}

// noteOmitted keeps the first reason why something was skipped.
func (s *searcher) noteOmitted(why string) {
	if s.omitted == "" {
		s.omitted = why
	}
}

// searchTarget searches a file, a folder with all that is in it, or what a pattern matches.
func (s *searcher) searchTarget(ctx context.Context, t target) error {
	root, err := t.root.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if t.wanted == nil {
		at := location{t.root, t.from}
		info, err := root.Stat(t.from)
		if err != nil {
			return describeError("read", at, err)
		}
		if !info.IsDir() {
			return ignoreEnough(s.searchFile(ctx, root, at))
		}
	}
	w := walk{root: root, at: t.root, seen: &s.seen, fn: func(at location, e fs.DirEntry) error {
		if !e.Type().IsRegular() || t.wanted != nil && !t.wanted.match(at.root.Name+"/"+at.name) {
			return nil
		}
		err := s.searchFile(ctx, root, at)
		if err == nil || errors.Is(err, errEnough) {
			return err
		}
		// Most folders hold files that are no text; to name them all would say nothing.
		if !errors.Is(err, errKind) && !errors.Is(err, errOwn) &&
			!errors.Is(err, fs.ErrNotExist) { // it may be deleted since the folder was read
			s.noteOmitted(err.Error())
		}
		return nil
	}}
	err = w.visit(ctx, t.from, maxDepth)
	if w.omitted != "" {
		s.noteOmitted(w.omitted)
	}
	return ignoreEnough(err)
}

// ignoreEnough returns err, or nil where it only ended a search.
func ignoreEnough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// searchFile searches one file. It returns errEnough when the whole search is to end.
func (s *searcher) searchFile(ctx context.Context, root *os.Root, at location) error {
	f, err := openText(root, at)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.info.Size() > maxFileBytes {
		s.noteOmitted(fmt.Sprintf("%s is larger than %s", at, formatSize(maxFileBytes)))
		return nil
	}
	if s.bytes += f.info.Size(); s.bytes > maxSearchedBytes {
		s.noteOmitted(fmt.Sprintf("there is more than %s to read", formatSize(maxSearchedBytes)))
		return errEnough
	}
	// Limited again: the file may have grown since its size was read.
	all, err := io.ReadAll(io.LimitReader(f, maxFileBytes))
	if err != nil {
		return describeError("read", at, err)
	}
	s.files++
	number := 0
	for line := range bytes.Lines(all) {
		number++
		if err := s.searchLine(ctx, at, number, bytes.TrimRight(line, "\r\n")); err != nil {
			return err
		}
	}
	return nil
}

// searchLine searches a line, in parts where it is long. It reports at most one match.
func (s *searcher) searchLine(ctx context.Context, at location, number int, line []byte) error {
	for first := true; first || len(line) > 0; first = false {
		if ctx.Err() != nil {
			s.noteOmitted(fmt.Sprintf("searching took longer than %s", callTimeout))
			return errEnough
		}
		// A match across the border of two parts is not found; lines of this length are mostly data.
		part := line[:min(len(line), chunkBytes)]
		line = line[len(part):]
		m := s.expr.FindIndex(part)
		if m == nil {
			continue
		}
		if s.matches == s.limit {
			s.noteOmitted(fmt.Sprintf("there are more than %d lines", s.limit))
			return errEnough
		}
		s.matches++
		fmt.Fprintf(&s.text, "%s:%d: %s\n", at, number, matchExcerpt(part, m))
		return nil
	}
	return nil
}

// matchExcerpt returns the part of a line around a match.
func matchExcerpt(line []byte, m []int) string {
	from, to := max(0, m[0]-around), min(len(line), m[1]+around, m[0]+4*around)
	s := strings.TrimSpace(strings.ToValidUTF8(string(line[from:to]), ""))
	if from > 0 {
		s = "…" + s
	}
	if to < len(line) {
		s += "…"
	}
	return s
}

// describe returns what was found, with what was not searched and why.
func (s *searcher) describe() string {
	var b strings.Builder
	switch s.matches {
	case 0:
		fmt.Fprintf(&b, "No line matches, in %d text files.\n", s.files)
	case 1:
		b.WriteString("1 line matches.\n\n")
	default:
		fmt.Fprintf(&b, "%d lines match.\n\n", s.matches)
	}
	b.WriteString(s.text.String())
	if s.omitted != "" {
		b.WriteString("\nNot everything was searched: " + s.omitted + ".")
	}
	return strings.TrimRight(b.String(), "\n")
}
