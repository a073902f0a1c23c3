package digest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
)

func fault(n int, at time.Time) feed.Item {
	return feed.Item{ID: fmt.Sprint("e", n), Title: fmt.Sprint("Build ", n, " failed"),
		Summary: "main <broke>", Published: at}
}

// An event is kept until it is shown or too old; one whose post no place took is new again; and no more are kept than
// fit.
func TestEvents_AreKeptUntilShownOrTooOld(t *testing.T) {
	b := service(t, digest.Plan{Hooks: []string{"ci"}, MaxItems: 2})
	if err := b.AddEvent(t.Context(), "nonesuch", "ci", fault(1, monday)); !errors.Is(err, digest.ErrUnknown) {
		t.Errorf("an event for no digest: %v", err)
	}
	for n := range 4 {
		if err := errors.Join(b.AddEvent(t.Context(), "morning", "ci", fault(n, monday)),
			b.AddEvent(t.Context(), "morning", "ci", fault(n, monday))); err != nil {
			t.Fatal(err)
		}
	}
	posted := func() int {
		t.Helper()
		b.now = b.now.Add(time.Hour)
		run, err := b.Run(t.Context(), "morning", b.now, false)
		if err != nil && b.refuse == nil {
			t.Fatal(err)
		}
		return run.Posted
	}
	b.refuse = func(chat.Address) string { return "it is full" }
	if n := posted(); n != 0 {
		t.Errorf("%d entries count as posted though no place took them", n)
	}
	b.refuse = nil
	if n := posted(); n != 2 {
		t.Errorf("%d entries are posted after that, want 2", n)
	}
	b.now = b.now.Add(8 * 24 * time.Hour) // the others have waited too long
	if n := posted(); n != 0 {
		t.Errorf("%d entries are posted that are too old", n)
	}
	last, _, err := b.LastVerdicts(t.Context(), "morning")
	if err != nil || len(last.Items) != 4 {
		t.Fatalf("the verdicts are %+v, %v", last, err)
	}
	counts := map[string]int{}
	for _, v := range last.Items {
		counts[v.Verdict]++
	}
	if counts["too old"] != 2 || counts["already seen"] != 2 {
		t.Errorf("the verdicts are %v", counts)
	}
	// What was decided about is gone from the store by then, and makes room.
	for n := range 2000 {
		if err := b.AddEvent(t.Context(), "morning", "ci", fault(100+n, b.now)); err != nil {
			if n < 1990 {
				t.Fatalf("event %d: %v", n, err)
			}
			var full digest.FullError
			if !errors.As(err, &full) {
				t.Fatal(err)
			}
			return
		}
	}
	if err := b.AddEvent(t.Context(), "morning", "ci", fault(9999, b.now)); !errors.As(err, new(digest.FullError)) {
		t.Errorf("event 2001: %v", err)
	}
}
