package postgres

import (
	"context"
	"fmt"
)

// noteChanges queues recording that something of some kinds was changed, and telling other processes with the commit.
// The number that it writes is the number of the transaction, and so another one each time.
func (t *tx) noteChanges(b *batch, kinds []string) {
	for _, kind := range kinds {
		b.Queue(`insert into ravenbot.changes as c (kind, slot, process, n) values ($1, $2, $3, $4)
			on conflict (kind, slot) do update set process = excluded.process, n = excluded.n, at = now()`,
			keyText(kind), t.slot, t.db.process, t.n)
	}
	if len(kinds) > 0 {
		b.Queue(notifyChange, t.db.process)
	}
}

// Changes returns a number for each kind of records that other processes have changed: another one after each change.
// They may change without one. It is quick.
func (db *DB) Changes(ctx context.Context) (numbers map[string]int64, err error) {
	err = db.read(ctx, func(ctx context.Context) error {
		numbers = map[string]int64{}
		var kind string
		var n int64
		// Shifted, so that thousands of rows have a sum.
		return db.query(ctx, `select kind, sum(n >> 16)::bigint from ravenbot.changes where process <> $1 group by kind`,
			[]any{db.process}, each([]any{&kind, &n}, func() error {
				numbers[parseKey(kind)] = n
				return nil
			}))
	})
	if err != nil {
		return nil, fmt.Errorf("look for changes of other processes: %w", err)
	}
	return numbers, nil
}
