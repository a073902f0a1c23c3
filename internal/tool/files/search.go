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

	"ravenbot/internal/tool"
)

const (
	defaultMatches = 50
	mostMatches    = 200
	// mostSearched is how much one call reads, in bytes; a file above mostFile is
	// left out.
	mostSearched = 64 << 20
	mostFile     = 8 << 20
	// piece is how much of a line is looked at as one, in bytes. It and mostProgram
	// bound the time in which a search cannot be stopped.
	piece       = 16 << 10
	mostProgram = 2000 // instructions of a compiled expression
	longestExpr = 500  // bytes
	// around is how much of a line is shown on each side of a match, in bytes.
	around = 120
)

type searchArgs struct {
	Pattern, Path string
	Limit         int
}

func (p *pack) searchTool() tool.Tool {
	return shape("search", "Finds the lines of text files that a regular expression matches, with file and line number. The files are below: "+p.rootNames()+".",
		`{"type":"object","properties":{"pattern":{"type":"string","description":"regular expression (RE2), for one line; (?i) before it ignores case"},`+
			`"path":{"type":"string","description":"a file, a folder or a pattern such as docs/**/*.md, beginning with the name of a root; all roots if not given"},`+
			`"limit":{"type":"integer","minimum":1,"maximum":200,"description":"how many lines, 50 if not given"}},"required":["pattern"]}`,
		readOnly(), p.search)
}

func (p *pack) search(ctx context.Context, in searchArgs) (string, error) {
	expr, err := compile(in.Pattern)
	if err != nil {
		return "", err
	}
	targets, err := p.targets(in.Path)
	if err != nil {
		return "", err
	}
	s := &searcher{expr: expr, limit: min(in.Limit, mostMatches)}
	if in.Limit <= 0 {
		s.limit = defaultMatches
	}
	for _, t := range targets {
		if err := s.look(ctx, t); err != nil && len(targets) == 1 {
			return "", err
		} else if err != nil {
			s.leave(err.Error())
		}
	}
	return s.describe(), nil
}

// compile refuses what would take long.
func compile(s string) (*regexp.Regexp, error) {
	if s == "" || len(s) > longestExpr {
		return nil, fmt.Errorf("the regular expression has %d bytes, want 1 to %d", len(s), longestExpr)
	}
	parsed, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("the regular expression cannot be read: %w", err)
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(prog.Inst) > mostProgram {
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
	left    string
}

// leave remembers the first reason for which something was left out.
func (s *searcher) leave(why string) {
	if s.left == "" {
		s.left = why
	}
}

func (s *searcher) look(ctx context.Context, t target) error {
	root, err := t.root.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if t.wanted == nil {
		at := place{t.root, t.from}
		info, err := root.Stat(t.from)
		if err != nil {
			return because("read", at, err)
		}
		if !info.IsDir() {
			return enough(s.file(ctx, root, at))
		}
	}
	w := walk{root: root, at: t.root, seen: &s.seen, fn: func(at place, e fs.DirEntry) error {
		if !e.Type().IsRegular() || t.wanted != nil && !t.wanted.match(at.root.Name+"/"+at.name) {
			return nil
		}
		err := s.file(ctx, root, at)
		if err == nil || errors.Is(err, errEnough) {
			return err
		}
		if !errors.Is(err, errKind) && !errors.Is(err, fs.ErrNotExist) { // it may have gone meanwhile
			s.leave(err.Error())
		}
		return nil
	}}
	err = w.below(ctx, t.from, deepest)
	if w.left != "" {
		s.leave(w.left)
	}
	return enough(err)
}

// enough takes the end of a search for no error.
func enough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// file searches one file.
func (s *searcher) file(ctx context.Context, root *os.Root, at place) error {
	f, err := openText(root, at)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.info.Size() > mostFile {
		s.leave(fmt.Sprintf("%s is larger than %s", at, size(mostFile)))
		return nil
	}
	if s.bytes += f.info.Size(); s.bytes > mostSearched {
		s.leave(fmt.Sprintf("there is more than %s to read", size(mostSearched)))
		return errEnough
	}
	all, err := io.ReadAll(io.LimitReader(f, mostFile))
	if err != nil {
		return because("read", at, err)
	}
	s.files++
	number := 0
	for line := range bytes.Lines(all) {
		number++
		if err := s.line(ctx, at, number, bytes.TrimRight(line, "\r\n")); err != nil {
			return err
		}
	}
	return nil
}

// line looks at a line, in pieces where it is long.
func (s *searcher) line(ctx context.Context, at place, number int, line []byte) error {
	for first := true; first || len(line) > 0; first = false {
		if ctx.Err() != nil {
			s.leave(fmt.Sprintf("searching took longer than %s", callTime))
			return errEnough
		}
		part := line[:min(len(line), piece)]
		line = line[len(part):]
		m := s.expr.FindIndex(part)
		if m == nil {
			continue
		}
		if s.matches == s.limit {
			s.leave(fmt.Sprintf("there are more than %d lines", s.limit))
			return errEnough
		}
		s.matches++
		fmt.Fprintf(&s.text, "%s:%d: %s\n", at, number, excerptOf(part, m))
		return nil
	}
	return nil
}

// excerptOf is what stands around a match.
func excerptOf(line []byte, m []int) string {
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
	if s.left != "" {
		b.WriteString("\nNot everything was searched: " + s.left + ".")
	}
	return strings.TrimRight(b.String(), "\n")
}
