package admin

import (
	"context"
	"encoding/json"
	"time"
)

// The item of the store that says when all sessions were ended.
const (
	sessionKind  = "sessions"
	sessionEnded = "ended"
)

// Items keeps what outlives a restart, as in store.Store.
type Items interface {
	SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error
	Items(ctx context.Context, kind string) (map[string]json.RawMessage, error)
}

// StoredLogouts keeps when all sessions were ended.
type StoredLogouts struct{ Items }

// SaveLogout keeps that all sessions were ended at a time.
func (l StoredLogouts) SaveLogout(ctx context.Context, at time.Time) error {
	raw, err := json.Marshal(at)
	if err != nil {
		return err
	}
	return l.SaveItem(ctx, sessionKind, sessionEnded, raw, true)
}

// LastLogout returns when all sessions were last ended; the zero time: never.
func LastLogout(ctx context.Context, from Items) (at time.Time, err error) {
	items, err := from.Items(ctx, sessionKind)
	if raw, ok := items[sessionEnded]; ok && err == nil {
		err = json.Unmarshal(raw, &at)
	}
	return at, err
}
