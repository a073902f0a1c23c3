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
	bareAddress = regexp.MustCompile(`(?i)<?(?:[a-z][a-z0-9+.-]*://|www\.)[^\s<>]*>?|\b(?:mailto|tel|javascript|data):[^\s<>]+|\b(?:[a-z0-9-]+\.)+[a-z]{2,}/[^\s\[\]]*`)
	htmlTag     = regexp.MustCompile(`<[^<>]*>`)
	// sentence ends after its citations, or at a full stop without one.
	sentence   = regexp.MustCompile(`(?s).+?(?:(?:\s*\[\d+\])+[.!?]*|[.!?](?:\s|$)|$)`)
	twoLetters = regexp.MustCompile(`[\pL\pN]{2}`)
)

// stripLinks takes out of a text what could become a link or markup, but for the numbers
// of items, and counts the links.
func stripLinks(text string) (string, int) {
	links := 0
	for range 3 { // one may hide another
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

// keepCited keeps the sentences that cite an item and makes their citations links
// to it. Links that the model wrote are taken out: the only ones left are the
// items' own.
func (p *content) keepCited(text string) string {
	text, links := stripLinks(text)
	p.foreignLinks += links
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

// linkCitations makes the citations in a sentence links, each item's once, and gives the items
// that it cites.
func (p *content) linkCitations(one string) (string, []int) {
	if !twoLetters.MatchString(citation.ReplaceAllString(one, "")) {
		return "", nil
	}
	round := strings.NewReplacer("[", "(", "]", ")")
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

// linkTarget is an address inside a Markdown link.
func linkTarget(address string) string {
	return strings.NewReplacer(" ", "%20", "(", "%28", ")", "%29", "<", "%3C", ">", "%3E", "\\", "%5C", "\n", "", "\r", "").Replace(address)
}

var firstLink = regexp.MustCompile(`\[\[(\d+)\]\]`)

// firstCitedItem is the index of the item that a statement cites first.
func (p *content) firstCitedItem(statement string) int {
	n, _ := strconv.Atoi(firstLink.FindStringSubmatch(statement)[1]) // grounded put it there
	return n - 1
}
