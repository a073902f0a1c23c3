package digest

import (
	"fmt"
	"strconv"
	"strings"

	"ravenbot/internal/core/text"
)

var (
	// Patterns of what a model writes. They are tried on its whole answer, which maxWritten bounds.
	citation    = text.Pattern(`\[(\d+)\]`)
	titledLink  = text.Pattern(`!?\[([^\[\]]*)\]\s*\([^()]*\)`)
	bareAddress = text.Pattern(`(?i)<?(?:[a-z][a-z0-9+.-]*://|www\.)[^\s<>]*>?` +
		`|\b(?:mailto|tel|javascript|data):[^\s<>]+` +
		`|\b(?:[a-z0-9-]+\.)+[a-z]{2,}/[^\s\[\]]*`)
	htmlTag = text.Pattern(`<[^<>]*>`)
	// sentence matches up to the end of the citations, or to a full stop without one.
	sentence = text.Pattern(`(?s).+?(?:(?:\s*\[\d+\])+[.!?]*|[.!?](?:\s|$)|$)`)
	// lateCitation matches a full stop with the citations that follow it.
	lateCitation = text.Pattern(`([.!?])\s*((?:\[\d+\])(?:\s*\[\d+\])*)[.!?]?`)
	twoLetters   = text.Pattern(`[\pL\pN]{2}`)
)

// removedAddress stands where an address was removed from a text.
const removedAddress = "\uFFFC"

// stripLinks removes from a text all that could become a link or markup, except for the
// numbers of items, and returns the number of links.
func stripLinks(text string) (string, int) {
	links := 0
	// A model must not set the mark itself: keepCited would drop the sentence as one that lost its address.
	text = strings.ReplaceAll(text, removedAddress, "")
	for range 3 { // removing one may form another, such as [[a](b)](c)
		text = titledLink().ReplaceAllStringFunc(text, func(m string) string {
			links++
			return titledLink().FindStringSubmatch(m)[1]
		})
		text = bareAddress().ReplaceAllStringFunc(text, func(string) string { links++; return removedAddress })
		text = htmlTag().ReplaceAllString(text, "")
	}
	text = strings.NewReplacer("](", "] (", "]:", "] :", "<", "", "`", "", "://", " ").Replace(text)
	return text, links
}

// keepCited returns the sentences of a model's text that cite an item, with the citations as
// links to the items. Links that the model wrote are removed: only the items' own are left.
func (p *content) keepCited(text string) string {
	text, links := stripLinks(text)
	p.foreignLinks += links
	text = strings.NewReplacer("\n", " ", "#", "").Replace(text)
	// A citation after the full stop belongs to the sentence before it.
	text = lateCitation().ReplaceAllString(text, " $2$1")
	var kept []string
	for _, one := range sentence().FindAllString(text, -1) {
		// A model that makes up an address makes up what it says of it, too.
		if strings.Contains(one, removedAddress) {
			p.droppedSentences++
			continue
		}
		if cited, items := p.linkCitations(one); len(items) > 0 {
			kept = append(kept, cited)
		} else if twoLetters().MatchString(one) && !p.citesUnposted(one) {
			p.droppedSentences++
		}
	}
	return strings.Join(kept, " ")
}

// linkCitations returns a sentence with its citations as links, one for each item, and the
// indexes of the cited items. A citation without an item is removed.
func (p *content) linkCitations(one string) (string, []int) {
	if !twoLetters().MatchString(citation().ReplaceAllString(one, "")) {
		return "", nil
	}
	round := strings.NewReplacer("[", "(", "]", ")") // other brackets must not form a link
	var items []int
	var b strings.Builder
	known := map[string]bool{}
	at := 0
	for _, m := range citation().FindAllStringSubmatchIndex(one, -1) {
		b.WriteString(round.Replace(one[at:m[0]]))
		at = m[1]
		n, err := strconv.Atoi(one[m[2]:m[3]])
		card, ok := p.cardOf(n)
		if err != nil || !ok {
			continue
		}
		link := citationLink(card+1, p.cards[card].URL)
		if other, ok := p.cites[n]; ok {
			link = "[[" + escape(other.Title) + "]](" + linkTarget(other.URL) + ")"
		}
		if !known[link] {
			items = append(items, card)
			b.WriteString(link)
		}
		known[link] = true
	}
	b.WriteString(round.Replace(one[at:]))
	// The citations of a sentence stand behind the mark that ends it.
	return strings.TrimSpace(endCitations().ReplaceAllString(b.String(), "$2 $1")), items
}

// cardOf returns the index of the card that a model means by a number, or false.
func (p *content) cardOf(n int) (int, bool) {
	if p.numbers == nil {
		return n - 1, n >= 1 && n <= len(p.cards)
	}
	card, ok := p.numbers[n]
	return card, ok
}

// citesUnposted reports whether a sentence is about an item that the model was shown and that is not posted: such a
// sentence is no invention.
func (p *content) citesUnposted(one string) bool {
	for _, m := range citation().FindAllStringSubmatch(one, -1) {
		n, err := strconv.Atoi(m[1])
		if _, posted := p.cardOf(n); err == nil && !posted && n >= 1 && n <= p.shownItems {
			return true
		}
	}
	return false
}

// citationLink returns the number of an item as a link to it. An event of a webhook may have no address.
func citationLink(n int, address string) string {
	if address == "" {
		return fmt.Sprintf("[%d]", n)
	}
	return fmt.Sprintf("[[%d]](%s)", n, linkTarget(address))
}

// addressEscapes is made once: it takes more memory than most addresses.
var addressEscapes = strings.NewReplacer(
	" ", "%20", "(", "%28", ")", "%29", "<", "%3C", ">", "%3E", "\\", "%5C", "\n", "", "\r", "",
)

// linkTarget returns an address as it is written in a Markdown link, which it cannot end.
func linkTarget(address string) string { return addressEscapes.Replace(address) }

// linkedCitation matches a citation as linkCitations writes it.
var linkedCitation = text.Pattern(`\s*(?:\[\[[^\[\]]+\]\]\([^()\s]*\)|\[\d+\])`)

// endCitations matches the citations before the mark that ends a sentence.
var endCitations = text.Pattern(`\s*((?:\[\[[^\[\]]+\]\]\([^()\s]*\)\s*|\[\d+\]\s*)+)([.!?]+)`)

// withoutOwnLink returns a statement without the citations of what the title of its entry links to.
func (p *content) withoutOwnLink(l entryLine) string {
	own := citationLink(l.n+1, p.cards[l.n].URL)
	return strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(l.statement, " "+own, ""), own, ""))
}
