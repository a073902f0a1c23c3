package postgres

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/store"
)

// How many calls, and texts of large results, are kept.
const (
	// maxCalls is the same as in the store in a file; maxResults is how many results longer than what is shown are kept
	// whole.
	maxCalls   = 20_000
	maxResults = 256
)

// SaveCalls stores calls that belong to no turn, or whose turn is saved later.
func (db *DB) SaveCalls(ctx context.Context, calls []store.ToolCall) error {
	err := db.write(ctx, func(t *tx) error {
		w := turnWrite{tx: t, calls: calls}
		if err := w.allocate(); err != nil {
			return err
		}
		return w.save(func(*pgx.Batch) error { return nil })
	})
	if err != nil {
		return fmt.Errorf("store tool calls: %w", err)
	}
	return nil
}

// queueCalls queues storing calls under their numbers, and deleting the oldest above what is kept.
func queueCalls(b *pgx.Batch, calls []store.ToolCall, numbers []uint64) error {
	for i, c := range calls {
		c.Seq = numbers[i]
		record, err := encode(c)
		if err != nil {
			return err
		}
		b.Queue(`insert into ravenbot.calls (seq, v, record, address, at) values ($1, $2, $3, $4, $5)`,
			int64(c.Seq), recordVersion, record, addressKey(c.Conversation), c.Began)
		if c.ResultID == "" {
			continue
		}
		r := store.ToolResult{ID: c.ResultID, Conversation: c.Conversation, At: c.Began, Text: c.Whole}
		if record, err = encode(r); err != nil {
			return err
		}
		b.Queue(`insert into ravenbot.results (id, v, record, address, at) values ($1, $2, $3, $4, $5)
			on conflict (id) do update set v = excluded.v, record = excluded.record, address = excluded.address,
			at = excluded.at`,
			keyText(r.ID), recordVersion, record, addressKey(r.Conversation), r.At)
		// Identifiers of results sort by time.
		b.Queue(`delete from ravenbot.results
			where id < (select id from ravenbot.results order by id desc offset $1 limit 1)`, maxResults-1)
	}
	if len(calls) > 0 {
		// Numbers that were taken and not used count as well, so that nothing has to be counted.
		b.Queue(`delete from ravenbot.calls where seq <= $1`, int64(numbers[len(numbers)-1])-maxCalls)
	}
	return nil
}

// callPage is how many calls are read at once where they have to be looked through.
const callPage = 500

// ToolCalls returns up to n calls that match, newest first, with a Seq below before; 0 begins with the newest. A nil
// match takes all. Where few match it reads many pages.
func (db *DB) ToolCalls(
	ctx context.Context,
	before uint64,
	n int,
	match func(store.ToolCall) bool,
) (list []store.ToolCall, err error) {
	for len(list) < n {
		size := callPage
		if match == nil {
			size = min(n-len(list), callPage)
		}
		page, err := readRecords[store.ToolCall](ctx, db, "calls",
			`select v, record from ravenbot.calls where $1::bigint = 0 or seq < $1 order by seq desc limit $2`,
			int64(min(before, math.MaxInt64)), size)
		if err != nil {
			return nil, fmt.Errorf("list tool calls: %w", err)
		}
		for _, c := range page {
			if len(list) < n && (match == nil || match(c)) {
				list = append(list, c)
			}
		}
		if len(page) < size {
			break
		}
		before = page[len(page)-1].Seq
	}
	return list, nil
}

// ToolResult returns the text of a large result. It returns store.ErrNotFound where it is no longer kept.
func (db *DB) ToolResult(ctx context.Context, id string) (store.ToolResult, error) {
	r, found, err := readRecord[store.ToolResult](ctx, db, "results",
		`select v, record from ravenbot.results where id = $1`, keyText(id))
	if err == nil && !found {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.ToolResult{}, fmt.Errorf("load tool result %.40q: %w", id, err)
	}
	return r, nil
}

// SaveApproval stores an approval and replaces an earlier one of the same call.
func (db *DB) SaveApproval(ctx context.Context, a store.Approval) error {
	record, err := encode(a)
	if err == nil {
		err = db.write(ctx, func(t *tx) error {
			return t.send(func(b *pgx.Batch) {
				b.Queue(`insert into ravenbot.approvals (turn, call, v, record, address, at) values ($1, $2, $3, $4, $5, $6)
					on conflict (turn, call) do update set v = excluded.v, record = excluded.record, address = excluded.address,
					at = excluded.at`, keyText(a.Turn), keyText(a.Call), recordVersion, record, addressKey(a.Conversation), a.At)
				t.noteChange(b, store.ApprovalChanges)
			})
		})
	}
	if err != nil {
		return fmt.Errorf("store the approval of %s: %w", a.Tool, err)
	}
	return nil
}

// DecideApproval stores the decision on an approval that is stored without one. It returns false and changes nothing
// where it is decided already, or is not stored under that ID.
func (db *DB) DecideApproval(ctx context.Context, a store.Approval) (bool, error) {
	record, err := encode(a)
	var decided bool
	if err == nil {
		err = db.write(ctx, func(t *tx) error {
			// Other transactions that want to decide wait from here on. The record is not looked into by the server, which
			// cannot read JSON of every text.
			var kept store.Approval
			err := t.send(func(b *pgx.Batch) {
				b.Queue(`select v, record from ravenbot.approvals where turn = $1 and call = $2 for update`,
					keyText(a.Turn), keyText(a.Call)).
					Query(eachRecord(t.db, "approvals", func(a store.Approval) { kept = a }))
			})
			if decided = err == nil && kept.ID == a.ID && kept.Decision == ""; !decided {
				return orUnchanged(err)
			}
			return t.send(func(b *pgx.Batch) {
				b.Queue(`update ravenbot.approvals set v = $3, record = $4 where turn = $1 and call = $2`,
					keyText(a.Turn), keyText(a.Call), recordVersion, record)
				t.noteChange(b, store.ApprovalChanges)
			})
		})
	}
	if err != nil {
		return false, fmt.Errorf("store the decision on %s: %w", a.Tool, err)
	}
	return decided, nil
}

// Approvals returns those that were asked for since a time; the zero time: all that are kept.
func (db *DB) Approvals(ctx context.Context, since time.Time) ([]store.Approval, error) {
	list, err := readRecords[store.Approval](ctx, db, "approvals",
		`select v, record from ravenbot.approvals where at >= $1 order by turn, call`, since)
	if err != nil {
		return nil, fmt.Errorf("list approvals: %w", err)
	}
	return list, nil
}
