package digest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/feed"
)

// tale returns a story of a source with a title, a text and a score.
func tale(source, title, text string) story {
	return story{item: &item{
		Item:   feed.Item{Title: title, Link: "https://example.org/" + title, Summary: text},
		source: source,
		feed:   Feed{URL: "https://example.org/feed/" + source},
		id:     title,
		score:  &Score{Sources: 1, Liked: 1, Weight: 1},
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

// A model reads of each story where it is from, who else tells it, when, and the beginning of its text, of other tellings
// less, and what was posted before.
func TestDescribeTellings_NumbersItemsAndEarlierPosts(t *testing.T) {
	first, second, third := tale("A", "One", "first text of many words"), tale("B", "Two", "second"),
		tale("C", "Three", "told by others in many more words")
	first.Published = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	first.also = []*item{third.item, third.item}
	second.series, second.score.Kind, second.updateOf = []*item{tale("B", "Four", "").item}, kindTalk, "Old"
	stories := []story{first, second}
	at := func(_ story, i *item) string { return i.Item.Time().Format("15:04") }
	want := "[1] One (A; 08:00; 2 sources)\nfirst text…\n\n[2] Three (C; tells the same as 1)\ntold…\n\n" +
		"[3] Two (B; and 1 like it; posted before: Old; discussion)\nsecond\n\n"
	if diff := cmp.Diff(want, describeTellings(stories, listTellings(stories, 5), 12, at)); diff != "" {
		t.Errorf("the stories (-want +got):\n%s", diff)
	}
	want = "[1] One (A; 08:00; 2 sources)\n\n[2] Two (B; and 1 like it; posted before: Old; discussion)\n\n"
	if diff := cmp.Diff(want, describeTellings(stories, listTellings(stories, 1), 0, at)); diff != "" {
		t.Errorf("the headlines (-want +got):\n%s", diff)
	}
	if got := describePosted([]string{"Old", "Older"}); got != "Posted before:\n1. Old\n2. Older\n" || describePosted(nil) != "" {
		t.Errorf("posted before: %q", got)
	}
}

// The texts of candidates are as long as the digest's tokens allow, with room for an answer about each of them.
func TestEditorPrompt_FitsTheTokens(t *testing.T) {
	e := &edition{}
	for n := range 8 {
		e.candidates = append(e.candidates, tale("A", fmt.Sprint("Title ", n), strings.Repeat("words ", 400)))
	}
	s := New(Options{})
	describe := func(length int) string {
		return describeTellings(e.candidates, listTellings(e.candidates, 5), length, nil)
	}
	size := func(length int) int {
		prompt := describe(length)
		system, _, _ := s.editorPrompt(spec{}, e)
		return (len(system)+len(prompt))/4 + 300 + 8*120
	}
	for tokens, length := range map[int]int{
		0: 1200, size(1200): 1200, size(1200) - 1: 600, size(600) - 1: 320, size(320): 320, size(320) - 1: 0,
	} {
		_, prompt, fits := s.editorPrompt(spec{Plan: Plan{MaxTokens: tokens}}, e)
		want := ""
		if length > 0 {
			want = describe(length)
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
	e := &edition{stories: candidates, postedTitles: []string{"Old", "Older"}, asked: true}
	tellings := listTellings(candidates, 1)
	a := answer{Items: []judgement{
		{N: 1, Relevance: 5, SameAs: 2}, {N: 2, Relevance: 9}, {N: 3, Relevance: 6, SameAs: 2}, {N: 4, Relevance: 9,
			Told: 2},
		{N: 5, Relevance: 12, SameAs: 5, Told: 3}, {N: 6, Relevance: -1, SameAs: 1},
	}}
	left := (spec{}).applyJudgements(e, candidates, tellings, a)
	if diff := cmp.Diff([]string{"T5", "T1", "T6", "T7"}, headings(left)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	var got []string
	for _, st := range candidates {
		got = append(got, fmt.Sprintf("%v %v %s %s", st.judged, st.worth, st.verdict, st.reason))
	}
	// A group counts as much as the telling that counts most.
	want := []string{"true 9  ", "true 9 merged into T1 same story, says the model",
		"true 9 merged into T1 same story, says the model",
		"false 0 merged into Older same story, says the model, posted before", "true 10  ", "true 0  ", "false 0  "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("judged (-want +got):\n%s", diff)
	}
	if left[1].score.Sources != 3 {
		t.Errorf("T1 has %d sources", left[1].score.Sources)
	}
	// The entries of a post keep the numbers by which the model knows them and what was merged into them.
	numbers := numberCards(tellings, []story{left[1], left[0]})
	if diff := cmp.Diff(map[int]int{1: 0, 2: 0, 3: 0, 5: 1}, numbers); diff != "" {
		t.Errorf("the numbers of cards (-want +got):\n%s", diff)
	}
	cites := citeTellings(tellings, numbers, []story{left[1], left[0]})
	want2 := map[int]chat.Link{2: {Title: "A", URL: "https://example.org/T2"}, 3: {Title: "A", URL: "https://example.org/T3"}}
	if diff := cmp.Diff(want2, cites); diff != "" {
		t.Errorf("how tellings are cited (-want +got):\n%s", diff)
	}
}

// News of a story that was posted are an entry of their own; what adds nothing is not.
func TestApplyJudgements_Updates(t *testing.T) {
	for _, c := range []struct {
		before string
		j      judgement
		left   int
	}{{"", judgement{N: 1, Relevance: 5, Told: 1, Update: true}, 1}, {"", judgement{N: 1, Relevance: 5, Told: 1}, 0},
		{"Old", judgement{N: 1, Relevance: 5}, 0}, {"Old", judgement{N: 1, Relevance: 5, Update: true}, 1}} {
		st := tale("A", "T", "text")
		st.updateOf = c.before
		e := &edition{stories: []story{st}, postedTitles: []string{"Old"}, asked: true}
		left := (spec{}).applyJudgements(e, e.stories, listTellings(e.stories, 1), answer{Items: []judgement{c.j}})
		if len(left) != c.left || len(left) == 1 && (left[0].updateOf != "Old" || storyCard(1, left[0]).Title != "Update: T") {
			t.Errorf("%+v: %d stories are left", c, len(left))
		}
	}
}

// What is of a kind that is seldom news counts less than its relevance, and what sells something least, unless the digest
// treats them as any other item.
func TestJudgedWorth_Kinds(t *testing.T) {
	for _, c := range []struct {
		kind  string // as it seems
		how   string
		j     judgement
		worth float64
	}{
		{"", lowKind, judgement{Kind: "news", Relevance: 9}, 9}, {"", lowKind, judgement{Kind: "news", Relevance: 11}, 10},
		{"", lowKind, judgement{Kind: "advert", Relevance: 9}, 1}, {"", normalKind, judgement{Kind: "advert", Relevance: 9}, 9},
		{"", lowKind, judgement{Kind: "links", Relevance: 9}, 7}, {kindLinks, lowKind, judgement{Relevance: 4}, 2},
		{kindLinks, lowKind, judgement{Relevance: 1}, 0},
	} {
		st := tale("A", "T", "")
		st.score.Kind = c.kind
		d := spec{Plan: Plan{Kinds: map[string]string{kindOffer: c.how, kindLinks: c.how}}}
		if got := d.judgedWorth(st, c.j); got != c.worth {
			t.Errorf("%+v: it is worth %v", c, got)
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
	e.tellings = listTellings(e.candidates, 1)
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
	want := []string{"Sea: 0 said 0 3 said 3", "Land: 2 said 2 5 said 5", "More: 4 said 4 1 said 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("below their topics (-want +got):\n%s", diff)
	}
}

// A model compares with the newest sixty titles of earlier posts, each once.
func TestRecentTitles_NewestFirst(t *testing.T) {
	var entries []pastEntry
	for n := range 70 {
		entries = append(entries, pastEntry{Title: fmt.Sprint("T", n)})
	}
	entries = append(entries, pastEntry{Title: "T69"}, pastEntry{},
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
	boat, house := "The boat sailed [[2]](https://example.org/T1)", "The house stands. [[1]](https://example.org/T3)"
	for style, want := range map[string]string{
		Brief: "Both matter. [[2]](https://example.org/T1)[[1]](https://example.org/T3)|The house stands.|The " +
			"boat sailed",
		Bullets: "|: 0 " + house + " 1 " + boat,
		Topics:  "|Land: 0 " + house + "|Sea: 1 " + boat,
	} {
		e := &edition{}
		e.numbers = map[int]int{1: 1, 2: 1, 3: 0}
		for n, title := range []string{"T3", "T1"} {
			e.entries = append(e.entries, tale("A", title, "own text"))
			e.cards = append(e.cards, storyCard(n+1, e.entries[n]))
		}
		e.tellings = []telling{{item: e.entries[1].item}, {item: tale("A", "T2", "").item}, {item: e.entries[0].item}, {}}
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
