package invoke

import (
	"context"
	"time"

	"ravenbot/internal/store"
)

// recordTimeout bounds storing a call whose caller has left.
const recordTimeout = 10 * time.Second

// CallStore keeps the records of calls.
type CallStore interface {
	SaveCalls(ctx context.Context, calls []store.ToolCall) error
}

// Recorded makes calls, and stores their records for callers without a turn.
type Recorded struct {
	*Invoker
	Store CallStore
}

// SaveCalls stores the records of calls that were made, although their caller may have left.
func (r Recorded) SaveCalls(ctx context.Context, calls []store.ToolCall) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return r.Store.SaveCalls(ctx, calls)
}
