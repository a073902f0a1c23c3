package digest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"ravenbot/internal/digest"
	"ravenbot/internal/feed"
)

// The template that is written down makes a post.
func TestTheTemplateOfTheDocuments(t *testing.T) {
	page, err := os.ReadFile("../../docs/digests.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```text\n(# \\{\\{.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/digests.md has no template")
	}
	b := service(t, digest.Plan{Feeds: from(a), Style: digest.Topics, Template: string(m[1])},
		writes("# Town\n- They met [1]."))
	b.feeds[a] = []feed.Item{story(1)}
	if text := b.preview(t).Draft.Text; !strings.Contains(text,
		"**Town**\n1. [Story number 1 of a long series](https://example.org/1) (Feed a, 2 Mar 09:00): They met. [[1]]") {
		t.Errorf("it makes\n%s", text)
	}
	for _, key := range []string{"schedule", "timezone", "feeds", "post", "maxItems", "maxAge", "style", "language",
		"prompt", "filters", "template", "articles", "maxTokens", "catchUp", "whenEmpty", "agent"} {
		if !strings.Contains(string(page), "| `"+key+"` |") {
			t.Errorf("docs/digests.md does not tell of %s", key)
		}
	}
}
