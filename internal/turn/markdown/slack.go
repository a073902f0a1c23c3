package markdown

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"

	"ravenbot/internal/core/text"
)

// mentions matches what Slack might treat as a mention, a channel or a date, and words that notify many. A word
// before @here makes it an address, and a slash behind it a name of a package.
var mentions = text.Pattern(`(<)((?:!(?:here|channel|everyone)|@[UWB][A-Z0-9]+|#[CGD][A-Z0-9]+)[|>]|!(?:subteam|date)\^)|` +
	`(?m)(^|[^\w.=&/+-])(@)((?:channel|here|everyone)(?:$|[^\w/]))`)

// slackMarks matches code, and marks of Markdown that mrkdwn does not know: bold, strikethrough, links and headings.
var slackMarks = text.Pattern("(?sm)```.*?```|~~~.*?~~~|`+[^`\n]+`+|" + `\*{2,3}([^\s*](?:[^\n]*?[^\s*])?)\*{2,3}|` +
	`~~([^\s~](?:[^\n]*?[^\s~])?)~~|!?\[([^\]\n]*)\]\(<?([^\s)>]+)>?(?: "[^"\n]*")?\)|^#{1,6} +`)

var quotePrefix = text.Pattern(`^[ \t]*(?:>[ \t]?)+`)

// Slack returns Markdown for Slack's markdown blocks and text in which mentions notify nobody. An invisible space
// breaks them, since an escape would be visible in code; other code is not changed. Bold at CJK punctuation gets one,
// too, where CommonMark would show the marks.
func Slack(src string) string {
	src = normalize(src)
	context := parser.NewContext()
	root := parse([]byte(src), parser.WithContext(context))
	var edits []edit
	opened := map[int]bool{} // by the places of the marks that open
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n.(type) {
		case *ast.Emphasis, *east.Strikethrough:
			opened[n.Pos()] = true
		}
		raw, ok := n.(*ast.RawHTML)
		if !ok || !entering || !isLineBreak(raw.Segments.Value([]byte(src))) {
			return ast.WalkContinue, nil
		}
		at := raw.Segments.At(0)
		line := src[strings.LastIndexByte(src[:at.Start], '\n')+1 : at.Start]
		by := "\n" + quotePrefix().FindString(line)
		if isWithin[*east.TableCell](n) || isWithin[*ast.Heading](n) {
			by = " / "
		}
		edits = append(edits, edit{at.Start, at.Stop, by})
		return ast.WalkContinue, nil
	})
	flanks, _ := context.Get(addedFlanks).([]flank)
	for _, f := range flanks {
		if f.opens == opened[f.start] {
			edits = append(edits, edit{f.at, f.at, "\u200b"})
		}
	}
	src = apply(src, edits)
	for range 2 { // the character between two mentions belongs to the first match
		src = mentions().ReplaceAllString(src, "$1$3$4\u200b$2$5")
	}
	return src
}

// SlackText returns what Slack returned as mrkdwn, for notifications and places that show no blocks: bold in single
// marks, links as words with their addresses behind, no marks of headings, and characters instead of escapes and
// entities. Code is not changed. What is special in mrkdwn is left for the caller to escape.
func SlackText(src string) string {
	src = slackMarks().ReplaceAllStringFunc(src, func(s string) string {
		switch m := slackMarks().FindStringSubmatch(s); {
		case m[1] != "":
			return "*" + m[1] + "*"
		case m[2] != "":
			return "~" + m[2] + "~"
		case m[4] != "" && m[3] != "" && m[3] != m[4]:
			return m[3] + " (" + m[4] + ")"
		case m[4] != "":
			return m[4]
		case s[0] == '#':
			return ""
		}
		return s
	})
	var edits []edit
	_ = ast.Walk(parse([]byte(src)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering && !t.IsRaw() {
			edits = append(edits, edit{t.Segment.Start, t.Segment.Stop, plainText(t, []byte(src))})
		}
		return ast.WalkContinue, nil
	})
	return Slack(apply(src, edits)) // an entity may have become a part of a mention
}
