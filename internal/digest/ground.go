package digest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	citation = regexp.MustCompile(`\[(\d+)\]`)
	titled   = regexp.MustCompile(`!?\[([^\[\]]*)\]\s*\([^()]*\)`)
	address  = regexp.MustCompile(`(?i)<?(?:[a-z][a-z0-9+.-]*://|www\.)[^\s<>]*>?|\b(?:mailto|tel|javascript|data):[^\s<>]+|\b(?:[a-z0-9-]+\.)+[a-z]{2,}/[^\s\[\]]*`)
	tag      = regexp.MustCompile(`<[^<>]*>`)
	// sentence ends after its citations, or at a full stop without one.
	sentence = regexp.MustCompile(`(?s).+?(?:(?:\s*\[\d+\])+[.!?]*|[.!?](?:\s|$)|$)`)
	letters  = regexp.MustCompile(`[\pL\pN]{2}`)
)

// unlinked takes out of a text what could become a link or markup, but for the numbers
// of items, and counts the links.
func unlinked(text string) (string, int) {
	links := 0
	for range 3 { // one may hide another
		text = titled.ReplaceAllStringFunc(text, func(m string) string {
			links++
			return titled.FindStringSubmatch(m)[1]
		})
		text = address.ReplaceAllStringFunc(text, func(string) string { links++; return "" })
		text = tag.ReplaceAllString(text, "")
	}
	text = strings.NewReplacer("](", "] (", "]:", "] :", "<", "", "`", "", "://", " ").Replace(text)
	return text, links
}

// grounded keeps the sentences that cite an item and makes their citations links
// to it. Links that the model wrote are taken out: the only ones left are the
// items' own.
func (p *page) grounded(text string) string {
	text, links := unlinked(text)
	p.foreign += links
	text = strings.NewReplacer("\n", " ", "#", "", ". [", " [", "! [", " [", "? [", " [").Replace(text)
	var kept []string
	for _, one := range sentence.FindAllString(text, -1) {
		if cited, items := p.cite(one); len(items) > 0 {
			kept = append(kept, cited)
		} else if letters.MatchString(one) {
			p.dropped++
		}
	}
	return strings.Join(kept, " ")
}

// cite makes the citations in a sentence links, each item's once, and gives the items
// that it cites.
func (p *page) cite(one string) (string, []int) {
	if !letters.MatchString(citation.ReplaceAllString(one, "")) {
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
		fmt.Fprintf(&b, "[[%d]](%s)", n, target(p.cards[n-1].URL))
	}
	b.WriteString(round.Replace(one[at:]))
	return strings.TrimSpace(b.String()), items
}

// target is an address inside a Markdown link.
func target(address string) string {
	return strings.NewReplacer(" ", "%20", "(", "%28", ")", "%29", "<", "%3C", ">", "%3E", "\\", "%5C", "\n", "", "\r", "").Replace(address)
}

var firstLink = regexp.MustCompile(`\[\[(\d+)\]\]`)

// firstCited is the index of the item that a statement cites first.
func (p *page) firstCited(statement string) int {
	n, _ := strconv.Atoi(firstLink.FindStringSubmatch(statement)[1]) // grounded put it there
	return n - 1
}
