package digest

import (
	"strings"
	"unicode/utf8"

	"ravenbot/internal/feed"
	"ravenbot/internal/text"
)

// advertisement is the verdict on an item that calls itself one.
const advertisement = "advertisement"

// The words by which publishers mark what somebody paid for. Words that are also subjects of news, such as Werbung or
// promoted, count in brackets alone.
const (
	paidLabels = `sponsored(?: (?:post|content|story|feature))?|advertisement|advertorial|` +
		`paid (?:post|content|partnership)` +
		`|partner content|anzeige|gesponsert|publicité|contenu sponsorisé|publirreportaje|contenido patrocinado` +
		`|annonsørinnhold|annonsinnehåll|sponsrat|contenuto sponsorizzato`
	bracketLabels = paidLabels + `|ad|werbung|promoted|publicidad|annonse|annons|reklame|pubblicità|реклама|広告|广告`
)

var (
	advertTitle = text.Pattern(`(?i)^(?:[\[(](` + bracketLabels + `)[\])]|(` + paidLabels +
		`)(?: by [^:]{2,40})?\s*[:|–—])` +
		`|[\[(](` + bracketLabels + `)[\])]$|[|–—-] (` + paidLabels + `)$`)
	advertTopic = text.Pattern(`(?i)^(` + paidLabels + `)$`)

	// Offers name a discount, or a code to get one. "Save 40 % of the energy" is news.
	offerTitle = text.Pattern(`(?i)\bsave (?:up to )?(?:\d+ ?%|[$€£] ?\d+)` +
		`(?: (?:on|off|now|today|with|when|this)\b|[!:.,]|$)` +
		`|\b\d+ ?% off\b|\b(?:promo|coupon|discount|voucher) codes?\b|\b(?:gutschein|rabatt)codes?\b` +
		`|\b(?:today's|best|early|last-minute)[\w\s-]{0,30} deals\b|\b(?:black friday|cyber monday|prime day)` +
		`[\w\s-]{0,30} deals?\b`)

	roundupTitle = text.Pattern(`(?i)\b(?:daily|weekly|monthly|weekend|(?:mon|tues|wednes|thurs|fri|satur|sun)day)(?:'s)? ` +
		`(?:links|reading(?: list)?|link dump|(?:news |link )?round-?up|linkfest)\b` +
		`|\b(?:news|link) round-?up\b|\blink ?dump\b|^links(?: (?:for|of) |:? ?#?\d|$)|\bissue #?\d+ of\b` +
		`|^this week in [\w .-]{2,30}(?: #?\d+)?$|\bnewsletter #\d+|^open thread\b|\bopen thread \d+` +
		`|\b(?:linktipps|linkliste|fundstücke der woche|wochenrückblick)\b`)
)

// minListLinks and minLinkShare are how many links an item has, and which part of its text they make up, if it is a
// list of links.
const (
	minListLinks = 8
	minLinkShare = 0.5
)

// advertLabel returns the words by which an item calls itself an advertisement, or "".
func advertLabel(i *item) string {
	for n, label := range advertTitle().FindStringSubmatch(strings.TrimSpace(i.Heading())) {
		if n > 0 && label != "" {
			return label
		}
	}
	for _, topic := range i.Categories {
		if advertTopic().MatchString(strings.TrimSpace(topic)) {
			return topic
		}
	}
	return ""
}

// kindOf returns why an item comes after others, such as kindRoundup, or "". It decides by the title, and by the links
// in the text.
func kindOf(i *item) string {
	title := i.Heading()
	switch {
	case offerTitle().MatchString(title):
		return kindOffer
	case roundupTitle().MatchString(title) || isLinkList(i.Content):
		return kindRoundup
	}
	return ""
}

// anchor matches a link of the markup that package feed has sanitized.
var anchor = text.Pattern(`(?s)<a\b[^>]*>(.*?)</a>`)

// isLinkList reports whether most of a text is links.
func isLinkList(markup string) bool {
	if strings.Count(markup, "<a") < minListLinks {
		return false
	}
	inLinks := 0
	for _, link := range anchor().FindAllStringSubmatch(markup, -1) {
		inLinks += utf8.RuneCountInString(feed.PlainText(link[1]))
	}
	return float64(inLinks) >= minLinkShare*float64(utf8.RuneCountInString(feed.PlainText(markup)))
}
