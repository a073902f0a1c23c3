package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/store"
)

// noteChange queues recording that something of a kind was changed, and telling other processes with the commit. The
// number that it writes is that of the transaction, and so another one each time.
func (t *tx) noteChange(b *pgx.Batch, kind string) {
	b.Queue(`insert into ravenbot.changes as c (kind, slot, process, n) values ($1, $2, $3, $4)
		on conflict (kind, slot) do update set process = excluded.process, n = excluded.n, at = now()`,
		keyText(kind), t.slot, t.db.process, t.n)
	b.Queue(notifyChange, t.db.process)
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

// itemKind returns the kind under which changes of items are counted: kinds that end with a name, behind a slash, are
// counted as one.
func itemKind(kind string) string {
	kind, _, _ = strings.Cut(kind, "/")
	return kind
}

// blobKind returns the kind under which changes of blobs are counted: what stands before the first slash of the key.
func blobKind(key string) string {
	kind, _, _ := strings.Cut(key, "/")
	return store.BlobChanges + kind
}
