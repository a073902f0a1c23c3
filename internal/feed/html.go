package feed

import (
	"bytes"
	"html"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/microcosm-cc/bluemonday"
	xhtml "golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// sanitizerPolicy lets text markup, links, pictures and tables pass, and nothing that acts.
var sanitizerPolicy = sync.OnceValue(func() *bluemonday.Policy {
	p := bluemonday.UGCPolicy()
	p.RequireNoFollowOnLinks(false)
	p.AllowAttrs("title", "alt").Globally() // texts, whatever they say
	return p
})

// sanitizeHTML is the fragment with everything taken out that could act: scripts,
// event handlers, styles, frames, forms, addresses of other kinds than http,
// https and mailto. What is harmless comes back as it was written.
func sanitizeHTML(fragment string) string {
	if !tagStart.MatchString(fragment) {
		return fragment
	}
	safe := sanitizerPolicy().Sanitize(fragment)
	if isPlainMarkup(fragment) && normalizeMarkup(fragment) == normalizeMarkup(safe) {
		return fragment
	}
	return unescapeQuotes(safe)
}

var (
	tagStart = regexp.MustCompile(`<[a-zA-Z/!?]`)
	plainTag = regexp.MustCompile(`^</?[a-zA-Z][a-zA-Z0-9]*(\s+[a-zA-Z-]+="[^"<>` + "`" + `]*")*\s*/?>$`)
)

// isPlainMarkup says that every reader of the markup finds the same tags in it.
func isPlainMarkup(fragment string) bool {
	for rest := fragment; ; {
		start := strings.IndexByte(rest, '<')
		if start < 0 {
			return true
		}
		length := strings.IndexByte(rest[start:], '>') + 1
		if length == 0 || !plainTag.MatchString(rest[start:start+length]) {
			return false
		}
		rest = rest[start+length:]
	}
}

// normalizeMarkup is the markup as the tokenizer writes it, so that two spellings of
// the same compare equal.
func normalizeMarkup(fragment string) string {
	var out strings.Builder
	z := xhtml.NewTokenizer(strings.NewReader(fragment))
	for z.Next() != xhtml.ErrorToken {
		out.WriteString(z.Token().String())
	}
	return out.String()
}

// unescapeQuotes undoes the needless escaping of quotation marks outside of tags. In
// sanitised HTML every "<" begins a tag and every ">" ends one.
func unescapeQuotes(safe string) string {
	if !strings.Contains(safe, "&#3") {
		return safe
	}
	unquote := strings.NewReplacer("&#39;", "'", "&#34;", `"`)
	var out strings.Builder
	for safe != "" {
		text, rest, isTag := strings.Cut(safe, "<")
		out.WriteString(unquote.Replace(text))
		if !isTag {
			break
		}
		end := strings.IndexByte(rest, '>') + 1
		out.WriteString("<" + rest[:end])
		safe = rest[end:]
	}
	return out.String()
}

// PlainText is what a reader sees of an HTML fragment: its text, entities decoded,
// white space collapsed, blocks set apart by blank lines, list items and breaks
// by line ends.
func PlainText(fragment string) string {
	var b plainBuilder
	z := xhtml.NewTokenizer(strings.NewReader(fragment))
	for {
		switch z.Next() {
		case xhtml.ErrorToken:
			return b.String()
		case xhtml.TextToken:
			if b.hidden == 0 {
				b.addText(string(z.Text()))
			}
		case xhtml.StartTagToken:
			name, _ := z.TagName()
			b.addTag(atom.Lookup(name), 1)
		case xhtml.EndTagToken:
			name, _ := z.TagName()
			b.addTag(atom.Lookup(name), -1)
		case xhtml.SelfClosingTagToken:
			name, _ := z.TagName()
			b.addTag(atom.Lookup(name), 0)
		}
	}
}

// plainBuilder collapses white space as it goes.
type plainBuilder struct {
	out    strings.Builder
	gap    string // owed before the next word
	hidden atom.Atom
}

func (b *plainBuilder) addText(s string) {
	s = html.UnescapeString(s)
	for len(s) > 0 {
		word, rest, spaced := cutSpace(s)
		if word != "" {
			if b.out.Len() > 0 {
				b.out.WriteString(b.gap)
			}
			b.gap = ""
			b.out.WriteString(word)
		}
		if spaced && b.gap == "" {
			b.gap = " "
		}
		s = rest
	}
}

func cutSpace(s string) (word, rest string, spaced bool) {
	at := strings.IndexAny(s, " \t\r\n\f\u00a0")
	if at < 0 {
		return s, "", false
	}
	return s[:at], strings.TrimLeft(s[at:], " \t\r\n\f\u00a0"), true
}

func (b *plainBuilder) addTag(name atom.Atom, change int) {
	switch name {
	case atom.Script, atom.Style, atom.Template, atom.Noscript, atom.Head, atom.Iframe:
		if change > 0 && b.hidden == 0 {
			b.hidden = name
		} else if change < 0 && b.hidden == name {
			b.hidden = 0
		}
	case atom.Br, atom.Li, atom.Tr, atom.Dt, atom.Dd:
		if b.gap != "\n\n" {
			b.gap = "\n"
		}
	case atom.P, atom.Div, atom.Ul, atom.Ol, atom.Dl, atom.Table, atom.Blockquote, atom.Pre, atom.Hr, atom.H1, atom.H2, atom.H3,
		atom.H4, atom.H5, atom.H6, atom.Section, atom.Article, atom.Header, atom.Footer, atom.Figure, atom.Figcaption, atom.Aside:
		b.gap = "\n\n"
	case atom.Td, atom.Th:
		if b.gap == "" {
			b.gap = " "
		}
	}
}

func (b *plainBuilder) String() string { return b.out.String() }

// markupLinks are the attributes of HTML that hold an address.
var markupLinks = map[string]bool{"href": true, "src": true, "cite": true, "action": true, "background": true, "longdesc": true,
	"data": true, "codebase": true, "usemap": true, "classid": true, "profile": true, "poster": true}

// absoluteMarkup makes the addresses in HTML absolute and leaves every other
// byte as it is.
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
		raw = bytes.Clone(raw) // reading the token changes it
		token, changed := z.Token(), false
		for i, a := range token.Attr {
			if markupLinks[a.Key] {
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

// absoluteURL resolves a reference; what is no reference stays as it is.
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
