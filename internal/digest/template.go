package digest

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"time"

	"ravenbot/internal/chat"
)

// Page is what a template of a digest is executed with. Its texts are Markdown in
// which nothing that a feed says is markup, and links lead to items alone.
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

// maxTemplateOutput is how much a template may write, in bytes.
const maxTemplateOutput = 32 << 10

var errTooLong = errors.New("the template writes too much")

// CheckTemplate tells what is wrong with a template.
func CheckTemplate(text string) error {
	_, err := parseTemplate(text)
	return err
}

// parseTemplate reads a template and tries it on a page.
func parseTemplate(text string) (*template.Template, error) {
	t, err := template.New("digest").Funcs(template.FuncMap{
		"join":  strings.Join,
		"clock": func(t time.Time) string { return t.Format("2 Jan 15:04") },
	}).Parse(text)
	if err != nil {
		return nil, err
	}
	one := PageItem{N: 1, Title: "Title", Link: "[Title](https://example.org/)", URL: "https://example.org/", Source: "Source", Text: "Text.", Statement: "Text.",
		Also: []string{"[Other](https://example.org/o)"}}
	sample := Page{Name: "sample", Date: "Monday, 2 January 2006", Count: 1, Summary: "Summary.", Items: []PageItem{one}, Topics: []PageTopic{{"Topic", []PageItem{one}}}, LeftOut: []string{"a feed"}}
	for _, p := range []Page{sample, {Name: "empty"}} {
		if _, err := executeTemplate(t, p); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// limitedBuilder is a strings.Builder that refuses to grow too long.
type limitedBuilder struct{ strings.Builder }

func (s *limitedBuilder) Write(p []byte) (int, error) {
	if s.Len()+len(p) > maxTemplateOutput {
		return 0, errTooLong
	}
	return s.Builder.Write(p)
}

func executeTemplate(t *template.Template, p Page) (string, error) {
	var b limitedBuilder
	err := t.Execute(&b, p)
	return strings.TrimSpace(b.String()), err
}

// compose makes the draft of what was written.
func (e *edition) compose(d spec, now time.Time) error {
	if d.template != nil {
		text, err := executeTemplate(d.template, e.templatePage(d, now))
		if err != nil {
			return fmt.Errorf("fill in the template: %w", err)
		}
		e.draft = chat.Draft{Text: text}
		return nil
	}
	text, all := "**"+escapeMarkdown(d.title)+"**: "+countLine(e.cards), len(e.cards)
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
	if top := headEntries(d.Style); all > 2*top {
		e.head, e.rest = part(text, 0, top), part("", top, all)
		more := fmt.Sprintf("*The other %d are below.*", all-top)
		if e.head.Text += "\n\n" + more; !listed {
			e.head.Text, e.head.Footer = text, strings.Trim(more, "*.")
		}
	}
	return nil
}

// headEntries is how many entries a post begins with whose others are in a thread below it;
// it has one if there are more than twice as many.
func headEntries(style string) int {
	switch style {
	case Titles:
		return 10
	case Bullets, Topics:
		return 5
	}
	return 3
}

// renderRows lists the entries from one place in their order to another, below their topics.
func (e *edition) renderRows(style string, from, to int) string {
	text, n := "", 0
	for _, p := range e.parts {
		begun := false
		for _, l := range p.entries {
			if n++; n <= from || n > to {
				continue
			}
			if !begun && p.topic != "" {
				text += "\n\n**" + escapeMarkdown(p.topic) + "**"
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

// renderRow is an entry as a line of a list.
func (e *edition) renderRow(style string, l entryLine) string {
	c := e.cards[l.n]
	text := fmt.Sprintf("- **%d.** %s (%s)", c.N, markdownLink(c.Title, c.URL), escapeMarkdown(c.Source))
	if said := e.entryStatement(l); said != "" && style != Titles {
		text += ": " + said
	}
	if also := markdownLinks(c.Also); len(also) > 0 {
		text += " · also: " + strings.Join(also, ", ")
	}
	return text
}

func markdownLinks(list []chat.Link) []string {
	var all []string
	for _, l := range list {
		all = append(all, markdownLink(l.Title, l.URL))
	}
	return all
}

func (e *edition) templatePage(d spec, now time.Time) Page {
	p := Page{Name: escapeMarkdown(d.title), Date: now.In(d.zone).Format("Monday, 2 January 2006"), Count: len(e.cards), Summary: e.summary, By: e.by}
	for _, f := range e.faults {
		p.LeftOut = append(p.LeftOut, escapeMarkdown(f))
	}
	for _, part := range e.parts {
		t := PageTopic{Name: escapeMarkdown(part.topic)}
		for _, l := range part.entries {
			c := e.cards[l.n]
			i := PageItem{N: c.N, Title: escapeMarkdown(c.Title), Link: markdownLink(c.Title, c.URL), URL: linkTarget(c.URL), Source: escapeMarkdown(c.Source), Text: escapeMarkdown(c.Text),
				Statement: cmp.Or(l.statement, escapeMarkdown(c.Text)), Image: linkTarget(c.Image), Also: markdownLinks(c.Also)}
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
