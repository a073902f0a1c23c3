package digest_test

import (
	"errors"
	"testing"

	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
)

// A digest is previewed before it is stored, and as it would be after a change, of which nothing is kept.
func TestTry_PreviewsWhatIsNotStored(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)})
	stored := digest.Plan{Name: "evening", Source: digest.FromAPI, Schedule: "0 20 * * *", Feeds: from(a), Post: []string{general.String()}}
	if _, err := b.Create(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	b.feeds[a] = []feed.Item{story(1), story(2), story(3)}
	for _, name := range []string{"evening", "another"} {
		p, err := b.Try(t.Context(), name, func(p *digest.Plan) error {
			p.Schedule, p.Post, p.Feeds, p.MaxItems = "every day at 6", []string{"web:/general"}, from(a), 2
			return nil
		})
		if err != nil || len(urls(p.Draft)) != 2 || len(p.Items) != 3 {
			t.Errorf("a try of %s: %v, %q", name, err, urls(p.Draft))
		}
	}
	if _, err := b.Get(t.Context(), "another"); !errors.Is(err, digest.ErrUnknown) {
		t.Errorf("what was tried is stored: %v", err)
	}
	if p, err := b.Preview(t.Context(), "evening"); err != nil || len(urls(p.Draft)) != 3 {
		t.Errorf("the try has changed the digest: %v", err)
	}
	if _, err := b.Try(t.Context(), "morning", func(*digest.Plan) error { return nil }); !errors.Is(err, digest.ErrConfigured) {
		t.Errorf("a digest of the configuration: %v", err)
	}
	var bad digest.BadPlan
	if _, err := b.Try(t.Context(), "other", func(p *digest.Plan) error { p.Schedule = "never ever"; return nil }); !errors.As(err, &bad) {
		t.Errorf("a wrong schedule: %v", err)
	}
}
