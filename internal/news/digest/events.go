package digest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"ravenbot/internal/news/feed"
	"ravenbot/internal/store"
)

// Events are what webhooks tell a digest. Each is stored until a run has decided about it.
const (
	eventKind    = "digest event/" // followed by the digest's name; items are named after events
	eventVersion = 1
	// maxEvents bounds the events that wait for the next run of a digest.
	maxEvents = 2000
	// hookScheme begins the address under which a webhook counts as a feed.
	hookScheme = "webhook:"
)

// FullError is returned where too many events wait for a digest.
type FullError struct{ Digest string }

func (e FullError) Error() string {
	return fmt.Sprintf("%d events wait for the next run of digest %s, which is the most", maxEvents, e.Digest)
}

// Full marks the error as one that ends with the next run.
func (FullError) Full() bool { return true }

// event is a stored event.
type event struct {
	Version int       `json:"version"`
	Webhook string    `json:"webhook"`
	Title   string    `json:"title"`
	Text    string    `json:"text,omitempty"`
	Link    string    `json:"link,omitempty"`
	At      time.Time `json:"at"`
}

// AddEvent keeps an event of a webhook for the next run of a digest. One that is kept, or was decided about, already
// changes nothing. Its texts are plain. It returns ErrUnknown where there is no such digest, and a FullError where too
// many wait. When it returns nil the event is on disk, and the webhook's sender may be told so.
func (s *Service) AddEvent(ctx context.Context, digest, webhook string, it feed.Item) error {
	if _, ok := s.find(digest); !ok {
		return ErrUnknown
	}
	// Counted once, and again when there seem to be too many: runs delete them, and another process may add some.
	s.mu.Lock()
	n, known := s.events[digest]
	s.mu.Unlock()
	if !known || n >= maxEvents {
		kept, err := s.o.Store.Items(ctx, eventKind+digest)
		if err != nil {
			return err
		}
		if n = len(kept); n >= maxEvents {
			return FullError{digest}
		}
	}
	raw, err := json.Marshal(event{eventVersion, webhook, it.Title, it.Summary, it.Link, it.Published.UTC()})
	if err != nil {
		return err
	}
	err = s.o.Store.SaveItem(ctx, eventKind+digest, it.ID, raw, false)
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("keep an event for digest %s: %w", digest, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events[digest] = n + 1
	return nil
}

// addEvents adds the events that wait for a digest.
func (s *Service) addEvents(ctx context.Context, d spec, e *edition) error {
	if len(d.Hooks) == 0 {
		return nil
	}
	kept, err := s.o.Store.Items(ctx, eventKind+d.Name)
	if err != nil {
		return fmt.Errorf("read the events of digest %s: %w", d.Name, err)
	}
	for id, raw := range kept {
		var one event
		if err := json.Unmarshal(raw, &one); err != nil {
			return fmt.Errorf("read event %s of digest %s: %w", id, d.Name, err)
		}
		if one.Version != eventVersion {
			continue
		}
		e.items = append(e.items, &item{
			Item: feed.Item{
				ID:        id,
				Title:     escapeHTML(one.Title),
				Summary:   strings.ReplaceAll(escapeHTML(one.Text), "\n", "<br>"),
				Link:      one.Link,
				Published: one.At,
			},
			source: one.Webhook,
			// Two failures of the same build read alike, and are two events.
			feed:   Feed{URL: hookScheme + one.Webhook, NoMerge: true},
			id:     itemID(hookScheme+one.Webhook, feed.Item{ID: id}),
			since:  one.At,
			event:  id,
			listed: true,
		})
	}
	return nil
}

// deleteEvents deletes the events that an earlier run decided about. Those of the present run stay until the next one:
// they count again where no place takes its post.
func (s *Service) deleteEvents(ctx context.Context, name string, e *edition) error {
	for _, i := range e.items {
		if i.event == "" || !e.seen[i.id] {
			continue
		}
		if err := s.deleteItem(ctx, eventKind+name, i.event); err != nil {
			return err
		}
	}
	return nil
}
