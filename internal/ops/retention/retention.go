// Package retention deletes expired records while the bot works. The store deletes in small transactions, and other
// packages delete their data of a conversation with its turns.
package retention

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
)

// Options are what the service needs.
type Options struct {
	Store interface {
		Prune(ctx context.Context, keep store.Retention) ([]chat.Address, error)
		lookStore
	}
	// Now is the clock that the store measures ages by.
	Now func() time.Time
	// Keep returns the retention in effect.
	Keep func() store.Retention
	// Forget is called with the conversations that lost turns or their summary.
	Forget func(ctx context.Context, conversations []chat.Address) error
	// Totals are those of days, which are deleted by a time of their own; nil: none are kept.
	Totals interface {
		Prune(ctx context.Context) error
	}
	// Vectors are deleted after the texts that they were made of. It may be nil.
	Vectors interface {
		Prune(ctx context.Context) error
	}
	// Changed has the store pruned at once: the retention is another one.
	Changed Signal
	Log     *slog.Logger
}

// Configured returns how long records are kept by a configuration. rooms is the platform of the web rooms.
func Configured(c *config.Config, rooms string) store.Retention {
	keep := store.Retention{
		Calls:    c.Retention.Calls.Std(),
		Usage:    c.Retention.Usage.Std(),
		Feedback: c.Retention.Feedback.Std(),
	}
	if c.LimitsConversations() {
		keep.Conversations = func(at chat.Address) time.Duration { return c.RetentionFor(at.String()) }
		keep.Rooms = func(room string) time.Duration {
			return keep.Conversations(chat.Address{Platform: rooms, Channel: room})
		}
	}
	return keep
}

// IsOver returns what reports whether something that was said in a conversation is over its retention. It may still be
// stored for some hours.
func IsOver(conf func() *config.Config, rooms string, now func() time.Time) func(chat.Address, time.Time) bool {
	return func(in chat.Address, at time.Time) bool { return Configured(conf(), rooms).IsOver(in, at, now()) }
}

// Signal has Run prune the store at once. A second one before the first was looked at needs no second look.
type Signal chan struct{}

// NewSignal returns a Signal.
func NewSignal() Signal { return make(Signal, 1) }

// Send sends the signal where one of the configuration's keys that have changed is about retention. It waits for nobody.
func (s Signal) Send(changed []string) {
	if !slices.Contains(changed, "retention") && !slices.Contains(changed, "channels") {
		return
	}
	select {
	case s <- struct{}{}:
	default:
	}
}

// Times of pruning. The first follows the start closely, since it ends what a crash left; the
// others look through all indexes, which takes seconds of processor time on stores of gigabytes.
const (
	first = 10 * time.Second
	every = 6 * time.Hour
)

// Run prunes the store until ctx ends.
func Run(ctx context.Context, o Options) {
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-o.Changed:
		}
		prune(ctx, o)
		timer.Reset(every)
	}
}

// prune deletes once what is over its time, unless the clock is in doubt. A failure is logged; the next time makes up
// for it.
func prune(ctx context.Context, o Options) {
	if !trustClock(ctx, o) {
		return
	}
	if o.Totals != nil {
		if err := o.Totals.Prune(ctx); err != nil && ctx.Err() == nil {
			o.Log.Error("failed to delete old daily totals; retrying later", "error", err, "next", every)
		}
	}
	changed, err := o.Store.Prune(ctx, o.Keep())
	// What was deleted before an error is forgotten, too.
	if len(changed) > 0 {
		if failed := o.Forget(ctx, changed); failed != nil && ctx.Err() == nil {
			o.Log.Error("failed to forget deleted turns in memory; they may be used until the next restart", "error", failed)
		}
	}
	if err != nil && ctx.Err() == nil {
		o.Log.Error("failed to delete all old records; retrying later", "error", err, "next", every)
	}
	if o.Vectors != nil {
		if err := o.Vectors.Prune(ctx); err != nil && ctx.Err() == nil {
			o.Log.Error("failed to delete the vectors of deleted texts; retrying later", "error", err, "next", every)
		}
	}
}
