package markdown

import (
	"html"
	"regexp"
	"strings"
	"sync"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"
)

// syntax is what tells comments, strings and keywords of a language apart. The patterns are alternatives of one regular
// expression, so that the time grows with the length of the code alone.
type syntax struct {
	comments, strings string
	words             string // keywords
	fold              bool   // keywords in any case
}

const (
	slashes     = `//[^\n]*|(?s:/\*.*?\*/)`
	hashes      = `(?m:(?:^|[ \t])#[^\n]*)`
	quoted      = `"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'`
	onlyDoubles = `"(?:[^"\\]|\\.)*"|'(?:[^'\\\n]|\\.)'`
)

// syntaxes are the languages that are highlighted, by the names that models give them.
var syntaxes = []struct {
	names string
	syntax
}{
	{"go golang", syntax{
		comments: slashes,
		strings:  quoted + "|`[^`]*`",
		words: `break case chan const continue default defer else fallthrough for func go goto if import interface map
			package range return select struct switch type var nil true false iota`,
	}},
	{"js javascript jsx mjs ts typescript tsx", syntax{
		comments: slashes,
		strings:  quoted + "|`(?:[^`\\\\]|\\\\.)*`",
		words: `async await break case catch class const continue debugger default delete do else enum export extends
			finally for from function if implements import in instanceof interface let new of private protected public
			readonly return static super switch this throw try type typeof var void while yield null undefined true
			false`,
	}},
	{"java kotlin kt c h cpp c++ cc cs csharp c# scala swift dart php groovy proto", syntax{
		comments: slashes,
		strings:  quoted,
		words: `abstract as auto bool boolean break byte case catch char class const continue data def default delete do
			double echo else enum extends extern final finally float fn for foreach fun func function goto guard if
			implements import in include int interface internal is let long match message namespace new object open
			operator override package private protected public repeated return rpc sealed service short signed sizeof
			static string struct super switch template this throw throws trait try typedef typename union unsigned use
			using val var virtual void volatile when while null nullptr nil true false`,
	}},
	{"rust rs", syntax{
		comments: slashes,
		strings:  onlyDoubles,
		words: `as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move
			mut pub ref return self Self static struct super trait type unsafe use where while true false`,
	}},
	{"python py", syntax{
		comments: hashes,
		strings:  `(?s:"""(?:.*?)"""|'''(?:.*?)''')|` + quoted,
		words: `and as assert async await break class continue def del elif else except finally for from global if import
			in is lambda match nonlocal not or pass raise return try while with yield None True False self`,
	}},
	{"bash sh shell zsh console dockerfile docker makefile make ruby rb perl", syntax{
		comments: hashes,
		strings:  `"(?:[^"\\]|\\.)*"|'[^']*'`,
		words: `if then else elif fi for while until do done case esac in function return local export exit def end class
			module require begin rescue unless my sub use FROM RUN COPY ADD CMD ENTRYPOINT ENV ARG WORKDIR EXPOSE USER
			VOLUME AS`,
	}},
	{"yaml yml toml ini conf properties", syntax{
		comments: hashes,
		strings:  quoted,
		words:    `true false null yes no on off`,
	}},
	{"json json5 jsonc", syntax{
		comments: slashes,
		strings:  quoted,
		words:    `true false null`,
	}},
	{"css scss less", syntax{
		comments: slashes,
		strings:  quoted,
		words:    `important media import supports keyframes`,
	}},
	{"sql postgres postgresql mysql sqlite lua haskell hs", syntax{
		comments: `--[^\n]*|(?s:/\*.*?\*/)`,
		strings:  quoted,
		fold:     true,
		words: `add all alter and as asc between by case check column constraint create cross default delete desc distinct
			drop else end exists foreign from full function group having if in index inner insert into is join key
			left like limit local not null offset on or order outer primary references return returning right select
			set table then union unique update using values view when where while with do data type let true false nil`,
	}},
	{"html xml svg", syntax{
		comments: `(?s:<!--.*?-->)`,
		strings:  `"[^"]*"|'[^'\n]*'`,
	}},
	{"diff patch", syntax{
		comments: `(?m:^-[^\n]*)`,
		strings:  `(?m:^\+[^\n]*)`,
	}},
}

// highlighter marks the parts of code of one language.
type highlighter struct {
	parts *regexp.Regexp // its groups are a comment, a string, a number and a word
	words map[string]bool
	fold  bool
}

// highlighters returns the highlighters by the names of the languages.
var highlighters = sync.OnceValue(func() map[string]highlighter {
	all := map[string]highlighter{}
	for _, s := range syntaxes {
		h := highlighter{words: map[string]bool{}, fold: s.fold}
		h.parts = regexp.MustCompile(`(` + s.comments + `)|(` + s.strings + `)|\b([0-9][0-9A-Za-z_.]*)|([\pL_][\pL\pN_]*)`)
		for _, word := range strings.Fields(s.words) {
			h.words[word] = true
		}
		for _, name := range strings.Fields(s.names) {
			all[name] = h
		}
	}
	return all
})

// partClasses are the classes of the groups of a highlighter.
var partClasses = [...]string{"comment", "string", "number", "keyword"}

// highlight returns code as HTML whose comments, strings, numbers and keywords have a class.
func (h highlighter) highlight(code string) string {
	var b strings.Builder
	end := 0
	for _, at := range h.parts.FindAllStringSubmatchIndex(code, -1) {
		for i, class := range partClasses {
			start, stop := at[2*i+2], at[2*i+3]
			if start < 0 || class == "keyword" && !h.isKeyword(code[start:stop]) {
				continue
			}
			b.WriteString(html.EscapeString(code[end:start]) + `<span class="` + class + `">` +
				html.EscapeString(code[start:stop]) + "</span>")
			end = stop
		}
	}
	b.WriteString(html.EscapeString(code[end:]))
	return b.String()
}

func (h highlighter) isKeyword(word string) bool {
	return h.words[word] || h.fold && h.words[strings.ToLower(word)]
}

// maxHighlighted is how many bytes of code are highlighted at most, because an answer is rendered again and again while
// it grows.
const maxHighlighted = 64 << 10

// renderCode writes a block of code with the name of its language, highlighted if the language is known.
func renderCode(w util.BufWriter, src []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	block := node.(*ast.FencedCodeBlock)
	code, name := string(block.Lines().Value(src)), string(block.Language(src))
	_, _ = w.WriteString("<pre")
	if name != "" {
		_, _ = w.WriteString(` data-language="` + html.EscapeString(name) + `"`)
	}
	_, _ = w.WriteString("><code>")
	h, known := highlighters()[strings.ToLower(name)]
	if known && len(code) <= maxHighlighted {
		code = h.highlight(code)
	} else {
		code = html.EscapeString(code)
	}
	_, _ = w.WriteString(code + "</code></pre>\n")
	return ast.WalkSkipChildren, nil
}
