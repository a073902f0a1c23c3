package digest

import (
	"cmp"
	"fmt"
	"strings"
	"text/template"
	"time"

	"ravenbot/internal/chat"
)

// Page is the data of a digest's template. Its texts are Markdown in which nothing that a
// feed says is markup, and all links lead to items.
type Page struct {
	Name    string
	Date    string // of the run, in the digest's zone: Monday, 2 January 2006
	Count   int    // of items
	Summary string // empty but in the style brief
	By      string // who wrote the words
	Items   []PageItem
	Topics  []PageTopic // the same items below their topics, one without a name where the style has none
	LeftOut []string    // feeds that could not be read
}

// PageItem is an item on a Page.
type PageItem struct {
	N         int
	Title     string
	Link      string // the title as a Markdown link
	URL       string
	Source    string
	Time      time.Time // in the digest's zone; zero where unknown
	Text      string    // sentences of the item
	Statement string    // what the model says of it, with its citations; else as Text
	Image     string
	Also      []string // Markdown links to the same story elsewhere
}

// PageTopic is a group of items.
type PageTopic struct {
	Name  string
	Items []PageItem
}

// CheckTemplate returns what is wrong with a template, or nil.
func CheckTemplate(text string) error {
	_, err := parseTemplate(text)
	return err
}

// parseTemplate parses a template and executes it on a sample and on an empty page, so that
// a fault is found when the digest is made, not at its first run. Templates of digests that were
// made through the API are strangers' text: their steps, time and output are limited.
func parseTemplate(text string) (*template.Template, error) {
	t, err := template.New("digest").Funcs(templateFuncs()).Parse(text)
	if err == nil {
		err = limitSteps(t)
	}
	if err != nil {
		return nil, err
	}
	one := PageItem{
		N:         1,
		Title:     "Title",
		Link:      "[Title](https://example.org/)",
		URL:       "https://example.org/",
		Source:    "Source",
		Text:      "Text.",
		Statement: "Text.",
		Also:      []string{"[Other](https://example.org/o)"},
	}
	sample := Page{
		Name:    "sample",
		Date:    "Monday, 2 January 2006",
		Count:   1,
		Summary: "Summary.",
		Items:   []PageItem{one},
		Topics:  []PageTopic{{"Topic", []PageItem{one}}},
		LeftOut: []string{"a feed"},
	}
	for _, p := range []Page{sample, {Name: "empty"}} {
		if _, err := executeTemplate(t, p); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// compose makes the draft, and its two parts where it is long.
func (e *edition) compose(d spec, now time.Time) error {
	if d.template != nil {
		text, err := executeTemplate(d.template, e.templatePage(d, now))
		if err != nil {
			return fmt.Errorf("fill in the template: %w", err)
		}
		e.draft = chat.Draft{Text: text}
		return nil
	}
	text, all := "**"+escape(d.title)+"**: "+countLine(e.cards), len(e.cards)
	switch {
	case d.Style == Deep && all > 1:
		text = fmt.Sprintf("**%s**: one story, as %d sources tell it", escape(d.title), all)
	case d.Style == Deep:
		text = "**" + escape(d.title) + "**: one story"
	case d.Style == Weekly:
		text = strings.Replace(text, " new ", " ", 1)
	}
	listed := d.Style == Bullets || d.Style == Topics || d.Style == Titles
	if !listed {
		text = strings.TrimSpace(text + "\n\n" + e.summary)
	}
	part := func(heading string, from, to int) chat.Draft {
		if listed {
			return chat.Draft{Text: strings.TrimSpace(heading + e.renderRows(d.Style, from, to))}
		}
		return chat.Draft{Text: heading, Cards: e.cards[from:to]}
	}
	e.draft = part(text, 0, all)
	// The whole draft is kept, too: it goes to places that have no threads.
	if top := e.headLength(d.Style); all > 2*headEntries(d.Style) && top < all {
		e.head, e.rest = part(text, 0, top), part("", top, all)
		more := fmt.Sprintf("*The other %d are below.*", all-top)
		if e.head.Text += "\n\n" + more; !listed {
			e.head.Text, e.head.Footer = text, strings.Trim(more, "*.")
		}
	}
	return nil
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

// headLength returns how many entries the first part of a long post holds: whole topics, where their ends are not too
// far from the usual length.
func (e *edition) headLength(style string) int {
	top := headEntries(style)
	if style != Topics {
		return top
	}
	end, best := 0, 0
	for _, p := range e.parts {
		end += len(p.entries)
		near := max(end, top) - min(end, top)
		if end <= 2*top && (best == 0 || near < max(best, top)-min(best, top)) {
			best = end
		}
	}
	return cmp.Or(best, top)
}

// renderRows returns the entries from index from to index to as a list, below their topics.
func (e *edition) renderRows(style string, from, to int) string {
	text, n := "", 0
	for _, p := range e.parts {
		begun := false
		for _, l := range p.entries {
			if n++; n <= from || n > to {
				continue
			}
			if !begun && p.topic != "" {
				text += "\n\n**" + escape(p.topic) + "**"
			}
			if !begun {
				text += "\n"
			}
			begun = true
			text += "\n" + e.renderRow(style, l)
		}
	}
	return text
}

// renderRow returns an entry as a line of a list.
func (e *edition) renderRow(style string, l entryLine) string {
	c := e.cards[l.n]
	from := escape(c.Source)
	if also := markdownLinks(c.Also); len(also) > 0 {
		from += ", also " + strings.Join(also, ", ")
	}
	text := fmt.Sprintf("- **%d.** %s (%s)", c.N, markdownLink(c.Title, c.URL), from)
	if said := e.entryStatement(l); said != "" && style != Titles {
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

// templatePage returns what a template is executed with.
func (e *edition) templatePage(d spec, now time.Time) Page {
	p := Page{
		Name:    escape(d.title),
		Date:    now.In(d.zone).Format("Monday, 2 January 2006"),
		Count:   len(e.cards),
		Summary: e.summary,
		By:      e.by,
	}
	for _, f := range e.faults {
		p.LeftOut = append(p.LeftOut, escape(f))
	}
	for _, part := range e.parts {
		t := PageTopic{Name: escape(part.topic)}
		for _, l := range part.entries {
			c := e.cards[l.n]
			i := PageItem{
				N:         c.N,
				Title:     escape(c.Title),
				Link:      markdownLink(c.Title, c.URL),
				URL:       linkTarget(c.URL),
				Source:    escape(c.Source),
				Text:      escape(c.Text),
				Statement: cmp.Or(l.statement, escape(c.Text)),
				Image:     linkTarget(c.Image),
				Also:      markdownLinks(c.Also),
			}
			if !c.Time.IsZero() {
				i.Time = c.Time.In(d.zone)
			}
			t.Items = append(t.Items, i)
		}
		p.Topics = append(p.Topics, t)
		p.Items = append(p.Items, t.Items...)
	}
	return p
}
