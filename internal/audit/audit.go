// Package audit records what was changed on the bot, when and by whom: over the HTTP API and the pages, by decisions
// about tool calls, and by a new configuration.
//
// It promises that an entry is on disk when Record returns, that no entry holds a secret or the text of a message,
// and that the newest MaxEntries entries are kept. What tools did is recorded elsewhere, with their calls.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// MaxEntries is how many entries are kept.
const MaxEntries = 2000

// Entry is one change. Its JSON form is the HTTP API's.
type Entry struct {
	ID     string    `json:"id"`
	Time   time.Time `json:"time"`
	Who    string    `json:"who"`
	From   string    `json:"from"`   // a network address, or a conversation
	Action string    `json:"action"` // such as "POST /api/v1/agents", "approval approved", "configuration"
	Target string    `json:"target"` // what was changed, where the action does not say so
}

// Store keeps entries by name.
type Store interface {
	SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error
	Items(ctx context.Context, kind string) (map[string]json.RawMessage, error)
	DeleteItem(ctx context.Context, kind, name string) error
}

// itemKind is the kind of the stored items.
const itemKind = "audit"

// Log is the list of changes. It is safe for concurrent use.
type Log struct {
	store Store
	log   *slog.Logger
	now   func() time.Time

	mu   sync.Mutex
	list []Entry // oldest first
	last uint64  // the highest number used
}

// Load reads the stored entries. It returns an error when one of them cannot be read.
func Load(ctx context.Context, store Store, now func() time.Time, log *slog.Logger) (*Log, error) {
	items, err := store.Items(ctx, itemKind)
	if err != nil {
		return nil, err
	}
	l := &Log{store: store, now: now, log: log}
	for _, name := range slices.Sorted(maps.Keys(items)) {
		var e Entry
		n, err := strconv.ParseUint(name, 10, 64)
		if err == nil {
			err = json.Unmarshal(items[name], &e)
		}
		if err != nil {
			return nil, fmt.Errorf("read audit entry %s: %w", name, err)
		}
		l.list, l.last = append(l.list, e), n
	}
	return l, nil
}

// Record stores an entry and sets its ID and Time. It logs an error when the entry cannot be stored.
func (l *Log) Record(ctx context.Context, e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	// Twelve digits with leading zeros, so that IDs sort as text.
	e.ID, e.Time = fmt.Sprintf("%012d", l.last), l.now().UTC()
	raw, err := json.Marshal(e)
	if err == nil {
		err = l.store.SaveItem(ctx, itemKind, e.ID, raw, true)
	}
	if err != nil {
		l.log.Error("audit entry not stored", "action", e.Action, "target", e.Target, "who", e.Who, "error", err)
		return
	}
	l.list = append(l.list, e)
	// An old entry that could not be deleted stays in the list, so that the next Record tries again.
	for len(l.list) > MaxEntries {
		if err := l.store.DeleteItem(ctx, itemKind, l.list[0].ID); err != nil {
			l.log.Warn("old audit entry not deleted", "entry", l.list[0].ID, "error", err)
			return
		}
		l.list = l.list[1:]
	}
}

// Entries returns up to n entries, newest first, that are older than the entry with the ID before. An empty ID
// returns the newest ones.
func (l *Log) Entries(before string, n int) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := []Entry{}
	for _, e := range slices.Backward(l.list) {
		if (before == "" || e.ID < before) && len(list) < n {
			list = append(list, e)
		}
	}
	return list
}
