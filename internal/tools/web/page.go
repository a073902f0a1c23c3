package web

import (
	"bytes"
	"cmp"
	"mime"
	"net/http"
	"strings"

	"ravenbot/internal/recall/page"
)

// Page is a page as models and people read it. Its JSON is the output of ravenbot web read.
type Page struct {
	URL       string   `json:"url"`
	Title     string   `json:"title"`
	Byline    string   `json:"byline"`
	Published string   `json:"published"` // RFC 3339
	Language  string   `json:"language"`
	Text      string   `json:"text"` // Markdown
	Links     []string `json:"links"`
}

// Markdown returns the page with its title, author and date above the text.
func (p Page) Markdown() string {
	// A bracket would end the link around the title.
	title := strings.NewReplacer("[", "(", "]", ")").Replace(cmp.Or(p.Title, p.URL))
	head := "# " + title
	if p.URL != "" {
		head = "# [" + title + "](" + p.URL + ")"
	}
	var about []string
	if p.Byline != "" {
		about = append(about, "by "+p.Byline)
	}
	if p.Published != "" {
		about = append(about, "published "+p.Published)
	}
	if len(about) > 0 {
		head += "\n\n" + strings.Join(about, ", ")
	}
	return head + "\n\n" + p.Text
}

// mediaType returns the type of a body, which its content decides where the server does not say.
func mediaType(body []byte, contentType string) string {
	kind, _, err := mime.ParseMediaType(contentType)
	if err == nil && kind != "application/octet-stream" {
		return kind
	}
	// XHTML begins like any other XML.
	if bytes.Contains(bytes.ToLower(body[:min(len(body), 1<<10)]), []byte("<html")) {
		return "text/html"
	}
	kind, _, _ = mime.ParseMediaType(http.DetectContentType(body))
	return kind
}

// isText reports whether files of a type are text, such as pages, CSV and JSON.
func isText(kind string) bool {
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "xml")
}

// Parse returns what a body says that was served from address. The error is a sentence for people and models.
func Parse(body []byte, contentType, address string) (Page, error) {
	kind := mediaType(body, contentType)
	switch {
	case kind == "text/html" || kind == "application/xhtml+xml":
		p := page.Read(body, contentType, address)
		if p.Text == "" {
			return Page{}, newReadError("%s has no text that can be read: it may need scripts to be shown.",
				cmp.Or(address, "The page"))
		}
		return Page{URL: address, Title: p.Title, Byline: p.Byline, Published: p.Published, Language: p.Language,
			Text: p.Text, Links: p.Links}, nil
	case isText(kind):
		return Page{URL: address, Text: strings.TrimSpace(page.Decode(body, contentType)), Links: []string{}}, nil
	}
	return Page{}, newReadError("%s is not a page but %s of %d bytes.", cmp.Or(address, "The file"), kind, len(body))
}
