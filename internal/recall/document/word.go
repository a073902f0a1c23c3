package document

import (
	"fmt"
	"strconv"
	"strings"

	"ravenbot/internal/recall/page"
)

// wordReader reads the body of a Word file as Markdown.
type wordReader struct {
	levels map[string]int  // of headings, by style
	lists  map[string]bool // styles of items of lists
	refers map[string]relation
	out    strings.Builder
}

// readWord reads a Word file: its text with headings, lists, tables, links and footnotes. Deleted and hidden text is
// left out.
func readWord(a *archive) ([]Section, error) {
	main, refers, err := a.mainPart()
	if err != nil {
		return nil, err
	}
	root, err := a.tree(main)
	if err != nil {
		return nil, err
	}
	r := &wordReader{refers: refers, levels: map[string]int{}, lists: map[string]bool{}}
	if styles := partOf(refers, "styles"); styles != "" {
		if err := r.readStyles(a, styles); err != nil {
			return nil, err
		}
	}
	r.writeBlocks(root.child("document", "body").children)
	if notes := partOf(refers, "footnotes"); notes != "" {
		root, err := a.tree(notes)
		if err != nil {
			return nil, err
		}
		r.writeFootnotes(root.child("footnotes").children)
	}
	return []Section{{Text: r.out.String(), Form: Markdown}}, nil
}

// readStyles finds the styles of headings. Their ids are translated in many languages, their names are not.
func (r *wordReader) readStyles(a *archive, part string) error {
	root, err := a.tree(part)
	if err != nil {
		return err
	}
	for _, s := range root.child("styles").children {
		// A style of one's own has any name; its outline level says whether it is a heading.
		name := strings.ToLower(s.child("name").attr("val"))
		level := 0
		if n, ok := strings.CutPrefix(name, "heading "); ok {
			level, _ = strconv.Atoi(n)
		} else if name == "title" {
			level = 1
		} else if outline := s.child("pPr", "outlineLvl").attr("val"); outline != "" {
			n, err := strconv.Atoi(outline)
			if err == nil && n < 9 { // 9 is the text of the body
				level = n + 1
			}
		}
		r.lists[s.attr("styleId")] = s.child("pPr").has("numPr") && level == 0
		if level > 0 {
			r.levels[s.attr("styleId")] = min(level, 6)
		}
	}
	return nil
}

// writeBlocks writes paragraphs and tables.
func (r *wordReader) writeBlocks(list []*element) {
	for _, e := range list {
		switch e.name {
		case "p":
			r.writeParagraph(e)
		case "tbl":
			r.out.WriteString(markdownTable(r.rows(e)) + "\n")
		case "sdt": // a content control
			r.writeBlocks(e.child("sdtContent").children)
		case "ins", "moveTo", "customXml", "smartTag":
			r.writeBlocks(e.children)
		}
	}
}

// blocks returns paragraphs and tables that are written apart from the rest.
func (r *wordReader) blocks(list []*element) string {
	// A writer of its own: what stands in a cell or a box must not break the line that is being written.
	inner := &wordReader{levels: r.levels, lists: r.lists, refers: r.refers}
	inner.writeBlocks(list)
	return strings.TrimSpace(inner.out.String())
}

// writeParagraph writes a paragraph as a heading, an item of a list or text. Its own numbering counts before that of
// its style: numbering 0 takes a paragraph out of the list that the style puts it in.
func (r *wordReader) writeParagraph(p *element) {
	// Word separates things by empty paragraphs, which would become items and headings without words.
	words := strings.TrimSpace(r.inline(p.children))
	if words == "" {
		return
	}
	properties := p.child("pPr")
	level := r.levels[properties.child("pStyle").attr("val")]
	switch list := properties.child("numPr"); {
	case level > 0:
		words = strings.Repeat("#", level) + " " + strings.ReplaceAll(words, "\n", " ")
	case properties.has("numPr") && list.child("numId").attr("val") != "0",
		!properties.has("numPr") && r.lists[properties.child("pStyle").attr("val")]:
		depth, _ := strconv.Atoi(list.child("ilvl").attr("val"))
		r.out.WriteString(strings.Repeat("  ", min(max(depth, 0), 8)) + "- " + words + "\n")
		return
	}
	r.out.WriteString("\n" + words + "\n\n")
}

// inline returns the text of a paragraph.
func (r *wordReader) inline(list []*element) string {
	var b strings.Builder
	for _, e := range list {
		switch e.name {
		case "r":
			// Hidden text is not for readers, and may be for models.
			how := e.child("rPr")
			if how.has("vanish") && !isOff(how.child("vanish").attr("val")) {
				continue
			}
			switch words := r.inline(e.children); how.child("vertAlign").attr("val") {
			case "superscript":
				b.WriteString(page.Raise(words))
			case "subscript":
				b.WriteString(page.Lower(words))
			default:
				b.WriteString(words)
			}
		case "t":
			b.WriteString(e.content())
		case "tab":
			b.WriteString("\t")
		case "br", "cr":
			b.WriteString("\n")
		case "noBreakHyphen":
			b.WriteString("-")
		case "hyperlink":
			words := r.inline(e.children)
			if to := r.refers[e.referenceOf()]; to.web && strings.TrimSpace(words) != "" && isWebAddress(to.target) {
				words = "[" + words + "](" + to.target + ")"
			}
			b.WriteString(words)
		case "footnoteReference":
			fmt.Fprintf(&b, "[^%s]", e.attr("id"))
		case "AlternateContent": // the same twice, for newer and older programs
			b.WriteString(r.inline(e.child("Choice").children))
		case "txbxContent":
			b.WriteString("\n" + r.blocks(e.children) + "\n")
		case "oMath":
			b.WriteString(formula(e))
		case "ins", "moveTo", "smartTag", "fldSimple", "sdt", "sdtContent", "drawing", "pict", "inline", "anchor", "graphic",
			"graphicData", "wsp", "wgp", "txbx", "shape", "textbox", "oMathPara":
			b.WriteString(r.inline(e.children))
		}
	}
	return b.String()
}

// formula returns a formula on one line.
func formula(e *element) string {
	switch e.name {
	case "t":
		return e.content()
	case "f":
		return page.JoinScript(formula(e.child("num")), "/", formula(e.child("den")))
	case "sSup":
		return page.JoinScript(formula(e.child("e")), "^", formula(e.child("sup")))
	case "sSub":
		return page.JoinScript(formula(e.child("e")), "_", formula(e.child("sub")))
	case "rad":
		return "√(" + formula(e.child("e")) + ")"
	}
	var b strings.Builder
	for _, c := range e.children {
		b.WriteString(formula(c))
	}
	return b.String()
}

// isOff reports whether a switch of Word is off (ST_OnOff of ECMA-376). One without a value is on.
func isOff(value string) bool { return value == "0" || value == "false" || value == "off" }

// isWebAddress reports whether a link leads somewhere outside the document that a reader may follow.
func isWebAddress(s string) bool {
	return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "mailto:")
}

// rows returns the cells of a table.
func (r *wordReader) rows(table *element) [][]string {
	var rows [][]string
	for _, tr := range table.children {
		if tr.name != "tr" {
			continue
		}
		var row []string
		for _, tc := range tr.children {
			if tc.name != "tc" {
				continue
			}
			// A cell is one line of a Markdown table: its paragraphs follow one another without blank lines.
			row = append(
				row,
				strings.Join(strings.FieldsFunc(r.blocks(tc.children), func(c rune) bool { return c == '\n' }), "\n"),
			)
		}
		rows = append(rows, row)
	}
	return rows
}

// writeFootnotes writes notes under the numbers by which the text refers to them.
func (r *wordReader) writeFootnotes(list []*element) {
	for _, note := range list {
		if kind := note.attr("type"); kind != "" && kind != "normal" { // lines between text and notes
			continue
		}
		if words := r.blocks(note.children); words != "" {
			fmt.Fprintf(&r.out, "\n[^%s]: %s\n", note.attr("id"), words)
		}
	}
}
