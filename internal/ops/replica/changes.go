package replica

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"ravenbot/internal/store"
)

// Changes is a store that other processes write to.
type Changes interface {
	// Changes returns a number for each kind of records, another one after each change that another process has made. It
	// may change without one.
	Changes(ctx context.Context) (map[string]int64, error)
	// Changed brings a value soon after such a change, so that nobody has to wait for the next look. It may bring one
	// without a reason, and may miss one; nil brings none.
	Changed() <-chan struct{}
}

// Times of Watch.
const (
	watchEvery = 500 * time.Millisecond
	// gatherFor is how long a look waits after it was told of a change: many changes one after another are one look.
	gatherFor = 50 * time.Millisecond
	// maxWatch bounds one look at the numbers, maxReload one reload.
	maxWatch  = 5 * time.Second
	maxReload = time.Minute
	// restAfter is how many times as long as it took a reload rests: what changes all the time and is large must not
	// keep the process busy.
	restAfter = 20
)

// Watch has the parts reload what other processes have changed, half a second after the change at most, until ctx ends.
// All reload once when it begins: what was changed since they were loaded is not known. A reload that fails is
// repeated. A store that is no Changes belongs to this process alone, and Watch returns at once.
func Watch(ctx context.Context, db any, log *slog.Logger, parts ...store.Shared) {
	changes, ok := db.(Changes)
	if !ok {
		return
	}
	w := &watch{changes: changes, log: log}
	for _, p := range parts {
		w.parts = append(w.parts, &watched{Shared: p, kinds: p.SharedKinds(), isDue: true})
	}
	defer w.reloads.Wait()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-changes.Changed():
			select {
			case <-ctx.Done():
				return
			case <-time.After(gatherFor):
			}
		}
	}
}

// Reload has the parts reload, one after another, whether anything was changed or not. It returns the first error, and
// reloads the others all the same.
func Reload(ctx context.Context, parts ...store.Shared) error {
	var first error
	for _, p := range parts {
		if err := p.Reload(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// watch is a running Watch.
type watch struct {
	changes Changes
	log     *slog.Logger
	parts   []*watched
	seen    map[string]int64
	isAway  bool // the operator knows that the numbers cannot be read
	reloads sync.WaitGroup
}

// watched is a part with what is known of its reloads.
type watched struct {
	store.Shared
	kinds []string

	mu      sync.Mutex
	isDue   bool
	isBusy  bool
	rests   time.Time // until when
	failing bool      // the operator knows
}

// look reads the numbers and starts the reloads that are due.
func (w *watch) look(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, maxWatch)
	defer cancel()
	now, err := w.changes.Changes(within)
	if err != nil {
		if !w.isAway && ctx.Err() == nil {
			w.log.Warn("failed to look for changes of other replicas; retrying", "error", err)
		}
		w.isAway = ctx.Err() == nil
		return
	}
	w.isAway = false
	for _, p := range w.parts {
		// The numbers are older than what a reload reads from now on: nothing is missed between the two.
		changed := len(p.kinds) == 0 ||
			slices.ContainsFunc(p.kinds, func(kind string) bool { return now[kind] != w.seen[kind] })
		if p.begin(changed) {
			w.reloads.Go(func() { p.end(w.reload(ctx, p)) })
		}
	}
	// Also for parts that are busy or rest: they have noted that a reload is due.
	w.seen = now
}

// begin notes whether a reload is due, and reports whether it is to be started.
func (p *watched) begin(changed bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isDue = p.isDue || changed
	if !p.isDue || p.isBusy || time.Now().Before(p.rests) {
		return false
	}
	p.isDue, p.isBusy = false, true
	return true
}

// end notes the end of a reload.
func (p *watched) end(took time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isBusy, p.rests = false, time.Now().Add(restAfter*took)
	p.isDue = p.isDue || !ok
}

// reload has a part reload, and returns how long that took.
func (w *watch) reload(ctx context.Context, p *watched) (time.Duration, bool) {
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, maxReload)
	defer cancel()
	err := p.Reload(within)
	// No lock: one reload of a part runs at a time.
	if err != nil && !p.failing && ctx.Err() == nil {
		w.log.Error("failed to reload changes of other replicas; retrying", "kinds", p.kinds, "error", err)
	}
	p.failing = err != nil
	return time.Since(began), err == nil
}
