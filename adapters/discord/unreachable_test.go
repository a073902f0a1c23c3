package discord_test

import (
	"errors"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
)

func TestPost_PlaceUnreachable_ReachesItsOwner(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	thread := s.AddThread(s.general, "plans")
	to := s.address()
	to.Thread = thread.ID
	if err := s.d.CheckPost(t.Context(), to, nil); err != nil {
		t.Error(err)
	}
	s.DeleteChannel(thread.ID)
	if err := s.d.CheckPost(t.Context(), to, nil); !errors.As(err, new(*chat.SetupError)) {
		t.Errorf("a deleted thread is checked with %v", err)
	}
	d := chat.Draft{Key: "job/1", Text: "⏰ call Bob", Owner: s.ann.ID}
	if ref, err := s.d.Post(t.Context(), to, d); err != nil || len(ref.IDs) != 0 {
		t.Fatalf("%+v, %v", ref, err)
	}
	direct := s.Posts(s.AddDM(s.ann).ID)
	if len(direct) != 1 || !strings.Contains(direct[0].Content, "call Bob") ||
		!strings.Contains(direct[0].Content, "the channel does not exist") || len(s.Posts(s.general.ID)) != 0 {
		t.Errorf("the owner is told %+v", direct)
	}
	// Who takes no direct messages is told in the channel, without the words of a thread that not all may have read.
	d.Key, d.Owner = "job/2", s.AddBot("machine").ID
	if _, err := s.d.Post(t.Context(), to, d); err != nil {
		t.Fatal(err)
	}
	if posts := s.Posts(s.general.ID); len(posts) != 1 || strings.Contains(posts[0].Content, "Bob") ||
		!strings.Contains(posts[0].Content, "in a thread") {
		t.Errorf("the channel shows %+v", posts)
	}
}

func TestPost_ThreadArchivedMeanwhile_LeavesNoPartialAnswer(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	to := s.address()
	to.Thread = s.AddThread(s.general, "plans").ID
	ref := s.post(t, to, chat.Draft{Key: "k", Text: "The beginning", Partial: true})
	s.Archive(to.Thread)
	s.post(t, to, chat.Draft{Key: "k", Text: "The beginning and the end", Replaces: ref})
	var shown []string
	for _, p := range s.Posts(to.Thread) {
		if !p.Deleted {
			shown = append(shown, p.Content)
		}
	}
	if len(shown) != 1 || shown[0] != "The beginning and the end" {
		t.Errorf("the thread shows %q", shown)
	}
}
