package records

import (
	"context"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// Records calls fn with every record, those of a kind together (see kv.Dump). It returns an error if other processes may
// have changed them meanwhile.
func (s *Store) Records(ctx context.Context, fn func(store.Record) error) error {
	err := kv.Dump(ctx, s.Engine, Specs(), fn)
	if e, ok := s.Engine.(interface{ CheckAlone(context.Context) error }); ok && err == nil {
		err = e.CheckAlone(ctx)
	}
	return err
}

// Target is a store that is filled with the records of another one.
type Target struct {
	*Store
	target kv.Target
}

// NewTarget returns the store in an engine that a copy fills.
func NewTarget(t kv.Target) *Target { return &Target{New(t), t} }

// AddRecords stores records that Records returned, in one transaction.
func (t *Target) AddRecords(ctx context.Context, list []store.Record) error {
	return kv.Load(ctx, t.target, Specs(), list)
}

// Complete marks the store as filled, as the last step.
func (t *Target) Complete(ctx context.Context) error { return t.target.Complete(ctx) }
