package digest_test

import (
	"fmt"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/digest"
)

// A long digest is a head and a thread where there can be one, and whole elsewhere.
// Together they show what the whole one does.
func TestALongDigestIsAHeadAndAThread(t *testing.T) {
	for _, c := range []struct {
		style         string
		items, inHead int // 0: it is not long
	}{{digest.Brief, 6, 0}, {digest.Brief, 9, 3}, {digest.Bullets, 12, 5}, {digest.Topics, 12, 5}, {digest.Titles, 20,
		0}, {digest.Titles, 25, 10}} {
		b := service(t, digest.Plan{Feeds: from(a)})
		b.threads = func(to chat.Address) bool { return to.Platform == "slack" }
		plan := digest.Plan{Name: "morning", Schedule: "0 8 * * *", Feeds: from(a), Style: c.style, MaxItems: 50,
			Post: []string{general.String(), news.String()}}
		b.restart(t, plan)
		for n := range c.items {
			it := story(n)
			it.Title, it.Summary = fmt.Sprintf("%s happens", strings.Repeat(string(rune('a'+n)), 20)), ""
			it.Categories = []string{[]string{"sport", "town"}[n%2]}
			b.feeds[a] = append(b.feeds[a], it)
		}
		b.run(t, monday)
		if whole := b.sent[0]; shows(whole.Draft) != c.items || len(whole.Draft.Buttons) != 2 {
			t.Errorf("%s of %d: the web shows %d entries", c.style, c.items, shows(whole.Draft))
		}
		if c.inHead == 0 {
			if len(b.sent) != 2 || shows(b.sent[1].Draft) != c.items {
				t.Errorf("%s of %d: it is no single post", c.style, c.items)
			}
			continue
		}
		if len(b.sent) != 3 {
			t.Fatalf("%s of %d: %d posts", c.style, c.items, len(b.sent))
		}
		head, rest := b.sent[1], b.sent[2]
		if shows(head.Draft) != c.inHead || shows(rest.Draft) != c.items-c.inHead || rest.Below != head.Key ||
			rest.Title != "morning, 2 March" ||
			len(head.Draft.Buttons) != 2 || len(rest.Draft.Buttons) != 0 ||
			!strings.Contains(head.Draft.Text+head.Draft.Footer, fmt.Sprintf("other %d are below", c.items-c.inHead)) {
			t.Errorf("%s of %d: head %+v\nrest %+v", c.style, c.items, head, rest)
		}
		if c.style == digest.Topics && (!strings.Contains(head.Draft.Text, "**sport**") ||
			!strings.HasPrefix(rest.Draft.Text, "**")) {
			t.Errorf("topics: head %s\nrest %s", head.Draft.Text, rest.Draft.Text)
		}
	}
}

func shows(d chat.Draft) int {
	return len(d.Cards) + len(listedEntry.FindAllString(d.Text, -1))
}
