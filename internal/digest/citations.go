package digest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	citation    = regexp.MustCompile(`\[(\d+)\]`)
	titledLink  = regexp.MustCompile(`!?\[([^\[\]]*)\]\s*\([^()]*\)`)
	bareAddress = regexp.MustCompile(`(?i)<?(?:[a-z][a-z0-9+.-]*://|www\.)[^\s<>]*>?` +
		`|\b(?:mailto|tel|javascript|data):[^\s<>]+` +
		`|\b(?:[a-z0-9-]+\.)+[a-z]{2,}/[^\s\[\]]*`)
	htmlTag = regexp.MustCompile(`<[^<>]*>`)
	// sentence matches up to the end of the citations, or to a full stop without one.
	sentence   = regexp.MustCompile(`(?s).+?(?:(?:\s*\[\d+\])+[.!?]*|[.!?](?:\s|$)|$)`)
	twoLetters = regexp.MustCompile(`[\pL\pN]{2}`)
)

// stripLinks removes from a text all that could become a link or markup, except for the
// numbers of items, and returns the number of links.
func stripLinks(text string) (string, int) {
	links := 0
	for range 3 { // removing one may form another, such as [[a](b)](c)
		text = titledLink.ReplaceAllStringFunc(text, func(m string) string {
			links++
			return titledLink.FindStringSubmatch(m)[1]
		})
		text = bareAddress.ReplaceAllStringFunc(text, func(string) string { links++; return "" })
		text = htmlTag.ReplaceAllString(text, "")
	}
	text = strings.NewReplacer("](", "] (", "]:", "] :", "<", "", "`", "", "://", " ").Replace(text)
	return text, links
}

// keepCited returns the sentences of a model's text that cite an item, with the citations as
// links to the items. Links that the model wrote are removed: only the items' own are left.
func (p *content) keepCited(text string) string {
	text, links := stripLinks(text)
	p.foreignLinks += links
	// A citation after the full stop belongs to the sentence before it.
	text = strings.NewReplacer("\n", " ", "#", "", ". [", " [", "! [", " [", "? [", " [").Replace(text)
	var kept []string
	for _, one := range sentence.FindAllString(text, -1) {
		if cited, items := p.linkCitations(one); len(items) > 0 {
			kept = append(kept, cited)
		} else if twoLetters.MatchString(one) {
			p.droppedSentences++
		}
	}
	return strings.Join(kept, " ")
}

// linkCitations returns a sentence with its citations as links, one for each item, and the
// indexes of the cited items. A citation without an item is removed.
func (p *content) linkCitations(one string) (string, []int) {
	if !twoLetters.MatchString(citation.ReplaceAllString(one, "")) {
		return "", nil
	}
	round := strings.NewReplacer("[", "(", "]", ")") // other brackets must not form a link
	var items []int
	var b strings.Builder
	at := 0
	for _, m := range citation.FindAllStringSubmatchIndex(one, -1) {
		b.WriteString(round.Replace(one[at:m[0]]))
		at = m[1]
		n, err := strconv.Atoi(one[m[2]:m[3]])
		if err != nil || n < 1 || n > len(p.cards) || slices.Contains(items, n-1) {
			continue
		}
		items = append(items, n-1)
		fmt.Fprintf(&b, "[[%d]](%s)", n, linkTarget(p.cards[n-1].URL))
	}
	b.WriteString(round.Replace(one[at:]))
	return strings.TrimSpace(b.String()), items
}

// linkTarget returns an address as it is written in a Markdown link, which it cannot end.
func linkTarget(address string) string {
	return strings.NewReplacer(
		" ", "%20", "(", "%28", ")", "%29", "<", "%3C", ">", "%3E", "\\", "%5C", "\n", "", "\r", "",
	).Replace(address)
}

var firstLink = regexp.MustCompile(`\[\[(\d+)\]\]`)

// firstCitedItem returns the index of the item that a statement cites first. The statement
// comes from keepCited.
func (p *content) firstCitedItem(statement string) int {
	n, _ := strconv.Atoi(firstLink.FindStringSubmatch(statement)[1]) // grounded put it there
	return n - 1
}
