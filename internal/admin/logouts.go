package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ravenbot/internal/store"
)

// The kind and name of the stored item.
const (
	sessionKind  = "sessions"
	sessionEnded = "ended"
)

// StoredLogouts stores when all sessions were ended.
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
