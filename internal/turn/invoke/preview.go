package invoke

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"ravenbot/internal/core/text"
	"ravenbot/internal/recall/page"
)

const (
	// minHead is the minimum room for the beginning of a result next to the note on how to read on.
	minHead = 32
	// minSize is the least that is shown at once: with less, the words on how to read
	// on would be most of it.
	minSize = 256
)

// Head returns the part of a result that is shown at once, if the result may be larger than size, in bytes: of an HTML
// page its main text as Markdown, of JSON its shape and first rows, of a table its columns and first rows, of any
// other text the beginning and the end. It includes a note on how to read on under the id, and is no longer than size,
// or 256 bytes if size is less.
func Head(s, id string, size int) string {
	size = max(size, minSize)
	if len(s) <= size {
		return s
	}
	if id == "" {
		return text.Cut(s, size)
	}
	// The kind shows in the first kilobyte; only JSON is checked as a whole.
	start := strings.TrimSpace(s[:min(len(s), 1<<10)])
	switch {
	case isHTML(start):
		return htmlHead(s, id, size)
	case strings.HasPrefix(start, "{") || strings.HasPrefix(start, "["):
		if json.Valid([]byte(s)) {
			return jsonHead(s, id, size)
		}
	}
	if t, ok := readTable(s); ok {
		return t.head(s, id, size)
	}
	return headAndTail(s, id, size)
}

// isHTML reports whether a text that begins like this is an HTML page or a part of one.
func isHTML(start string) bool {
	low := strings.ToLower(start)
	for _, tag := range []string{
		"<!doctype html", "<html", "<head", "<body", "<div", "<article", "<main", "<section", "<table", "<p>", "<h1",
	} {
		if strings.HasPrefix(low, tag) {
			return true
		}
	}
	return strings.HasPrefix(low, "<?xml") && strings.Contains(low, "<html")
}

// markdownForm is the argument of result_read for the main text of a page.
const markdownForm = "markdown"

// htmlHead returns the head of a page as Markdown, or of its source if it has no main text.
func htmlHead(s, id string, size int) string {
	md := toMarkdown(s)
	if md == "" {
		return headAndTail(s, id, size)
	}
	note := fmt.Sprintf("[the main text of an HTML page; result_read with id %q gives the page itself]", id)
	if len(md)+len(note)+2 <= size {
		return note + "\n\n" + md
	}
	// Even a text that fits without the note is cut: the note says that it is not the page.
	return pageWith(md, fmt.Sprintf("id %q, as %q", id, markdownForm), 0, min(size, len(md)-1))
}

// toMarkdown returns the title and main text of an HTML page as Markdown.
func toMarkdown(s string) string {
	p := page.Read([]byte(s), "text/html; charset=utf-8", "")
	if p.Title != "" {
		p.Text = "# " + p.Title + "\n\n" + p.Text
	}
	return strings.TrimSpace(p.Text)
}

// headAndTail returns the beginning and the end of a text, cut at line breaks where there
// are any nearby. The end is worth showing: logs and reports have their result there.
func headAndTail(s, id string, size int) string {
	gap := func(from, to int) string {
		return fmt.Sprintf("\n[bytes %d to %d of %d are left out; for them call result_read with id %q and offset %d]\n",
			from, to, len(s), id, from)
	}
	room := max(size-len(gap(len(s), len(s))), minHead)
	from := lineBefore(s, runeStart(s, room*2/3))
	to := lineAfter(s, len(s)-room/3)
	if to <= from {
		return Page(s, id, 0, size)
	}
	return s[:from] + gap(from, to) + s[to:]
}

// lineBefore returns the end of the last line that ends at or before a byte, if that is in
// the last quarter before it, else the byte.
func lineBefore(s string, at int) int {
	if n := strings.LastIndexByte(s[:at], '\n'); n >= at*3/4 && n > 0 {
		return n
	}
	return at
}

// lineAfter returns the beginning of the next line at or after a byte, if one is nearby, otherwise of the next
// character.
func lineAfter(s string, at int) int {
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	if n := strings.IndexByte(s[at:], '\n'); n >= 0 && n < (len(s)-at)/4 {
		return at + n + 1
	}
	return at
}

const (
	sampleRows   = 50 // rows that decide on the types of columns
	maxNameChars = 60 // of a column's or key's name
)

// table is a text of rows with the same number of fields.
type table struct {
	comma   rune
	columns []string // with their contents
	rows    int      // without the first, which names the columns
}

// readTable returns the table that a text holds: rows separated by commas, tabs or
// semicolons. It reports false unless there are three rows or more, of two fields or more.
func readTable(s string) (table, bool) {
	for _, comma := range []rune{',', '\t', ';'} {
		r := csv.NewReader(strings.NewReader(s))
		r.Comma, r.ReuseRecord = comma, true
		first, err := r.Read()
		if err != nil || len(first) < 2 || len(first) > 200 {
			continue
		}
		t := table{comma: comma}
		// A copy: with ReuseRecord the next row takes the place of this one.
		names := append([]string(nil), first...)
		numbers, filled := make([]int, len(names)), make([]int, len(names))
		for err == nil {
			var row []string
			if row, err = r.Read(); err != nil {
				break
			}
			t.rows++
			for i, field := range row {
				if t.rows <= sampleRows && field != "" {
					filled[i]++
					if json.Valid([]byte(field)) && strings.ContainsAny(field[:1], "-0123456789") {
						numbers[i]++
					}
				}
			}
		}
		// Reading ends at the first row with another number of fields. Near the end of the
		// text that may be a last row that was cut off.
		if t.rows < 2 || r.InputOffset() < int64(len(s))*9/10 {
			continue
		}
		for i, name := range names {
			kind := "text"
			switch {
			case filled[i] == 0:
				kind = "empty"
			case numbers[i] == filled[i]:
				kind = "number"
			}
			t.columns = append(t.columns, text.Shorten(text.OneLine(name), maxNameChars)+" ("+kind+")")
		}
		return t, true
	}
	return table{}, false
}

// head returns the columns of a table, and as many rows as there is room for, as they came.
func (t table) head(s, id string, size int) string {
	about := fmt.Sprintf("[a table of %d rows below the first; columns: %s]\n", t.rows, strings.Join(t.columns, ", "))
	if len(about) > size/2 {
		about = fmt.Sprintf("[a table of %d rows below the first, with %d columns]\n", t.rows, len(t.columns))
	}
	if size-len(about) < 200 {
		return headAndTail(s, id, size)
	}
	return about + pageWith(s, fmt.Sprintf("id %q", id), 0, size-len(about))
}
