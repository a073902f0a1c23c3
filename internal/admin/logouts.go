package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ravenbot/internal/store"
)

// The kind and name of the stored item.
const (
	sessionKind  = "sessions"
	sessionEnded = "ended"
	// usedLinkKind is that of login links that were used, by their numbers, each with the end of the link.
	usedLinkKind = "used login links"
)

// StoredLogouts stores when all sessions were ended, and which login links were used.
type StoredLogouts struct{ store.Items }

// SaveLogout stores that all sessions were ended at a time.
func (l StoredLogouts) SaveLogout(ctx context.Context, at time.Time) error {
	raw, err := json.Marshal(at)
	if err != nil {
		return err
	}
	return l.SaveItem(ctx, sessionKind, sessionEnded, raw, true)
}

// LastLogout returns when all sessions were last ended, or the zero time when they never were.
func (l StoredLogouts) LastLogout(ctx context.Context) (time.Time, error) {
	return LastLogout(ctx, l.Items)
}

// UseLink stores that a login link was used, which it is until its end. It returns false where it was used before, by
// whichever process.
func (l StoredLogouts) UseLink(ctx context.Context, id string, until, now time.Time) (bool, error) {
	used, err := l.Items.Items(ctx, usedLinkKind)
	if err != nil {
		return false, err
	}
	for other, raw := range used {
		var end time.Time
		if json.Unmarshal(raw, &end) == nil && now.Before(end) {
			continue
		}
		// An expired link is refused by its own time.
		if err := l.DeleteItem(ctx, usedLinkKind, other); err != nil && !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
	}
	raw, err := json.Marshal(until)
	if err == nil {
		err = l.SaveItem(ctx, usedLinkKind, id, raw, false)
	}
	if errors.Is(err, store.ErrExists) {
		return false, nil
	}
	return err == nil, err
}

// LastLogout returns when all sessions were last ended, or the zero time when they never were.
func LastLogout(ctx context.Context, from store.Items) (at time.Time, err error) {
	items, err := from.Items(ctx, sessionKind)
	if raw, ok := items[sessionEnded]; ok && err == nil {
		err = json.Unmarshal(raw, &at)
	}
	return at, err
}

// SharedKinds returns the kind whose changes Reload takes up.
func (*Server) SharedKinds() []string { return []string{sessionKind} }

// Reload ends the sessions that another process has ended.
func (s *Server) Reload(ctx context.Context) error {
	at, err := s.o.Logouts.LastLogout(ctx)
	if err != nil {
		return fmt.Errorf("read when all sessions were ended: %w", err)
	}
	s.sessions.endAll(at)
	return nil
}
