// Package frame is what all pages of the dashboard have around them: the head of the document and the bar with the
// menu. Each set of templates adds it to its own.
package frame

import (
	"embed"
	"html/template"
)

//go:embed frame.html
var files embed.FS

// entry is a page in the menu.
type entry struct{ Path, Name string }

// menu is the pages in the menu, in their order.
var menu = []entry{
	{"/chat/general", "Chat"}, {"/overview", "Overview"}, {"/servers", "Servers"}, {"/agents", "Agents"}, {"/calls", "Calls"},
	{"/digests", "Digests"}, {"/feeds", "Feeds"}, {"/posts", "Posts"}, {"/settings", "Settings"},
}

// New returns templates with "head", which takes the title of a page, and "bar", which takes the name of the page in
// the menu. The page must have an element with the id "content", to which the skip link leads.
func New() *template.Template {
	t := template.New("").Funcs(template.FuncMap{"menu": func() []entry { return menu }})
	return template.Must(t.ParseFS(files, "frame.html"))
}
