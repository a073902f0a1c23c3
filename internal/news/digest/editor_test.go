package digest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
)

// judged is what a scripted model says about the item with a title.
type judged struct {
	relevance int
	kind      string
	sameAs    string // title
	told      string // title
	topic     string
	text      string
}

var (
	listedItem = regexp.MustCompile(`(?m)^\[(\d+)\] (.*?) \((.*)\)\n(.*)$`)
	listedPost = regexp.MustCompile(`(?m)^(\d+)\. (.*)$`)
)

// scriptedEditor answers about items by their titles. What it was asked is in prompts.
type scriptedEditor struct {
	says    map[string]judged
	opening []string // with {title} for the number of an item
	prompts []string
	systems []string
	answers []string // used instead, one for each request
}

func (s *scriptedEditor) use(o *digest.Options) {
	o.Writer = func(digest.Plan) digest.Writer {
		return func(_ context.Context, system, prompt string, schema json.RawMessage) (string, string, error) {
			if !json.Valid(schema) {
				return "", "", errors.New("the schema is no JSON")
			}
			s.prompts, s.systems = append(s.prompts, prompt), append(s.systems, system)
			if n := len(s.prompts) - 1; n < len(s.answers) {
				return s.answers[n], "gemini/test", nil
			}
			return s.answer(prompt), "gemini/test", nil
		}
	}
}

func (s *scriptedEditor) answer(prompt string) string {
	type object = map[string]any
	items, before, _ := strings.Cut(prompt, "Posted before:\n")
	numbers, posts := map[string]string{}, map[string]json.Number{}
	list := listedItem.FindAllStringSubmatch(items, -1)
	for _, m := range list {
		numbers[m[2]] = m[1]
	}
	for _, m := range listedPost.FindAllStringSubmatch(before, -1) {
		posts[m[2]] = json.Number(m[1])
	}
	var out []object
	for _, m := range list {
		j := s.says[m[2]]
		one := object{"n": json.Number(m[1]), "relevance": j.relevance, "kind": "news", "sameAs": 0, "told": 0,
			"topic": j.topic, "text": j.text}
		if j.kind != "" {
			one["kind"] = j.kind
		}
		if n, ok := numbers[j.sameAs]; ok {
			one["sameAs"] = json.Number(n)
		}
		if n, ok := posts[j.told]; ok {
			one["told"] = n
		}
		out = append(out, one)
	}
	opening := []string{}
	for _, o := range s.opening {
		for title, n := range numbers {
			o = strings.ReplaceAll(o, "{"+title+"}", "["+n+"]")
		}
		opening = append(opening, o)
	}
	raw, _ := json.Marshal(object{"opening": opening, "items": out})
	return string(raw)
}

// titled returns an item with a title, of some hours before Monday.
func titled(n int, title string, hours int) feed.Item {
	it := story(n)
	it.Title, it.Published = title, monday.Add(-time.Duration(hours)*time.Hour)
	it.Summary = "<p>" + strings.Repeat("What happened in matter "+fmt.Sprint(n)+" is told at length by "+title+". ", 12) +
		"</p>"
	return it
}

// edited is a digest that has run before, with a scripted model.
func edited(t *testing.T, p digest.Plan, s *scriptedEditor) *bench {
	t.Helper()
	b := service(t, digest.Plan{Feeds: from(a)}, s.use)
	for _, f := range p.Feeds {
		b.feeds[f.URL] = nil
	}
	b.now = monday.AddDate(0, 0, -5)
	b.plan(t, p)
	b.run(t, b.now)
	b.now = monday
	return b
}

func TestModel_ChoosesFromMoreThanIsPosted(t *testing.T) {
	s := &scriptedEditor{
		says: map[string]judged{
			"Kernel merges real-time support": {relevance: 10, text: "Real-time support is merged."},
			"A new law on rivers passes":      {relevance: 9, text: "Parliament passed a law on rivers."},
		},
		opening: []string{"The kernel changes {Kernel merges real-time support}.", "Tips were shared {Tip number 1}.",
			"Aliens landed.",
			"See https://evil.example {A new law on rivers passes}."},
	}
	const c = "https://example.org/feed/c"
	b := edited(t, digest.Plan{Feeds: from(a, b2, c), MaxItems: 4, Prompt: "Only what changes the world."}, s)
	for n := range 9 {
		title := fmt.Sprintf("Tip number %d", n)
		b.feeds[a] = append(b.feeds[a], titled(n, title, n+1))
		s.says[title] = judged{relevance: 1}
	}
	b.feeds[b2] = []feed.Item{titled(20, "A new law on rivers passes", 40)}
	b.feeds[c] = []feed.Item{titled(21, "Kernel merges real-time support", 42)}
	p := b.preview(t)
	got := urls(p.Draft)
	if len(s.prompts) != 1 || len(got) < 2 || got[0] != "21" || got[1] != "20" {
		t.Fatalf("asked %d times, posted %v; want the law and the kernel first", len(s.prompts), got)
	}
	for _, want := range []string{"[1] ", "; 28 Feb 2026", strings.Repeat("What happened in matter 20", 1)} {
		if !strings.Contains(s.prompts[0], want) {
			t.Errorf("the prompt lacks %q:\n%s", want, s.prompts[0])
		}
	}
	if !strings.Contains(s.systems[0], "Only what changes the world.") {
		t.Errorf("the system prompt lacks the digest's interest: %s", s.systems[0])
	}
	if text := p.Draft.Cards[1].Text; text != "Parliament passed a law on rivers." {
		t.Errorf("the card says %q", text)
	}
	for _, never := range []string{"Aliens", "evil", "Tips were"} {
		if strings.Contains(p.Draft.Text, never) {
			t.Errorf("the post holds %q: %s", never, p.Draft.Text)
		}
	}
	if !strings.Contains(p.Draft.Text, "The kernel changes. [[1]](https://example.org/21)") ||
		!strings.Contains(p.Draft.Footer, "2 statements of the model") {
		t.Errorf("text %q, footer %q", p.Draft.Text, p.Draft.Footer)
	}
	for _, v := range p.Items {
		if strings.HasPrefix(v.Title, "Tip") && (v.Verdict != "not worth a place" || !v.Judged || v.Worth != 1) {
			t.Errorf("%s: %s", v.Title, v.Why())
		}
	}
}

func TestModel_MergesAcrossLanguagesAndDropsWhatWasTold(t *testing.T) {
	s := &scriptedEditor{says: map[string]judged{
		"Ein neues Gesetz für Flüsse":   {relevance: 8, topic: "Politics", text: "Das Gesetz gilt ab Mai [1]."},
		"A new law on rivers passes":    {relevance: 8, topic: "Politics", sameAs: "Ein neues Gesetz für Flüsse"},
		"Old news in other words":       {relevance: 8, told: "The bridge has fallen"},
		"Our sponsor has shoes":         {relevance: 9, kind: "advert"},
		"What we read on the weekend":   {relevance: 9, kind: "links"},
		"The bridge has fallen":         {relevance: 9},
		"Harbour opens after the storm": {relevance: 3, topic: "Town", text: "The harbour is open [1][2]."},
	}}
	b := edited(t, digest.Plan{Feeds: from(a, b2), MaxItems: 5, Style: digest.Topics}, s)
	b.feeds[a] = []feed.Item{titled(1, "The bridge has fallen", 30)}
	b.now = monday.Add(-24 * time.Hour)
	b.run(t, b.now)
	b.now = monday
	b.feeds[a] = []feed.Item{titled(2, "Ein neues Gesetz für Flüsse", 2), titled(3, "Our sponsor has shoes", 1)}
	b.feeds[b2] = []feed.Item{titled(4, "A new law on rivers passes", 3), titled(5, "Old news in other words", 1),
		titled(6, "What we read on the weekend", 1), titled(7, "Harbour opens after the storm", 5)}
	p := b.preview(t)
	want := map[string]string{
		"https://example.org/2": "posted", "https://example.org/3": "not worth a place",
		"https://example.org/4": "merged into Ein neues Gesetz für Flüsse",
		"https://example.org/5": "merged into The bridge has fallen", "https://example.org/6": "posted",
		"https://example.org/7": "posted",
	}
	if diff := cmp.Diff(want, verdicts(p)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	var order []string
	for _, m := range listedEntry.FindAllStringSubmatch(p.Draft.Text, -1) {
		order = append(order, m[2])
	}
	// The list of links has no topic, and the advertisement gets no place.
	if diff := cmp.Diff([]string{"2", "7", "6"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s\n%s", diff, p.Draft.Text)
	}
	if !strings.Contains(p.Draft.Text, "**Politics**") ||
		!strings.Contains(p.Draft.Text, "(Feed a, also [Feed b](https://example.org/4)): ") {
		t.Errorf("text %s", p.Draft.Text)
	}
	if !strings.Contains(s.prompts[len(s.prompts)-1], "Posted before:\n1. The bridge has fallen\n") {
		t.Errorf("the model was not told what was posted before: %s", s.prompts[len(s.prompts)-1])
	}
}

// An answer that cannot be read is asked for once more; then the items speak for themselves.
func TestModel_BadAnswer_IsAskedForOnceMore(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []string
		asked   int
		by      string
	}{
		{"fenced", []string{"```json\n" + `{"opening":["It is decided [1]."],"items":[{"n":1,"relevance":5}]}` + "\n```"}, 1, "summary by test"},
		{"mended", []string{"Sure! Here it is:", `{"opening":["It is decided [1]."],"items":[{"n":1,"relevance":5}]}`}, 2, "summary by test"},
		{"prose", []string{"It is decided [1].", "It is decided [1]."}, 2, "without a language model"},
		{"twice bad", []string{"{", `{"items":[{"n":77}]}`}, 2, "without a language model"},
		{"broken JSON with citations", []string{`{"opening":["It is decided [1]."`, `{"opening":["It is decided [1]."`}, 2, "without a language model"},
		{"empty", []string{" "}, 1, "without a language model"},
	} {
		s := &scriptedEditor{answers: append([]string{}, c.answers...)}
		b := service(t, digest.Plan{Feeds: from(a)}, s.use)
		b.feeds[a] = []feed.Item{story(1)}
		d := b.preview(t).Draft
		if len(s.prompts) != c.asked || !strings.Contains(d.Footer, c.by) {
			t.Errorf("%s: asked %d times, footer %q", c.name, len(s.prompts), d.Footer)
		}
		if strings.Contains(d.Text, "opening") {
			t.Errorf("%s: readers see %q", c.name, d.Text)
		}
		if c.by == "summary by test" && !strings.Contains(d.Text, "It is decided. [[1]](https://example.org/1)") {
			t.Errorf("%s: text %q", c.name, d.Text)
		}
	}
}
