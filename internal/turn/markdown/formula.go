package markdown

import (
	"bytes"
	"unicode"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	gtext "github.com/yuin/goldmark/text"

	"ravenbot/internal/core/text"
)

// formulas parses formulas in TeX, so that their source is shown as it is: in Markdown a backslash before punctuation
// vanishes, and underscores and stars are marks. They become code with the class "math".
type formulas struct{}

var (
	// formulaInLine matches a formula from its beginning: between \( and \), \[ and \], $$ and $$, or $ and $. Dollars
	// that may be money are none: what is between two of them begins and ends without a space, and the second is not
	// before a digit.
	formulaInLine = text.Pattern(`^(?s:\\\(.+?\\\)|\\\[.+?\\\]|\$\$[^$]+\$\$|\$[^\s$](?:[^$\n]*[^\s$\\])?\$)`)
	// formulaSign matches what tells a formula between single dollars from prices.
	formulaSign = text.Pattern(`[\\^_={}]|^\$[A-Za-z]\$$`)
	// formulaBlock matches the beginning of a line that begins with a formula.
	formulaBlock = text.Pattern(`^ {0,3}(\$\$|\\\[)`)
)

// Trigger returns the characters with which a formula in a line begins.
func (formulas) Trigger() []byte { return []byte{'$', '\\'} }

// Parse parses a formula in a paragraph.
func (formulas) Parse(_ ast.Node, block gtext.Reader, _ parser.Context) ast.Node {
	line, segment := block.PeekLine()
	found := formulaInLine().Find(line)
	rest := line[len(found):]
	switch {
	case found == nil:
		return nil
	case found[0] == '$' && found[1] != '$' &&
		(!formulaSign().Match(found) || len(rest) > 0 && unicode.IsDigit(rune(rest[0]))):
		return nil
	}
	block.Advance(len(found))
	code := ast.NewCodeSpan()
	code.SetAttributeString("class", []byte("math"))
	code.AppendChild(code, ast.NewRawTextSegment(gtext.NewSegment(segment.Start, segment.Start+len(found))))
	return code
}

// formulaBlocks parses formulas of several lines.
type formulaBlocks struct{}

// formulaEnd is the key of the mark that ends the formula being parsed.
var formulaEnd = parser.NewContextKey()

// Trigger returns the characters with which a line begins a formula.
func (formulaBlocks) Trigger() []byte { return []byte{'$', '\\'} }

// Open begins a formula.
func (formulaBlocks) Open(_ ast.Node, r gtext.Reader, pc parser.Context) (ast.Node, parser.State) {
	line, segment := r.PeekLine()
	found := formulaBlock().FindSubmatch(line)
	if found == nil {
		return nil, parser.NoChildren
	}
	end := "$$"
	if found[1][0] == '\\' {
		end = `\]`
	}
	// One that ends in its first line is part of a paragraph, and one without an end is none.
	if bytes.Contains(line[len(found[0]):], []byte(end)) || !bytes.Contains(r.Source()[segment.Stop:], []byte(end)) {
		return nil, parser.NoChildren
	}
	pc.Set(formulaEnd, end)
	node := ast.NewFencedCodeBlock(nil)
	node.Lines().Append(segment)
	return node, parser.NoChildren
}

// Continue adds a line, and ends the formula with the one that holds its end.
func (formulaBlocks) Continue(node ast.Node, r gtext.Reader, pc parser.Context) parser.State {
	line, segment := r.PeekLine()
	end, _ := pc.Get(formulaEnd).(string)
	if end == "" {
		return parser.Close
	}
	node.Lines().Append(segment)
	r.AdvanceToEOL()
	if bytes.Contains(line, []byte(end)) {
		pc.Set(formulaEnd, "")
	}
	return parser.Continue | parser.NoChildren
}

// Close ends a formula.
func (formulaBlocks) Close(ast.Node, gtext.Reader, parser.Context) {}

// CanInterruptParagraph reports that text may stand right before a formula.
func (formulaBlocks) CanInterruptParagraph() bool { return true }

// CanAcceptIndentedLine reports that an indented line is code.
func (formulaBlocks) CanAcceptIndentedLine() bool { return false }
