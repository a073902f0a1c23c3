package digest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
)

// A headline that a model leaves out of its answer waits for the next run. If it is left out again its form decides, and
// it is not asked about any more.
func TestHeadlines_LeftOutByTheModel_WaitOnceThenFormDecides(t *testing.T) {
	asked := 0 // how often the model was shown the headline
	model := func(_ context.Context, _, prompt string, schema json.RawMessage) (string, string, error) {
		var lesser []string
		headlines := strings.Contains(string(schema), "lesser")
		for _, m := range shownItem.FindAllStringSubmatch(prompt, -1) {
			switch {
			case strings.HasPrefix(m[2], "Harbour") && headlines:
				asked++
			case strings.HasPrefix(m[2], "Harbour"):
			default:
				lesser = append(lesser, m[1])
			}
		}
		return fmt.Sprintf(`{"items":[],"lesser":[%s]}`, strings.Join(lesser, ",")), "test", nil
	}
	b := service(t, digest.Plan{Feeds: from(a, b2), MaxItems: 1}, func(o *digest.Options) {
		o.Writer = func(digest.Plan) digest.Writer { return model }
	})
	b.feeds[a], b.feeds[b2] = []feed.Item{topical(0, "Old news of the town", "It was said before.")}, nil
	b.run(t, b.now)
	words := strings.Fields("apple bridge castle desert engine forest garden hammer island jacket")
	day := func() digest.Verdict {
		t.Helper()
		b.now = b.now.Add(24 * time.Hour)
		b.feeds[a] = nil
		for n, w := range words {
			b.feeds[a] = append(b.feeds[a], topical(1000*b.now.Day()+n, "About the "+w+" of that day "+b.now.String(), "A "+w+"."))
		}
		if b.now.Day() == 3 {
			b.feeds[a] = append(b.feeds[a], topical(99, "Harbour of Sollen closes for 200 ships of Norway", "It was said by the Harbour Office."))
		}
		b.run(t, b.now)
		last, _, err := b.LastVerdicts(t.Context(), "morning")
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range last.Items {
			if strings.HasPrefix(v.Title, "Harbour") {
				return v
			}
		}
		t.Fatal("the headline is lost")
		return digest.Verdict{}
	}
	// On the second day it could have had the place, and waits.
	for n, want := range []string{"carried over", "posted"} {
		v := day()
		if v.Verdict != want || v.Judged || asked != n+1 {
			t.Errorf("day %d: %q because %q, judged %t, asked about %d times", n+1, v.Verdict, v.Reason, v.Judged, asked)
		}
	}
}
