// Package audit keeps what was changed on the bot, when and by whom: over the HTTP API
// and the pages, by decisions about tool calls, and by a new configuration. It promises
// that an entry is on disk when Note returns, that no secret and no text of a message
// is in one, and that the newest Most entries are kept. What tools did is kept
// elsewhere, with their calls.
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
	Target string    `json:"target"` // what was changed, where the action does not say it
}

// Store keeps entries by name.
type Store interface {
	SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error
	Items(ctx context.Context, kind string) (map[string]json.RawMessage, error)
	DeleteItem(ctx context.Context, kind, name string) error
}

// itemKind is that of the items.
const itemKind = "audit"

// Log is the list of changes. It is safe for concurrent use.
type Log struct {
	store Store
	log   *slog.Logger
	now   func() time.Time

	mu   sync.Mutex
	list []Entry // oldest first
	last uint64  // the highest number given
}

// Load reads what is kept.
func Load(ctx context.Context, shelf Store, now func() time.Time, log *slog.Logger) (*Log, error) {
	items, err := shelf.Items(ctx, itemKind)
	if err != nil {
		return nil, err
	}
	b := &Log{store: shelf, now: now, log: log}
	for _, name := range slices.Sorted(maps.Keys(items)) {
		var e Entry
		n, err := strconv.ParseUint(name, 10, 64)
		if err == nil {
			err = json.Unmarshal(items[name], &e)
		}
		if err != nil {
			return nil, fmt.Errorf("read entry %s of the audit: %w", name, err)
		}
		b.list, b.last = append(b.list, e), n
	}
	return b, nil
}

// Record keeps an entry; ID and Time are set here. What cannot be kept is in the log.
func (b *Log) Record(ctx context.Context, e Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	e.ID, e.Time = fmt.Sprintf("%012d", b.last), b.now().UTC()
	raw, err := json.Marshal(e)
	if err == nil {
		err = b.store.SaveItem(ctx, itemKind, e.ID, raw, true)
	}
	if err != nil {
		b.log.Error("change not kept in the audit", "action", e.Action, "target", e.Target, "who", e.Who, "error", err)
		return
	}
	b.list = append(b.list, e)
	for len(b.list) > MaxEntries {
		if err := b.store.DeleteItem(ctx, itemKind, b.list[0].ID); err != nil {
			b.log.Warn("old entry of the audit not removed", "entry", b.list[0].ID, "error", err)
			return
		}
		b.list = b.list[1:]
	}
}

// Entries gives up to n entries, newest first, that are older than the one with an ID;
// without an ID from the newest on.
func (b *Log) Entries(before string, n int) []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []Entry{}
	for _, e := range slices.Backward(b.list) {
		if (before == "" || e.ID < before) && len(list) < n {
			list = append(list, e)
		}
	}
	return list
}
