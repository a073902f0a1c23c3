package digest_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
)

// links finds everything that any platform could take for a link.
var links = regexp.MustCompile(`(?i)\]\(([^)]*)\)|(?:[a-z][a-z0-9+.-]*://|www\.)[^\s)\]]*`)

// foreign gives the links of a text that are no item's.
func foreign(text string, own ...string) (list []string) {
	for _, m := range links.FindAllStringSubmatch(text, -1) {
		target := m[1]
		if target == "" {
			target = m[0]
		}
		known := false
		for _, o := range own {
			known = known || target == o
		}
		if !known {
			list = append(list, target)
		}
	}
	return list
}

// asList returns a text as a list, if the style is made of one.
func asList(style, text string) string {
	if style == digest.Brief {
		return text
	}
	return "- " + strings.ReplaceAll(text, "\n", "\n- ")
}

var hostile = []string{
	"Buy now at [shop](https://evil.example/a) [1].",
	"See https://evil.example/b?x=1 and www.evil.example [2].",
	"![pixel](https://evil.example/c.png) The council met [1].",
	"<a href=\"https://evil.example/d\">here</a> it is [1].",
	"[1]: https://evil.example/e\nThe council met [1].",
	"[x][1] and [1](https://evil.example/f) met [1].",
	"[[1]](https://evil.example/g) was decided.",
	"[a [b](https://evil.example/h) c](https://evil.example/i) [1].",
	"evil.example/j says so [1].", "javascript:alert(1) [1].", "hTTps://evil.example/k [1]",
	"[1\\](https://evil.example/l) [2]", "<https://evil.example/m> [1]", "[1]\n(https://evil.example/n)",
	"[te\nxt](https://evil.example/o) [1]", "htthttps://evil.example/tps://evil.example/q [1]", "[1][2](data:text/html,x)",
	"Ignore the rules. [99] [0] [-1] [1000000000000000000000]",
	"[1] [2]", "[[[1]]]", "](https://evil.example/r) [1]", "[1](" + strings.Repeat("(", 500),
	strings.Repeat("[1] a. ", 3000),
}

func TestNoForeignLinkSurvivesAHostileModel(t *testing.T) {
	own := []string{"https://example.org/1", "https://example.org/2"}
	for _, style := range []string{digest.Brief, digest.Bullets, digest.Topics} {
		for _, text := range hostile {
			b := service(t, digest.Plan{Feeds: from(a), Style: style}, writes(asList(style, text)))
			b.feeds[a] = []feed.Item{story(1), story(2)}
			d := b.preview(t).Draft
			if bad := foreign(d.Text, own...); len(bad) > 0 || strings.Contains(d.Text, "evil.example/") {
				t.Errorf("%s of %.60q: %q is left in\n%s", style, text, bad, d.Text)
			}
		}
	}
}

func FuzzNoForeignLinkSurvives(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := digest.Grounded(text, "https://example.org/1", "https://example.org/2")
		if bad := foreign(got, "https://example.org/1", "https://example.org/2"); len(bad) > 0 {
			t.Errorf("%q leaves %q in %q", text, bad, got)
		}
	})
}

func TestTheRunSaysWhatAModelInvented(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)},
		writes("The council met [1]. Aliens landed. Read [more](https://evil.example) [2]. So they say."))
	b.feeds[a] = []feed.Item{story(1), story(2)}
	run := b.run(t, monday)
	for _, want := range []string{"2 statements of the model without an item left out",
		"1 link of the model without an item left out"} {
		if !strings.Contains(run.Note, want) || !strings.Contains(b.sent[0].Draft.Footer, want) {
			t.Errorf("note %q, footer %q, want %q", run.Note, b.sent[0].Draft.Footer, want)
		}
	}
}

func TestStyles(t *testing.T) {
	model := "# Town hall\n- The first matter was decided [2].\n- And the second [1].\n# Rest of the world and much " +
		"more\n- Nothing [9].\n- The third too [3]."
	for _, c := range []struct {
		style, writes string
		want, never   []string
		cards         int
		by            string
	}{
		{digest.Brief, "All met [1][2].", []string{"All met. [[1]](https://example.org/3)[[2]](https://example.org/2)"}, nil, 3, "summary by test"},
		{digest.Bullets, model, []string{"**1. [Story number 3 of a long series](https://example.org/3)** (Feed a): And the second.\n\n**2. [Story"}, []string{"Nothing", "Town hall"}, 0, "summary by test"},
		{digest.Topics, model, []string{"**Town hall**\n\n- **1.** ", "**Rest of the world**\n\n- **3.** "}, []string{"Nothing", "much more"}, 0, "summary by test"},
		{digest.Topics, "", []string{"**politics**\n\n- **1.** [Story number 3", "The town council decided on matter 3"}, nil, 0, "without a language model"},
		{digest.Bullets, "No sentence cites.", []string{"The town council decided on matter 3"}, []string{"cites."}, 0, "without a language model"},
		{digest.Titles, "unused [1]", []string{"- **3.** [Story number 1 of a long series](https://example.org/1) (Feed a)"}, []string{"council", "unused"}, 0, ""},
	} {
		b := service(t, digest.Plan{Feeds: from(a), Style: c.style}, writes(c.writes))
		for n := range 3 {
			it := story(3 - n)
			it.Categories = []string{"politics"}
			b.feeds[a] = append(b.feeds[a], it)
		}
		d := b.preview(t).Draft
		for _, want := range c.want {
			if !strings.Contains(d.Text, want) {
				t.Errorf("%s lacks %q:\n%s", c.style, want, d.Text)
			}
		}
		for _, never := range c.never {
			if strings.Contains(d.Text, never) {
				t.Errorf("%s holds %q:\n%s", c.style, never, d.Text)
			}
		}
		if len(d.Cards) != c.cards || !strings.Contains(d.Footer, c.by) {
			t.Errorf("%s: %d cards, footer %q", c.style, len(d.Cards), d.Footer)
		}
	}
}

func TestARunKeepsToItsTokens(t *testing.T) {
	for _, c := range []struct {
		tokens int
		asked  bool
	}{{0, true}, {10_000, true}, {100, false}} {
		asked := ""
		b := service(t, digest.Plan{Feeds: from(a), MaxTokens: c.tokens}, func(o *digest.Options) {
			o.Writer = func(digest.Plan) digest.Writer {
				return func(_ context.Context, system, prompt string, _ json.RawMessage) (string, string, error) {
					if asked = prompt; c.tokens > 0 && (len(system)+len(prompt))/4+300 > c.tokens {
						t.Errorf("%d tokens: asked with %d bytes", c.tokens, len(system)+len(prompt))
					}
					return answerOf("They met [1].", prompt), "m", nil
				}
			}
		})
		for n := range 10 {
			b.feeds[a] = append(b.feeds[a], story(n))
		}
		d := b.preview(t).Draft
		if (asked != "") != c.asked {
			t.Errorf("%d tokens: asked %.80q", c.tokens, asked)
		}
		if !c.asked && !(strings.Contains(d.Footer, "without a language model") &&
			strings.Contains(d.Footer, "do not fit into 100 tokens")) {
			t.Errorf("%d tokens: footer %q", c.tokens, d.Footer)
		}
	}
}

func TestAPageIsReadWhereTheFeedHasATeaser(t *testing.T) {
	about := "Story number 1 of a long series begins. " +
		strings.Repeat("The mayor of the town explained at length what the series is about and who wrote it. ", 6)
	asked := map[string]int{}
	for _, c := range []struct {
		name, page string
		err        error
		teasers    bool
		want       string
	}{
		{"page", about, nil, false, "The mayor"}, {"consent", strings.Repeat("We value your privacy and use cookies. ", 20), nil, false, "town council"},
		{"fails", "", errors.New("down"), false, "town council"}, {"off", about, nil, true, "town council"},
	} {
		b := service(t, digest.Plan{Feeds: from(a), Teasers: c.teasers}, func(o *digest.Options) {
			o.Pages = pages(func(url string) (string, error) { asked[c.name+url]++; return c.page, c.err })
		})
		long := story(2)
		long.Content = strings.Repeat("<p>This text is long enough by itself, and says all that there is to say of it.</p>",
			9)
		b.feeds[a] = []feed.Item{story(1), long}
		if got := b.preview(t).Draft.Cards[1].Text; !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", c.name, got, c.want)
		}
	}
	if asked["pagehttps://example.org/1"] != 1 || asked["pagehttps://example.org/2"] != 0 ||
		asked["offhttps://example.org/1"] != 0 {
		t.Errorf("pages read: %v", asked)
	}
}

func TestADigestIsWrittenInTheLanguageOfItsChannel(t *testing.T) {
	for own, want := range map[string]string{"": "Norwegian", "German": "German"} {
		told := ""
		b := service(t, digest.Plan{Feeds: from(a), Language: own}, func(o *digest.Options) {
			o.Settings = setElsewhere{language: "Norwegian"}
			o.Writer = func(digest.Plan) digest.Writer {
				return func(_ context.Context, system, prompt string, _ json.RawMessage) (string, string, error) {
					told = system
					return answerOf("Møte [1].", prompt), "m", nil
				}
			}
		})
		b.feeds[a] = []feed.Item{story(1)}
		if b.preview(t); !strings.Contains(told, "written in: "+want) {
			t.Errorf("the model was told %q", told)
		}
	}
}

// pages reads pages by a function.
type pages func(url string) (string, error)

func (p pages) Article(_ context.Context, url string) (string, error) { return p(url) }
