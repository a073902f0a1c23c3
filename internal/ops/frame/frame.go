// Package frame is the common part of all dashboard pages: the head of the document and the menu bar. Each set of
// templates adds it.
package frame

import (
	"embed"
	"html/template"
	"slices"
)

//go:embed frame.html
var files embed.FS

// entry is a page in the menu.
type entry struct{ Path, Name string }

// menu is the pages in the bar, and more those in the menu behind its end, in their order.
var (
	menu = []entry{
		{"/chat/general", "Chat"}, {"/overview", "Overview"}, {"/servers", "Servers"}, {"/agents", "Agents"},
		{"/calls", "Calls"}, {"/digests", "Digests"}, {"/feeds", "Feeds"}, {"/settings", "Settings"},
	}
	more = []entry{
		{"/jobs", "Jobs"}, {"/notes", "Notes"}, {"/posts", "Posts"}, {"/usage", "Usage"}, {"/tokens", "Tokens"},
		{"/webhooks", "Webhooks"}, {"/backups", "Backups"}, {"/audit", "Audit"},
	}
)

// New returns templates with "head", which takes the title of a page, and "bar", which takes the name of the page in
// the menu. The page must have an element with the id "content", to which the skip link leads.
func New() *template.Template {
	t := template.New("").Funcs(template.FuncMap{
		"menu":   func() []entry { return menu },
		"more":   func() []entry { return more },
		"inmore": func(name string) bool { return slices.ContainsFunc(more, func(e entry) bool { return e.Name == name }) },
	})
	return template.Must(t.ParseFS(files, "frame.html"))
}
