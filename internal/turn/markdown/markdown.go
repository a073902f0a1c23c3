package markdown

import (
	"bytes"
	"html"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	ghtml "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// HTML returns Markdown as HTML for a page. Code is highlighted, and formulas are shown as their source. Raw HTML is shown as text, links of dangerous schemes lose their target,
// and images become links, so that showing an answer loads nothing from other servers.
func HTML(src string) string {
	var b bytes.Buffer
	if err := pageDialect().Convert([]byte(normalize(src)), &b); err != nil {
		return html.EscapeString(src) // not reached: writing to a bytes.Buffer does not fail
	}
	return b.String()
}

// literalRenderer renders the nodes that must not reach a page unchanged.
type literalRenderer struct{}

// RegisterFuncs registers the functions that render these nodes with goldmark.
func (literalRenderer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindRawHTML, func(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if raw := n.(*ast.RawHTML).Segments; entering && isLineBreak(raw.Value(src)) {
			_, _ = w.WriteString("<br>")
		} else if entering {
			escape(w, src, raw)
		}
		return ast.WalkSkipChildren, nil
	})
	r.Register(ast.KindHTMLBlock, func(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		block := n.(*ast.HTMLBlock)
		if entering {
			_, _ = w.WriteString("<p>")
			escape(w, src, block.Lines())
		} else {
			if block.HasClosure() {
				_, _ = w.WriteString(html.EscapeString(string(block.ClosureLine.Value(src))))
			}
			_, _ = w.WriteString("</p>\n")
		}
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindFencedCodeBlock, renderCode)
	r.Register(ast.KindImage, func(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		dest := string(n.(*ast.Image).Destination)
		if ghtml.IsDangerousURL([]byte(dest)) || isWithin[*ast.Link](n) {
			return ast.WalkContinue, nil
		}
		if entering {
			_, _ = w.WriteString(`<a href="` + html.EscapeString(dest) + `" rel="nofollow noreferrer">`)
		} else {
			_, _ = w.WriteString("</a>")
		}
		return ast.WalkContinue, nil
	})
}

// escape writes pieces of the source as text, whatever markup they hold.
func escape(w util.BufWriter, src []byte, segments *text.Segments) {
	for _, s := range segments.Sliced(0, segments.Len()) {
		_, _ = w.WriteString(html.EscapeString(string(s.Value(src))))
	}
}

// Plain returns the text of Markdown without formatting, one line a block, for notifications and places that show no
// formatting.
func Plain(src string) string {
	source := []byte(normalize(src))
	var b strings.Builder
	_ = ast.Walk(parse(source), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock && b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
				b.WriteByte('\n')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.WriteString(plainText(n, source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.Write(n.Label(source))
		case *ast.RawHTML:
			if raw := n.Segments.Value(source); isLineBreak(raw) {
				b.WriteByte(' ')
			} else {
				b.Write(raw)
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock, *ast.HTMLBlock:
			b.Write(n.Lines().Value(source))
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}
