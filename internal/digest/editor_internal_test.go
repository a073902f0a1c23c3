package digest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/feed"
)

// tale returns a story of a source with a title, a text and a score.
func tale(source, title, text string) story {
	return story{item: &item{
		Item:   feed.Item{Title: title, Link: "https://example.org/" + title, Summary: text},
		source: source,
		feed:   Feed{URL: "https://example.org/feed/" + source},
		id:     title,
		score:  &Score{Sources: 1, Freshness: 1, Liked: 1, Weight: 1},
	}}
}

// headings returns the titles of stories.
func headings(list []story) (titles []string) {
	for _, st := range list {
		titles = append(titles, st.Heading())
	}
	return titles
}

// What is clearly liked or not is told to a model, five of each at most, the strongest first.
func TestDescribeLikes_TellsTheStrongest(t *testing.T) {
	many := map[string]float64{}
	for n := range 6 {
		many[fmt.Sprint("source g", n)], many[fmt.Sprint("source b", n)] = 2-float64(n)/10, 0.5+float64(n)/100
	}
	const good, bad = "By their reactions the readers like: ", "They do not like: "
	for name, c := range map[string]struct {
		like map[string]float64
		want string
	}{
		"nothing":      {nil, ""},
		"nothing much": {map[string]float64{"source a": 1.14, "topic b": 0.88}, ""},
		"a like":       {map[string]float64{"source a": 1.15, "topic b": 1.2}, good + "topic b, source a."},
		"a dislike":    {map[string]float64{"source a": 0.6, "topic b": 1 / 1.15}, bad + "source a, topic b."},
		"both":         {map[string]float64{"source a": 0.6, "topic b": 1.5}, good + "topic b. " + bad + "source a."},
		"many": {many, good + "source g0, source g1, source g2, source g3, source g4. " +
			bad + "source b0, source b1, source b2, source b3, source b4."},
	} {
		if got := describeLikes(c.like); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A model reads of each candidate where it is from, who else tells it, when, and the beginning of its text, and then
// what was posted before.
func TestDescribeCandidates_NumbersItemsAndEarlierPosts(t *testing.T) {
	first, second := tale("A", "One", "first text of many words"), tale("B", "Two", "second")
	first.Published = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	first.also = []*item{second.item}
	e := &edition{candidates: []story{first, second}, postedTitles: []string{"Old", "Older"}}
	want := "[1] One (A; 2 sources; 2 Mar 2026 09:00)\nfirst text…\n\n[2] Two (B)\nsecond\n\nPosted before:\n1. " +
		"Old\n2. Older\n"
	d := spec{zone: time.FixedZone("", 3600)}
	if diff := cmp.Diff(want, describeCandidates(e, d, 12)); diff != "" {
		t.Errorf("the candidates (-want +got):\n%s", diff)
	}
	e.postedTitles = nil
	if got := describeCandidates(e, d, 12); strings.Contains(got, "Posted") {
		t.Errorf("nothing was posted before, and the model is told %s", got)
	}
}

// The texts of candidates are as long as the digest's tokens allow, with room for an answer about each of them.
func TestEditorPrompt_FitsTheTokens(t *testing.T) {
	e := &edition{}
	for n := range 8 {
		e.candidates = append(e.candidates, tale("A", fmt.Sprint("Title ", n), strings.Repeat("words ", 400)))
	}
	s := New(Options{})
	size := func(length int) int {
		prompt := describeCandidates(e, spec{}, length)
		system, _, _ := s.editorPrompt(spec{}, e)
		return (len(system)+len(prompt))/4 + 300 + 8*120
	}
	for tokens, length := range map[int]int{
		0: 1200, size(1200): 1200, size(1200) - 1: 600, size(600) - 1: 320, size(320): 320, size(320) - 1: 0,
	} {
		_, prompt, fits := s.editorPrompt(spec{Plan: Plan{MaxTokens: tokens}}, e)
		want := ""
		if length > 0 {
			want = describeCandidates(e, spec{}, length)
		}
		if fits != (length > 0) || prompt != want {
			t.Errorf("%d tokens: a prompt of %d bytes, fits: %v; want texts of %d characters", tokens, len(prompt), fits,
				length)
		}
	}
}

// A model is told the language, the readers' interest and what they like, where these are known.
func TestEditorPrompt_TellsWhoItIsFor(t *testing.T) {
	s := New(Options{})
	plain, _, _ := s.editorPrompt(spec{}, &edition{})
	if !strings.HasSuffix(plain, "Write in the language of most items.") {
		t.Errorf("the rules end with %.100q", plain[len(plain)-100:])
	}
	d := spec{Plan: Plan{Language: "Norwegian", Prompt: "sailing"}}
	full, _, _ := s.editorPrompt(d, &edition{like: map[string]float64{"source A": 2}})
	for _, want := range []string{
		"Write in this language, whatever the items are written in: Norwegian.",
		"The readers' interest, as whoever made the digest put it: sailing", "the readers like: source A.",
	} {
		if !strings.Contains(full, want) || strings.Contains(plain, want) {
			t.Errorf("%q is not told, or always", want)
		}
	}
}

// A model chooses from three times as many stories as are posted, up to forty, and never from fewer than are posted.
func TestCandidateLimit(t *testing.T) {
	for items, want := range map[int]int{1: 3, 10: 30, 13: 39, 14: 40, 40: 40, 50: 50} {
		if got := (spec{Plan: Plan{MaxItems: items}}).candidateLimit(); got != want {
			t.Errorf("of %d places: %d candidates, want %d", items, got, want)
		}
	}
}

// An answer is JSON, perhaps with words around it, about at least one of the items; what it says of others, or again of
// the same, does not count.
func TestParseAnswer(t *testing.T) {
	for text, want := range map[string][]int{
		`{"items":[{"n":1},{"n":3}]}`:                               {1, 3},
		"```json\n{\"items\":[{\"n\":2}]}\n```":                     {2},
		`{"items":[{"n":0},{"n":4},{"n":-1},{"n":3}]}`:              {3},
		`{"items":[{"n":1,"text":"first"},{"n":1,"text":"again"}]}`: {1},
		`{"items":[{"n":4}]}`:                                       nil,
		`{"items":[]}`:                                              nil,
		`{}`:                                                        nil,
		`no object`:                                                 nil,
		`} {`:                                                       nil,
		`{"items":[{"n":"x"}]}`:                                     nil,
		`{"items":[{"n":1}]}` + strings.Repeat(" ", 64<<10):            nil,
		strings.Repeat(" ", 64<<10-len(one)) + one:                     {1},
		"{" + strings.Repeat(" ", 64<<10-len(one)) + one[1:] + "\n \n": nil,
	} {
		a, err := parseAnswer(text, 3)
		var got []int
		for _, j := range a.Items {
			if got = append(got, j.N); j.Text == "again" {
				t.Error("the second judgement of an item counts")
			}
		}
		if !slices.Equal(got, want) || (err == nil) != (want != nil) || err != nil && !errors.Is(err, errBadAnswer) {
			t.Errorf("%.60q: items %v, %v; want %v", text, got, err, want)
		}
	}
}

const one = `{"items":[{"n":1}]}`

// What a model says tells the same story is put together, across several steps; what was told before is left out, and
// feeds that are not to be merged stay as they are.
func TestApplyJudgements_MergesWhatIsTheSame(t *testing.T) {
	var candidates []story
	for n := range 7 {
		candidates = append(candidates, tale("A", fmt.Sprint("T", n+1), "text"))
		candidates[n].feed.URL += fmt.Sprint(n)
	}
	candidates[5].feed.NoMerge = true
	e := &edition{candidates: candidates, postedTitles: []string{"Old", "Older"}}
	a := answer{Items: []judgement{
		{N: 1, Relevance: 5}, {N: 2, Relevance: 9, SameAs: 1}, {N: 3, Relevance: 9, SameAs: 2}, {N: 4, Relevance: 9,
			Told: 2},
		{N: 5, Relevance: 12, SameAs: 5, Told: 3}, {N: 6, Relevance: -1, SameAs: 1, Told: 1},
	}}
	left := (spec{}).applyJudgements(e, a)
	if diff := cmp.Diff([]string{"T5", "T1", "T7", "T6"}, headings(left)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	var got []string
	for _, st := range candidates {
		relevance := "none"
		if st.score.Relevance != nil {
			relevance = fmt.Sprint(*st.score.Relevance)
		}
		got = append(got, fmt.Sprintf("%s %d %s %s", relevance, st.score.Sources, st.verdict, st.reason))
	}
	want := []string{"5 3  ", "none 1 merged into T1 same story, says the model",
		"none 1 merged into T1 same story, says the model",
		"none 1 merged into Older same story, says the model, posted before", "10 1  ", "0 1  ", "none 1  "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("judged (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[int]int{2: 1, 3: 1}, e.merged); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	if candidates[3].postedBefore != "Older" {
		t.Errorf("what was told before is %q", candidates[3].postedBefore)
	}
	// The entries of a post keep the numbers by which the model knows them and what was merged into them.
	numbers := numberCards(candidates, e.merged, []story{left[1], left[0]})
	if diff := cmp.Diff(map[int]int{1: 0, 2: 0, 3: 0, 5: 1}, numbers); diff != "" {
		t.Errorf("the numbers of cards (-want +got):\n%s", diff)
	}
}

// What sells something or lists links comes last, and so does what has nothing to do with a digest that says what it is
// for.
func TestApplyJudgement_Kinds(t *testing.T) {
	for _, c := range []struct {
		prompt string
		j      judgement
		want   string
	}{
		{"", judgement{Kind: "news", Relevance: 0}, ""}, {"", judgement{Kind: "advert", Relevance: 9}, kindOffer},
		{"", judgement{Kind: "links", Relevance: 9}, kindRoundup}, {"sailing", judgement{Kind: "news", Relevance: 2},
			kindOffTopic},
		{"sailing", judgement{Kind: "news", Relevance: 3}, ""}, {"sailing", judgement{Kind: "links", Relevance: 1},
			kindRoundup},
	} {
		st := tale("A", "T", "")
		if (spec{Plan: Plan{Prompt: c.prompt}}).applyJudgement(st, c.j); st.score.Kind != c.want {
			t.Errorf("%q, %+v: it is %q, want %q", c.prompt, c.j, st.score.Kind, c.want)
		}
	}
}

// Entries of one topic stand together, the topics in the order of their best stories, and what has none comes last.
func TestTopics_StandTogether(t *testing.T) {
	e := &edition{}
	topics := []string{"Sea", "", "Land", "sea", "More", "Land"}
	var a answer
	for n, topic := range topics {
		st := tale("A", fmt.Sprint("T", n), "text")
		e.candidates = append(e.candidates, st)
		a.Items = append(a.Items, judgement{N: n + 1, Topic: topic})
	}
	e.chosen = slices.Clone(e.candidates)
	e.groupByTopic(a)
	if diff := cmp.Diff([]string{"T0", "T3", "T2", "T5", "T4", "T1"}, headings(e.chosen)); diff != "" {
		t.Errorf("grouped (-want +got):\n%s", diff)
	}
	names, statements := map[int]string{}, map[int]string{}
	for n, topic := range topics {
		e.cards = append(e.cards, storyCard(n+1, e.candidates[n]))
		names[n], statements[n] = topic, fmt.Sprint("said ", n)
	}
	e.putTopics(names, statements)
	var got []string
	for _, p := range e.parts {
		line := p.topic + ":"
		for _, l := range p.entries {
			line += fmt.Sprintf(" %d %s", l.n, l.statement)
		}
		got = append(got, line)
	}
	want := []string{"Sea: 0 said 0 3 said 3", "Land: 2 said 2 5 said 5", "More: 1 said 1 4 said 4"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("below their topics (-want +got):\n%s", diff)
	}
}

// A model compares with the newest sixty titles of earlier posts, each once; what was merged into another is none.
func TestRecentTitles_NewestFirst(t *testing.T) {
	var entries []pastEntry
	for n := range 70 {
		entries = append(entries, pastEntry{Title: fmt.Sprint("T", n)})
	}
	entries = append(entries, pastEntry{Title: "T69"}, pastEntry{Title: "Merged", MergedInto: "T1"}, pastEntry{},
		pastEntry{Title: strings.Repeat("x", 200)})
	got := recentTitles(entries)
	if len(got) != 60 || len([]rune(got[0])) != 161 || got[1] != "T69" || got[59] != "T11" {
		t.Errorf("%d titles: %q … %q", len(got), got[:min(len(got), 3)], got[max(0, len(got)-1)])
	}
}

// What a model says stands in the form of the style: an opening above cards, or a line for each entry, and only what
// cites an item that is posted.
func TestUseAnswer_ByStyle(t *testing.T) {
	a := answer{Opening: []string{"Both matter [1][3]."}, Items: []judgement{
		{N: 1, Topic: "Sea", Text: "The boat sailed"}, {N: 2, Topic: "Sea", Text: "It was merged [2]."},
		{N: 3, Topic: "Land", Text: "The house stands [3]. It is old."}, {N: 4, Topic: "Air", Text: "Not posted [4]."},
	}}
	boat, house := "The boat sailed [[2]](https://example.org/T1)", "The house stands [[1]](https://example.org/T3)."
	for style, want := range map[string]string{
		Brief: "Both matter [[2]](https://example.org/T1)[[1]](https://example.org/T3).|: 0  1 |The house stands.|The " +
			"boat sailed",
		Bullets: "|: 0 " + house + " 1 " + boat,
		Topics:  "|Land: 0 " + house + "|Sea: 1 " + boat,
	} {
		e := &edition{merged: map[int]int{2: 1}}
		e.numbers = map[int]int{1: 1, 2: 1, 3: 0}
		for n, title := range []string{"T3", "T1"} {
			e.cards = append(e.cards, storyCard(n+1, tale("A", title, "own text")))
		}
		e.useAnswer(spec{Plan: Plan{Style: style}}, a)
		got := e.summary
		for _, p := range e.parts {
			got += "|" + p.topic + ":"
			for _, l := range p.entries {
				got += fmt.Sprintf(" %d %s", l.n, l.statement)
			}
		}
		if e.modelTexts {
			got += "|" + e.cards[0].Text + "|" + e.cards[1].Text
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", style, got, want)
		}
	}
}
