package digest

import (
	"fmt"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/feed"
)

// Grounded is what is left of a model's text about items with the given links.
func Grounded(text string, links ...string) string {
	p := &content{}
	for _, l := range links {
		p.cards = append(p.cards, chat.Card{URL: l})
	}
	return p.keepCited(text)
}

// Parts whose limits are tables of cases.
var (
	Slug           = slug
	ReadingMinutes = readingMinutes
	MatchNames     = matchNames
	MentionsTitle  = mentionsTitle
	Shorten        = shorten
	CleanTopic     = cleanTopic
	IsWebURL       = isWebURL
	Host           = host
	SourceLimit    = sourceLimit
)

// MatchesFilter reports whether a filter that includes is met by a text.
func MatchesFilter(written, text string) (bool, error) {
	f, err := parseFilter(written, time.UTC)
	return err == nil && f.matches(text), err
}

// SurplusLine names n stories that are too many to be posted.
func SurplusLine(n int) string {
	var list []story
	for i := range n {
		list = append(list, story{item: &item{Item: feed.Item{
			Title: fmt.Sprint("Story ", i),
			Link:  fmt.Sprint("https://example.org/", i),
		}}})
	}
	return surplusLine(list)
}
