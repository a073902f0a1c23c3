package digest

import "ravenbot/internal/chat"

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
)
