package feed

import (
	"bytes"
	"html"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/microcosm-cc/bluemonday"
	xhtml "golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"ravenbot/internal/core/text"
)

// sanitizerPolicy allows text markup, links, pictures and tables, and nothing that can act.
var sanitizerPolicy = sync.OnceValue(func() *bluemonday.Policy {
	p := bluemonday.UGCPolicy()
	p.RequireNoFollowOnLinks(false)
	p.AllowAttrs("title", "alt").Globally() // texts, whatever they say
	// Without these blocks the texts in and behind them would run together.
	p.AllowElements("main", "nav", "header", "footer", "address", "center")
	return p
})

// sanitizeHTML removes everything that can act from a fragment: scripts, event handlers, styles, frames, forms,
// addresses other than http, https and mailto. It returns harmless fragments exactly as they were written.
func sanitizeHTML(fragment string) string {
	if !tagStart().MatchString(fragment) {
		return fragment
	}
	safe := sanitizerPolicy().Sanitize(fragment)
	// The sanitizer respells what it lets through. An unchanged text keeps its hash, so the item does not count as new.
	if isPlainMarkup(fragment) && normalizeMarkup(fragment) == normalizeMarkup(safe) {
		return fragment
	}
	return unescapeQuotes(safe)
}

var (
	tagStart = text.Pattern(`<[a-zA-Z/!?]`)
	plainTag = text.Pattern(`^</?[a-zA-Z][a-zA-Z0-9]*(\s+[a-zA-Z-]+="[^"<>` + "`" + `]*")*\s*/?>$`)
)

var (
	anyTag = text.Pattern(`</?([a-zA-Z][a-zA-Z0-9-]*)[^<>]*>`)
	// titleTags are the elements that titles use without an end.
	titleTags = strings.Fields("b i em strong code sub sup span a br u s small font mark cite q del ins abbr tt")
)

// escapeLoneTags makes text of what only looks like markup in a title: vector<int>, or the name of an element. Markup has
// attributes, or an end, or is one of titleTags.
func escapeLoneTags(title string) string {
	lower := strings.ToLower(title)
	return anyTag().ReplaceAllStringFunc(title, func(tag string) string {
		name := strings.ToLower(anyTag().FindStringSubmatch(tag)[1])
		isPair := strings.Contains(lower, "<"+name) && strings.Contains(lower, "</"+name)
		if isPair || strings.Contains(tag, "=") || slices.Contains(titleTags, name) {
			return tag
		}
		return html.EscapeString(tag)
	})
}

// isPlainMarkup reports whether every HTML parser finds the same tags in the fragment.
func isPlainMarkup(fragment string) bool {
	for rest := fragment; ; {
		start := strings.IndexByte(rest, '<')
		if start < 0 {
			return true
		}
		// Quotes are part of plainTag, so a ">" inside an attribute makes the match fail.
		length := strings.IndexByte(rest[start:], '>') + 1
		if length == 0 || !plainTag().MatchString(rest[start:start+length]) {
			return false
		}
		rest = rest[start+length:]
	}
}

// normalizeMarkup returns the markup as the tokenizer writes it, so that two spellings of the same compare as equal.
func normalizeMarkup(fragment string) string {
	var out strings.Builder
	z := xhtml.NewTokenizer(strings.NewReader(fragment))
	for z.Next() != xhtml.ErrorToken {
		out.WriteString(z.Token().String())
	}
	return out.String()
}

// tagOrQuote matches what the sanitizer writes: in its HTML every "<" begins a tag and every ">" ends one.
var tagOrQuote = text.Pattern(`<[^>]*>|&#3[49];`)

// unescapeQuotes reverts the needless escaping of quotation marks outside of tags.
func unescapeQuotes(safe string) string {
	if !strings.Contains(safe, "&#3") {
		return safe
	}
	return tagOrQuote().ReplaceAllStringFunc(safe, func(s string) string {
		if s[0] == '<' {
			return s
		}
		return html.UnescapeString(s)
	})
}

// PlainText returns what a reader sees of an HTML fragment: its text with entities decoded and
// white space collapsed, blocks separated by blank lines, list items and breaks by line ends. It is
// no markup any more, and must be escaped before it is shown as such.
func PlainText(fragment string) string {
	var b plainBuilder
	// Most titles, and many texts, have no markup: a tokenizer takes 4 KB of memory for each.
	if strings.IndexByte(fragment, '<') < 0 {
		b.out.Grow(len(fragment))
		b.addText(html.UnescapeString(fragment)) // as the tokenizer does
		return b.out.String()
	}
	z := xhtml.NewTokenizer(strings.NewReader(fragment))
	for {
		switch kind := z.Next(); kind {
		case xhtml.ErrorToken:
			return b.out.String()
		case xhtml.TextToken:
			if b.hidden == 0 {
				b.addText(string(z.Text()))
			}
		case xhtml.StartTagToken, xhtml.EndTagToken, xhtml.SelfClosingTagToken:
			name, _ := z.TagName()
			b.addTag(atom.Lookup(name), kind)
		}
	}
}

// plainBuilder collapses white space while it collects text.
type plainBuilder struct {
	out    strings.Builder
	gap    string // to be written before the next word
	hidden atom.Atom
}

// addText adds text, with entities decoded.
func (b *plainBuilder) addText(s string) {
	s = html.UnescapeString(s)
	for s != "" {
		// White space never replaces a stronger gap, such as that of a paragraph.
		word := strings.TrimLeftFunc(s, isHTMLSpace)
		if len(word) < len(s) && b.gap == "" {
			b.gap = " "
		}
		end := strings.IndexFunc(word, isHTMLSpace)
		if end < 0 {
			end = len(word)
		}
		if word != "" {
			if b.out.Len() > 0 {
				b.out.WriteString(b.gap)
			}
			b.gap = ""
			b.out.WriteString(word[:end])
		}
		s = word[end:]
	}
}

// isHTMLSpace reports whether HTML shows a character as white space: a no-break space, too.
func isHTMLSpace(r rune) bool { return strings.ContainsRune(" \t\r\n\f\u00a0", r) }

// addTag adds the gap that a tag stands for.
func (b *plainBuilder) addTag(name atom.Atom, kind xhtml.TokenType) {
	switch name {
	case atom.Script, atom.Style, atom.Template, atom.Noscript, atom.Head, atom.Iframe:
		// Hidden elements are not nested in each other, so their own end tag ends them.
		if kind == xhtml.StartTagToken && b.hidden == 0 {
			b.hidden = name
		} else if kind == xhtml.EndTagToken && b.hidden == name {
			b.hidden = 0
		}
	case atom.Br, atom.Li, atom.Tr, atom.Dt, atom.Dd:
		if b.gap != "\n\n" {
			b.gap = "\n"
		}
	case atom.P, atom.Div, atom.Ul, atom.Ol, atom.Dl, atom.Table, atom.Blockquote, atom.Pre, atom.Hr, atom.H1, atom.H2,
		atom.H3, atom.H4, atom.H5, atom.H6, atom.Section, atom.Article, atom.Header, atom.Footer, atom.Figure,
		atom.Figcaption, atom.Aside, atom.Main, atom.Nav, atom.Address, atom.Center, atom.Details, atom.Summary:
		b.gap = "\n\n"
	case atom.Td, atom.Th:
		if b.gap == "" {
			b.gap = " "
		}
	}
}

// markupLinks are the attributes of HTML that hold an address.
var markupLinks = strings.Fields("href src cite action background longdesc data codebase usemap classid profile poster")

// absoluteMarkup makes the addresses in HTML absolute and leaves every other byte unchanged.
func absoluteMarkup(base *url.URL, markup []byte) []byte {
	if base == nil || bytes.IndexByte(markup, '<') < 0 {
		return markup
	}
	var out bytes.Buffer
	z := xhtml.NewTokenizer(bytes.NewReader(markup))
	for {
		kind := z.Next()
		raw := z.Raw()
		if kind != xhtml.StartTagToken && kind != xhtml.SelfClosingTagToken {
			out.Write(raw)
			if kind == xhtml.ErrorToken {
				return out.Bytes()
			}
			continue
		}
		raw = bytes.Clone(raw) // z.Token reuses the buffer
		token, changed := z.Token(), false
		for i, a := range token.Attr {
			if slices.Contains(markupLinks, a.Key) {
				token.Attr[i].Val = absoluteURL(base, a.Val)
				changed = changed || token.Attr[i].Val != a.Val
			}
		}
		if changed {
			raw = []byte(token.String())
		}
		out.Write(raw)
	}
}

// absoluteURL resolves a reference against base. It returns anything else unchanged.
func absoluteURL(base *url.URL, ref string) string {
	ref = strings.TrimSpace(ref)
	if base == nil || ref == "" {
		return ref
	}
	u, err := url.Parse(ref)
	if err != nil || u.IsAbs() {
		return ref
	}
	return base.ResolveReference(u).String()
}

// resolveURL returns ref resolved against base, which may be nil. It returns base where ref is not a URL, and nil
// where the result would be relative.
func resolveURL(base *url.URL, ref string) *url.URL {
	u, err := url.Parse(strings.TrimSpace(ref))
	switch {
	case err != nil:
		return base
	case base != nil:
		return base.ResolveReference(u)
	case u.IsAbs():
		return u
	}
	return nil
}
