package knowledge

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"ravenbot/internal/page"
	"ravenbot/internal/text"
)

// Passages are about two hundred words of English. Each begins with the end of the one before, so that a sentence
// which is cut stands in one of them as a whole.
const (
	passageBytes    = 1200
	maxPassageBytes = passageBytes * 5 / 4 // of the last passage of a section, so that no very short one is left
	overlapBytes    = 200
	maxTitle        = 80     // characters of a heading
	maxPassages     = 20_000 // of all files of an agent
	mostText        = 8 << 20
)

// passage is a part of a file, small enough to be quoted in a prompt.
type passage struct {
	file  string
	part  int    // number of its section in the file
	where string // heading, page or rows
	line  int    // first line, where the text has no heading; else 0
	text  string
}

// section is a part of a file: the text below one heading, a page, or rows of a table.
type section struct{ where, text string }

// PDF returns the text of each page of a PDF.
type PDF func(ctx context.Context, data []byte) ([]string, error)

// fileKind returns how a file is read by the ending of its name: pdf, html, table, text, or "" if it is not read.
func fileKind(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".pdf":
		return "pdf"
	case ".html", ".htm", ".xhtml":
		return "html"
	case ".csv", ".tsv":
		return "table"
	case ".md", ".markdown", ".txt", ".text", ".rst", ".adoc", ".log", ".json", ".yaml", ".yml":
		return "text"
	}
	return ""
}

// errKind means that files of this kind are not read.
var errKind = errors.New("it is of a kind that is not read: PDF, Markdown, HTML, text and CSV are")

// splitSections returns the sections of a file. It fails when the kind of the file is not supported, when a text file
// is binary, or when pdf does.
func splitSections(ctx context.Context, name string, data []byte, pdf PDF) ([]section, error) {
	switch fileKind(name) {
	case "pdf":
		pages, err := pdf(ctx, data)
		if err != nil {
			return nil, err
		}
		var list []section
		for n, words := range pages {
			list = append(list, section{fmt.Sprintf("p. %d", n+1), text.Clean(words)})
		}
		return list, nil
	case "html":
		p := page.Read(data, "", "")
		return splitHeadings(strings.TrimSpace("# "+p.Title+"\n\n"+text.Clean(p.Text)), ""), nil
	case "table":
		table := text.Clean(page.Decode(data, "text/csv; charset=utf-8"))
		return splitRows(table, strings.HasSuffix(strings.ToLower(name), ".tsv")), nil
	case "text":
		if strings.ContainsRune(string(data[:min(len(data), 8<<10)]), 0) {
			return nil, errors.New("it is no text")
		}
		plain := text.Clean(strings.ReplaceAll(page.Decode(data, "text/plain; charset=utf-8"), "\r\n", "\n"))
		return splitHeadings(plain, ""), nil
	}
	return nil, errKind
}

// splitHeadings splits Markdown at its headings; other text is one section.
func splitHeadings(text, where string) []section {
	var list []section
	var b strings.Builder
	flush := func() {
		if s := strings.TrimSpace(b.String()); s != "" {
			list = append(list, section{where, s})
		}
		b.Reset()
	}
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		// Within a code block, a line that begins with # is a comment of the code.
		if title, ok := parseHeading(line); ok && !fenced {
			flush()
			where = title
		}
		b.WriteString(line)
	}
	flush()
	return list
}

// parseHeading returns the title of a Markdown heading, and false when the line is none.
func parseHeading(line string) (string, bool) {
	level := len(line) - len(strings.TrimLeft(line, "#"))
	if level < 1 || level > 6 || !strings.HasPrefix(line[level:], " ") {
		return "", false
	}
	title := strings.TrimSpace(strings.Trim(line[level:], "# \n"))
	return text.Shorten(title, maxTitle), title != ""
}

// splitRows splits a table into sections that each begin with its first row, since that names the columns.
func splitRows(text string, tabs bool) []section {
	r := csv.NewReader(strings.NewReader(text))
	if tabs {
		r.Comma = '\t'
	}
	r.FieldsPerRecord, r.LazyQuotes = -1, true
	_, err := r.Read()
	if err != nil {
		return splitHeadings(text, "")
	}
	// The rows are cut from the text as it is, by the offsets of the reader: writing them again would change quotes.
	first := strings.TrimSpace(text[:r.InputOffset()])
	var list []section
	begin, from := r.InputOffset(), 2
	for n := 3; err == nil; n++ {
		_, err = r.Read()
		at := r.InputOffset()
		if body := strings.TrimSpace(text[begin:at]); body != "" && (err != nil || int(at-begin)+len(first) > passageBytes) {
			list = append(list, section{fmt.Sprintf("rows %d to %d", from, n-1), first + "\n" + body})
			begin, from = at, n
		}
	}
	if rest := strings.TrimSpace(text[begin:]); rest != "" { // after the first line that is no valid row
		list = append(list, section{"the end", rest})
	}
	if len(list) == 0 {
		return []section{{"", first}}
	}
	return list
}

// splitPassages splits sections that are too long, at paragraphs, lines, sentences or, where there are none, anywhere
// between characters. Passages of text without headings carry the number of their first line.
func splitPassages(file string, parts []section) []passage {
	var list []passage
	for part, s := range parts {
		text := strings.TrimSpace(s.text)
		line, counted := 1, 0
		add := func(from, to int) {
			p := passage{file: file, part: part, where: s.where, text: strings.TrimSpace(text[from:to])}
			if s.where == "" && fileKind(file) == "text" && len(text) > maxPassageBytes {
				line, counted = line+strings.Count(text[counted:from], "\n"), from
				p.line = line
			}
			list = append(list, p)
		}
		from := 0
		for len(text)-from > maxPassageBytes {
			end := from + findBreak(text[from:], passageBytes)
			add(from, end)
			from += findOverlap(text[from:], end-from)
			from += len(text[from:]) - len(strings.TrimLeftFunc(text[from:], unicode.IsSpace))
		}
		if from < len(text) {
			add(from, len(text))
		}
	}
	return list
}

// findBreak returns the best place to end a passage of at most maxBytes bytes.
func findBreak(body string, maxBytes int) int {
	head := text.Cut(body, maxBytes)
	for _, mark := range []string{"\n\n", "\n", ". ", "。", " "} {
		if n := strings.LastIndex(head, mark); n > maxBytes/2 {
			return n + len(mark)
		}
	}
	return len(head)
}

// findOverlap returns where the passage after one that ends at end begins: some words before end, but always after
// the beginning of the text, so that the split comes to an end.
func findOverlap(text string, end int) int {
	from := end - overlapBytes
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	if n := strings.IndexAny(text[from:end], " \n"); n >= 0 {
		return from + n + 1
	}
	return end
}
