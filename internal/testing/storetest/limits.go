package storetest

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// firstPostKept stores a post again under a key that waits.
func firstPostKept(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	for i, text := range []string{"first", "second"} {
		posts := []store.Post{{Key: "a", To: general, Draft: chat.Draft{Text: text}, At: noon}}
		must(t, s.SavePosts(ctx, posts))
		same(t, "the post has a number", i == 0, posts[0].Seq != 0)
	}
	pending, err := s.PendingPosts(ctx)
	must(t, err)
	same(t, "posts", 1, len(pending))
	same(t, "the text", "first", pending[0].Draft.Text)
}

// roomLimits fills a room beyond its limits.
func roomLimits(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	for i := range 2003 {
		_, err := s.SaveEntry(ctx, store.Entry{ID: fmt.Sprint(i), Room: "general", At: noon})
		must(t, err)
	}
	for _, beyond := range []uint64{0, 3001, math.MaxUint64} {
		newest, err := s.Entries(ctx, "general", beyond, 1)
		must(t, err)
		same(t, fmt.Sprint("lines before ", beyond), 1, len(newest))
		same(t, fmt.Sprint("the newest line before ", beyond), "2002", newest[0].ID)
	}
	lines, err := s.Entries(ctx, "general", 0, 3000)
	must(t, err)
	same(t, "lines", 2000, len(lines))
	same(t, "the oldest", "3", lines[0].ID)
	for range 202 {
		_, err := s.SaveRoomFile(ctx, "general", chat.File{Name: "a"})
		must(t, err)
	}
	if _, err := s.RoomFile(ctx, "general", 2); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the second of 202 files: %v", err)
	}
	_, err = s.RoomFile(ctx, "general", 3)
	must(t, err)
}

// runLimit stores more runs than are kept.
func runLimit(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	for i := range 203 {
		run := store.Run{Digest: "d", Due: noon.Add(time.Duration(i) * time.Minute), Ended: noon}
		_, err := s.FinishRun(ctx, run, nil, nil)
		must(t, err)
	}
	runs, err := s.LastRuns(ctx, "d", 300)
	must(t, err)
	same(t, "runs", 200, len(runs))
	same(t, "the oldest", noon.Add(3*time.Minute), runs[199].Due)
}
