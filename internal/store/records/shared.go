package records

import (
	"context"
	"encoding/json"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// Shared is a Store that several processes use at once.
type Shared struct {
	*Store
	engine kv.SharedEngine
}

// NewShared returns the store in an engine that several processes use.
func NewShared(e kv.SharedEngine) *Shared { return &Shared{New(e), e} }

// Changes returns a number for each kind of records that other processes have changed: another one after each change.
func (s *Shared) Changes(ctx context.Context) (map[string]int64, error) { return s.engine.Changes(ctx) }

// Changed returns what brings a value soon after another process has changed something that Changes counts. It may bring
// one without a reason, and may miss one.
func (s *Shared) Changed() <-chan struct{} { return s.engine.Changed() }

// UsageOfOthers returns the sums of a day, written as 2006-01-02, without what this process has counted since the store
// was opened. What it counts meanwhile may be in them.
func (s *Shared) UsageOfOthers(ctx context.Context, day string) ([]store.Usage, error) {
	return s.usageOfOthers(ctx, day)
}

// Membership is the part of one process among those that share a store.
type Membership struct{ kv.Membership }

// Inherit ends the memberships whose time is over and returns what they left, which is this process's now.
func (m Membership) Inherit(ctx context.Context) (store.Inherited, error) {
	left, err := m.Membership.Inherit(ctx)
	if err != nil {
		return store.Inherited{}, err
	}
	waiting, err := decodeAll[inboxRecord](left.Values[inbox.Spec])
	if err != nil {
		return store.Inherited{}, wrap(err, "read inherited messages")
	}
	posts, err := decodeAll[store.Post](left.Values[outbox.Spec])
	if err != nil {
		return store.Inherited{}, wrap(err, "read inherited posts")
	}
	inherited := store.Inherited{From: left.From, Messages: received(waiting), Keys: left.Keys}
	sortPosts(posts)
	for _, p := range posts {
		if !p.Notified { // else it was given up, and its place knows
			inherited.Posts = append(inherited.Posts, p)
		}
	}
	return inherited, nil
}

func decodeAll[T any](values [][]byte) (list []T, err error) {
	for _, v := range values {
		var record T
		if err := json.Unmarshal(v, &record); err != nil {
			return nil, err
		}
		list = append(list, record)
	}
	return list, nil
}
