package digest_test

import (
	"testing"
	"time"

	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
)

// Of a feed that is read for the first time what has no date is old; later it is new.
func TestItemWithoutDate_AtTheFirstReadOfItsFeed_IsOld(t *testing.T) {
	undated := func(n int, title string) feed.Item {
		it := topical(n, title, "Nobody knows when.")
		it.Published = time.Time{}
		return it
	}
	plan := digest.Plan{Name: "morning", Schedule: "0 8 * * *", Post: []string{general.String()}, Feeds: from(a, b2),
		MaxAge: digest.Duration(48 * time.Hour)}
	b := service(t, digest.Plan{Feeds: from(a), MaxAge: plan.MaxAge})
	b.feeds[a] = []feed.Item{undated(1, "Bridges are long"), topical(2, "Harbour opens", "Today.")}
	b.feeds[b2] = []feed.Item{undated(3, "Castles are old")}
	check := func(want map[string]string) {
		t.Helper()
		got := verdicts(b.preview(t))
		for n, verdict := range want {
			if got["https://example.org/"+n] != verdict {
				t.Errorf("item %s is %q, want %q", n, got["https://example.org/"+n], verdict)
			}
		}
		b.run(t, b.now)
		b.now = b.now.Add(24 * time.Hour)
	}
	check(map[string]string{"1": "too old", "2": "posted"})
	b.plan(t, plan)
	check(map[string]string{"1": "already seen", "3": "too old"})
	b.feeds[b2] = []feed.Item{undated(4, "Gardens are green")}
	check(map[string]string{"4": "posted"})
	// Without maxAge it counts as days old.
	b = service(t, digest.Plan{Feeds: from(a)})
	b.feeds[a] = []feed.Item{undated(1, "Bridges are long")}
	if p := b.preview(t); p.Items[0].Score == nil || p.Items[0].Score.Days < 4 {
		t.Errorf("it counts as %+v", p.Items[0].Score)
	}
}
