package page

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"ravenbot/internal/core/text"
)

// Raised and lowered characters that Unicode has. Digits without them would become other numbers: 10<sup>6</sup>.
var (
	raised  = strings.NewReplacer(scripts("0123456789+-−=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿ")...)
	lowered = strings.NewReplacer(scripts("0123456789+-−=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")...)
	// plainScript matches what is written with these characters.
	plainScript = text.Pattern(`^[0-9+\-−=()n]+$`)
	// singleLetter matches an exponent, and no ending of an ordinal.
	singleLetter = text.Pattern(`^\pL$`)
	noteMark     = text.Pattern(`^\[?(?:\d{1,3}|[a-z*†‡])\]?$`)
)

// scripts returns pairs of characters for a Replacer.
func scripts(from, to string) (pairs []string) {
	other := []rune(to)
	for i, r := range []rune(from) {
		pairs = append(pairs, string(r), string(other[i]))
	}
	return pairs
}

// Raise returns what is written above the line, in the characters that Unicode has for it; other words stay as they are,
// but for a single letter, which is an exponent.
func Raise(words string) string {
	switch {
	case plainScript().MatchString(words):
		return raised.Replace(words)
	case singleLetter().MatchString(words):
		return "^" + words
	}
	return words
}

// Lower returns what is written below the line, in the characters that Unicode has for it; other words stay as they are.
func Lower(words string) string {
	if plainScript().MatchString(words) {
		return lowered.Replace(words)
	}
	return words
}

// JoinScript returns two parts of a formula with a sign between them, such as a/b.
func JoinScript(a, sign, b string) string {
	inBrackets := func(s string) string {
		if utf8.RuneCountInString(s) > 1 {
			return "(" + s + ")"
		}
		return s
	}
	return inBrackets(a) + sign + inBrackets(b)
}

// shapeText writes as text what a page shows by its shape: raised and lowered characters, formulas, the reading of
// characters, and code beside the numbers of its lines.
func shapeText(n *html.Node) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type != html.ElementNode {
			c = next
			continue
		}
		switch c.Data {
		case "sup", "sub":
			replaceWithText(c, scriptText(c))
		case "math":
			replaceWithText(c, formula(c))
		case "script":
			if strings.HasPrefix(attribute(c, "type"), "math/tex") {
				replaceWithText(c, "$"+strings.TrimSpace(innerText(c))+"$")
			}
		case "rt", "rp":
			n.RemoveChild(c)
		case "table":
			shapeCode(c)
			shapeText(c)
		case "pre":
			shapeIndex(c)
			shapeText(c)
		default:
			shapeText(c)
		}
		c = next
	}
}

// replaceWithText puts a text in the place of a node.
func replaceWithText(n *html.Node, words string) {
	n.Parent.InsertBefore(&html.Node{Type: html.TextNode, Data: words}, n)
	n.Parent.RemoveChild(n)
}

// scriptText returns raised or lowered text. It is empty for the mark of a note.
func scriptText(n *html.Node) string {
	words := strings.TrimSpace(innerText(n))
	link := find(n, "a")
	isNote := link != nil && strings.HasPrefix(attribute(link, "href"), "#") || strings.HasPrefix(words, "[")
	switch {
	case words == "" || isNote && noteMark().MatchString(words):
		return ""
	case n.Data == "sup":
		return Raise(words)
	}
	return Lower(words)
}

// formula returns a formula as TeX, if the page has it so, else on one line.
func formula(n *html.Node) string {
	for c := range n.Descendants() {
		if c.Type == html.ElementNode && c.Data == "annotation" && strings.Contains(attribute(c, "encoding"), "tex") {
			return "$" + strings.TrimSpace(innerText(c)) + "$"
		}
	}
	return strings.Join(strings.Fields(mathText(n)), " ")
}

// mathText returns the parts of a formula in MathML with the signs that their places stand for.
func mathText(n *html.Node) string {
	if n.Type == html.TextNode {
		return n.Data
	}
	var parts []string
	for c := range n.ChildNodes() {
		if part := strings.TrimSpace(mathText(c)); part != "" && c.Data != "annotation" && c.Data != "annotation-xml" {
			parts = append(parts, part)
		}
	}
	signs := map[string]string{"mfrac": "/", "msup": "^", "msub": "_"}
	if sign := signs[n.Data]; sign != "" && len(parts) == 2 {
		return JoinScript(parts[0], sign, parts[1])
	}
	if n.Data == "msqrt" {
		return "√(" + strings.Join(parts, "") + ")"
	}
	return strings.Join(parts, "")
}

// lineNumbers are the classes of what has the numbers of lines beside code: of Pygments, Rouge, Hexo and GitHub.
var lineNumbers = strings.Fields("gutter linenos linenodiv lineno rouge-gutter blob-num hljs-ln-numbers")

// shapeCode makes a block of code of a table that has code beside the numbers of its lines.
func shapeCode(table *html.Node) {
	var code, numbers []*html.Node
	for n := range table.Descendants() {
		switch {
		case n.Type != html.ElementNode:
		case strings.Contains(" "+strings.Join(lineNumbers, " ")+" ", " "+firstClass(n)+" "):
			numbers = append(numbers, n)
		case n.Data == "pre":
			code = append(code, n)
		}
	}
	if len(numbers) == 0 || len(code) == 0 {
		return
	}
	for _, n := range numbers {
		n.Parent.RemoveChild(n)
	}
	unwrapTable(table)
}

// shapeIndex makes paragraphs of the lines of preformatted text that begin with links, as servers list folders: in code
// the converter would lose where the links lead.
func shapeIndex(pre *html.Node) {
	var links []*html.Node
	for a := range pre.ChildNodes() {
		before := a.PrevSibling
		if a.Data == "a" && attribute(a, "href") != "" &&
			(before == nil || before.Type == html.TextNode && strings.HasSuffix(strings.TrimRight(before.Data, " \t"), "\n")) {
			links = append(links, a)
		}
	}
	if len(links) < 2 || len(links) < strings.Count(strings.TrimSpace(innerText(pre)), "\n")/2 {
		return
	}
	pre.Data, pre.DataAtom = "div", atom.Div
	for _, a := range links {
		pre.InsertBefore(&html.Node{Type: html.ElementNode, Data: "br", DataAtom: atom.Br}, a)
	}
}

// firstClass returns the first class of an element, or "-".
func firstClass(n *html.Node) string {
	class, _, _ := strings.Cut(strings.TrimSpace(attribute(n, "class")), " ")
	if class == "" {
		return "-"
	}
	return class
}

// consentName matches the names of what asks for consent before a page is read.
var consentName = text.Pattern(`(?i)\b(?:gdpr|consent|cookie-?(?:banner|bar|notice|consent|law|policy|wall|modal|popup)s?|cookiebot|onetrust` +
	`|didomi|qc-cmp\w*|cmp-?(?:container|wrapper|modal|box)|sp_message)`)

// removeOverlays removes what lies above a page, such as questions for consent, if something else has text.
func removeOverlays(doc *html.Node) {
	body := find(doc, "body")
	var overlays []*html.Node
	inOverlays := 0
	var visit func(n *html.Node)
	visit = func(n *html.Node) {
		for c := range n.ChildNodes() {
			if c.Type != html.ElementNode || c.DataAtom == atom.Script {
				continue
			}
			name := strings.ReplaceAll(attribute(c, "id")+" "+attribute(c, "class"), "_", "-")
			if c.Data != "main" && c.Data != "article" && (attribute(c, "role") == "dialog" ||
				attribute(c, "aria-modal") == "true" || consentName().MatchString(name)) {
				overlays = append(overlays, c)
				inOverlays += countLetters(c)
				continue
			}
			visit(c)
		}
	}
	if body == nil {
		return
	}
	if visit(body); countLetters(body)-inOverlays < minLetters {
		return
	}
	for _, n := range overlays {
		n.Parent.RemoveChild(n)
	}
}
