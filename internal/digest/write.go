package digest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"ravenbot/internal/chat"
	"ravenbot/internal/summary"
	"ravenbot/internal/text"
)

const (
	cardSentences = 2
	cardLength    = 320 // characters of a card's text
	headSentences = 2
	lineLength    = 240 // characters of a line's text
)

// content is the text of a digest.
type content struct {
	draft chat.Draft
	// head and rest are the draft in two parts, where it is long; else they are empty.
	head, rest       chat.Draft
	summary          string // Markdown
	by               string // who wrote it
	parts            []part // the entries in their order, under their topics
	droppedSentences int    // statements of a model without an item
	foreignLinks     int    // links of a model that are no item's
	cards            []chat.Card
	numbers          map[int]int // by the number under which a model knows an item: the index of its card; nil: one less
	shownItems       int         // how many items a model was shown
	modelTexts       bool        // texts of cards are a model's
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

// buildEdition collects and writes a digest. The edition is also returned with an error, as
// far as it was made.
func (s *Service) buildEdition(ctx context.Context, d spec) (*edition, error) {
	e, err := s.collect(ctx, d)
	if err != nil {
		return e, err
	}
	var said modelAnswer
	if !d.quiet {
		said.answer, said.text, said.model = s.chooseStories(ctx, d, e)
	}
	if err := s.addChannels(ctx, d, e); err != nil {
		return e, err
	}
	e.listSeen(d)
	e.listVerdicts()
	// A quiet digest never says that nothing is new: it is polled every few minutes. What is postponed or only marked has
	// chosen nothing either.
	if len(e.chosen)+len(e.surplus) == 0 {
		if e.report.Text != "" {
			e.composeChannels(d)
			e.draft.Footer = strings.Join(slices.Concat(e.notes, e.faults), " · ")
			return e, nil
		}
		if d.WhenEmpty == "say" && !d.quiet {
			e.draft = chat.Draft{Text: "**" + escape(d.title) + "**: nothing new.", Footer: strings.Join(e.faults, " · ")}
		}
		return e, nil
	}
	entries := e.chosen
	// What counts as seen was listed above from all that was chosen; its tellings are only how it is shown.
	if d.Style == Deep {
		entries = deepStories(e.chosen)
	}
	s.readPages(ctx, d, entries)
	for n, st := range entries {
		card := storyCard(n+1, st)
		if d.Why && d.Style != Deep && d.Style != Weekly {
			card.Why = st.why()
		}
		e.cards = append(e.cards, card)
	}
	if d.quiet {
		e.draft = chat.Draft{Text: "**New in " + escape(d.title) + "**" + surplusLine(e.surplus), Cards: e.cards}
		return e, nil
	}
	e.entries = entries
	s.writeContent(ctx, d, e, said)
	if err := e.compose(d, s.o.Now()); err != nil {
		return e, err
	}
	e.composeChannels(d)
	e.draft.Footer = strings.Join(slices.Concat(nonEmpty(e.by), e.notes, e.faults), " · ")
	e.head.Footer = strings.Join(nonEmpty(e.head.Footer, e.draft.Footer), " · ")
	return e, nil
}

// nonEmpty returns the words that are not empty. It changes the list that it is given.
func nonEmpty(words ...string) []string {
	return slices.DeleteFunc(words, func(s string) bool { return s == "" })
}

// storyCard returns a story as entry n of a post, with sentences of its own text. It needs no
// model: what one says of the story is filled in later.
func storyCard(n int, st story) chat.Card {
	c := chat.Card{
		N:      n,
		Title:  st.Heading(),
		URL:    st.Link,
		Source: st.source,
		Time:   st.Item.Time(),
		Image:  st.imageURL(),
		Text:   shorten(strings.Join(summary.Summarize(st.Heading(), st.text(), cardSentences), " "), cardLength),

		Minutes: readingMinutes(st.text()),
	}
	for _, a := range st.also { // another telling may have the picture
		c.Image = cmp.Or(c.Image, a.imageURL())
	}
	c.Title = cmp.Or(c.Title, shorten(c.Text, 80), st.Link)
	for _, a := range st.also {
		if a.Link != st.Link { // two feeds may list the same page
			c.Also = append(c.Also, chat.Link{Title: a.source, URL: a.Link})
		}
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

// shorten returns a text on one line, cut to n characters between words. Of a page only the beginning is looked at.
func shorten(s string, n int) string {
	var b strings.Builder
	b.Grow(min(len(s), n+utf8.UTFMax))
	chars := 0
	for word := range strings.FieldsSeq(s) {
		if b.Len() > 0 {
			b.WriteByte(' ')
			chars++
		}
		b.WriteString(word)
		if chars += utf8.RuneCountInString(word); chars > n {
			return cutBetweenWords(b.String(), n)
		}
	}
	return b.String()
}

// cutBetweenWords returns the first n characters of a longer text with an ellipsis, without the
// word that they end in unless it is half of them.
func cutBetweenWords(s string, n int) string {
	end := 0
	for range n {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	cut := s[:end]
	if i := strings.LastIndex(cut, " "); i > len(cut)/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,;:") + "…"
}

// countLine says how many stories there are and from which sources; of many it names three.
func countLine(cards []chat.Card) string {
	var sources []string
	for _, c := range cards {
		if !slices.Contains(sources, c.Source) {
			sources = append(sources, c.Source)
		}
	}
	noun := "stories"
	if len(cards) == 1 {
		noun = "story"
	}
	from := strings.Join(sources, ", ")
	if len(sources) > 3 {
		from = fmt.Sprintf("%s and %d more", strings.Join(sources[:3], ", "), len(sources)-3)
	}
	return fmt.Sprintf("%d new %s from %s", len(cards), noun, escape(from))
}

// modelAnswer is what a model said that was asked to choose.
type modelAnswer struct {
	answer
	text  string // where it is no answer in the form that was asked for
	model string
}

// noModel is the author of a summary that no model wrote.
const noModel = "summary: sentences of the items, chosen without a language model"

// writeContent fills in the entries and the summary: with the sentences of a model that cite
// items, else with the items' own sentences.
func (s *Service) writeContent(ctx context.Context, d spec, e *edition, said modelAnswer) {
	if d.Style == Titles {
		e.putAllInOnePart(nil, e.cards)
		return
	}
	// Nothing of a model's text reaches the post but through keepCited and cleanTopic.
	written, model := said.text, said.model
	if e.asked {
		e.numbers, e.shownItems = numberCards(e.candidates, e.merged, e.chosen), len(e.candidates)
	} else {
		written, model = s.askModel(ctx, d, e)
	}
	switch {
	case len(said.Items) > 0:
		e.useAnswer(d, said.answer)
		written = "JSON"
	case d.Style == Bullets || d.Style == Topics:
		e.parseLines(d, written)
	default:
		e.putAllInOnePart(nil, e.cards)
		e.summary = e.keepCited(written)
	}
	// Of a text without citations nothing is left, so the items' own sentences take over.
	cited := e.summary != "" || e.modelTexts || slices.ContainsFunc(e.parts, func(p part) bool {
		return slices.ContainsFunc(p.entries, func(l entryLine) bool { return firstLink().MatchString(l.statement) })
	})
	switch {
	case cited:
		e.by = "summary by " + model
	case written != "":
		s.o.Log.Warn("digest summary dropped, no sentence cites an item", "digest", d.Name, "model", model)
	}
	switch n := e.droppedSentences; {
	case !cited && written != "":
		e.notes = append(e.notes, "what the model wrote names none of the items, and is left out")
	case n > 0 && written != "":
		e.notes = append(e.notes, pluralize(n, "statement")+" of the model without an item left out")
	}
	if n := e.foreignLinks; n > 0 {
		e.notes = append(e.notes, pluralize(n, "link")+" of the model without an item left out")
	}
	if !cited {
		e.by = noModel
		e.fillWithoutModel(d)
	}
}

// pluralize returns a number with a noun whose plural ends in s.
func pluralize(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// putAllInOnePart lists the cards as one part, with their statements by index.
func (p *content) putAllInOnePart(statements map[int]string, cards []chat.Card) {
	one := part{}
	for n := range cards {
		one.entries = append(one.entries, entryLine{n, statements[n]})
	}
	p.parts = []part{one}
}

// parseLines reads a model's list: a line for each item, perhaps below topics. Items that no
// line cites come last, without a statement.
func (p *content) parseLines(d spec, written string) {
	told := map[int]bool{}
	topic := ""
	byTopic := map[string]int{}
	p.parts = nil
	add := func(l entryLine) {
		at, ok := byTopic[topic]
		if !ok {
			at = len(p.parts)
			byTopic[topic] = at
			p.parts = append(p.parts, part{topic: topic})
		}
		p.parts[at].entries = append(p.parts[at].entries, l)
	}
	for _, raw := range strings.Split(written, "\n") {
		raw = strings.TrimSpace(raw)
		if name, ok := strings.CutPrefix(raw, "#"); ok && d.Style == Topics {
			topic = cleanTopic(name)
			continue
		}
		// A line that cites several items belongs to the first; each item gets one line.
		text := p.keepCited(strings.TrimLeft(raw, "-*• "))
		if text == "" {
			continue
		}
		if first := p.firstCitedItem(text); !told[first] {
			told[first] = true
			add(entryLine{first, text})
		}
	}
	// No item may get lost because the model forgot it.
	if topic = ""; len(p.parts) > 0 && d.Style == Topics {
		topic = "More"
	}
	for n := range p.cards {
		if !told[n] {
			add(entryLine{n: n})
		}
	}
	if d.Style != Topics && len(p.parts) > 0 {
		slices.SortStableFunc(p.parts[0].entries, func(a, b entryLine) int { return a.n - b.n })
	}
}

// cleanTopic reduces a model's heading to a few plain words, too few for a claim that no
// item supports.
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
		e.putAllInOnePart(nil, e.cards)
	case Topics:
		e.parts = nil
		at := map[string]int{}
		for n, st := range e.chosen {
			topic := st.source
			if len(st.Categories) > 0 {
				topic = st.Categories[0]
			}
			topic = cleanTopic(topic)
			if _, ok := at[topic]; !ok {
				at[topic] = len(e.parts)
				e.parts = append(e.parts, part{topic: topic})
			}
			e.parts[at[topic]].entries = append(e.parts[at[topic]].entries, entryLine{n: n})
		}
	case Deep:
		e.summary = e.explainWithoutModel(e.entries)
	default:
		e.summary = e.extractSummary()
	}
}

// extractSummary returns a summary made of the items' first sentences, each with its
// citation.
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

// entryStatement returns a model's statement on an entry, else the item's first sentence.
func (p *content) entryStatement(l entryLine) string {
	if l.statement != "" {
		return l.statement
	}
	if lead := summary.Sentences(p.cards[l.n].Text); len(lead) > 0 {
		return escape(shorten(lead[0], lineLength))
	}
	return ""
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
