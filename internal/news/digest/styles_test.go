package digest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/store"
)

// A deep digest explains the story that most feeds tell, from all tellings; the others wait for the next run.
func TestRun_Deep_ExplainsOneStory(t *testing.T) {
	for _, model := range []bool{true, false} {
		var asked string
		b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) {
			if model {
				o.Writer = func(digest.Plan) digest.Writer {
					return func(_ context.Context, _, prompt string, _ json.RawMessage) (string, string, error) {
						asked = prompt
						return "The council decided [1]. Both papers say so [1][2]. Aliens landed.", "gemini/test", nil
					}
				}
			}
		})
		b.feeds[a], b.feeds[b2] = nil, nil
		b.plan(t, digest.Plan{Feeds: from(a, b2), Style: digest.Deep})
		b.now = monday.AddDate(0, 0, -1)
		b.run(t, b.now)
		b.now = monday.AddDate(0, 0, 1)
		twin := story(1)
		twin.Link = "https://elsewhere.example/1"
		long := story(1)
		long.Content = "<p>" + strings.Repeat("The council decided on matter 1 after a debate. ",
			30) + "It was late. It was cold. It was dark.</p>"
		b.feeds[a], b.feeds[b2] = []feed.Item{long, titled(9, "Something else that is newer", 1)}, []feed.Item{twin}
		run := b.run(t, b.now)
		d := b.sent[0].Draft
		if run.Posted != 1 || len(d.Cards) != 2 || len(d.Cards[0].Also) != 0 {
			t.Fatalf("model %v: run %+v, cards %+v", model, run, d.Cards)
		}
		if !strings.HasPrefix(d.Text, "**morning** · Tuesday 3 March · one story, as 2 sources tell it\n") {
			t.Errorf("model %v: it begins otherwise: %q", model, d.Text)
		}
		want := "The council decided. [[1]](https://example.org/1) Both papers say so. [1][[2]](https://elsewhere.example/1)"
		if model && (!strings.Contains(d.Text, want) || strings.Contains(d.Text, "Aliens") || len(asked) < 1500) {
			t.Errorf("text %q, asked with %d bytes", d.Text, len(asked))
		}
		if !model && (strings.Count(d.Text, "[1]") < 4 ||
			!strings.Contains(d.Footer, "without a language model")) {
			t.Errorf("text %q, footer %q", d.Text, d.Footer)
		}
		b.now = monday.AddDate(0, 0, 2)
		if b.run(t, b.now); len(b.sent) != 2 || b.sent[1].Draft.Cards[0].URL != "https://example.org/9" ||
			!strings.HasPrefix(b.sent[1].Draft.Text, "**morning** · Wednesday 4 March · one story\n") {
			t.Errorf("the story that waited was not explained next: %+v", b.sent)
		}
	}
}

// A weekly digest has what people liked of what other digests posted to the same place, and nothing from elsewhere.
func TestRun_Weekly_IsWhatWasLiked(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)})
	elsewhere := digest.Plan{Name: "secret", Schedule: "0 8 * * *", Post: []string{"web:/other"}, Feeds: from(b2)}
	morning := digest.Plan{Name: "morning", Schedule: "0 8 * * *", Post: []string{general.String(), "web:/other"},
		Feeds: from(a), MaxItems: 5}
	weekly := digest.Plan{Name: "weekly", Schedule: "fridays at 16", Post: []string{general.String()},
		Style: digest.Weekly, MaxItems: 3}
	b.restart(t, elsewhere, morning, weekly)
	vote := func(post store.Post, good bool, people int) {
		for n := range people {
			f := store.Feedback{Turn: post.Turn, User: fmt.Sprint(n), Good: good, At: b.now}
			if err := b.db.SaveFeedback(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
	}
	for day := range 4 {
		b.now = monday.AddDate(0, 0, day)
		b.feeds[a] = []feed.Item{titled(10*day, fmt.Sprintf("Event number %d of the town", day), -24*day)}
		b.feeds[b2] = []feed.Item{titled(10*day+1, fmt.Sprintf("Secret number %d of the club", day), -24*day)}
		b.sent = nil
		b.run(t, b.now)
		switch morningPost := b.sent[0]; day {
		case 1:
			vote(morningPost, true, 1)
		case 2:
			vote(morningPost, true, 3)
		case 3:
			vote(morningPost, false, 2)
		}
		if _, err := b.Run(t.Context(), "secret", b.now, false); err != nil {
			t.Fatal(err)
		}
		vote(b.sent[len(b.sent)-1], true, 9)
	}
	b.sent = nil
	run, err := b.Run(t.Context(), "weekly", b.now, false)
	if err != nil || run.Posted != 2 {
		t.Fatalf("%+v, %v", run, err)
	}
	if got := strings.Join(urls(b.sent[0].Draft), " "); got != "20 10" {
		t.Errorf("the round-up has %q, want the two that were liked, the most liked first", got)
	}
	// What is told in a round-up is still no reason to post it again, nor is it seen by the other digest's next run.
	b.now = monday.AddDate(0, 0, 5)
	if run, err := b.Run(t.Context(), "weekly", b.now, false); err != nil || run.Posted != 0 {
		t.Errorf("a second round-up without new posts: %+v, %v", run, err)
	}
	if err := b.Configure([]digest.Plan{{
		Name:     "w",
		Schedule: "daily at 8",
		Style:    digest.Weekly,
		Feeds:    from(a),
		Post:     []string{"web:/x"},
	}}); err == nil {
		t.Error("a weekly digest with feeds passes")
	}
}

// Whom a digest notifies is in its posts with items, and in nothing else that it posts.
func TestRun_Ping_IsInPostsWithItems(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a), Ping: []string{"role:42"}, WhenEmpty: "say"})
	b.feeds[a] = []feed.Item{story(1)}
	b.run(t, monday)
	b.run(t, monday.AddDate(0, 0, 1))
	if len(b.sent) != 2 || len(b.sent[0].Draft.Notify) != 1 || len(b.sent[1].Draft.Notify) != 0 {
		t.Errorf("posts %+v", b.sent)
	}
	for _, bad := range []string{"everyone", "role:", "user:1>x", "here:1"} {
		p := digest.Plan{Name: "x", Schedule: "daily at 8", Post: []string{"web:/x"}, Feeds: from(a), Ping: []string{bad}}
		if err := b.Configure([]digest.Plan{p}); err == nil {
			t.Errorf("ping %q passes", bad)
		}
	}
}
