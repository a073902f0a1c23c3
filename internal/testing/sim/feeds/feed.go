package simfeeds

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Item is an entry of a feed. Summary and Content are HTML.
type Item struct {
	ID, Title, Link, Author string
	Summary, Content        string
	Categories              []string
	Published               time.Time // zero: left out
}

// Format is how a feed is written.
type Format int

// The formats AddFeed writes.
const (
	RSS Format = iota
	Atom
)

type feed struct {
	title  string
	format Format
	items  []Item // newest first
	opts   []Option
}

// AddFeed puts a feed without items at a path and returns its URL.
func (s *Server) AddFeed(at, title string, format Format, opts ...Option) string {
	f := &feed{title: title, format: format, opts: opts}
	s.state.Lock()
	s.feeds[at] = f
	s.state.Release()
	return s.render(at)
}

// AddItem puts an item at the head of the feed at a path. An empty link gets
// an address on this server, an empty ID the link.
func (s *Server) AddItem(at string, item Item) Item {
	s.state.Lock()
	f := s.feeds[at]
	if f == nil {
		s.state.Unlock()
		panic(fmt.Sprintf("simfeeds: no feed at %q", at))
	}
	if item.Link == "" {
		item.Link = fmt.Sprintf("%s%s/items/%d", s.URL(), at, len(f.items)+1)
	}
	if item.ID == "" {
		item.ID = item.Link
	}
	f.items = slices.Insert(f.items, 0, item)
	s.state.Release()
	s.render(at)
	return item
}

// render writes the feed again, so that its validators change.
func (s *Server) render(at string) string {
	s.state.Lock()
	f := *s.feeds[at]
	f.items = slices.Clone(f.items)
	s.state.Unlock()
	if f.format == Atom {
		return s.Serve(at, []byte(f.atom(s.URL()+at)), "application/atom+xml; charset=utf-8", f.opts...)
	}
	return s.Serve(at, []byte(f.rss(s.URL()+at)), "application/rss+xml; charset=utf-8", f.opts...)
}

// element writes an element, unless its text is empty.
func element(b *strings.Builder, name, text string) {
	if text != "" {
		fmt.Fprintf(b, "<%s>%s</%s>\n", name, escape(text), name)
	}
}

// date returns a time in a layout; empty for the zero time.
func date(t time.Time, layout string) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(layout)
}

// rss returns the feed as RSS 2.0.
func (f feed) rss(self string) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" +
		`<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/" ` +
		`xmlns:dc="http://purl.org/dc/elements/1.1/"><channel>` + "\n")
	element(&b, "title", f.title)
	element(&b, "link", self)
	element(&b, "description", f.title)
	for _, it := range f.items {
		b.WriteString("<item>\n")
		element(&b, "title", it.Title)
		element(&b, "link", it.Link)
		fmt.Fprintf(&b, "<guid isPermaLink=\"false\">%s</guid>\n", escape(it.ID))
		element(&b, "dc:creator", it.Author)
		element(&b, "description", it.Summary)
		element(&b, "content:encoded", it.Content)
		element(&b, "pubDate", date(it.Published, time.RFC1123Z))
		for _, c := range it.Categories {
			element(&b, "category", c)
		}
		b.WriteString("</item>\n")
	}
	b.WriteString("</channel></rss>\n")
	return b.String()
}

// atom returns the feed as Atom (RFC 4287).
func (f feed) atom(self string) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<feed xmlns="http://www.w3.org/2005/Atom">` + "\n")
	element(&b, "title", f.title)
	element(&b, "id", self)
	updated := "2024-01-01T00:00:00Z" // required even of an empty feed
	if len(f.items) > 0 && !f.items[0].Published.IsZero() {
		updated = f.items[0].Published.Format(time.RFC3339)
	}
	element(&b, "updated", updated)
	fmt.Fprintf(&b, "<link rel=\"self\" href=\"%s\"/>\n", escape(self))
	for _, it := range f.items {
		b.WriteString("<entry>\n")
		element(&b, "title", it.Title)
		element(&b, "id", it.ID)
		fmt.Fprintf(&b, "<link href=\"%s\"/>\n", escape(it.Link))
		if it.Author != "" {
			fmt.Fprintf(&b, "<author><name>%s</name></author>\n", escape(it.Author))
		}
		if it.Summary != "" {
			fmt.Fprintf(&b, "<summary type=\"html\">%s</summary>\n", escape(it.Summary))
		}
		if it.Content != "" {
			fmt.Fprintf(&b, "<content type=\"html\">%s</content>\n", escape(it.Content))
		}
		element(&b, "published", date(it.Published, time.RFC3339))
		element(&b, "updated", date(it.Published, time.RFC3339))
		for _, c := range it.Categories {
			fmt.Fprintf(&b, "<category term=\"%s\"/>\n", escape(c))
		}
		b.WriteString("</entry>\n")
	}
	b.WriteString("</feed>\n")
	return b.String()
}
