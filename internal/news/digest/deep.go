package digest

import (
	"strings"

	"ravenbot/internal/news/summary"
)

const (
	// deepSources is how many tellings of the story a digest of the style deep reads and shows.
	deepSources = 5
	// deepSentences is how long its text is without a model, deepLength how many characters of each telling a model reads.
	deepSentences = 8
	deepLength    = 4000
)

const deepRules = "You explain one news story to readers who know nothing of it, from the numbered texts that tell " +
	"it. Write six to ten plain sentences: what has happened, who is concerned, why it matters, what is not known or " +
	"disputed, and what comes next, as far as the texts say it. Where they contradict one another, say so. " + writerRules

// deepStories returns the story of a digest of the style deep and its other tellings, each as an entry of its own.
func deepStories(chosen []story) []story {
	if len(chosen) == 0 {
		return nil
	}
	var all []story
	for _, i := range chosen[0].members() {
		if len(all) < deepSources {
			all = append(all, story{item: i})
		}
	}
	return all
}

// explainWithoutModel returns sentences of the story's longest telling, each with its citation.
func (e *edition) explainWithoutModel(tellings []story) string {
	// One telling, not a bit of each: sentences of several sources repeat one another.
	longest := 0
	for n, st := range tellings {
		if len(st.text()) > len(tellings[longest].text()) {
			longest = n
		}
	}
	if len(tellings) == 0 {
		return ""
	}
	st := tellings[longest]
	var all []string
	for _, one := range summary.Summarize(st.Heading(), st.text(), deepSentences) {
		all = append(all, escape(strings.TrimSpace(one))+" "+citationLink(longest+1, st.Link))
	}
	return strings.Join(all, " ")
}
