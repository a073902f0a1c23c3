package document

import (
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/text"
)

const (
	// maxCells bounds the cells that are read of a file.
	maxCells = 400_000
	// maxGap is how many empty columns or rows are written before a cell: one cell at the far end of a sheet would else
	// make a table of 17 billion.
	maxGap = 200
)

// sheetReader reads the sheets of an Excel file.
type sheetReader struct {
	a *archive
	// strings are the texts that cells share, by their index.
	strings []string
	formats map[int]numberForm // of cells, by index
	epoch   time.Time
	cells   int
	// size is how many bytes of text were read of all sheets, cells how many cells.
	size int
}

// readSheets reads an Excel file: each sheet as a table of the values that its cells show.
func readSheets(a *archive) ([]Section, error) {
	main, refers, err := a.mainPart()
	if err != nil {
		return nil, err
	}
	root, err := a.tree(main)
	if err != nil {
		return nil, err
	}
	r := &sheetReader{a: a, formats: map[int]numberForm{}}
	book := root.child("workbook")
	// Day 60 is 29 February 1900, which never was; from then on days count from 30 December 1899.
	if r.epoch = time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC); book.child("workbookPr").attr("date1904") == "1" {
		r.epoch = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	// Texts and formats before the sheets, whose cells name both by their index.
	if part := partOf(refers, "sharedStrings"); part != "" {
		if err := r.readStrings(part); err != nil {
			return nil, err
		}
	}
	if part := partOf(refers, "styles"); part != "" {
		if err := r.readFormats(part); err != nil {
			return nil, err
		}
	}
	var list []Section
	for _, s := range book.child("sheets").children {
		to := refers[s.referenceOf()]
		if s.name != "sheet" || to.kind != "worksheet" { // charts have no cells
			continue
		}
		table, err := r.readSheet(to.target)
		if err != nil {
			return nil, err
		}
		where := "sheet " + s.attr("name")
		if state := s.attr("state"); state == "hidden" || state == "veryHidden" {
			where += " (hidden)"
		}
		list = append(list, Section{where, table, Table})
	}
	return list, nil
}

// readStrings reads the texts that cells share.
func (r *sheetReader) readStrings(part string) error {
	return r.eachElement(part, "si", func(d *xml.Decoder, start xml.StartElement) error {
		var item richText
		if err := d.DecodeElement(&item, &start); err != nil {
			return err
		}
		if len(r.strings) == maxCells { // of more cells, none is read
			return errTooMuch
		}
		r.strings = append(r.strings, string(item))
		return nil
	})
}

// richText is a text whose parts may look different. How it is pronounced, in Japanese, is left out.
type richText string

// UnmarshalXML puts the parts of a text together. It fails with errTooMuch where they are longer than a document may
// be. It keeps no list of them: a part without text is four bytes of the file, and would be sixteen of memory.
func (t *richText) UnmarshalXML(d *xml.Decoder, _ xml.StartElement) error {
	var b strings.Builder
	inRun := false
	for {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch e := token.(type) {
		case xml.EndElement:
			if !inRun {
				*t = richText(b.String())
				return nil
			}
			inRun = false
		case xml.StartElement:
			switch {
			case e.Name.Local == "t":
				var words string
				if err := d.DecodeElement(&words, &e); err != nil {
					return err
				}
				if b.WriteString(words); b.Len() > maxText {
					return errTooMuch
				}
			// The text of a run is inside of it; a run within a run is not allowed, and is skipped.
			case e.Name.Local == "r" && !inRun:
				inRun = true
			default:
				if err := d.Skip(); err != nil {
					return err
				}
			}
		}
	}
}

// eachElement calls fn for all elements of a name in a part.
func (r *sheetReader) eachElement(part, name string, fn func(*xml.Decoder, xml.StartElement) error) error {
	d, done, err := r.a.open(part)
	if err != nil {
		return err
	}
	defer done()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == name {
			if err := fn(d, start); err != nil {
				return err
			}
		}
	}
}

// numberForm is how a cell shows its number.
type numberForm int

const (
	plainNumber numberForm = iota
	dateNumber
	durationNumber // hours and minutes, more than a day has
	percentNumber
)

// readFormats finds the cell formats that show dates, durations and shares.
func (r *sheetReader) readFormats(part string) error {
	root, err := r.a.tree(part)
	if err != nil {
		return err
	}
	styles := root.child("styleSheet")
	own := map[string]string{}
	for _, f := range styles.child("numFmts").children {
		own[f.attr("numFmtId")] = f.attr("formatCode")
	}
	index := 0
	for _, xf := range styles.child("cellXfs").children {
		if xf.name != "xf" {
			continue
		}
		id := xf.attr("numFmtId")
		n, _ := strconv.Atoi(id)
		code, isOwn := own[id]
		// ECMA-376 part 1, 18.8.30: the formats that every program knows without a code.
		switch {
		case !isOwn && (n == 9 || n == 10), isOwn && strings.Contains(code, "%"):
			r.formats[index] = percentNumber
		case !isOwn && n == 46, isOwn && elapsedFormat().MatchString(code):
			r.formats[index] = durationNumber
		case !isOwn && (n >= 14 && n <= 22 || n >= 45 && n <= 47), isOwn && isDateFormat(code):
			r.formats[index] = dateNumber
		}
		// Formats without an element of this kind have no number: cells count the xf elements alone.
		index++
	}
	return nil
}

// elapsedFormat matches the format code of a duration: "[h]:mm".
var elapsedFormat = text.Pattern(`(?i)\[(?:h+|m+|s+)\]`)

// isDateFormat reports whether a format code shows a date or a time.
func isDateFormat(code string) bool {
	quoted, bracket := false, false
	for _, c := range strings.ToLower(code) {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '[':
			bracket = true
		case c == ']':
			bracket = false
		case !quoted && !bracket && strings.ContainsRune("ydhs", c):
			return true
		case c == ';':
			return false // what follows is for negative numbers
		}
	}
	return false
}

// cell is a cell as a sheet holds it.
type cell struct {
	At      string   `xml:"r,attr"`
	Type    string   `xml:"t,attr"`
	Format  int      `xml:"s,attr"`
	Value   string   `xml:"v"`
	Formula string   `xml:"f"`
	Inline  richText `xml:"is"`
}

// readSheet returns a sheet as CSV.
func (r *sheetReader) readSheet(part string) (string, error) {
	var b strings.Builder
	out := csv.NewWriter(&b)
	written := 0
	err := r.eachElement(part, "row", func(d *xml.Decoder, start xml.StartElement) error {
		row, err := r.readRow(d)
		if err != nil {
			return err
		}
		if number, err := strconv.Atoi(attrOf(start.Attr, "r")); err == nil && len(row) > 0 {
			for ; written < number-1 && number-written <= maxGap; written++ {
				b.WriteString("\n")
			}
			written = max(written, number-1)
		}
		if len(row) == 0 {
			return nil
		}
		written++
		if r.size += len(row) - 1; r.size > maxText { // its commas; readRow counts the texts
			return errTooMuch
		}
		err = out.Write(row)
		out.Flush() // empty rows are written beside the writer
		return err
	})
	return strings.Trim(b.String(), "\n"), err
}

// readRow reads the cells of a row up to its end.
func (r *sheetReader) readRow(d *xml.Decoder) ([]string, error) {
	var row []string
	for {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		start, ok := token.(xml.StartElement)
		if _, end := token.(xml.EndElement); end {
			return trimRow(row), nil
		}
		if !ok {
			continue
		}
		var c cell
		if err := d.DecodeElement(&c, &start); err != nil {
			return nil, err
		}
		if r.cells++; r.cells > maxCells {
			return nil, errTooMuch
		}
		if column := columnOf(c.At); column > len(row) && column-len(row) <= maxGap {
			row = append(row, make([]string, column-len(row))...)
		}
		shown := r.shown(c)
		// Counted cell by cell, before any are joined: ten thousand cells can refer to the same megabyte.
		if r.size += len(shown); r.size > maxText {
			return nil, errTooMuch
		}
		row = append(row, shown)
	}
}

// trimRow returns a row without the empty cells at its end.
func trimRow(row []string) []string {
	for len(row) > 0 && strings.TrimSpace(row[len(row)-1]) == "" {
		row = row[:len(row)-1]
	}
	return row
}

// columnOf returns the column of a cell such as "AB12", from 0; -1: it does not say.
func columnOf(at string) int {
	n := 0
	for _, c := range at {
		if c < 'A' || c > 'Z' {
			break
		}
		if n = n*26 + int(c-'A') + 1; n > 1<<14 { // the last column is XFD
			return -1
		}
	}
	return n - 1
}

// shown returns what a cell shows, as far as its format is known.
func (r *sheetReader) shown(c cell) string {
	// A program that does not calculate leaves formulas without their values.
	if c.Value == "" && c.Formula != "" {
		return "=" + c.Formula
	}
	switch c.Type {
	case "s":
		n, err := strconv.Atoi(c.Value)
		if err != nil || n < 0 || n >= len(r.strings) {
			return ""
		}
		return r.strings[n]
	case "inlineStr":
		return string(c.Inline)
	case "b":
		return map[string]string{"0": "FALSE", "1": "TRUE"}[c.Value]
	case "", "n":
		days, err := strconv.ParseFloat(c.Value, 64)
		if err != nil {
			return c.Value
		}
		switch r.formats[c.Format] {
		case dateNumber:
			return r.date(days)
		case durationNumber:
			seconds := int(math.Round(days * 86_400))
			return strings.TrimSuffix(fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60), ":00")
		case percentNumber:
			// Rounded, because a share such as 0.07 is no exact number.
			return strconv.FormatFloat(math.Round(days*1e8)/1e6, 'f', -1, 64) + " %"
		}
		return strconv.FormatFloat(days, 'f', -1, 64)
	}
	return c.Value // a text that a formula made, an error, an ISO date
}

// date returns a number of days as a date, with the time where there is one, or as a time alone. A number outside of
// what Excel shows as dates is returned as it is.
func (r *sheetReader) date(days float64) string {
	if days < 0 || days > 2_958_466 { // the year 10000
		return fmt.Sprint(days)
	}
	t := r.epoch.Add(time.Duration(math.Round(days*86_400)) * time.Second)
	switch whole := days == math.Trunc(days); {
	case days < 1 && !whole:
		return t.Format("15:04:05")
	case whole:
		return t.Format(time.DateOnly)
	}
	return t.Format("2006-01-02 15:04:05")
}
