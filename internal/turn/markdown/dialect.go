package markdown

import (
	"bytes"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	ghtml "github.com/yuin/goldmark/renderer/html"
	gtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"golang.org/x/text/width"

	"ravenbot/internal/core/text"
)

// dialect is Markdown as models write it: CommonMark with tables, strikethrough, bare links and task lists.
var dialect = sync.OnceValue(func() goldmark.Markdown { return newDialect() })

// pageDialect is the dialect of pages, which has formulas as well.
var pageDialect = sync.OnceValue(func() goldmark.Markdown {
	return newDialect(goldmark.WithParserOptions(
		parser.WithInlineParsers(util.Prioritized(formulas{}, 90)),
		parser.WithBlockParsers(util.Prioritized(formulaBlocks{}, 90)),
	))
})

func newDialect(options ...goldmark.Option) goldmark.Markdown {
	return goldmark.New(append(options,
		goldmark.WithExtensions(extension.Table, extension.TaskList,
			extension.NewLinkify(extension.WithLinkifyURLRegexp(bareLink()))),
		goldmark.WithParserOptions(parser.WithInlineParsers(
			util.Prioritized(delimiters{parser.NewEmphasisParser()}, 499), // before goldmark's own
			util.Prioritized(delimiters{extension.NewStrikethroughParser()}, 500),
		), parser.WithASTTransformers(util.Prioritized(textTransformer{}, 999))),
		goldmark.WithRendererOptions(
			ghtml.WithHardWraps(),
			renderer.WithNodeRenderers(util.Prioritized(literalRenderer{}, 1),
				util.Prioritized(extension.NewStrikethroughHTMLRenderer(), 500)),
		))...)
}

// parse returns the tree of a text. Its nodes refer to src, which must not change.
func parse(src []byte, options ...parser.ParseOption) ast.Node {
	return dialect().Parser().Parse(gtext.NewReader(src), options...)
}

// isWide reports whether a character takes two columns in a fixed-width font.
func isWide(c rune) bool {
	kind := width.LookupRune(c).Kind()
	return kind == width.EastAsianWide || kind == width.EastAsianFullwidth
}

// isCJK reports whether a character belongs to Chinese, Japanese or Korean text.
func isCJK(c rune) bool { return isWide(c) && !unicode.Is(unicode.So, c) }

// displayWidth returns how many columns a text takes in a fixed-width font.
func displayWidth(s string) int {
	n := 0
	for clusters := graphemes.FromString(s); clusters.Next(); {
		cluster := clusters.Value()
		first, size := utf8.DecodeRuneInString(cluster)
		switch {
		case isWide(first), strings.Contains(cluster, "\ufe0f"), unicode.Is(unicode.Regional_Indicator, first):
			n += 2
		case size < len(cluster) || !unicode.In(first, unicode.M, unicode.Cf):
			n++
		}
	}
	return n
}

// delimiters parses emphasis and strikethrough. It differs from CommonMark and goldmark in two rules: one tilde is
// text, and marks open and close at CJK punctuation, which has no spaces around it
// (https://github.com/commonmark/commonmark-spec/issues/650).
type delimiters struct{ parser.InlineParser }

// flank is a mark that only the second rule lets open or close.
type flank struct {
	start, at int // where the mark begins, and its side that has the punctuation
	opens     bool
}

// addedFlanks is the key of a list of flanks in a parser's context.
var addedFlanks = parser.NewContextKey()

// Parse parses one row of marks.
func (p delimiters) Parse(parent ast.Node, block gtext.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, _ := block.PeekLine()
	if line[0] == '~' && !bytes.HasPrefix(line, []byte("~~")) {
		return nil
	}
	d, ok := p.InlineParser.Parse(parent, block, pc).(*parser.Delimiter)
	if !ok {
		return nil
	}
	after := '\n'
	if rest := line[d.OriginalLength:]; len(rest) > 0 {
		after, _ = utf8.DecodeRune(rest)
	}
	if d.Char == '_' || !isCJK(before) && !isCJK(after) {
		return d
	}
	flanks, _ := pc.Get(addedFlanks).([]flank)
	if !d.CanOpen && !unicode.IsSpace(after) {
		d.CanOpen, flanks = true, append(flanks, flank{d.Segment.Start, d.Segment.Stop, true})
	}
	if !d.CanClose && !unicode.IsSpace(before) {
		d.CanClose, flanks = true, append(flanks, flank{d.Segment.Start, d.Segment.Start, false})
	}
	pc.Set(addedFlanks, flanks)
	return d
}

// bareLink matches a web address in a text: goldmark's pattern, with letters of other scripts in the path. CJK letters
// belong to it only behind a separator, because CJK text follows an address without a space.
var bareLink = text.Pattern(`^(?:https?|ftp)://[-a-zA-Z0-9@:%._+~#=]{1,256}\.[a-z]+(?::\d+)?(?:[/?#](?:` + cjkWord +
	`)?(?:[/=#?&_-]` + cjkWord + `|[-a-zA-Z0-9@:%_+.~#$!?&/=(),;'">^{}\[\]` + "`" +
	`\p{Latin}\p{Cyrillic}\p{Greek}\p{Arabic}\p{Hebrew}])*)?`)

var linkStart = text.Pattern(`https?://`)

const cjkWord = `[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}ー]+`

// textTransformer joins the texts that goldmark cuts at marks that are none, and finds the addresses that follow CJK text
// without a space, where goldmark looks for none.
type textTransformer struct{}

// Transform changes the texts of a tree.
func (textTransformer) Transform(doc *ast.Document, r gtext.Reader, _ parser.Context) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		t, ok := n.(*ast.Text)
		if !ok || !entering || t.IsRaw() {
			return ast.WalkContinue, nil
		}
		for !t.SoftLineBreak() && !t.HardLineBreak() {
			next, ok := t.NextSibling().(*ast.Text)
			if !ok || next.IsRaw() || next.Segment.Start != t.Segment.Stop {
				break
			}
			t.Segment = t.Segment.WithStop(next.Segment.Stop)
			t.SetSoftLineBreak(next.SoftLineBreak())
			t.SetHardLineBreak(next.HardLineBreak())
			t.Parent().RemoveChild(t.Parent(), next)
		}
		if !isWithin[*ast.Link](t) {
			splitAtLink(t, r.Source())
		}
		return ast.WalkContinue, nil
	})
}

// splitAtLink makes the first address in a text that follows a wide character a link, and what follows it a text.
func splitAtLink(t *ast.Text, src []byte) {
	value := t.Value(src)
	for _, at := range linkStart().FindAllIndex(value, -1) {
		before, _ := utf8.DecodeLastRune(value[:at[0]])
		link := bareLink().Find(value[at[0]:])
		if !isWide(before) || link == nil {
			continue
		}
		start := t.Segment.Start + at[0]
		stop := start + len(bytes.TrimRight(link, ".,:;!?*_~'\")"))
		rest := ast.NewTextSegment(t.Segment.WithStart(stop))
		rest.SetSoftLineBreak(t.SoftLineBreak())
		rest.SetHardLineBreak(t.HardLineBreak())
		t.Segment = t.Segment.WithStop(start)
		t.SetSoftLineBreak(false)
		t.SetHardLineBreak(false)
		auto := ast.NewAutoLink(ast.AutoLinkURL, ast.NewTextSegment(gtext.NewSegment(start, stop)))
		t.Parent().InsertAfter(t.Parent(), t, auto)
		t.Parent().InsertAfter(t.Parent(), auto, rest)
		return
	}
}
