package digest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
)

// compose makes the draft, and its two parts where it is long.
func (e *edition) compose(d spec, now time.Time, publicURL string) {
	text, all := e.heading(d, now), len(e.cards)
	listed := d.Style == Bullets || d.Style == Topics || d.Style == Titles
	if !listed {
		text = strings.TrimSpace(text + "\n\n" + e.summary)
	}
	leftOut := e.leftOutLine()
	if leftOut != "" && !listed {
		e.smallLine = leftOut
		if publicURL != "" {
			e.smallLine += " · " + publicURL + "/digests"
		}
	} else if leftOut != "" && publicURL != "" {
		leftOut += " · [see all](" + publicURL + "/digests)"
	}
	part := func(heading string, from, to int) chat.Draft {
		if listed {
			text := heading + e.renderRows(d.Style, from, to)
			if to == all && leftOut != "" {
				text += "\n\n*" + leftOut + "*"
			}
			return chat.Draft{Text: strings.TrimSpace(text)}
		}
		return chat.Draft{Text: heading, Cards: e.cards[from:to]}
	}
	e.draft = part(text, 0, all)
	// The whole draft is kept, too: it goes to places that have no threads.
	if top := headEntries(d.Style); all > 2*top {
		e.head, e.rest = part(text, 0, top), part("", top, all)
		more := fmt.Sprintf("*The other %d are below.*", all-top)
		if e.head.Text += "\n\n" + more; !listed {
			e.head.Text, e.head.Footer = text, strings.Trim(more, "*.")
		}
	}
}

// headEntries returns how many entries a long post holds; the others go into a thread below
// it. A post is long where it has more than twice as many.
func headEntries(style string) int {
	switch style {
	case Titles:
		return 10
	case Bullets, Topics:
		return 5
	}
	return 3
}

// renderRows returns the entries from index from to index to as a list, below their topics.
func (e *edition) renderRows(style string, from, to int) string {
	var b strings.Builder
	n := 0
	for _, p := range e.parts {
		begun := false
		for _, l := range p.entries {
			if n++; n <= from || n > to {
				continue
			}
			isLead := style != Titles && p.topic == "" && formOf(l.n, len(e.cards)) == lead
			switch {
			case !begun && p.topic != "":
				b.WriteString("\n\n**" + escape(p.topic) + "**\n")
			case !begun || isLead:
				b.WriteString("\n")
			}
			begun = true
			b.WriteString("\n" + e.renderRow(style, p.topic, l, isLead))
		}
	}
	return b.String()
}

// maxRowSources is how many other sources the line of an entry links to.
const maxRowSources = 2

// renderRow returns an entry as a line of a list, or as a paragraph. What its topic says already is not said again, and
// no address is written twice.
func (e *edition) renderRow(style, topic string, l entryLine, isLead bool) string {
	c := e.cards[l.n]
	said := e.entryStatement(l)
	var from []string
	if c.Source != topic {
		from = append(from, escape(c.Source))
	}
	if n := len(c.Also) + 1; isLead && n > 2 {
		from = append(from, pluralize(n, "source"))
	}
	also := slices.DeleteFunc(slices.Clone(c.Also), func(a chat.Link) bool {
		return strings.Contains(said, "("+linkTarget(a.URL)+")")
	})
	more := ""
	if n := len(also) - maxRowSources; n > 0 && !isLead {
		also, more = also[:maxRowSources], fmt.Sprintf(" and %d more", n)
	}
	if len(also) > 0 {
		from = append(from, "also "+strings.Join(markdownLinks(also), ", ")+more)
	}
	title := markdownLink(c.Title, c.URL)
	text := fmt.Sprintf("- **%d.** %s", c.N, title)
	if isLead {
		text = fmt.Sprintf("**%d. %s**", c.N, title)
	}
	if len(from) > 0 {
		text += " (" + strings.Join(from, ", ") + ")"
	}
	if said != "" && style != Titles {
		text += ": " + said
	}
	return text
}

// markdownLinks returns links as Markdown, in which titles of feeds are no markup.
func markdownLinks(list []chat.Link) []string {
	var all []string
	for _, l := range list {
		all = append(all, markdownLink(l.Title, l.URL))
	}
	return all
}
