// Package audit records changes of the bot with their time and author: changes over the HTTP API and the pages,
// logins, changes by people in the chat, tool calls with possible effects and the decisions about them, and new
// configurations.
//
// It promises that an entry is on disk when Record returns. If the store cannot be written, the entry goes to the log
// and is stored later, unless the process ends before. No entry holds a secret or the text of a message. Each entry
// holds the hash of the previous one, so that Verify finds a changed entry. The entries of all processes that share a
// store are one chain. The newest MaxEntries entries are kept. The hash of the newest entry is logged once a day: a
// copy of it kept elsewhere also reveals a chain that was rebuilt completely.
package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"ravenbot/internal/store"
)

// MaxEntries is how many entries are kept.
const MaxEntries = 10_000

// Rules of entries that could not be stored.
const (
	retryAfter = 5 * time.Second // between two tries
	maxWaiting = 1000            // kept in memory; what comes then is in the log alone
	// lastTimeout bounds the last try, when the process ends.
	lastTimeout = 2 * time.Second
)

// errBehind is why an entry is not stored that was not tried.
var errBehind = errors.New("it waits behind entries that could not be stored a moment ago")

// headInterval is how often the hash of the newest entry is logged.
const headInterval = 24 * time.Hour

// ActionExport is the action of the entry that ends an export.
const ActionExport = "audit export"

// Entry is one change. Its JSON form is the HTTP API's and that of exports.
type Entry struct {
	ID     string    `json:"id"`
	Time   time.Time `json:"time"`
	Who    string    `json:"who"`    // as Identity returns it
	From   string    `json:"from"`   // a network address, a conversation, or the command line
	Action string    `json:"action"` // such as "agent changed", "call approved", "configuration reloaded"
	Target string    `json:"target"` // the name of what was changed
	// Changes are the fields that have changed. Entries of earlier versions have none.
	Changes []Change `json:"changes,omitzero"`
	Seq     uint64   `json:"seq"`  // counts up by one
	Prev    string   `json:"prev"` // Hash of the entry before; empty in the first
	// Hash is the SHA-256, in hex, of the entry's JSON without it. Entries of before the chain have none.
	Hash string `json:"hash,omitempty"`
}

// Link is the place of an entry in the chain.
type Link struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// logged returns what the log says of an entry.
func (e Entry) logged() []any {
	return []any{"action", e.Action, "target", e.Target, "who", e.Who, "at", e.Time}
}

// isSame reports whether another entry is of the same change.
func (e Entry) isSame(o Entry) bool {
	return o.Time.Equal(e.Time) && o.Who == e.Who && o.From == e.From && o.Action == e.Action && o.Target == e.Target &&
		slices.Equal(o.Changes, e.Changes)
}

// link returns the entry's place in the chain.
func (e Entry) link() Link { return Link{e.Seq, e.Hash} }

// Kinds of the stored items. The base is the newest entry that is no longer kept: the chain goes on from there.
const (
	itemKind = "audit"
	baseKind = "audit base"
	baseName = "base"
)

// Log is the list of changes. It is safe for concurrent use.
type Log struct {
	store store.Items
	log   *slog.Logger
	now   func() time.Time

	// mu guards the fields below. It is held while an entry is stored, because each names the one before.
	mu   sync.Mutex
	list []Entry // oldest first
	base Link
	head Link // the newest entry, or the base
	// waiting are the entries that could not be stored, oldest first, and failed is when that was tried last.
	waiting []Entry
	failed  time.Time
}

// maxTries bounds how often Record finds that another process was quicker.
const maxTries = 100

// Load reads the stored entries. It returns an error when one of them cannot be read.
func Load(ctx context.Context, store store.Items, now func() time.Time, log *slog.Logger) (*Log, error) {
	list, base, err := read(ctx, store)
	if err != nil {
		return nil, err
	}
	l := &Log{store: store, now: now, log: log, list: list, base: base, head: base}
	if len(list) > 0 {
		l.head = list[len(list)-1].link()
	}
	// Entries of before the chain have no hash: it begins behind them.
	if l.head.Hash == "" && l.head != l.base {
		if err := l.saveBase(ctx, l.head); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// read returns the stored entries, oldest first, and the base.
func read(ctx context.Context, store store.Items) ([]Entry, Link, error) {
	base, _, err := readBase(ctx, store)
	if err != nil {
		return nil, base, err
	}
	items, err := store.Items(ctx, itemKind)
	if err != nil {
		return nil, base, err
	}
	var list []Entry
	for _, name := range slices.Sorted(maps.Keys(items)) {
		e, err := decodeEntry(name, items[name])
		if err != nil {
			return nil, base, err
		}
		list = append(list, e)
	}
	return list, base, nil
}

// readBase returns the base, and how it is stored; nil: there is none.
func readBase(ctx context.Context, store store.Items) (base Link, raw json.RawMessage, err error) {
	bases, err := store.Items(ctx, baseKind)
	if raw = bases[baseName]; err == nil && raw != nil {
		err = json.Unmarshal(raw, &base)
	}
	if err != nil {
		return base, nil, fmt.Errorf("read where the audit begins: %w", err)
	}
	return base, raw, nil
}

// decodeEntry returns a stored entry. Entries from before the chain of hashes have no number in them: theirs is their
// name in the store.
func decodeEntry(name string, raw json.RawMessage) (Entry, error) {
	var e Entry
	n, err := strconv.ParseUint(name, 10, 64)
	if err == nil {
		err = json.Unmarshal(raw, &e)
	}
	if err != nil {
		return e, fmt.Errorf("read audit entry %s: %w", name, err)
	}
	if e.Hash == "" {
		e.Seq = n
	}
	return e, nil
}

// formatID returns the ID of the entry with a number: twelve digits with leading zeros, so that IDs sort as text.
func formatID(seq uint64) string { return fmt.Sprintf("%012d", seq) }

// saveBase moves the base on, unless another process has moved it as far or further; l.mu is held.
func (l *Log) saveBase(ctx context.Context, base Link) error {
	there, was, err := readBase(ctx, l.store)
	if err != nil {
		return err
	}
	if there.Seq >= base.Seq {
		l.base = there
		return nil
	}
	raw, err := json.Marshal(base)
	moved := false
	if err == nil {
		moved, err = l.store.SwapItem(ctx, baseKind, baseName, was, raw, nil)
	}
	if err == nil && !moved {
		err = errors.New("another process has moved it meanwhile")
	}
	if err != nil {
		return fmt.Errorf("store where the audit begins: %w", err)
	}
	l.base = base
	return nil
}

// complete returns an entry with the time, and with who makes changes in a context, from where, as far as it does not
// say so itself.
func (l *Log) complete(ctx context.Context, e Entry) Entry {
	a, _ := findActor(ctx)
	e.Time, e.Who, e.From = l.now().UTC(), cmp.Or(e.Who, a.who), cmp.Or(e.From, a.from)
	if e.Changes == nil {
		e.Changes = []Change{}
	}
	return e
}

// Record stores an entry and sets its ID, Time and place in the chain. Who and From may be left to the context. An entry
// that cannot be stored is logged and stored later: the change has happened, and the caller could only report the same.
// Record waits for the store unless the store has failed a moment ago.
func (l *Log) Record(ctx context.Context, e Entry) {
	e = l.complete(ctx, e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= maxWaiting {
		l.log.Error("dropped an audit entry: too many are waiting", e.logged()...)
		return
	}
	l.waiting = append(l.waiting, e)
	err := errBehind
	if e.Time.Sub(l.failed) >= retryAfter {
		if err = l.storeWaiting(ctx); err == nil {
			return
		}
	}
	l.log.Error("failed to store an audit entry; retrying", append(e.logged(), "waiting", len(l.waiting), "error", err)...)
}

// storeWaiting stores the entries that wait, until one of them fails; l.mu is held.
func (l *Log) storeWaiting(ctx context.Context) error {
	for len(l.waiting) > 0 {
		add := l.add
		if !l.failed.IsZero() {
			add = l.addAgain
		}
		if err := add(ctx, l.waiting[0]); err != nil {
			l.failed = l.now().UTC()
			return err
		}
		l.waiting, l.failed = l.waiting[1:], time.Time{}
	}
	l.waiting = nil
	return nil
}

// Retry stores the entries that could not be stored, at intervals until ctx ends and once more then.
func (l *Log) Retry(ctx context.Context) {
	tick := time.NewTicker(retryAfter)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.retryOnce(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
			defer cancel()
			l.retryOnce(last)
			return
		}
	}
}

// retryOnce tries to store what waits.
func (l *Log) retryOnce(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.waiting)
	if n == 0 {
		return
	}
	if err := l.storeWaiting(ctx); err != nil {
		l.log.Warn("failed to store audit entries; retrying", "waiting", len(l.waiting), "error", err)
		return
	}
	l.log.Info("stored the audit entries that were waiting", "entries", n)
}

// add stores an entry behind the newest one; l.mu is held.
func (l *Log) add(ctx context.Context, e Entry) error {
	for range maxTries {
		e.Seq, e.Prev = l.head.Seq+1, l.head.Hash
		e.ID = formatID(e.Seq)
		e.Hash = e.computeHash()
		raw, err := json.Marshal(e)
		if err != nil {
			return err
		}
		// The number is free as long as no other process has taken it.
		err = l.store.SaveItem(ctx, itemKind, e.ID, raw, false)
		switch {
		case errors.Is(err, store.ErrExists):
			if err := l.readNewer(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		l.list, l.head = append(l.list, e), e.link()
		l.dropOld(ctx)
		return nil
	}
	return errors.New("other processes have taken the next number each time")
}

// addAgain is add for an entry that could not be stored. It may have been all the same: the answer of a database gets
// lost.
func (l *Log) addAgain(ctx context.Context, e Entry) error {
	if err := l.readNewer(ctx); err != nil {
		return err
	}
	if slices.ContainsFunc(l.list, e.isSame) {
		return nil
	}
	return l.add(ctx, e)
}

// readNewer adds the entries of other processes behind the newest one that is known; l.mu is held.
func (l *Log) readNewer(ctx context.Context) error {
	for {
		id := formatID(l.head.Seq + 1)
		raw, err := l.store.Item(ctx, itemKind, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		e, err := decodeEntry(id, raw)
		if err != nil {
			return err
		}
		l.list, l.head = append(l.list, e), e.link()
	}
}

// SharedKinds returns the kind whose changes Reload takes up.
func (*Log) SharedKinds() []string { return []string{itemKind} }

// Reload adds the entries that other processes have stored, and drops those that they have deleted. It fails when the
// store does; what was read until then counts.
func (l *Log) Reload(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Other processes delete entries only where there are more than MaxEntries.
	if err := l.readNewer(ctx); err != nil || len(l.list) <= MaxEntries {
		return err
	}
	base, _, err := readBase(ctx, l.store)
	// A base that is none of the entries is left for Verify to report.
	if at := l.find(base); err == nil && at >= 0 {
		l.base, l.list = base, l.list[at+1:]
	}
	return err
}

// find returns the index of an entry, or -1; l.mu is held.
func (l *Log) find(link Link) int {
	return slices.IndexFunc(l.list, func(e Entry) bool { return e.link() == link })
}

// dropOld deletes the entries above MaxEntries; l.mu is held. An entry that could not be deleted stays in the list,
// so that the next Record tries again.
func (l *Log) dropOld(ctx context.Context) {
	for len(l.list) > MaxEntries {
		oldest := l.list[0]
		// The base goes first: a crash between the two leaves an entry too many, and no gap.
		if oldest.Seq > l.base.Seq {
			if err := l.saveBase(ctx, oldest.link()); err != nil {
				l.log.Warn("failed to delete an old audit entry", "entry", oldest.ID, "error", err)
				return
			}
		}
		// Another process may have deleted it.
		if err := l.store.DeleteItem(ctx, itemKind, oldest.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
			l.log.Warn("failed to delete an old audit entry", "entry", oldest.ID, "error", err)
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

// Run logs the newest entry's number and hash, now and once a day, until ctx ends.
func (l *Log) Run(ctx context.Context) {
	tick := time.NewTicker(headInterval)
	defer tick.Stop()
	for {
		l.mu.Lock()
		head := l.head
		l.mu.Unlock()
		l.log.Info("newest audit entry", "seq", head.Seq, "hash", head.Hash)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
