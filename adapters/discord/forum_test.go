package discord_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
)

// forum is a stage with a forum that has tags.
func forum(t *testing.T, required bool) (*stage, chat.Address) {
	t.Helper()
	s := open(t, script{})
	f := s.AddForum(s.guild, "digests")
	s.SetTags(f.ID, required, "News", "Go")
	return s, chat.Address{Platform: "discord", Workspace: s.guild.ID, Channel: f.ID}
}

func TestForum_DraftWithATitle_IsAPostWithTags(t *testing.T) {
	s, at := forum(t, true)
	long := chat.Draft{Key: "k", Title: "morning,\n22 November", Tags: []string{"go", " News"},
		Text:    strings.Repeat("A sentence about a release. ", 150),
		Buttons: []chat.Button{{Label: "Good", Value: "good x"}}}
	ref, err := s.d.Post(t.Context(), at, long)
	if err != nil {
		t.Fatal(err)
	}
	posts := s.Threads(at.Channel)
	if len(posts) != 1 || posts[0].Name != "morning, 22 November" || strings.Join(posts[0].Tags, " ") != "Go News" {
		t.Fatalf("the forum has %+v", posts)
	}
	shown := s.Posts(posts[0].ID)
	if len(ref.IDs) < 2 || len(shown) != len(ref.IDs) || shown[0].ID != posts[0].ID || ref.IDs[0] != posts[0].ID {
		t.Errorf("the post is %v, the forum shows %d messages", ref, len(shown))
	}
	// The same again changes nothing, and what belongs below goes into the thread.
	if again, err := s.d.Post(t.Context(), at, long); err != nil || len(s.Threads(at.Channel)) != 1 ||
		again.IDs[0] != ref.IDs[0] {
		t.Errorf("posted again it is %v, %v", again, err)
	}
	below, err := s.d.Thread(t.Context(), at, ref, "more")
	if err != nil || below.Thread != posts[0].ID || below.Channel != at.Channel {
		t.Fatalf("below it is %v, %v", below, err)
	}
	if _, err := s.d.Post(t.Context(), below, chat.Draft{Key: "k/rest", Title: "more", Text: "the rest"}); err != nil {
		t.Error(err)
	}
	if list := s.Posts(posts[0].ID); len(list) != len(shown)+1 || list[len(shown)].Content != "the rest" {
		t.Errorf("the thread shows %+v", list)
	}
}

// Whether the thread was begun is not known where the answer is lost: it is looked for, also by another process.
func TestForum_UnknownOutcome_IsLookedForFirst(t *testing.T) {
	for _, taken := range []bool{true, false} {
		s, at := forum(t, false)
		s.Fail(sim.Fault{Match: func(r sim.Request) bool {
			return r.Method == "POST" && strings.HasSuffix(r.Path, "/threads")
		}, Times: 1, Accept: taken, Drop: true})
		d := chat.Draft{Key: "k", Title: "morning", Text: "hello"}
		var lost *chat.PostError
		if _, err := s.d.Post(t.Context(), at, d); !errors.As(err, &lost) || !lost.Maybe {
			t.Fatalf("the lost answer is %v", err)
		}
		d.Again, d.Since = true, time.Now()
		ref, err := s.another(t).Post(t.Context(), at, d)
		if posts := s.Threads(at.Channel); err != nil || len(posts) != 1 || ref.IDs[0] != posts[0].ID {
			t.Errorf("taken %t: %v, %v; the forum has %+v", taken, ref, err, posts)
		}
	}
}

func TestForum_TagsThatDoNotFit_AreRefused(t *testing.T) {
	s, at := forum(t, true)
	general := chat.Address{Platform: "discord", Workspace: s.guild.ID, Channel: s.general.ID}
	for _, c := range []struct {
		to   chat.Address
		tags []string
		want string
	}{
		{at, []string{"sport"}, `the forum digests has no tag "sport" (name some of its tags: News, Go)`},
		{at, nil, "each post in the forum digests needs a tag"},
		{at, []string{"news"}, ""},
		{general, []string{"news"}, "is not a forum"},
		{general, nil, ""},
	} {
		err := s.d.CheckPost(t.Context(), c.to, c.tags)
		var fault *chat.SetupError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &fault) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v with %q: %v, want %q", c.to, c.tags, err, c.want)
		}
	}
	var refused *chat.PostError
	if _, err := s.d.Post(t.Context(), at, chat.Draft{Key: "k", Title: "x", Text: "hello"}); !errors.As(err, &refused) ||
		!refused.Permanent || len(s.Threads(at.Channel)) != 0 {
		t.Errorf("a post without a tag: %v", err)
	}
	if err := s.d.CheckPost(t.Context(), chat.Address{
		Platform:  "discord",
		Workspace: s.guild.ID,
		Channel:   "9",
	}, nil); !errors.As(err, new(*chat.SetupError)) {
		t.Errorf("a channel that is not there: %v", err)
	}
}
