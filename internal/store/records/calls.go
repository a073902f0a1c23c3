package records

import (
	"context"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

var (
	// calls holds the calls of tools, by their numbers.
	calls = kv.Of[store.ToolCall](kv.Spec{Name: "calls"})
	// results holds the results that are too large to be shown at once, by their IDs, which sort by time.
	results = kv.Of[store.ToolResult](kv.Spec{Name: "results"})
	// approvals holds approvals by their turn and call.
	approvals = kv.Of[store.Approval](kv.Spec{Name: "approvals", Watch: func(string, string, bool) string {
		return store.ApprovalChanges
	}})
)

// How many calls, and texts of large results, are kept.
const (
	maxCalls   = 20_000
	maxResults = 256
)

// SaveCalls stores calls that belong to no turn, or whose turn is saved later.
func (s *Store) SaveCalls(ctx context.Context, ended []store.ToolCall) error {
	err := s.update(ctx, func(tx kv.Tx) error { return saveCalls(tx, ended) })
	return wrap(err, "store tool calls")
}

// saveCalls stores calls and, apart from them, the results that are too long to be shown at once. The oldest go if there
// are too many.
func saveCalls(tx kv.Tx, ended []store.ToolCall) error {
	for _, c := range ended {
		var err error
		if c.Seq, err = tx.Next(calls.Spec, ""); err != nil {
			return err
		}
		if err := calls.Put(tx, "", kv.NumberKey(c.Seq), c); err != nil {
			return err
		}
		// Numbers may be missing, so that a few calls more may be gone.
		if c.Seq > maxCalls {
			if err := calls.Delete(tx, "", kv.NumberKey(c.Seq-maxCalls)); err != nil {
				return err
			}
		}
		if c.ResultID == "" {
			continue
		}
		r := store.ToolResult{ID: c.ResultID, Conversation: c.Conversation, At: c.Began, Text: c.Whole}
		if err := results.Put(tx, "", c.ResultID, r); err != nil {
			return err
		}
		if err := deleteOldest(tx, results.Spec, "", maxResults); err != nil {
			return err
		}
	}
	return nil
}

// deleteOldest deletes the first records of a group whose keys sort by time, all but the last keep.
func deleteOldest(tx kv.Tx, spec *kv.Spec, group string, keep int) error {
	n, err := tx.Count(spec, group)
	if err != nil || n <= keep {
		return err
	}
	var old []string
	err = tx.Scan(spec, kv.Range{Group: group, Limit: n - keep, KeysOnly: true}, func(e kv.Entry) error {
		old = append(old, e.Key)
		return nil
	})
	for _, key := range old {
		if err == nil {
			err = tx.Delete(spec, group, key)
		}
	}
	return err
}

// ToolCalls returns up to n calls that match, newest first, with a Seq below before; 0 begins with the newest.
func (s *Store) ToolCalls(
	ctx context.Context,
	before uint64,
	n int,
	match func(store.ToolCall) bool,
) ([]store.ToolCall, error) {
	r := kv.Range{Reverse: true}
	if before > 0 {
		r.To = kv.NumberKey(before)
	}
	found, err := read(ctx, s, func(tx kv.Tx) (found []store.ToolCall, err error) {
		err = calls.Scan(tx, r, func(_ string, c store.ToolCall) error {
			if len(found) >= n {
				return kv.ErrStop
			}
			if match == nil || match(c) {
				found = append(found, c)
			}
			return ctx.Err()
		})
		return found, err
	})
	return found, wrap(err, "list tool calls")
}

// ToolResult returns the text of a large result. It returns store.ErrNotFound if it is no longer kept.
func (s *Store) ToolResult(ctx context.Context, id string) (store.ToolResult, error) {
	r, err := mustFind(ctx, s, results, "", id)
	return r, wrap(err, "load tool result %.40q", id)
}

func approvalKey(a store.Approval) string { return kv.Key(a.Turn, a.Call) }

// SaveApproval stores an approval and replaces an earlier one of the same call.
func (s *Store) SaveApproval(ctx context.Context, a store.Approval) error {
	key := approvalKey(a)
	err := s.update(ctx, func(tx kv.Tx) error { return approvals.Put(tx, "", key, a) }, "approval/"+key)
	return wrap(err, "store the approval of %s", a.Tool)
}

// DecideApproval stores the decision on an approval that is stored without one. It returns false and changes nothing if it
// is decided already, or is not stored under that ID.
func (s *Store) DecideApproval(ctx context.Context, a store.Approval) (decided bool, err error) {
	key := approvalKey(a)
	err = s.update(ctx, func(tx kv.Tx) error {
		kept, _, err := approvals.Get(tx, "", key)
		if decided = err == nil && kept.ID == a.ID && kept.Decision == ""; !decided {
			return err
		}
		return approvals.Put(tx, "", key, a)
	}, "approval/"+key)
	return decided && err == nil, wrap(err, "store the decision on %s", a.Tool)
}

// Approvals returns those that were asked for since a time; the zero time: all that are kept.
func (s *Store) Approvals(ctx context.Context, since time.Time) ([]store.Approval, error) {
	found, err := read(ctx, s, func(tx kv.Tx) (found []store.Approval, err error) {
		err = approvals.Scan(tx, kv.Range{}, func(_ string, a store.Approval) error {
			if !a.At.Before(since) {
				found = append(found, a)
			}
			return nil
		})
		return found, err
	})
	return found, wrap(err, "list approvals")
}
