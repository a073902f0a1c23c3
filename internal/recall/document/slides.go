package document

import (
	"fmt"
	"strings"
)

// readSlides reads a PowerPoint file: what stands on each slide, in the order of the slides, and the speaker's notes.
// Hidden slides are named as such.
func readSlides(a *archive) ([]Section, error) {
	main, refers, err := a.mainPart()
	if err != nil {
		return nil, err
	}
	root, err := a.tree(main)
	if err != nil {
		return nil, err
	}
	var list []Section
	for n, id := range root.child("presentation", "sldIdLst").children {
		part := refers[id.referenceOf()].target
		if part == "" {
			continue
		}
		s, err := readSlide(a, part)
		if err != nil {
			return nil, err
		}
		s.Where = fmt.Sprintf("slide %d%s", n+1, s.Where)
		list = append(list, s)
	}
	return list, nil
}

// readSlide returns a slide. Where is " (hidden)" if it is not shown.
func readSlide(a *archive, part string) (Section, error) {
	root, err := a.tree(part)
	if err != nil {
		return Section{}, err
	}
	s := Section{Form: Markdown}
	slide := root.child("sld")
	if isOff(slide.attr("show")) {
		s.Where = " (hidden)"
	}
	var b strings.Builder
	writeShapes(&b, slide.child("cSld", "spTree").children)
	refers, err := a.relations(part)
	if err != nil {
		return s, err
	}
	if notes := partOf(refers, "notesSlide"); notes != "" {
		root, err := a.tree(notes)
		if err != nil {
			return s, err
		}
		var words strings.Builder
		writeShapes(&words, root.child("notes", "cSld", "spTree").children)
		if said := strings.TrimSpace(words.String()); said != "" {
			b.WriteString("\nNotes: " + said + "\n")
		}
	}
	s.Text = strings.TrimSpace(b.String())
	return s, nil
}

// writeShapes writes the text of shapes, in their order.
func writeShapes(b *strings.Builder, list []*element) {
	for _, e := range list {
		switch e.name {
		case "sp":
			placeholder := e.child("nvSpPr", "nvPr", "ph").attr("type")
			words := strings.TrimSpace(paragraphs(e.child("txBody").children))
			switch {
			case words == "", placeholder == "sldNum", placeholder == "dt", placeholder == "ftr":
			case placeholder == "title" || placeholder == "ctrTitle":
				b.WriteString("# " + strings.ReplaceAll(words, "\n", " ") + "\n\n")
			default:
				b.WriteString(words + "\n\n")
			}
		case "grpSp":
			writeShapes(b, e.children)
		case "graphicFrame":
			var rows [][]string
			for _, tr := range e.child("graphic", "graphicData", "tbl").children {
				var row []string
				for _, tc := range tr.children {
					if tc.name == "tc" {
						row = append(row, paragraphs(tc.child("txBody").children))
					}
				}
				if tr.name == "tr" {
					rows = append(rows, row)
				}
			}
			b.WriteString(markdownTable(rows) + "\n")
		case "AlternateContent": // the same twice, for newer and older programs
			writeShapes(b, e.child("Choice").children)
		}
	}
}

// paragraphs returns the text of a shape or a cell, a line a paragraph.
func paragraphs(list []*element) string {
	var lines []string
	for _, p := range list {
		if p.name != "p" {
			continue
		}
		var b strings.Builder
		for _, e := range p.children {
			switch e.name {
			case "r", "fld":
				b.WriteString(e.child("t").content())
			case "br":
				b.WriteString("\n")
			}
		}
		lines = append(lines, b.String())
	}
	return strings.Join(lines, "\n")
}
