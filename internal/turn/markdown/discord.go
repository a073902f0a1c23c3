package markdown

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"

	"ravenbot/internal/core/text"
)

// Discord rewrites Markdown in the dialect that Discord shows: tables become
// aligned text in a code block or a paragraph a row, images links, small headings bold lines. All
// text is kept.
func Discord(src string) string {
	w := discordWriter{src: []byte(normalize(strings.ReplaceAll(src, bars, "")))}
	out := strings.TrimSpace(w.blocks(parse(w.src), "\n\n"))
	return strings.ReplaceAll(spoiler().ReplaceAllString(out, "||$1||"), bars, `\|\|`)
}

// bars stands for the double bars of a text until it is known which of them hide what is between.
const bars = "\x00"

var spoiler = text.Pattern(bars + `([^\s` + bars + `](?:[^\n` + bars + `]*[^\s` + bars + `])?)` + bars)

// discordWriter writes one document. Blocks are written without their prefix
// (of a quote, of a list), which the block around them puts before each line.
type discordWriter struct{ src []byte }

// blocks returns the blocks in a node, with a text between them; empty ones are left out.
func (w discordWriter) blocks(parent ast.Node, between string) string {
	var out []string
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if s := w.block(n); strings.TrimSpace(s) != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, between)
}

// block returns one block as Discord shows it: headings below the third are bold, since it knows
// three, and tables are code.
func (w discordWriter) block(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Heading:
		if n.Level > 3 {
			return mark(n, w.inline(n))
		}
		return strings.Repeat("#", n.Level) + " " + w.inline(n)
	case *ast.FencedCodeBlock:
		return codeBlock(string(n.Language(w.src)), string(n.Lines().Value(w.src)))
	case *ast.CodeBlock:
		return codeBlock("", string(n.Lines().Value(w.src)))
	case *ast.HTMLBlock:
		s := string(n.Lines().Value(w.src))
		if n.HasClosure() {
			s += string(n.ClosureLine.Value(w.src))
		}
		return strings.TrimRight(s, "\n")
	case *ast.Blockquote:
		return indent(w.blocks(n, "\n\n"), "> ", "> ")
	case *ast.List:
		return w.list(n)
	case *ast.ThematicBreak:
		return "───"
	case *east.Table:
		return w.table(n)
	}
	if n.Type() == ast.TypeBlock && n.FirstChild() != nil && n.FirstChild().Type() == ast.TypeBlock {
		return w.blocks(n, "\n\n")
	}
	return w.inline(n)
}

// list returns a list whose items are indented by the width of their marks.
func (w discordWriter) list(l *ast.List) string {
	var items []string
	number := l.Start
	for item := l.FirstChild(); item != nil; item = item.NextSibling() {
		mark := "- "
		if l.IsOrdered() {
			mark = fmt.Sprintf("%d. ", number)
			number++
		}
		items = append(items, indent(w.blocks(item, "\n"), mark, strings.Repeat(" ", len(mark))))
	}
	return strings.Join(items, "\n")
}

// indent puts first before the first line and rest before the others.
func indent(s, first, rest string) string {
	return first + strings.ReplaceAll(s, "\n", "\n"+rest)
}

// codeBlock fences code. Three backticks inside would end the block on Discord,
// whatever the fence.
func codeBlock(language, code string) string {
	code = separateBackticks(strings.TrimRight(code, "\n"), 3)
	return "```" + language + "\n" + code + "\n```"
}

// inline returns the text in a block, with its markup.
func (w discordWriter) inline(parent ast.Node) string {
	var b strings.Builder
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		b.WriteString(w.span(n))
	}
	return b.String()
}

// span returns one piece of such text. A kind that is not known is returned without its markup.
func (w discordWriter) span(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Text:
		s := active().ReplaceAllStringFunc(string(n.Value(w.src)), escapeActive)
		if n.SoftLineBreak() || n.HardLineBreak() {
			s += "\n"
		}
		return s
	case *ast.String:
		return string(n.Value)
	case *ast.CodeSpan:
		return codeSpan(w.plainCode(n))
	case *ast.Emphasis:
		return mark(n, w.inline(n))
	case *east.Strikethrough:
		return "~~" + w.inline(n) + "~~"
	case *ast.Link:
		return link(w.inline(n), string(n.Destination))
	case *ast.Image:
		if isWithin[*ast.Link](n) {
			return w.inline(n)
		}
		return link(w.inline(n), string(n.Destination))
	case *ast.AutoLink:
		return w.autoLink(n)
	case *ast.RawHTML:
		if raw := n.Segments.Value(w.src); !isLineBreak(raw) {
			return string(raw)
		} else if isWithin[*east.TableCell](n) {
			return " / "
		}
		return "\n"
	case *east.TaskCheckBox:
		if n.IsChecked {
			return "☑ "
		}
		return "☐ "
	}
	return w.inline(n)
}

// mark returns text between the marks of bold or italic. Inside of the same kind it has none, because Discord would take
// the second mark for the end of the first.
func mark(n ast.Node, inner string) string {
	level := markLevel(n)
	for p := n.Parent(); p != nil; p = p.Parent() {
		if markLevel(p) == level {
			return inner
		}
	}
	return strings.Repeat("*", level) + inner + strings.Repeat("*", level)
}

// markLevel returns the number of asterisks around a node; zero if it has none.
func markLevel(n ast.Node) int {
	switch n := n.(type) {
	case *ast.Emphasis:
		return n.Level
	case *ast.Heading:
		if n.Level > 3 {
			return 2
		}
	}
	return 0
}

// autoLink returns an address as it is, or in angle brackets if Discord would take what follows for a part of it.
func (w discordWriter) autoLink(n *ast.AutoLink) string {
	if n.AutoLinkType == ast.AutoLinkEmail {
		return string(n.Label(w.src))
	}
	url := string(n.URL(w.src))
	if next, ok := n.NextSibling().(*ast.Text); ok {
		if c, _ := utf8.DecodeRune(next.Value(w.src)); c >= utf8.RuneSelf && c != utf8.RuneError {
			return "<" + url + ">"
		}
	}
	return url
}

// active matches what is text in Markdown and may not be on Discord, and escapes and lone asterisks, which are left.
var active = text.Pattern(`\\.|(?:^|\s)\*(?:\s|$)|&#?\w+;|\*|__|~~|\|\||` + "`" + `|(?m:^-# )`)

// escapeActive returns what active matched so that Discord shows it as text. For double bars it returns bars.
func escapeActive(s string) string {
	switch {
	case s == "||":
		return bars
	case s[0] == '&':
		c := html.UnescapeString(s)
		if len(c) == 1 && strings.Contains("*_`~|<>[]()#\\", c) {
			return `\` + c
		}
		return c
	case s[0] == '\\' || strings.TrimSpace(s) == "*" && len(s) > 1:
		return s
	case s == "-# ":
		return `\-# `
	}
	return strings.Repeat(`\`+s[:1], len(s))
}

// plainCode returns the text of a code span on one line.
func (w discordWriter) plainCode(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Value(w.src))
		}
	}
	return strings.ReplaceAll(b.String(), "\n", " ")
}

// codeSpan returns code as a span, with two backticks where it holds one. A fence of more than two would begin a block
// on Discord.
func codeSpan(code string) string {
	if strings.Contains(code, "`") {
		return "`` " + separateBackticks(code, 2) + " ``"
	}
	return "`" + code + "`"
}

// separateBackticks keeps backticks apart, where n or more are in a row, by invisible spaces.
func separateBackticks(code string, n int) string {
	row := strings.Repeat("`", n)
	// What is replaced may stand before a further backtick: "````" has two rows of three.
	for strings.Contains(code, row) {
		code = strings.ReplaceAll(code, row, "`\u200b"+row[1:])
	}
	return code
}

// link writes a masked link; Discord shows one only where the text is not itself
// an address and the target is a web page.
func link(text, dest string) string {
	switch {
	case text == "" || text == dest, !strings.HasPrefix(dest, "http://") && !strings.HasPrefix(dest, "https://"):
		return linkAsText(text, dest)
	case strings.Contains(text, "://"):
		return linkAsText(strings.NewReplacer("[", "(", "]", ")").Replace(text), dest)
	}
	return "[" + text + "](" + strings.NewReplacer("(", "%28", ")", "%29", " ", "%20").Replace(dest) + ")"
}

// linkAsText returns a link with its target behind it.
func linkAsText(text, dest string) string {
	if text == "" || text == dest {
		return dest
	}
	return text + " (" + dest + ")"
}
