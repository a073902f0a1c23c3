package digest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/news/feed"
)

// editionOf returns an edition with a card for each story.
func editionOf(stories ...story) *edition {
	e := &edition{chosen: stories, entries: stories}
	for n, st := range stories {
		e.cards = append(e.cards, storyCard(n+1, st))
		e.series = append(e.series, st.seriesLine())
	}
	return e
}

// lines returns the parts of a text as lines.
func (p *content) lines() (list []string) {
	for _, one := range p.parts {
		line := one.topic + ":"
		for _, l := range one.entries {
			line += fmt.Sprintf(" %d %s", l.n, l.statement)
		}
		list = append(list, line)
	}
	return list
}

// Entries stand below their topics, also where a post begins in the middle of one.
func TestRenderRows(t *testing.T) {
	a, b := tale("A", "One", "First."), tale("B", "Two *2*", "Second. More.")
	b.also = []*item{tale("C", "Other", "").item}
	e := editionOf(a, b, tale("A", "Three", "Third."), tale("", "Four", ""))
	e.parts = []part{{topic: "Sea", entries: []entryLine{{0, "said [[x]](x) [[1]](https://example.org/One)"}, {n: 1}}}, {topic: "",
		entries: []entryLine{{n: 2}, {n: 3}}}}
	for rows, want := range map[[2]int]string{
		{0, 4}: "\n\n**Sea**\n\n- **1.** [One](https://example.org/One) (A): said [[x]](x)\n" +
			"- **2.** [Two \\*2\\*](https://example.org/Two%20*2*) (B, also [C](https://example.org/Other)): Second. More.\n\n" +
			"**3. [Three](https://example.org/Three)** (A): Third.\n- **4.** [Four](https://example.org/Four)",
		{1, 2}: "\n\n**Sea**\n\n- **2.** [Two \\*2\\*](https://example.org/Two%20*2*) (B, also [C](https://example.org/Other)): Second. More.",
		{3, 4}: "\n\n- **4.** [Four](https://example.org/Four)",
		{4, 4}: "",
	} {
		if diff := cmp.Diff(want, e.renderRows(Topics, rows[0], rows[1])); diff != "" {
			t.Errorf("%v (-want +got):\n%s", rows, diff)
		}
	}
	if got := e.renderRows(Titles, 0, 1); !strings.HasSuffix(got, "(A)") {
		t.Errorf("with titles alone: %s", got)
	}
}

// A long text is folded into a head that says how many entries are below, and a rest.
func TestCompose_FoldsWhatIsLong(t *testing.T) {
	for _, c := range []struct {
		style string
		n     int
		head  string // its end; empty: it is not folded
	}{{Brief, 6, ""}, {Brief, 7, "The other 4 are below"}, {Bullets, 10, ""}, {Bullets, 11,
		"\n\n*The other 6 are below.*"},
		{Titles, 20, ""}, {Titles, 21, "\n\n*The other 11 are below.*"}} {
		var stories []story
		for n := range c.n {
			stories = append(stories, tale("A", fmt.Sprint("T", n), "Text."))
		}
		e := editionOf(stories...)
		e.putAllInOnePart()
		e.summary = "In short."
		d := spec{Plan: Plan{Style: c.style}, title: "news", zone: time.UTC}
		e.compose(d, noon, "")
		cards := c.style == Brief
		if strings.Contains(e.draft.Text, "In short.") != cards || (len(e.draft.Cards) == c.n) != cards ||
			!strings.HasPrefix(e.draft.Text, fmt.Sprintf("**news** · Monday 2 March · %d of %d new items", c.n, c.n)) {
			t.Errorf("%s: %d cards below %q", c.style, len(e.draft.Cards), e.draft.Text)
		}
		if end := e.head.Text + e.head.Footer; (e.head.Text == "") != (c.head == "") || !strings.HasSuffix(end, c.head) {
			t.Errorf("%s of %d: the head ends with %q", c.style, c.n, end)
		}
		if c.head != "" && cards && (len(e.head.Cards) != 3 || len(e.rest.Cards) != c.n-3 || strings.Contains(e.head.Text,
			"below")) {
			t.Errorf("%s: %d cards in the head, %d below", c.style, len(e.head.Cards), len(e.rest.Cards))
		}
	}
}

// Without a model, topics are the feeds' own categories or else the sources, and a summary is made of first sentences,
// each once, with its item.
func TestFillWithoutModel(t *testing.T) {
	a, b, c := tale("A", "T1", "The boat sailed to Oslo today."), tale("B", "T2", "The boat sailed to Oslo today."),
		tale("A", "T3", "It rains in Bergen now.")
	a.Categories, c.Categories = []string{"# Sea", "Land"}, []string{"Sea"}
	e := editionOf(a, b, c)
	e.fillWithoutModel(spec{Plan: Plan{Style: Topics}})
	if diff := cmp.Diff([]string{"Sea: 0  2 ", "B: 1 "}, e.lines()); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
	e.fillWithoutModel(spec{})
	want := "The boat sailed to Oslo today. [[1]](https://example.org/T1) It rains in Bergen now. " +
		"[[3]](https://example.org/T3)"
	if e.summary != want {
		t.Errorf("summary: %s", e.summary)
	}
	e.cards[0].Text, e.cards[1].Text = "The boat sailed to…", ""
	if got := e.extractSummary(); got != "It rains in Bergen now. [[3]](https://example.org/T3)" {
		t.Errorf("with a sentence that was cut off: %s", got)
	}
}

// One story is explained by its longest telling, of five that are shown.
func TestDeep(t *testing.T) {
	lead := tale("A", "Lead", "It began.")
	for n := range 6 {
		lead.also = append(lead.also, tale(fmt.Sprint("S", n), fmt.Sprint("Also", n), strings.Repeat("x", n)).item)
	}
	lead.also[2].Summary = "The long telling says more. It has two sentences."
	tellings := deepStories([]story{lead, tale("B", "Other", "")})
	if diff := cmp.Diff([]string{"Lead", "Also0", "Also1", "Also2", "Also3"}, headings(tellings)); diff != "" {
		t.Errorf("tellings (-want +got):\n%s", diff)
	}
	if got := editionOf(tellings...).explainWithoutModel(tellings); !strings.HasPrefix(got,
		"The long telling says more. [[4]](https://example.org/Also2)") {
		t.Errorf("explained: %s", got)
	}
	if got := deepStories(nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
	if got := (&edition{}).explainWithoutModel(nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

// A card has the words, picture and other tellings of its story, but no second link to the same page.
func TestStoryCard(t *testing.T) {
	st := tale("A", "", "One sentence. Two sentences. Three sentences.")
	twin, other := tale("B", "Twin", ""), tale("C", "Other", "")
	twin.Link, other.Image = st.Link, "https://example.org/c.png"
	st.also = []*item{twin.item, other.item}
	c := storyCard(2, st)
	if c.N != 2 || c.Title != "One sentence. Two sentences. Three sentences." || c.Image != "https://example.org/c.png" ||
		len(c.Also) != 1 ||
		c.Also[0] != (chat.Link{Title: "C", URL: other.Link}) || c.Text != "" ||
		c.Minutes != 0 {
		t.Errorf("the card is %+v", c)
	}
	st = tale("A", "", "")
	if c = storyCard(1, st); c.Title != st.Link {
		t.Errorf("without words its title is %q", c.Title)
	}
}

// The line above the entries has the date, and how many of how many new items it tells of.
func TestHeading(t *testing.T) {
	seen, waits, waited, old := tale("A", "seen", ""), tale("A", "waits", ""), tale("A", "waited", ""), tale("A", "old", "")
	waits.since, waited.since, waited.verdict, old.verdict = noon, noon, posted, tooOld
	e := editionOf(tale("A", "new", ""), waited)
	e.seen = map[string]bool{"seen": true}
	for _, st := range []story{seen, waits, waited, old, tale("A", "new", ""), tale("B", "other", "")} {
		e.items = append(e.items, st.item)
	}
	for style, want := range map[string]string{
		Brief: "2 of 3 new items", Deep: "one story, as 2 sources tell it", Weekly: "2 stories",
	} {
		if got := e.heading(spec{title: "a*b", zone: time.UTC, Plan: Plan{Style: style}}, noon); got != `**a\*b** · Monday 2 March · `+want {
			t.Errorf("%s: %s", style, got)
		}
	}
}

// What is left out is named in one line, by kinds, the most frequent first.
func TestLeftOutLine(t *testing.T) {
	e := &edition{}
	if got := e.leftOutLine(); got != "" {
		t.Errorf("nothing: %q", got)
	}
	add := func(kind string, n int) {
		for range n {
			st := tale("A", "T", "")
			st.score.Kind = kind
			e.unworthy = append(e.unworthy, st)
		}
	}
	for n, kind := range []string{"", kindOffer, kindTalk, kindLive, kindLinks, kindFix} {
		add(kind, 6-n)
	}
	dropped := tale("A", "D", "").item
	dropped.verdict = "left out: 1 greeting"
	e.items = []*item{dropped}
	e.waiting = []story{tale("A", "W", "")}
	want := "Left out: 5 offers, 4 threads, 3 live blogs, 2 lists of links, 8 others, 1 kept for the next time"
	if got := e.leftOutLine(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Items of one form make one story, led by the worst, which says how many there are and names the worst.
func TestFoldSeries(t *testing.T) {
	var stories []story
	for n, title := range []string{"SEC-10: Alpha (low)", "SEC-11: Beta (high)", "SEC-12: Gamma (critical)",
		"SEC-13: Delta (medium)", "A storm is coming"} {
		st := tale("A", title, "")
		if n < 4 {
			st.Summary = "Severity as above, says the advisory."
		}
		stories = append(stories, st)
	}
	for n := range 4 {
		stories = append(stories, tale("B", fmt.Sprintf("Kite %d.%d.1", n, n), "text"))
	}
	stories = append(stories, tale("C", "SEC-10: Alpha", ""), tale("C", "SEC-11: Alpha", ""), tale("C", "SEC-12: Alpha", ""))
	left := foldSeries(stories)
	if diff := cmp.Diff([]string{"SEC-12: Gamma (critical)", "A storm is coming", "Kite 0.0.1", "Kite 1.1.1", "Kite 2.2.1",
		"Kite 3.3.1", "SEC-10: Alpha", "SEC-11: Alpha", "SEC-12: Alpha"}, headings(left)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if got := left[0].seriesLine(); got != "4 advisories: 1 critical (Gamma), 1 high (Beta), 2 lower." {
		t.Errorf("it says %q", got)
	}
	if got := left[1].seriesLine(); got != "" || stories[0].verdict != "merged into SEC-12: Gamma (critical)" {
		t.Errorf("another says %q, and one of the series is %q", got, stories[0].verdict)
	}
}

// Readers are told why no model wrote: in the budget's words, or that there was no answer.
func TestExplainWriterError(t *testing.T) {
	capped := &llm.Error{Kind: llm.Capped, Err: errors.New("the budget is used up")}
	for want, err := range map[string]error{
		"the budget is used up": capped, "it gave no answer": errors.New("secret"),
	} {
		if got := explainWriterError(err); got != want {
			t.Errorf("%v: %q", err, got)
		}
	}
	for _, err := range []error{&llm.Error{Kind: llm.Capped}, &llm.Error{Kind: llm.Denied, Err: errors.New("secret")}} {
		if got := explainWriterError(err); got != "it gave no answer" {
			t.Errorf("%v: %q", err, got)
		}
	}
}

// A story is explained from as much of its texts as fits beside the answer; of what a model writes 64 KiB are used.
func TestWriteProse_KeepsToLimits(t *testing.T) {
	long := tale("A", "T", strings.Repeat("word ", 1000))
	for tokens, want := range map[int]int{0: 4000, 1500: 320, 800: 106, 500: 0} {
		var asked string
		s := New(Options{Log: slog.New(slog.DiscardHandler), Writer: func(Plan) Writer {
			return func(_ context.Context, _, prompt string, _ json.RawMessage) (string, string, error) {
				asked = prompt
				return strings.Repeat("x", 70<<10), "m", nil
			}
		}})
		e := &edition{entries: []story{long}}
		text, _ := s.writeProse(t.Context(), spec{Plan: Plan{Style: Deep, MaxTokens: tokens}}, e)
		if got := len(asked) - len("[1] T (A)\n\n\n"); want > 0 && (got < want-10 || got > want+5 || len(text) != 64<<10) ||
			want == 0 && (asked != "" || len(e.notes) != 1) {
			t.Errorf("%d tokens: asked with %d characters of the text, used %d bytes, notes %q", tokens, got, len(text), e.notes)
		}
	}
}

// slowPages are pages of which each takes a second, or for ever.
type slowPages struct {
	mu      sync.Mutex
	running map[string]int // by host
	most    int            // at once
	asked   []string
	hang    bool
}

func (p *slowPages) Article(ctx context.Context, link string) (string, error) {
	p.mu.Lock()
	p.asked = append(p.asked, link)
	p.running[host(link)]++
	all := 0
	for h, n := range p.running {
		if all += n; n > 1 {
			p.mu.Unlock()
			return "", errors.New("asked twice at once: " + h)
		}
	}
	p.most = max(p.most, all)
	p.mu.Unlock()
	defer func() { p.mu.Lock(); p.running[host(link)]--; p.mu.Unlock() }()
	wait := time.After(time.Second)
	if p.hang {
		wait = nil
	}
	select {
	case <-wait:
		return "A story about boats and harbours. " + strings.Repeat("words ", 60), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Pages are read where feeds have teasers alone: four hosts at once, one page of each at a time, each within ten
// seconds and all within forty.
func TestReadPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stories []story
		for n := range 12 {
			st := tale("A", "Boats and harbours", "teaser")
			st.Link = fmt.Sprintf("https://h%d.example/%d", n%6, n)
			stories = append(stories, st)
		}
		stories[0].Summary = strings.Repeat("x", 280)
		stories[1].pageAsked = true
		p := &slowPages{running: map[string]int{}}
		s := New(Options{Pages: p, Log: slog.New(slog.DiscardHandler)})
		began := time.Now()
		s.readPages(t.Context(), spec{}, stories)
		if took := time.Since(began); len(p.asked) != 10 || p.most != 4 || took > 4*time.Second {
			t.Errorf("%d pages were read, %d at once, in %v", len(p.asked), p.most, took)
		}
		for n, st := range stories {
			if (st.pageText != "") != (n > 1) || n > 1 && !st.pageAsked {
				t.Errorf("story %d has the text %.20q of its page", n, st.pageText)
			}
		}
		for _, d := range []spec{{Plan: Plan{Teasers: true}}, {Plan: Plan{Style: Titles}}} {
			s.readPages(t.Context(), d, []story{tale("A", "T", "teaser")})
		}
		if len(p.asked) != 10 {
			t.Error("pages were read that nobody wanted")
		}
		p.hang = true
		began = time.Now()
		one := tale("A", "T", "teaser")
		if s.readPages(t.Context(), spec{}, []story{one}); time.Since(began) != 10*time.Second || one.text() != "teaser" {
			t.Errorf("a page that never comes held the run up for %v", time.Since(began))
		}
		began = time.Now()
		many := make([]story, 9)
		for n := range many {
			many[n] = tale("A", "T", "teaser")
		}
		if s.readPages(t.Context(), spec{}, many); time.Since(began) != 40*time.Second {
			t.Errorf("pages that never come held the run up for %v", time.Since(began))
		}
	})
}

// Of a page 20,000 bytes count, and only where they are more than a teaser and about the item.
func TestReadPage_TakesWhatIsAboutTheItem(t *testing.T) {
	about := "Boats in the harbour. "
	for name, c := range map[string]struct {
		page string
		size int
	}{
		"a page":    {about + strings.Repeat("x", 281-len(about)), 281},
		"a teaser":  {about + strings.Repeat("x", 280-len(about)), 0},
		"of others": {strings.Repeat("We use cookies. ", 40), 0},
		"long":      {about + strings.Repeat("x", 30_000), 20_000},
	} {
		s := New(Options{Log: slog.New(slog.DiscardHandler), Pages: articles(func(string) (string, error) {
			return c.page,
				nil
		})})
		st := tale("A", "Boats, harbour", "teaser")
		if s.readPage(t.Context(), spec{}, st.item); len(st.pageText) != c.size {
			t.Errorf("%s: %d bytes are used", name, len(st.pageText))
		}
	}
}

// articles reads pages by a function.
type articles func(link string) (string, error)

func (a articles) Article(_ context.Context, link string) (string, error) { return a(link) }

// A text with eight links or more, of which they are half, is a list of links.
func TestIsLinkList(t *testing.T) {
	links := func(n int, rest string) string { return strings.Repeat(`<a href="https://x/">abcd</a>`, n) + rest }
	for name, c := range map[string]struct {
		markup string
		want   bool
	}{
		"eight links":     {links(8, ""), true},
		"seven links":     {links(7, ""), false},
		"half of it":      {links(8, " "+strings.Repeat("x", 31)), true},
		"less than half":  {links(8, " "+strings.Repeat("x", 32)), false},
		"no links at all": {"", false},
	} {
		if got := isLinkList(c.markup); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := (spec{}).findKind(&item{Item: feed.Item{Title: "Save 40 % on boats", Content: links(9, "")}}); got != kindOffer {
		t.Errorf("an offer with links is %q", got)
	}
}
