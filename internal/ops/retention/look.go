package retention

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"ravenbot/internal/store"
)

const (
	// maxAhead is how far the clock may be ahead of the last look. A machine that was off for longer is taken for one
	// with a wrong clock, too.
	maxAhead = 48 * time.Hour
	// doubtFor is how long a clock further ahead has to stay so before records are deleted by it: enough for a time
	// server, or a person, to set it right.
	doubtFor = 24 * time.Hour
)

// lookKind and lookName name the item of the store that holds the last look.
const (
	lookKind = "retention"
	lookName = "last look"
)

// look is when the store was last looked through for old records. It outlives the process, since a clock is wrong most
// often after the machine has started.
type look struct {
	At    time.Time `json:"at"`
	Doubt time.Time `json:"doubt,omitzero"` // when the clock was first found far ahead of At
}

// lookStore keeps the last look.
type lookStore interface {
	Item(ctx context.Context, kind, name string) (json.RawMessage, error)
	SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error
}

// trustClock reports whether records may be deleted by the clock: what a clock deletes that is years ahead does not
// come back when it is set right. A look that cannot be read or stored is logged.
func trustClock(ctx context.Context, o Options) bool {
	last, err := readLook(ctx, o.Store)
	if err != nil {
		logFailure(ctx, o.Log, err)
		return false
	}
	now := o.Now().Round(0) // without the reading of the timers, which know nothing of a clock that was set
	next := look{At: now}
	ahead := now.Sub(last.At)
	isNew := last.At.IsZero()
	// A doubt from the future is one about another clock than that of now.
	if !isNew && ahead > maxAhead && (last.Doubt.IsZero() || now.Before(last.Doubt.Add(doubtFor))) {
		next = look{At: last.At, Doubt: last.Doubt}
		if last.Doubt.IsZero() || now.Before(last.Doubt) {
			next.Doubt = now
		}
		o.Log.Warn("clock is far ahead of the last retention run; not deleting old records yet",
			"last", last.At.UTC(), "ahead", ahead.Round(time.Second), "until", next.Doubt.Add(doubtFor).UTC(),
			"remedy", "correct the clock")
	}
	if err := saveLook(ctx, o.Store, next); err != nil {
		logFailure(ctx, o.Log, err)
	}
	return next.Doubt.IsZero()
}

// logFailure logs that the last look could not be read or stored.
func logFailure(ctx context.Context, log *slog.Logger, err error) {
	if ctx.Err() == nil {
		log.Error("failed to store the time of the last retention run", "error", err)
	}
}

// readLook returns the last look, the zero look where there was none.
func readLook(ctx context.Context, s lookStore) (l look, err error) {
	raw, err := s.Item(ctx, lookKind, lookName)
	if errors.Is(err, store.ErrNotFound) {
		return look{}, nil
	}
	if err != nil {
		return look{}, err
	}
	return l, json.Unmarshal(raw, &l)
}

// saveLook stores the last look.
func saveLook(ctx context.Context, s lookStore, l look) error {
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return s.SaveItem(ctx, lookKind, lookName, raw, true)
}
