package digest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/feature/catchup"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
)

func TestSlug_IsMadeOfWholeWordsAsLongAsTheyFit(t *testing.T) {
	for words, want := range map[string]string{
		"":                             "digest",
		"!?":                           "digest",
		"The Go Blog":                  "the-go-blog",
		"a " + strings.Repeat("b", 26): "a-" + strings.Repeat("b", 26),
		"a " + strings.Repeat("b", 27): "a",
		strings.Repeat("ø", 40):        strings.Repeat("ø", 28),
		"Über Häuser, 2026":            "über-häuser-2026",
	} {
		if got := digest.Slug(words); got != want {
			t.Errorf("%q becomes %q, want %q", words, got, want)
		}
	}
}

func TestReadingMinutes_OfTextsThatAreWhole(t *testing.T) {
	for n, want := range map[int]int{0: 0, 149: 0, 150: 1, 219: 1, 329: 1, 330: 2, 549: 2, 550: 3, 2200: 10} {
		if got := digest.ReadingMinutes(strings.Repeat("word ", n)); got != want {
			t.Errorf("%d words take %d minutes, want %d", n, got, want)
		}
	}
	if got := digest.ReadingMinutes(strings.Repeat("word ", 500) + "…"); got != 0 {
		t.Errorf("a text that is cut off takes %d minutes", got)
	}
	// A page of 20,000 bytes may have been cut there.
	if whole, cut := strings.Repeat("longword ", 2221)+"1234567", strings.Repeat("longword ", 2221)+
		"12345678"; digest.ReadingMinutes(whole) != 0 && digest.ReadingMinutes(cut) != 0 {
		t.Errorf("%d and %d bytes count as whole", len(whole), len(cut))
	}
}

func TestMatchNames_BestFirst(t *testing.T) {
	names := []string{"my-morning", "evening", "Morning", "lunch/morning", "themorning", "morning-2", "a.morning"}
	for typed, want := range map[string][]string{
		"morning":    {"Morning", "morning-2", "a.morning", "lunch/morning", "my-morning", "themorning"},
		" MORNING 2": {},
		"eve":        {"evening"},
		"x":          {},
		"":           {"Morning", "a.morning", "evening", "lunch/morning", "morning-2", "my-morning", "themorning"},
	} {
		if got := digest.MatchNames(slices.Clone(names), typed); !slices.Equal(got, want) {
			t.Errorf("%q finds %q, want %q", typed, got, want)
		}
	}
}

func TestMentionsTitle_HalfOfTheLongerWords(t *testing.T) {
	for _, c := range []struct {
		title, text string
		want        bool
	}{
		{"Harbour bridge closed today", "The HARBOUR has a bridge", true}, // two of four
		{"Harbour bridge closed today", "The harbour", false},
		{"Harbour bridge closed", "The harbour", false},
		{"“Harbour” bridge!", "harbour", true},
		{"On a sea", "anything", true}, // no word is long enough
		{"Four four", "none", false},
	} {
		if got := digest.MentionsTitle(c.title, c.text); got != c.want {
			t.Errorf("%q mentions %q: %t", c.text, c.title, got)
		}
	}
}

func TestShorten_CutsBetweenWordsOfTheSecondHalf(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"one two", 7, "one two"}, {"one two", 6, "one tw…"}, {" one \n two ", 7, "one two"}, {"one, two", 5, "one…"},
		{"abcdefgh", 4, "abcd…"}, {"a bcdefgh", 6, "a bcde…"}, {"abcde fgh", 8, "abcde…"}, {"abcd efgh", 8, "abcd efg…"}, {"åå ææ øø", 5, "åå ææ…"}, {"", 3, ""},
	} {
		if got := digest.Shorten(c.text, c.n); got != c.want {
			t.Errorf("%q cut to %d is %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

func TestCleanTopic_IsAFewPlainWords(t *testing.T) {
	for heading, want := range map[string]string{
		"# **Town** hall":                  "Town hall",
		"one two three four five":          "one two three four",
		"See [this](https://evil.example)": "See this",
		"Rivers [3]":                       "Rivers",
		"visit www.evil.example now":       "visit now",
		strings.Repeat("x", 70):            strings.Repeat("x", 60) + "…",
		"<b>Bold</b> | `code` ~x~":         "Bold code x",
		" \t":                              "",
	} {
		if got := digest.CleanTopic(heading); got != want {
			t.Errorf("%q becomes %q, want %q", heading, got, want)
		}
	}
}

// While somebody types, the feeds of the operator and of the conversation are offered, but none that may hold a secret.
func TestComplete_Feeds_WithoutSecretsAndThoseOfOthers(t *testing.T) {
	const secret, password, own, other = "https://example.org/feed?key=1", "https://u:p@example.org/feed",
		"https://example.org/own?x=1", "https://example.org/other"
	b := service(t, digest.Plan{Feeds: from(a, secret, password)})
	elsewhere := chat.Address{Platform: "web", Channel: "elsewhere"}
	b.feeds[own], b.feeds[other], b.feeds[a] = []feed.Item{story(1)}, []feed.Item{story(1)}, []feed.Item{story(1)}
	for url, at := range map[string]chat.Address{own: general, a: general, other: elsewhere} {
		if _, err := b.Subscribe(t.Context(), at, url); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.Complete(t.Context(), general, "feeds", "feed", ""); !slices.Equal(got, []string{a, own}) {
		t.Errorf("offered: %q", got)
	}
}

func TestIsWebURL_NeedsSchemeAndHost(t *testing.T) {
	for link, want := range map[string]bool{
		"https://example.org/1": true, "http://example.org": true, "HTTPS://example.org": true,
		"https:///1": false, "ftp://example.org/1": false, "//example.org/1": false, "mailto:a@example.org": false,
		"https://exa mple.org": false, "": false,
	} {
		if got := digest.IsWebURL(link); got != want {
			t.Errorf("%q: %t, want %t", link, got, want)
		}
	}
}

func TestHost_OfAnAddressElseTheAddress(t *testing.T) {
	for address, want := range map[string]string{
		"https://news.example:8080/feed": "news.example:8080", "bundled:demo": "bundled:demo", "%zz": "%zz",
		"http://%zz/feed": "http://%zz/feed", "": "",
	} {
		if got := digest.Host(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}

// No one of three or more sources fills more than its share of what is posted in the end.
func TestSourceLimit_IsTheShareOfWhatIsPosted(t *testing.T) {
	for _, c := range []struct {
		bySource map[string]int
		limit    int
		want     int
	}{
		{map[string]int{"a": 30}, 10, 10},                               // there is no other
		{map[string]int{"a": 30, "b": 30}, 10, 4},                       // one of two always exceeds it
		{map[string]int{"a": 30, "b": 1}, 10, 4},                        //
		{map[string]int{"a": 30, "b": 30, "c": 30}, 10, 4},              // all places are filled
		{map[string]int{"a": 30, "b": 1, "c": 1}, 10, 1},                // 4, then 2 of 6, then 1 of 4
		{map[string]int{"a": 10, "b": 1, "c": 1}, 5, 1},                 // 2 of 4 would be half
		{map[string]int{"a": 9, "b": 2, "c": 1, "d": 1, "e": 1}, 10, 3}, // 4 of 9 would be too many, 3 of 8 are not
		{map[string]int{"a": 1, "b": 1, "c": 1}, 1, 1},                  // never none
		{map[string]int{"a": 30, "b": 30, "c": 30, "d": 30, "e": 30}, 3, 1},
	} {
		if got := digest.SourceLimit(c.bySource, c.limit, 0.4); got != c.want {
			t.Errorf("of %v at most %d are taken where %d are posted, want %d", c.bySource, got, c.limit, c.want)
		}
	}
}

func TestFilter_IsAWordOrAnExpressionInSlashes(t *testing.T) {
	for _, c := range []struct {
		written, text string
		want, fails   bool
	}{
		{"Go", "the GO team", true, false},
		{"/", "either/or", true, false}, // too short for an expression
		{"/", "neither", false, false},
		{"//", "anything", true, false},
		{`/\bgo 1\.\d+/`, "Go 1.26 is out", true, false},
		{"/go", "go/ago", false, false}, // one slash alone is a part of the word
		{"/go", "a/go", true, false},
		{"go/", "go/ago", true, false},
		{"/(/", "", false, true},
		{"-", "", false, true},
		{"  ", "", false, true},
	} {
		got, err := digest.MatchesFilter(c.written, c.text)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%q matches %q: %t, %v", c.written, c.text, got, err)
		}
	}
}

func TestSurplusLine_NamesThree(t *testing.T) {
	one := "[Story 0](https://example.org/0)"
	three := one + ", [Story 1](https://example.org/1), [Story 2](https://example.org/2)"
	for n, want := range map[int]string{
		0: "", 1: ", and 1 more: " + one, 3: ", and 3 more: " + three, 4: ", and 4 more: " + three + ", …",
	} {
		if got := digest.SurplusLine(n); got != want {
			t.Errorf("%d stories: %q, want %q", n, got, want)
		}
	}
}

// distinct returns n items that are no tellings of the same story.
func distinct(n int) []feed.Item {
	var list []feed.Item
	for i := range n {
		word := fmt.Sprintf("w%dx%d", i*7919, i)
		list = append(list, topical(i, "About "+word+" and "+word+"ish", "Only "+word+" is told of here, "+word+"."))
	}
	return list
}

// The verdicts of a run are kept up to a limit, those that say most first; the rest is counted.
func TestLastVerdicts_AreBounded(t *testing.T) {
	for n, more := range map[int]int{200: 0, 201: 1} {
		b := service(t, digest.Plan{Feeds: from(a), MaxItems: 3})
		b.feeds[a] = distinct(n)
		b.run(t, b.now)
		v, ok, err := b.LastVerdicts(t.Context(), "morning")
		if err != nil || !ok || len(v.Items) != 200 || v.More != more || v.Items[0].Verdict != "posted" {
			t.Errorf("of %d items %d verdicts are kept, %d more, %t, %v", n, len(v.Items), v.More, ok, err)
		}
	}
}

// pagesWith answers with a text, and notes how long it may take.
type pagesWith struct {
	text string
	left time.Duration
}

func (p *pagesWith) Article(ctx context.Context, _ string) (string, error) {
	if end, ok := ctx.Deadline(); ok {
		p.left = time.Until(end)
	}
	return p.text, nil
}

// A page is read for a teaser alone, in limited time, and counts where it tells of the title.
func TestArticles_AreReadForTeasers(t *testing.T) {
	about := "The harbour gets a crane. "
	for name, c := range map[string]struct {
		teaser, page string
		read, used   bool
	}{
		"a teaser":                 {"Short.", about + strings.Repeat("Cranes are useful. ", 20), true, true},
		"a long text":              {strings.Repeat("words ", 60), about + strings.Repeat("Cranes are useful. ", 20), false, false},
		"a page that is no longer": {"Short.", about, true, false},
		"a page of something else": {"Short.", strings.Repeat("Please agree to all of it. ", 20), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pagesWith{text: c.page}
			b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) { o.Pages = p })
			b.feeds[a] = []feed.Item{topical(1, "The harbour gets a crane", c.teaser)}
			text := b.preview(t).Draft.Cards[0].Text
			if strings.Contains(text, "Cranes are useful") != c.used {
				t.Errorf("the card says %q", text)
			}
			if read := p.left > 0; read != c.read || p.left > 10*time.Second {
				t.Errorf("it was read: %t, in %s at most", read, p.left)
			}
		})
	}
}

// listedEntry matches an entry of a list, with its number and that of its story.
var listedEntry = regexp.MustCompile(`(?m)^(?:- )?\*\*(\d+)\..*?\(https://example.org/(\d+)\)`)

// Of the style topics entries are numbered as they are read, below their topics; of others the best come first.
func TestModel_TopicsAreNumberedAsTheyAreRead(t *testing.T) {
	answer := `{"opening":["x [1]"],"items":[
		{"n":1,"relevance":9,"kind":"news","sameAs":0,"told":0,"topic":"Town","text":"One [1]."},
		{"n":2,"relevance":8,"kind":"news","sameAs":0,"told":0,"topic":"Sea","text":"Two [2]."},
		{"n":3,"relevance":7,"kind":"news","sameAs":0,"told":0,"topic":"town","text":"Three [3]."}]}`
	for style, want := range map[string]string{digest.Topics: "1 3 2", digest.Bullets: "1 2 3"} {
		b := service(t, digest.Plan{Feeds: from(a), Style: style}, func(o *digest.Options) {
			o.Writer = func(digest.Plan) digest.Writer {
				return func(context.Context, string, string, json.RawMessage) (string, string, error) {
					return answer, "m", nil
				}
			}
		})
		b.feeds[a] = []feed.Item{topical(1, "The harbour gets a crane", "It is tall."),
			topical(2, "The library opens at night", "Books may be borrowed."), topical(3, "The trains are full again", "Six a week.")}
		for n := range b.feeds[a] {
			b.feeds[a][n].Published = b.now.Add(-time.Duration(n) * time.Minute)
		}
		var order []string
		text := b.preview(t).Draft.Text
		for n, m := range listedEntry.FindAllStringSubmatch(text, -1) {
			if m[1] != fmt.Sprint(n+1) {
				t.Errorf("%s: entry %d has the number %s", style, n+1, m[1])
			}
			order = append(order, m[2])
		}
		if got := strings.Join(order, " "); got != want {
			t.Errorf("%s: the order is %s, want %s", style, got, want)
		}
	}
}

// An answer of a model is read up to a limit.
func TestModel_AnswerThatIsTooLong_IsNotUsed(t *testing.T) {
	for extra, used := range map[int]bool{0: true, 1: false} {
		b := service(t, digest.Plan{Feeds: from(a), Style: digest.Bullets}, func(o *digest.Options) {
			o.Writer = func(digest.Plan) digest.Writer {
				return func(context.Context, string, string, json.RawMessage) (string, string, error) {
					text := `{"opening":[],"items":[{"n":1,"relevance":9,"kind":"news","sameAs":0,"told":0,"topic":"","text":"The ` +
						`model says it [1]."}]}`
					return strings.Repeat(" ", 64<<10-len(text)+extra) + text, "m", nil
				}
			}
		})
		b.feeds[a] = []feed.Item{topical(1, "The harbour gets a crane", "It is tall.")}
		if text := b.preview(t).Draft.Text; strings.Contains(text, "The model says it") != used {
			t.Errorf("with %d bytes too many: %s", extra, text)
		}
	}
}

// said reports what was said in channels.
type said struct{ report catchup.Report }

func (s said) Report(context.Context, catchup.Query) (catchup.Report, error) { return s.report, nil }

// What was said stands in the first part of a long post, above the entries; where nothing else is new it is all there
// is.
func TestChannels_StandInTheFirstPartOfALongPost(t *testing.T) {
	const line = "- Anna: we paint the shed"
	report := catchup.Report{Text: line, Entries: 1, Said: 1, Left: 3, Unread: 2, IDs: []string{"1"}}
	for name, c := range map[string]struct {
		items, posts int
		want         string
	}{
		"nothing else": {0, 1, "**morning**\n\n**Said in this channel** (1 message)\n\n" + line},
		"a short post": {2, 1, "**Said in this channel** (1 message)\n\n" + line},
		"a long post":  {12, 2, "**Said in this channel** (1 message)\n\n" + line},
	} {
		t.Run(name, func(t *testing.T) {
			b := service(t, digest.Plan{
				Feeds:    from(a),
				Channels: []string{general.String()},
				Style:    digest.Bullets,
				MaxItems: 20,
			},
				func(o *digest.Options) { o.Channels = said{report} })
			b.threads = func(chat.Address) bool { return true }
			b.feeds[a] = distinct(c.items)
			if run := b.run(t, b.now); run.Posted != c.items+report.Entries {
				t.Errorf("the run counts %d entries", run.Posted)
			}
			if len(b.sent) != c.posts {
				t.Fatalf("%d posts are sent", len(b.sent))
			}
			if text := b.sent[0].Draft.Text; !strings.Contains(text, c.want) || c.items == 0 && text != c.want {
				t.Errorf("the first post says %q", text)
			}
			if c.posts == 2 && strings.Contains(b.sent[1].Draft.Text, "shed") {
				t.Errorf("the second post says %q", b.sent[1].Draft.Text)
			}
			const left = "3 messages older than the newest 1 left out"
			if footer := b.sent[0].Draft.Footer; !strings.Contains(footer, left) ||
				!strings.Contains(footer, "I cannot read 2 channels: invite me there") {
				t.Errorf("below the first post stands %q", footer)
			}
		})
	}
}

// A plan in chat says what the digest is made of, and nothing that it is not.
func TestPropose_DescribesThePlan(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)})
	b.feeds[a] = distinct(1)
	for name, c := range map[string]struct {
		plan      digest.Plan
		has, lack []string
	}{
		"feeds": {digest.Plan{Schedule: "0 9 * * *", Feeds: from(a)},
			[]string{"- reads [", "- runs ", "next: ", "- posts to `slack:T1/C1`"},
			[]string{"tells decisions", "is told", "tokens", "style", "language", "filters"}},
		"all of it": {digest.Plan{Schedule: "0 9 * * *", Feeds: from(a), Channels: []string{news.String()},
			Prompt: "Be brief.", MaxTokens: 700,
			Style: digest.Titles, Language: "Norwegian", Filters: []string{"rain"}},
			[]string{"- tells decisions, questions and links of `slack:T1/C1`", "- instructions: Be brief.", "at most 700 tokens",
				"- style: titles",
				"- language: Norwegian", "- filters: rain"}, nil},
		"as they come": {digest.Plan{
			Schedule: digest.OnNew,
			Feeds:    from(a),
		}, []string{"posts items as they come, at most 5 at a time"},
			[]string{"- runs "}},
	} {
		d, err := b.propose(t, anna, c.plan)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range c.has {
			if !strings.Contains(d.Text, want) {
				t.Errorf("%s: the plan lacks %q: %s", name, want, d.Text)
			}
		}
		for _, bad := range c.lack {
			if strings.Contains(d.Text, bad) {
				t.Errorf("%s: the plan says %q: %s", name, bad, d.Text)
			}
		}
	}
}

// What is told of a digest names its style, unless it is the usual one, and its schedule in words.
func TestGet_TellsWhatIsNotUsual(t *testing.T) {
	for style, want := range map[string]string{"": "", digest.Brief: "", digest.Topics: digest.Topics} {
		b := service(t, digest.Plan{Feeds: from(a), Style: style, Schedule: "30 8 * * 1-5"})
		i, err := b.Get(t.Context(), "morning")
		if err != nil || i.Style != want || i.When == "" || i.Next == nil || i.OnNew || i.Plan != nil || len(i.Feeds) != 1 {
			t.Errorf("style %q: %+v, %v", style, i, err)
		}
		b = service(t, digest.Plan{Feeds: from(a), Style: style, Schedule: digest.OnNew})
		if i, err = b.Get(t.Context(), "morning"); err != nil || i.When != "" || i.Next != nil || !i.OnNew {
			t.Errorf("as items come: %+v, %v", i, err)
		}
	}
}

// The page of a digest has the words of its posts.
func TestPublished_HasTheWordsOfThePost(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a), Style: digest.Bullets}, writes("- A crane stands there [1]."))
	b.feeds[a] = []feed.Item{topical(1, "The harbour gets a crane", "It is tall.")}
	b.run(t, b.now)
	token, err := b.Publish(t.Context(), "morning")
	if err != nil {
		t.Fatal(err)
	}
	p, ok, err := b.Published(t.Context(), token)
	if err != nil || !ok || len(p.Posts) != 1 || len(p.Posts[0].Draft.Cards) != 1 ||
		p.Posts[0].Draft.Cards[0].Text != "A crane stands there." || p.Posts[0].Draft.Footer != "summary by test" {
		t.Errorf("the page has %+v, %t, %v", p, ok, err)
	}
}

func TestCheckFilter_OfEveryForm(t *testing.T) {
	for text, want := range map[string]string{
		"word": "", "-word": "", "/a.b/": "", "-/a.b/": "", "/": "", "-/": "", "//": "", "mute:word until 2026-12-24": "",
		"": "holds no word", "-": "holds no word", "  ": "holds no word", "/(/": "not a regular expression",
		"mute:word":             "write mute:WORD until",
		"mute:word until later": "write mute:WORD until", "mute: until 2026-12-24": "holds no word",
	} {
		err := digest.CheckFilter(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// What a look at the feeds finds beyond five items is named: three of them with their links, the others counted.
func TestOnNew_NamesWhatIsTooMuch(t *testing.T) {
	for n, want := range map[int]string{5: "**New in morning**", 6: ", and 1 more: [", 8: ", and 3 more: [",
		9: ", and 4 more: ["} {
		b := service(t, digest.Plan{Feeds: from(a), Schedule: digest.OnNew})
		b.feeds[a] = nil
		b.Poll(t.Context())
		b.now = b.now.Add(time.Hour)
		b.feeds[a] = distinct(n)
		b.Poll(t.Context())
		if len(b.sent) != 1 {
			t.Fatalf("%d items make %d posts", n, len(b.sent))
		}
		text := b.sent[0].Draft.Text
		if !strings.Contains(text, want) || strings.Count(text, "](https://") != min(n-5, 3) ||
			strings.HasSuffix(text, ", …") != (n > 8) || len(b.sent[0].Draft.Cards) != 5 {
			t.Errorf("%d items make %q with %d cards", n, text, len(b.sent[0].Draft.Cards))
		}
	}
}

// The list says of each digest what it is made of, when it runs and how the last run went; what went wrong is told to
// those alone who may change it.
func TestList_SaysWhatAndWhen(t *testing.T) {
	plans := []digest.Plan{
		{Name: "all", Schedule: "0 9 * * *", Feeds: from(a, b2), Channels: []string{general.String()}, Hooks: []string{"ci"}},
		{Name: "come", Schedule: digest.OnNew, Feeds: from(a)},
		{Name: "task", Schedule: "every day at 10", Prompt: "Say what is due."},
	}
	for n := range plans {
		plans[n].Post = []string{general.String()}
	}
	b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) { o.Channels = said{} })
	b.restart(t, plans...)
	b.feeds[a] = distinct(1) // b2 fails
	list := func(admin bool) string {
		t.Helper()
		m := chat.Message{Conversation: general, Author: chat.User{ID: "U9", Admin: admin}, Text: "list"}
		return b.Command(t.Context(), m).Text
	}
	const head = "**Digests**\n\n"
	want := head + "- **all**: every day at 9:00, `0 9 * * *` (UTC), 2 feeds and 1 channel and 1 webhook to " +
		"`web:/general`, next Mon 2 Mar 09:00 UTC\n" +
		"- **come**: `on-new` (UTC), 1 feed to `web:/general`\n" +
		"- **task**: every day at 10:00, `every day at 10` (UTC), a task to `web:/general`, next Mon 2 Mar 10:00 UTC"
	if diff := cmp.Diff(want, list(false)); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
	if _, err := b.Run(t.Context(), "all", b.now, true); err != nil {
		t.Fatal(err)
	}
	if err := b.Pause(t.Context(), "all", true); err != nil {
		t.Fatal(err)
	}
	for admin, want := range map[bool]bool{false: false, true: true} {
		line := strings.Split(list(admin), "\n")[2]
		if !strings.Contains(line, ", **paused**, last Mon 2 Mar 08:00 UTC with 1 item") ||
			strings.Contains(line, "could not be fetched") != want || strings.Contains(line, "next") {
			t.Errorf("to an administrator %t: %s", admin, line)
		}
	}
}

// An explanation in chat names so many verdicts, and how many more there are.
func TestExplain_IsBounded(t *testing.T) {
	for n, want := range map[int]string{0: "Its feeds have no items.", 60: "", 61: "- and 1 more; "} {
		b := service(t, digest.Plan{Feeds: from(a)})
		b.feeds[a] = distinct(n)
		m := chat.Message{Conversation: general, Author: root, Text: "explain morning"}
		text := b.Command(t.Context(), m).Text
		if lines := strings.Count(text, "\n- About "); lines != min(n, 60) || !strings.Contains(text, want) ||
			strings.Contains(text, "more; ") != (n > 60) {
			t.Errorf("of %d items %d are explained: %s", n, lines, text)
		}
		m.Text = "explain morning last"
		if text := b.Command(t.Context(), m).Text; !strings.Contains(text, "has not run yet") {
			t.Errorf("before the first run: %s", text)
		}
	}
}
