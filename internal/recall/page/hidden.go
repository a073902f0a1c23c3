package page

import (
	"strings"

	"golang.org/x/net/html"
)

// maxDepth is how many levels of elements are read: deeper ones would need too much stack.
const maxDepth = 400

// removeHidden removes what readers of a page do not see or read: comments, hidden elements, menus, and what is nested
// too deep. Scripts stay, since some hold the author and the date as data; whatever is shown is free of them.
func removeHidden(n *html.Node, depth int) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.CommentNode || c.Type == html.ElementNode && (depth > maxDepth || isHidden(c)) {
			n.RemoveChild(c)
		} else {
			removeHidden(c, depth+1)
		}
		c = next
	}
}

// isHidden reports whether readers of the page do not see an element, or skip it as a menu: hidden text can carry
// instructions for a model.
func isHidden(n *html.Node) bool {
	switch n.Data {
	case "style", "noscript", "template", "iframe", "dialog", "svg", "nav":
		return true
	}
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "aria-hidden":
			// Behind a dialog the whole page is hidden so.
			if a.Val == "true" && n.Data != "main" && n.Data != "article" && n.Data != "body" {
				return true
			}
		case "style":
			style := strings.Join(strings.Fields(strings.ToLower(a.Val)), "")
			if strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") {
				return true
			}
		}
	}
	return false
}

// boilerplate are the elements that are not part of the content of a page.
var boilerplate = map[string]bool{"script": true, "nav": true, "header": true, "footer": true, "aside": true,
	"form": true, "button": true}

// removeBoilerplate removes the elements that are not part of the content of a page.
func removeBoilerplate(n *html.Node) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.ElementNode && boilerplate[c.Data] {
			n.RemoveChild(c)
		} else {
			removeBoilerplate(c)
		}
		c = next
	}
}
