package bolt

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"ravenbot/internal/store"
)

// How many calls, and texts of large results, are kept.
const (
	maxCalls   = 20_000
	maxResults = 256
)

// SaveCalls stores calls that belong to no turn, or whose turn is saved later.
func (db *DB) SaveCalls(ctx context.Context, calls []store.ToolCall) error {
	if err := db.update(ctx, func(tx *tx) error { return saveCalls(tx, calls) }); err != nil {
		return fmt.Errorf("store tool calls: %w", err)
	}
	return nil
}

// saveCalls stores records of calls and, apart from them, the results that are too long to be shown at once. The
// oldest go where there are too many.
func saveCalls(tx *tx, calls []store.ToolCall) error {
	for _, c := range calls {
		b := tx.top(callsBucket)
		c.Seq = b.nextSequence()
		if err := b.put(seqKey(c.Seq), c); err != nil {
			return err
		}
		// Calls are numbered without gaps, so no counting is needed.
		if k, _ := b.cursor().first(); k != nil && binary.BigEndian.Uint64(k)+maxCalls <= c.Seq {
			if err := b.delete(k); err != nil {
				return err
			}
		}
		if c.ResultID == "" {
			continue
		}
		results := tx.top(resultsBucket)
		r := store.ToolResult{ID: c.ResultID, Conversation: c.Conversation, At: c.Began, Text: c.Whole}
		if err := results.put([]byte(c.ResultID), r); err != nil {
			return err
		}
		// Identifiers of results sort by time, so the first is the oldest.
		n, err := results.count()
		if err != nil {
			return err
		}
		if k, _ := results.cursor().first(); n > maxResults {
			if err := results.delete(k); err != nil {
				return err
			}
		}
	}
	return nil
}

// ToolCalls returns up to n calls that match, newest first, with a Seq below before; 0
// begins with the newest.
func (db *DB) ToolCalls(
	ctx context.Context,
	before uint64,
	n int,
	match func(store.ToolCall) bool,
) ([]store.ToolCall, error) {
	var list []store.ToolCall
	err := db.view(func(tx *tx) error {
		c := tx.top(callsBucket).cursor()
		k, v := c.last()
		if before > 0 {
			// seek finds the first key from before on. Where there is none, all are below it.
			if at, _ := c.seek(seqKey(before)); at != nil {
				k, v = c.prev()
			} else {
				k, v = c.last()
			}
		}
		for ; k != nil && len(list) < n && ctx.Err() == nil; k, v = c.prev() {
			var call store.ToolCall
			if err := db.decode(k, v, &call); err != nil {
				return err
			}
			if match == nil || match(call) {
				list = append(list, call)
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list tool calls: %w", err)
	}
	return list, nil
}

// ToolResult returns the text of a large result. It returns store.ErrNotFound where it is
// no longer kept.
func (db *DB) ToolResult(_ context.Context, id string) (store.ToolResult, error) {
	var r store.ToolResult
	err := db.view(func(tx *tx) error {
		found, err := tx.top(resultsBucket).get([]byte(id), &r)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		return err
	})
	if err != nil {
		return store.ToolResult{}, fmt.Errorf("load tool result %.40q: %w", id, err)
	}
	return r, nil
}

// SaveApproval stores an approval and replaces an earlier one of the same call.
func (db *DB) SaveApproval(ctx context.Context, a store.Approval) error {
	err := db.update(ctx, func(tx *tx) error {
		return tx.top(approvalsBucket).put([]byte(a.Turn+nul+a.Call), a)
	})
	if err != nil {
		return fmt.Errorf("store the approval of %s: %w", a.Tool, err)
	}
	return nil
}

// DecideApproval stores the decision on an approval that is stored without one. It returns false and changes nothing
// where it is decided already, or is not stored under that ID.
func (db *DB) DecideApproval(ctx context.Context, a store.Approval) (decided bool, err error) {
	err = db.update(ctx, func(tx *tx) error {
		var kept store.Approval
		b, key := tx.top(approvalsBucket), []byte(a.Turn+nul+a.Call)
		_, err := b.get(key, &kept)
		if decided = err == nil && kept.ID == a.ID && kept.Decision == ""; !decided {
			return err
		}
		return b.put(key, a)
	})
	if err != nil {
		return false, fmt.Errorf("store the decision on %s: %w", a.Tool, err)
	}
	return decided, nil
}

// Approvals returns those that were asked for since a time; the zero time: all that are kept.
func (db *DB) Approvals(_ context.Context, since time.Time) ([]store.Approval, error) {
	var list []store.Approval
	err := db.view(func(tx *tx) error {
		return tx.top(approvalsBucket).each(func(k, v []byte) error {
			var a store.Approval
			err := db.decode(k, v, &a)
			if err == nil && !a.At.Before(since) {
				list = append(list, a)
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list approvals: %w", err)
	}
	return list, nil
}
