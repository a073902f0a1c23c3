package knowledge

import (
	"context"
	"encoding/csv"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"ravenbot/internal/core/text"
	"ravenbot/internal/recall/document"
)

// Passages are about two hundred words of English. Each begins with the end of the one before, so that a sentence
// which is cut stands in one of them as a whole.
const (
	passageBytes    = 1200
	maxPassageBytes = passageBytes * 5 / 4 // of the last passage of a section, so that no very short one is left
	overlapBytes    = 200
	maxTitle        = 80     // characters of a heading
	maxPassages     = 20_000 // of all files of an agent
	maxText         = 8 << 20
)

// passage is a part of a file, small enough to be quoted in a prompt.
type passage struct {
	file  string
	part  int    // number of its section in the file
	where string // heading, page or rows
	line  int    // first line in the file; 0: lines cannot be counted in it
	cut   bool   // it is one of several of its section
	text  string
}

// section is a part of a file: the text below one heading, a page, a slide, or rows of a table. The lines of numbered
// ones can be counted in the file.
type section struct {
	where, text string
	line        int // first line of a numbered one
	numbered    bool
}

// splitSections returns the sections of a file. The error says in words why the file is not read.
func splitSections(ctx context.Context, name string, data []byte, documents *document.Reader) ([]section, error) {
	parts, err := documents.Read(ctx, name, "", data)
	if err != nil {
		return nil, err
	}
	var list []section
	for _, p := range parts {
		switch {
		case p.Form == document.Table || p.Form == document.TabTable:
			for _, rows := range splitRows(p.Text, p.Form == document.TabTable) {
				rows.where = strings.TrimSuffix(strings.TrimPrefix(p.Where+", "+rows.where, ", "), ", ")
				list = append(list, rows)
			}
		case p.Where != "":
			list = append(list, section{where: p.Where, text: p.Text})
		default:
			for _, s := range splitHeadings(p.Text, "") {
				s.numbered = p.Form == document.Plain
				list = append(list, s)
			}
		}
	}
	return list, nil
}

// splitHeadings splits Markdown at its headings; other text is one section.
func splitHeadings(text, where string) []section {
	var list []section
	var b strings.Builder
	first, at := 1, 0 // line of the section, and of what is read
	flush := func() {
		if s := strings.TrimSpace(b.String()); s != "" {
			// Empty lines before the text are not part of it.
			blank, _, _ := strings.Cut(b.String(), s[:1])
			list = append(list, section{where: where, text: s, line: first + strings.Count(blank, "\n")})
		}
		b.Reset()
	}
	fenced := false
	for line := range strings.Lines(text) {
		at++
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		// Within a code block, a line that begins with # is a comment of the code.
		if title, ok := parseHeading(line); ok && !fenced {
			flush()
			where, first = title, at
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
	// A strict reader stops at the first row with another number of cells or a stray quote.
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
			list = append(list, section{where: fmt.Sprintf("rows %d to %d", from, n-1), text: first + "\n" + body})
			begin, from = at, n
		}
	}
	if rest := strings.TrimSpace(text[begin:]); rest != "" { // after the first line that is no valid row
		list = append(list, section{where: "the end", text: rest})
	}
	if len(list) == 0 {
		return []section{{text: first}}
	}
	return list
}

// splitPassages splits sections that are too long, at paragraphs, lines, sentences or, where there are none, anywhere
// between characters. Passages of plain text carry the number of their first line.
func splitPassages(file string, parts []section) []passage {
	var list []passage
	for part, s := range parts {
		text := strings.TrimSpace(s.text)
		line, counted := s.line, 0
		add := func(from, to int) {
			p := passage{file: file, part: part, where: s.where, text: strings.TrimSpace(text[from:to])}
			p.cut = len(text) > maxPassageBytes
			if s.numbered {
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
