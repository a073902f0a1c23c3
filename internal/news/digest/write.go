package digest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/news/summary"
)

const (
	cardSentences = 2
	cardLength    = 320 // characters of a card's text
	headSentences = 2
	lineLength    = 240 // characters of a line's text

	// leadEntries is how many entries are told in two sentences; most of the others have one, and the last of a long post
	// have their titles alone.
	leadEntries = 3
	titleShare  = 3 // a third of what is behind the leads
)

// form is how much a post says of an entry.
type form int

const (
	lead form = iota
	brief
	bare // its title alone
)

// formOf returns the form of the entry with an index among all.
func formOf(n, all int) form {
	titles := (all - leadEntries) / titleShare
	switch {
	case n < leadEntries:
		return lead
	case titles >= 2 && n >= all-titles:
		return bare
	}
	return brief
}

// content is the text of a digest.
type content struct {
	draft chat.Draft
	// head and rest are the draft in two parts, where it is long; else they are empty.
	head, rest       chat.Draft
	summary          string // Markdown
	by               string // who wrote it
	smallLine        string // what was left out, where it has no place in the text
	parts            []part // the entries in their order, under their topics
	droppedSentences int    // statements of a model without an item
	foreignLinks     int    // links of a model that are no item's
	cards            []chat.Card
	numbers          map[int]int       // by the number under which a model knows an item: the index of its card; nil: one less
	series           []string          // by the index of a card: what it says of the series that it leads
	cites            map[int]chat.Link // by such a number: the telling that is cited, if it is not what its card links to
	shownItems       int               // how many items a model was shown
	modelTexts       bool              // texts of cards are a model's
}

// part is a topic with its entries. Styles without topics have one part, whose topic is empty.
type part struct {
	topic   string
	entries []entryLine
}

// entryLine is what the list says about one entry.
type entryLine struct {
	n         int    // index in cards
	statement string // Markdown
}

// buildEdition collects and writes a digest. The edition is also returned with an error, as far as it was made.
func (s *Service) buildEdition(ctx context.Context, d spec) (*edition, error) {
	e, err := s.collect(ctx, d)
	if err != nil {
		return e, err
	}
	if e.kinds != nil {
		d.Kinds = e.kinds
	}
	var said answer
	model := ""
	if !d.quiet {
		said, model = s.chooseStories(ctx, d, e)
	}
	if err := s.addChannels(ctx, d, e); err != nil {
		return e, err
	}
	e.listSeen(d)
	e.listVerdicts()
	if len(e.chosen)+len(e.surplus) == 0 {
		e.composeEmpty(d)
		return e, nil
	}
	e.entries = e.chosen
	// What counts as seen was listed above from all that was chosen; its tellings are only how it is shown.
	if d.Style == Deep {
		e.entries = deepStories(e.chosen)
	}
	s.readPages(ctx, d, e.entries)
	e.makeCards(d)
	if d.quiet {
		e.draft = chat.Draft{Text: "**New in " + escape(d.title) + "**" + surplusLine(e.surplus), Cards: e.cards}
		return e, nil
	}
	s.writeContent(ctx, d, e, said, model)
	e.compose(d, s.o.Now(), s.o.MailURL)
	e.composeChannels(d)
	e.draft.Footer = strings.Join(slices.Concat(nonEmpty(e.by, e.smallLine), e.notes, e.faults), " · ")
	e.head.Footer = strings.Join(nonEmpty(e.head.Footer, e.draft.Footer), " · ")
	return e, nil
}

// composeEmpty makes the draft of a run that has chosen nothing. A quiet digest never says that nothing is new: it is
// polled every few minutes. What is only marked has chosen nothing either.
func (e *edition) composeEmpty(d spec) {
	switch n := len(e.unworthy); {
	case e.report.Text != "":
		e.composeChannels(d)
		e.draft.Footer = strings.Join(slices.Concat(e.notes, e.faults), " · ")
		return
	case d.WhenEmpty != "say" || d.quiet:
		return
	case n > 0:
		e.draft.Text = "nothing of note. " + e.leftOutLine()
	default:
		e.draft.Text = "nothing new."
	}
	e.draft.Text, e.draft.Footer = "**"+escape(d.title)+"**: "+e.draft.Text, strings.Join(e.faults, " · ")
}

// makeCards makes a card of each entry.
func (e *edition) makeCards(d spec) {
	for n, st := range e.entries {
		card := storyCard(n+1, st)
		if sources := st.sources(); sources > 1 && d.Style != Deep && d.Style != Weekly {
			card.Why = pluralize(sources, "source")
		}
		e.cards, e.series = append(e.cards, card), append(e.series, st.seriesLine())
	}
}

// nonEmpty returns the words that are not empty. It changes the list that it is given.
func nonEmpty(words ...string) []string {
	return slices.DeleteFunc(words, func(s string) bool { return s == "" })
}

// storyCard returns a story as entry n of a post, with sentences of its own text. It needs no
// model: what one says of the story is filled in later.
func storyCard(n int, st story) chat.Card {
	c := chat.Card{
		N:       n,
		Title:   st.Heading(),
		URL:     st.Link,
		Source:  st.source,
		Time:    st.Item.Time(),
		Image:   st.imageURL(),
		Text:    shorten(strings.Join(summary.Summarize(st.Heading(), st.feedWords(), cardSentences), " "), cardLength),
		Minutes: readingMinutes(st.text()),
	}
	// Where the title is made of the text, the text is not said again.
	if whole := shorten(st.text(), lineLength); c.Title == "" {
		c.Title, c.Text = cmp.Or(whole, st.Link), ""
	}
	if st.updateOf != "" {
		c.Title = "Update: " + c.Title
	}
	shown := map[string]bool{st.Link: true}
	for _, a := range st.also {
		c.Image = cmp.Or(c.Image, a.imageURL()) // another telling may have the picture
		if !shown[a.Link] {                     // two feeds may list the same page
			c.Also = append(c.Also, chat.Link{Title: a.source, URL: a.Link})
		}
		shown[a.Link] = true
	}
	return c
}

const (
	wordsPerMinute = 220 // that people read
	minReadWords   = 150 // words of a text that is more than a teaser
)

// readingMinutes returns how long a text takes to read, or 0 where it is a teaser or cut off.
func readingMinutes(text string) int {
	words := len(strings.Fields(text))
	if words < minReadWords || strings.HasSuffix(text, "…") || len(text) >= maxPageBytes-utf8.UTFMax {
		return 0
	}
	return max(1, (words+wordsPerMinute/2)/wordsPerMinute)
}

// shorten returns a text on one line, cut to n characters and an ellipsis: between words, unless the last one is half of
// it. Of a page only the beginning is looked at.
func shorten(s string, n int) string {
	line := strings.Join(strings.Fields(text.Cut(s, 16*n)), " ")
	if text.Shorten(line, n) == line {
		return line
	}
	cut := strings.TrimSuffix(text.Shorten(line+" ", n+1), "…") // n characters
	if i := strings.LastIndex(cut, " "); i > len(cut)/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,;:") + "…"
}

// noModel is the author of a summary that no model wrote.
const noModel = "chosen without a language model; the sentences are the items' own"

// modelName returns the name of a model without that of its entry in the configuration.
func modelName(served string) string {
	if _, name, ok := strings.Cut(served, "/"); ok {
		return name
	}
	return served
}

// writeContent fills in the entries and the summary: with the sentences of a model that cite items, else with the items'
// own sentences.
func (s *Service) writeContent(ctx context.Context, d spec, e *edition, said answer, model string) {
	e.putAllInOnePart()
	if d.Style == Titles {
		return
	}
	if d.Style != Bullets && d.Style != Topics {
		defer e.shortenEntries(d)
	}
	// Nothing of a model's text reaches the post but through keepCited and cleanTopic.
	hasWritten := len(said.Items) > 0
	if hasWritten {
		e.numbers, e.shownItems = numberCards(e.tellings, e.chosen), len(e.tellings)
		e.cites = citeTellings(e.tellings, e.numbers, e.entries)
		e.useAnswer(d, said)
	} else if d.Style == Deep || d.Style == Weekly {
		var written string
		written, model = s.writeProse(ctx, d, e)
		e.summary, hasWritten = linkOnce(e.keepCited(written)), written != ""
	}
	// Of a text without citations nothing is left, so the items' own sentences take over.
	cited := e.summary != "" || e.modelTexts || slices.ContainsFunc(e.parts, func(p part) bool {
		return slices.ContainsFunc(p.entries, func(l entryLine) bool { return linkedCitation().MatchString(l.statement) })
	})
	switch n := e.droppedSentences; {
	case !cited && hasWritten:
		s.o.Log.Warn("dropped the summary of a digest: no sentence cites an item", "digest", d.Name, "model", model)
		e.notes = append(e.notes, "what the model wrote names none of the items, and is left out")
	case n > 0:
		e.notes = append(e.notes, pluralize(n, "statement")+" of the model without an item left out")
	}
	if n := e.foreignLinks; n > 0 {
		e.notes = append(e.notes, pluralize(n, "link")+" of the model without an item left out")
	}
	if e.by = "summary by " + modelName(model); !cited {
		e.by = noModel
		e.fillWithoutModel(d)
	}
}

// shortenEntries leaves the leads of a digest of cards two sentences, the others one, and the last ones their titles.
func (e *edition) shortenEntries(d spec) {
	if d.Style == Deep || d.Style == Weekly {
		return
	}
	for n := range e.cards {
		c := &e.cards[n]
		f := formOf(n, len(e.cards))
		switch {
		case e.series[n] != "":
			c.Text = strings.TrimSpace(e.series[n] + " " + c.Text)
		case f == brief:
			c.Text = informativeSentence(c.Text)
		case f == bare:
			c.Text = ""
		}
		if f != lead {
			c.Image = ""
		}
	}
}

// informativeSentence returns the first sentence of a text that has a name or a number, else the first.
func informativeSentence(text string) string {
	all := summary.Sentences(text)
	if len(all) == 0 {
		return ""
	}
	if n := slices.IndexFunc(all, func(one string) bool { return concreteness(one) > 0 }); n > 0 {
		return strings.TrimSpace(all[n])
	}
	return strings.TrimSpace(all[0])
}

// pluralize returns a number with a noun whose plural ends in s.
func pluralize(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if before, ok := strings.CutSuffix(noun, "y"); ok {
		noun = before + "ie"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// putInSections lists the cards: the leads, then what has a sentence, then what has its title alone.
func (p *content) putInSections(statements map[int]string) {
	p.parts = nil
	for n := range p.cards {
		p.addTo(map[form]string{brief: "In brief", bare: "Also"}[formOf(n, len(p.cards))], entryLine{n, statements[n]})
	}
}

// addTo adds an entry to the part of a topic, which is a new one if there is none yet.
func (p *content) addTo(topic string, l entryLine) {
	at := slices.IndexFunc(p.parts, func(one part) bool { return strings.EqualFold(one.topic, topic) })
	if at < 0 {
		at = len(p.parts)
		p.parts = append(p.parts, part{topic: topic})
	}
	p.parts[at].entries = append(p.parts[at].entries, l)
}

// putAllInOnePart lists the cards as one part.
func (p *content) putAllInOnePart() {
	p.parts = []part{{}}
	for n := range p.cards {
		p.parts[0].entries = append(p.parts[0].entries, entryLine{n: n})
	}
}

// cleanTopic reduces a model's heading to a few plain words, too few for a claim that no item supports.
func cleanTopic(heading string) string {
	plain, _ := stripLinks(citation().ReplaceAllString(heading, ""))
	words := strings.Fields(strings.Map(func(r rune) rune {
		if strings.ContainsRune("#*_[]()|~>"+removedAddress, r) {
			return -1
		}
		return r
	}, plain))
	return shorten(strings.Join(words[:min(len(words), 4)], " "), 60)
}

// fillWithoutModel fills in what a model would have written: sentences of the items, and the
// feeds' own categories as topics.
func (e *edition) fillWithoutModel(d spec) {
	switch d.Style {
	case Bullets:
		e.putInSections(nil)
	case Topics:
		topics := map[int]string{}
		for n, st := range e.chosen {
			topics[n] = st.ownTopic()
		}
		e.putTopics(topics, nil)
	case Deep:
		e.summary = linkOnce(e.explainWithoutModel(e.entries))
	default:
		e.summary = e.extractSummary()
	}
}

// ownTopic returns the topic that the feed of a story gives it, else the feed's name.
func (st story) ownTopic() string {
	if len(st.Categories) > 0 {
		return cleanTopic(st.Categories[0])
	}
	return cleanTopic(st.source)
}

// extractSummary returns a summary made of the items' first sentences, each with its citation.
func (p *content) extractSummary() string {
	var leads []string
	said := map[string]int{} // by whom
	for n, c := range p.cards {
		lead := summary.Sentences(c.Text)
		if len(lead) == 0 || strings.HasSuffix(lead[0], "…") {
			continue // a sentence that was cut off says too little
		}
		first := strings.TrimSpace(lead[0])
		if _, known := said[first]; !known {
			said[first] = n
			leads = append(leads, first)
		}
	}
	var all []string
	for _, one := range summary.Summarize("", strings.Join(leads, " "), headSentences) {
		one = strings.TrimSpace(one)
		text := escape(one)
		if n, known := said[one]; known {
			text += " " + citationLink(n+1, p.cards[n].URL)
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// entryStatement returns what a list says of an entry: a model's statement, else the item's own sentences.
func (e *edition) entryStatement(l entryLine) string {
	f := formOf(l.n, len(e.cards))
	switch {
	case l.n < len(e.series) && e.series[l.n] != "":
		return escape(e.series[l.n])
	case f == bare:
		return ""
	case l.statement != "" && f == lead:
		return e.withoutOwnLink(l)
	case l.statement != "":
		return strings.TrimSpace(sentence().FindString(e.withoutOwnLink(l)))
	case f == lead:
		return escape(e.cards[l.n].Text)
	}
	return escape(shorten(informativeSentence(e.cards[l.n].Text), lineLength))
}

// surplusLine names the stories that are too many to be posted, in one line.
func surplusLine(surplus []story) string {
	if len(surplus) == 0 {
		return ""
	}
	var named []string
	for _, st := range surplus[:min(len(surplus), 3)] {
		named = append(named, markdownLink(cmp.Or(shorten(st.Heading(), 80), st.Link), st.Link))
	}
	text := fmt.Sprintf(", and %d more: %s", len(surplus), strings.Join(named, ", "))
	if len(surplus) > len(named) {
		text += ", …"
	}
	return text
}

// escape escapes text of feeds, which must not become markup. It is a name of its
// own because many functions here have a local variable named text.
func escape(s string) string { return text.EscapeMarkdown(s) }

// markdownLink returns a link whose title and address, which strangers wrote, cannot end it.
func markdownLink(title, address string) string {
	if address == "" {
		return escape(title)
	}
	return "[" + escape(title) + "](" + linkTarget(address) + ")"
}
