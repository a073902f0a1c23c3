package invoke

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"ravenbot/internal/page"
)

const (
	// minHead is the least room that the beginning of a result has beside the words on
	// how to read on.
	minHead = 32
	// minSize is the least that is shown at once: with less, the words on how to read
	// on would be most of it.
	minSize = 256
)

// Head is what is shown at once of a result that may be larger than size, in bytes: of
// a page its main text as Markdown, of JSON its shape and first rows, of a table its
// columns and first rows, of any other text the beginning and the end. It says how to
// read on under the id, and keeps within size, or 256 bytes where that is less.
func Head(text, id string, size int) string {
	size = max(size, minSize)
	if len(text) <= size {
		return text
	}
	if id == "" {
		return cut(text, size)
	}
	start := strings.TrimSpace(text[:min(len(text), 1<<10)])
	switch {
	case isHTML(start):
		return htmlHead(text, id, size)
	case strings.HasPrefix(start, "{") || strings.HasPrefix(start, "["):
		if json.Valid([]byte(text)) {
			return jsonHead(text, id, size)
		}
	}
	if t, ok := readTable(text); ok {
		return t.head(text, id, size)
	}
	return headAndTail(text, id, size)
}

func isHTML(start string) bool {
	low := strings.ToLower(start)
	for _, first := range []string{"<!doctype html", "<html", "<head", "<body", "<div", "<article", "<main", "<section", "<table", "<p>", "<h1"} {
		if strings.HasPrefix(low, first) {
			return true
		}
	}
	return strings.HasPrefix(low, "<?xml") && strings.Contains(low, "<html")
}

// markdownForm is how a page is read on.
const markdownForm = "markdown"

// htmlHead shows a page as Markdown; where that says nothing, as it came.
func htmlHead(text, id string, size int) string {
	md := toMarkdown(text)
	if md == "" {
		return headAndTail(text, id, size)
	}
	note := fmt.Sprintf("[the main text of an HTML page; result_read with id %q gives the page itself]", id)
	if len(md)+len(note)+2 <= size {
		return note + "\n\n" + md
	}
	// One that fits alone is cut, too: it has to say what it is.
	return pageWith(md, fmt.Sprintf("id %q, as %q", id, markdownForm), 0, min(size, len(md)-1))
}

func toMarkdown(text string) string {
	title, md := page.Markdown([]byte(text), "text/html; charset=utf-8", "")
	if title != "" {
		md = "# " + title + "\n\n" + md
	}
	return strings.TrimSpace(md)
}

// headAndTail shows the beginning and the end of a text, cut at lines where there are any
// near.
func headAndTail(text, id string, size int) string {
	gap := func(from, to int) string {
		return fmt.Sprintf("\n[bytes %d to %d of %d are left out; for them call result_read with id %q and offset %d]\n", from, to, len(text), id, from)
	}
	room := max(size-len(gap(len(text), len(text))), minHead)
	from := lineBefore(text, runeStart(text, room*2/3))
	to := lineAfter(text, len(text)-room/3)
	if to <= from {
		return Page(text, id, 0, size)
	}
	return text[:from] + gap(from, to) + text[to:]
}

// lineBefore is the end of the last line that ends at or before a byte, if one does in
// the last quarter before it, else the byte.
func lineBefore(text string, at int) int {
	if n := strings.LastIndexByte(text[:at], '\n'); n >= at*3/4 && n > 0 {
		return n
	}
	return at
}

// lineAfter is the beginning of a line at or behind a byte, if one is near, else that
// of a character.
func lineAfter(text string, at int) int {
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	if n := strings.IndexByte(text[at:], '\n'); n >= 0 && n < (len(text)-at)/4 {
		return at + n + 1
	}
	return at
}

// sampleRows is how many rows of a table are looked at to know it.
const sampleRows = 50

// table is a text of rows with the same number of fields.
type table struct {
	comma   rune
	columns []string // with what they hold
	rows    int      // without the first, which names the columns
}

// readTable takes a text for a table where its first rows are such: three or more, of
// two fields or more.
func readTable(text string) (table, bool) {
	for _, comma := range []rune{',', '\t', ';'} {
		r := csv.NewReader(strings.NewReader(text))
		r.Comma, r.ReuseRecord = comma, true
		first, err := r.Read()
		if err != nil || len(first) < 2 || len(first) > 200 {
			continue
		}
		t := table{comma: comma}
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
		if t.rows < 2 || r.InputOffset() < int64(len(text))*9/10 { // a row that is none ends it; a cut last one may
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
			t.columns = append(t.columns, oneLine(name, 60)+" ("+kind+")")
		}
		return t, true
	}
	return table{}, false
}

// head shows the columns of a table and as many rows as there is room for, as they
// came.
func (t table) head(text, id string, size int) string {
	about := fmt.Sprintf("[a table of %d rows below the first; columns: %s]\n", t.rows, strings.Join(t.columns, ", "))
	if len(about) > size/2 {
		about = fmt.Sprintf("[a table of %d rows below the first, with %d columns]\n", t.rows, len(t.columns))
	}
	if size-len(about) < 200 {
		return headAndTail(text, id, size)
	}
	return about + pageWith(text, fmt.Sprintf("id %q", id), 0, size-len(about))
}

func oneLine(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		s = cut(s, most) + "…"
	}
	return s
}
