package digest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// failureKind is the kind of the items that hold a digest's failing feeds, named after digests. It
// keeps the name that it had first.
const failureKind = "digest trouble"

// feedFailure is the state of a digest's feed that cannot be read.
type feedFailure struct {
	Since    time.Time `json:"since"`
	Runs     int       `json:"runs"` // in a row that it failed
	Reason   string    `json:"why"`
	Notified bool      `json:"told,omitempty"` // the channel knows
}

// failuresBeforeNotice returns how many runs in a row have to fail before a channel is told:
// a feed that is polled every few minutes may fail for a moment.
func (d spec) failuresBeforeNotice() int {
	if d.quiet {
		return 3
	}
	return 1
}

// loadFailures returns the failing feeds of a digest, by address.
func (s *Service) loadFailures(ctx context.Context, name string) (map[string]feedFailure, error) {
	all, _, err := loadItem[map[string]feedFailure](ctx, s, failureKind, name, "the failing feeds of digest")
	return all, err
}

// updateFailures returns which feeds of a digest fail now, and the posts that tell its channels of those that they do
// not know of, and of those that work again. The posts have keys that make repeating harmless.
func (s *Service) updateFailures(ctx context.Context, d spec, e *edition,
	now time.Time) (map[string]feedFailure, []store.Post, error) {
	before, err := s.loadFailures(ctx, d.Name)
	if err != nil || d.isTask() {
		return nil, nil, err
	}
	after := map[string]feedFailure{}
	var lines []string
	var keys []string
	// A feed that left the plan is in none of these, and so is forgotten.
	for _, f := range d.Feeds {
		was, failing := before[f.URL]
		why, fails := e.failures[f.URL]
		if failing && e.unasked[f.URL] { // nothing is known of it
			after[f.URL] = was
			continue
		}
		if failing && !fails && was.Notified {
			lines = append(lines,
				fmt.Sprintf("A feed works again: %s. It had failed since %s.",
					escape(f.displayURL()), was.Since.In(d.zone).Format("2 Jan 15:04 MST")))
			keys = append(keys, "healed "+f.URL+was.Since.String())
		}
		if !fails {
			continue
		}
		if !failing {
			was = feedFailure{Since: now} // part of the notice's key: a later failure is a new notice
		}
		was.Runs, was.Reason = was.Runs+1, why
		if !was.Notified && was.Runs >= d.failuresBeforeNotice() {
			was.Notified = true
			lines = append(lines, "A feed fails: "+escape(why)+". I keep trying and post again when it works.")
			keys = append(keys, "fails "+f.URL+was.Since.String())
		}
		after[f.URL] = was
	}
	if len(lines) == 0 {
		return after, nil, nil
	}
	var posts []store.Post
	for _, to := range d.post {
		draft := chat.Draft{Key: "digest/" + d.Name + "/feeds/" + shortHash(strings.Join(keys, "\n")) + "/" + to.String(),
			Text: "**" + escape(d.title) + "**\n\n- " + strings.Join(lines, "\n- ")}
		posts = append(posts, store.Post{Key: draft.Key, To: to, Draft: draft, At: now})
	}
	return after, posts, nil
}

// saveFailures stores which feeds of a digest fail now. Where none does and none did it writes nothing.
func (s *Service) saveFailures(ctx context.Context, d spec, now map[string]feedFailure) error {
	before, err := s.loadFailures(ctx, d.Name)
	if err != nil || len(now) == 0 && len(before) == 0 {
		return err
	}
	return s.saveItem(ctx, failureKind, d.Name, now)
}
