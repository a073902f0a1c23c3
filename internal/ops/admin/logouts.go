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
	// endedSessionKind is that of sessions that were logged out, by their numbers, each with the end of its cookie.
	endedSessionKind = "ended sessions"
)

// StoredLogouts stores when all sessions were ended, which ones were logged out, and which login links were used.
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
func (l StoredLogouts) LastLogout(ctx context.Context) (at time.Time, err error) {
	items, err := l.Items.Items(ctx, sessionKind)
	if raw, ok := items[sessionEnded]; ok && err == nil {
		err = json.Unmarshal(raw, &at)
	}
	return at, err
}

// EndSession stores that a session was logged out, for as long as its cookie could be used.
func (l StoredLogouts) EndSession(ctx context.Context, id string, until, now time.Time) error {
	_, err := l.saveOnce(ctx, endedSessionKind, id, until, now)
	return err
}

// EndedSessions returns the sessions that were logged out, each with the end of its cookie.
func (l StoredLogouts) EndedSessions(ctx context.Context) (map[string]time.Time, error) {
	items, err := l.Items.Items(ctx, endedSessionKind)
	ended := make(map[string]time.Time, len(items))
	for id, raw := range items {
		var until time.Time
		if err == nil {
			err = json.Unmarshal(raw, &until)
		}
		ended[id] = until
	}
	return ended, err
}

// UseLink stores that a login link was used, which it is until its end. It returns false where it was used before, by
// whichever process.
func (l StoredLogouts) UseLink(ctx context.Context, id string, until, now time.Time) (bool, error) {
	return l.saveOnce(ctx, usedLinkKind, id, until, now)
}

// saveOnce stores what ends at a time under its number, and deletes what has ended. It returns false where the number is
// there already.
func (l StoredLogouts) saveOnce(ctx context.Context, kind, id string, until, now time.Time) (bool, error) {
	stored, err := l.Items.Items(ctx, kind)
	if err != nil {
		return false, err
	}
	for other, raw := range stored {
		var end time.Time
		if json.Unmarshal(raw, &end) == nil && now.Before(end) {
			continue
		}
		// What has expired is refused by its own time.
		if err := l.DeleteItem(ctx, kind, other); err != nil && !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
	}
	raw, err := json.Marshal(until)
	if err == nil {
		err = l.SaveItem(ctx, kind, id, raw, false)
	}
	if errors.Is(err, store.ErrExists) {
		return false, nil
	}
	return err == nil, err
}

// SharedKinds returns the kinds whose changes Reload takes up.
func (*Server) SharedKinds() []string { return []string{sessionKind, endedSessionKind} }

// Reload ends the sessions that another process has ended, and those that were ended before this one began.
func (s *Server) Reload(ctx context.Context) error {
	at, err := s.o.Logouts.LastLogout(ctx)
	if err != nil {
		return fmt.Errorf("read when all sessions were ended: %w", err)
	}
	s.sessions.endAll(at)
	ended, err := s.o.Logouts.EndedSessions(ctx)
	if err != nil {
		return fmt.Errorf("read which sessions were logged out: %w", err)
	}
	s.sessions.end(ended)
	return nil
}
