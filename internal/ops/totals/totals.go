// Package totals keeps daily counts, so that pages can show the last weeks: answers by agent, calls of tools by
// server, runs of digests, and reads of feeds.
//
// It promises that each count is stored once, in at most one small write a minute, and that several processes add to
// the same days. A process that is killed loses the counts since its last write. Days end at midnight UTC, as in
// package budget.
package totals

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/text"
	"ravenbot/internal/ops/measure"
	"ravenbot/internal/store"
)

// Kind is what was counted. The names are stored, and shown by the API.
type Kind string

// The kinds of totals.
const (
	Answers    Kind = "answers"    // by agent; Results are the tokens that they used
	ToolCalls  Kind = "toolCalls"  // by MCP server or pack of native tools
	DigestRuns Kind = "digestRuns" // by digest; Results are the items that were posted
	FeedReads  Kind = "feedReads"  // by the address of the feed
)

const (
	// KeepDays is for how many days totals are kept.
	KeepDays = 90
	// MaxNames is how many names of a kind a day has at most; what has none of them is counted as Others.
	MaxNames = 500
	// Others is the name of what has no name, or found no place among MaxNames.
	Others = "(others)"

	maxName  = 256 // bytes of a name; what is longer is cut
	saveWait = time.Minute
	// saveTimeout bounds one attempt, also the last one of a process that is told to end.
	saveTimeout = 5 * time.Second
	// maxSwaps is how often a write is tried when other processes write at the same time.
	maxSwaps = 5
)

// Errors of a write, which is tried again.
var (
	errBusy       = errors.New("other replicas write at the same time")
	errUnresolved = errors.New("what became of an earlier write is not known yet")
)

// itemKind is the kind of the store's items; they are named after days.
const itemKind = "daily totals"

// Counts are totals by kind and name.
type Counts map[Kind]map[string]measure.Total

// Day is what was counted on a day by all processes. Counts is nil where nothing was.
type Day struct {
	Day    string // 2006-01-02, in UTC
	Counts Counts
}

// Counters return what was counted since the process began. They only grow.
type Counters map[Kind]func() map[string]measure.Total

// Store keeps the days, as in store.Store.
type Store interface {
	Items(ctx context.Context, kind string) (map[string]json.RawMessage, error)
	Item(ctx context.Context, kind, name string) (json.RawMessage, error)
	SwapItem(ctx context.Context, kind, name string, was, now json.RawMessage, posts []store.Post) (bool, error)
	DeleteItem(ctx context.Context, kind, name string) error
}

// Options are what a Recorder needs.
type Options struct {
	Store    Store
	Counters Counters
	Log      *slog.Logger
	Now      func() time.Time
}

// Recorder adds what counters grow by to the totals of the day. It is safe for concurrent use.
type Recorder struct {
	o Options

	// mu is held while the store is read or written, too: what is stored and what is not yet have to be of one moment.
	mu      sync.Mutex
	counted Counts            // what the counters had when they were last read
	read    time.Time         // when that was
	unsaved map[string]Counts // by day
	last    write             // the newest that was tried
	sent    *attempt          // nil: no write has an unknown outcome
	failing bool              // the operator knows
}

// attempt is a write that has failed, which leaves open whether it took place: a disk that fails while it writes, or a
// database whose connection was lost, does not say what it has stored.
type attempt struct {
	day   string
	write write
	added Counts
}

// New returns a Recorder, which counts from now on.
func New(o Options) *Recorder {
	return &Recorder{o: o, counted: Counts{}, read: o.Now(), unsaved: map[string]Counts{},
		last: write{Writer: text.RandomID(writerBytes)}}
}

// Run stores what is counted, every minute and at the end of each day, until ctx ends, and then once more.
func (r *Recorder) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			r.save(context.WithoutCancel(ctx))
			return
		case <-time.After(untilSave(r.o.Now())):
			r.save(ctx)
		}
	}
}

// untilSave returns how long to wait for the next write: what is counted before midnight belongs to the day that ends.
func untilSave(now time.Time) time.Duration {
	midnight := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	return min(saveWait, midnight.Sub(now))
}

// Days returns the last n days up to today, oldest first, with what was counted until now.
func (r *Recorder) Days(ctx context.Context, n int) ([]Day, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collect()
	stored, err := r.o.Store.Items(ctx, itemKind)
	if err != nil {
		return nil, err
	}
	days := make([]Day, n)
	first := r.o.Now().UTC().AddDate(0, 0, 1-n)
	for i := range days {
		day := first.AddDate(0, 0, i).Format(time.DateOnly)
		kept, err := decode(stored[day])
		if err != nil {
			return nil, fmt.Errorf("read the totals of %s: %w", day, err)
		}
		r.resolve(day, kept)
		kept.counts.add(r.unsaved[day])
		days[i].Day = day
		if len(kept.counts) > 0 {
			days[i].Counts = kept.counts
		}
	}
	return days, nil
}

// Prune deletes the days that are over KeepDays. It believes the clock: who calls it knows whether that is right. A day
// ahead of the clock stays until it is as old.
func (r *Recorder) Prune(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	stored, err := r.o.Store.Items(ctx, itemKind)
	if err != nil {
		return err
	}
	first := r.o.Now().UTC().AddDate(0, 0, 1-KeepDays).Format(time.DateOnly)
	for _, day := range slices.Sorted(maps.Keys(stored)) {
		if day >= first {
			break
		}
		if err := r.o.Store.DeleteItem(ctx, itemKind, day); err != nil {
			return err
		}
	}
	return nil
}

// save stores what was counted and is not stored. What cannot be stored now stays for the next time.
func (r *Recorder) save(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collect()
	err := r.saveDays(ctx)
	if err != nil && !r.failing {
		r.o.Log.Warn("failed to store daily totals; retrying every minute", "error", err)
	}
	r.failing = err != nil
}

// saveDays stores the days that are not stored yet. The caller holds r.mu.
func (r *Recorder) saveDays(ctx context.Context) error {
	days := slices.Collect(maps.Keys(r.unsaved))
	if r.sent != nil && !slices.Contains(days, r.sent.day) {
		days = append(days, r.sent.day)
	}
	var failed error
	for _, day := range days {
		// One that cannot be stored keeps no other from it.
		if err := r.saveDay(ctx, day); err != nil {
			failed = errors.Join(failed, fmt.Errorf("store the totals of %s: %w", day, err))
		}
	}
	return failed
}

// saveDay adds what is not stored of a day to its record. The caller holds r.mu.
func (r *Recorder) saveDay(ctx context.Context, day string) error {
	for range maxSwaps {
		raw, err := r.load(ctx, day)
		if err != nil {
			return err
		}
		kept, err := decode(raw)
		if err != nil {
			return err
		}
		r.resolve(day, kept)
		added := r.unsaved[day]
		if len(added) == 0 {
			return nil
		}
		// A second write of unknown outcome could not be told from the first.
		if r.sent != nil {
			return errUnresolved
		}
		kept.counts.add(added)
		r.last.N++
		next, err := encode(kept, r.last)
		if err != nil {
			return err
		}
		swapped, err := r.o.Store.SwapItem(ctx, itemKind, day, raw, next, nil)
		if err != nil {
			r.sent = &attempt{day, r.last, added}
		}
		if err != nil || swapped {
			delete(r.unsaved, day)
			return err
		}
	}
	return errBusy
}

// resolve decides, by the record that a day has, whether the write of unknown outcome took place. What it did not store
// is unsaved again. The caller holds r.mu.
func (r *Recorder) resolve(day string, kept record) {
	if r.sent == nil || r.sent.day != day {
		return
	}
	if !kept.has(r.sent.write) {
		r.noteUnsaved(day, r.sent.added)
	}
	r.sent = nil
}

// collect takes what the counters have grown by since they were last read. It belongs to the day on which they were
// read then, or to that of now where a clock was ahead then. The caller holds r.mu.
func (r *Recorder) collect() {
	now := r.o.Now()
	day := min(r.read.UTC().Format(time.DateOnly), now.UTC().Format(time.DateOnly))
	r.read = now
	for kind, counter := range r.o.Counters {
		all := counter()
		grown := map[string]measure.Total{}
		for name, total := range all {
			if more := total.Minus(r.counted[kind][name]); more != (measure.Total{}) {
				name = shorten(name)
				grown[name] = grown[name].Plus(more)
			}
		}
		r.counted[kind] = all
		if len(grown) > 0 {
			r.noteUnsaved(day, Counts{kind: grown})
		}
	}
}

// noteUnsaved adds to what is not stored of a day. The caller holds r.mu.
func (r *Recorder) noteUnsaved(day string, more Counts) {
	if r.unsaved[day] == nil {
		r.unsaved[day] = Counts{}
	}
	r.unsaved[day].add(more)
}

// load returns the record of a day, or nil.
func (r *Recorder) load(ctx context.Context, day string) (json.RawMessage, error) {
	kept, err := r.o.Store.Item(ctx, itemKind, day)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return kept, err
}

// Of returns what was counted of something on a day. A name that is too long is cut as it was for the record.
func (d Day) Of(kind Kind, name string) measure.Total { return d.Counts[kind][shorten(name)] }

// All returns what was counted of everything of a kind on a day.
func (d Day) All(kind Kind) (sum measure.Total) {
	for _, one := range d.Counts[kind] {
		sum = sum.Plus(one)
	}
	return sum
}

// add adds what was counted besides. Names that have no place any more become Others.
func (c Counts) add(more Counts) {
	for kind, byName := range more {
		if c[kind] == nil {
			c[kind] = map[string]measure.Total{}
		}
		// In order, so that all processes keep the same names of what comes at once.
		for _, name := range slices.Sorted(maps.Keys(byName)) {
			to := name
			if _, ok := c[kind][to]; !ok && len(c[kind]) >= MaxNames {
				to = Others
			}
			c[kind][to] = c[kind][to].Plus(byName[name])
		}
	}
}

// shorten returns a name as records have it.
func shorten(name string) string {
	if name == "" {
		return Others
	}
	if len(name) > maxName {
		return strings.ToValidUTF8(name[:maxName], "")
	}
	return name
}
