package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tx is a write transaction. It begins with its first batch of statements and commits with its last one, so that it
// mostly takes two round trips. Both are never the same batch: as long as no commit was sent, a lost connection leaves
// no doubt.
type tx struct {
	db   *DB
	ctx  context.Context
	conn *pgxpool.Conn
	// guard is called before anything else is queued.
	guard    func(*batch)
	hasBegun bool
	isDone   bool  // the last batch was sent
	slot, n  int64 // the row of the table writers, and what the commit writes to it
}

// errUnchanged is returned by a change that has written nothing: it is rolled back, which costs no fsync.
var errUnchanged = errors.New("nothing was changed")

// orUnchanged returns err, or errUnchanged if there is none.
func orUnchanged(err error) error {
	if err == nil {
		return errUnchanged
	}
	return err
}

// write runs change in a transaction and returns when it is committed. A conflict with another
// transaction, and a connection that is lost before the commit, have it run again: change may run more
// than once and must set every result each time. A connection that is lost during the commit does as well
// where the transaction is found not to have been committed; else write returns nil. An error therefore
// means that nothing was written, but for the one that says that this is not known. The end of ctx keeps a
// transaction from being begun, and does not cut one off.
func (db *DB) write(ctx context.Context, change func(*tx) error) error {
	return db.writeWith(ctx, func(b *batch) {
		if db.guard != nil {
			db.guard(b)
		}
	}, change)
}

// writeWith is write with another guard.
func (db *DB) writeWith(ctx context.Context, guard func(*batch), change func(*tx) error) error {
	err := db.retry(ctx, db.timeout, func(ctx context.Context) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.timeout)
		defer cancel()
		return db.tryWrite(ctx, guard, change)
	})
	db.health.noteWrite(err)
	return err
}

// tryWrite is one attempt of write. It returns a *lostError where nothing was committed because the connection is lost,
// and an *unknownError where that could not be found out.
func (db *DB) tryWrite(ctx context.Context, guard func(*batch), change func(*tx) error) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return &lostError{err}
	}
	defer conn.Release()
	t := &tx{db: db, ctx: ctx, conn: conn, guard: guard, n: randomID()}
	select {
	// A slot is for one transaction at a time: a second one would wait until the first has released its row.
	case t.slot = <-db.slots:
	default:
		t.slot = randomID()
	}
	err = t.run(change)
	var unknown *unknownError
	if !errors.As(err, &unknown) { // else the row may still be locked
		select {
		case db.slots <- t.slot:
		default:
		}
	}
	return err
}

// run runs change and commits, or rolls back if it fails.
func (t *tx) run(change func(*tx) error) error {
	err := change(t)
	if err == nil && t.hasBegun && !t.isDone {
		err = t.commit(func(*batch) {})
	}
	if err == nil {
		return nil
	}
	if c := t.conn.Conn(); !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
		// The rollback has a deadline of its own: the one of the operation may be over. If it fails, the pool closes
		// the connection, which rolls back as well.
		rollback, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), time.Second)
		defer cancel()
		_, _ = c.Exec(rollback, "rollback")
	}
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// limitTx sets for how many milliseconds a statement may run, and a transaction wait for its next one; "0": without a
// limit. Waiting for locks is part of the first. Whatever the defaults of the role and of the database are, these
// limits count, and for the transaction alone, so that a pooler may lend the connection to others.
const limitTx = `select set_config('statement_timeout', $1, true),
	set_config('idle_in_transaction_session_timeout', $2, true), set_config('lock_timeout', '0', true)`

// send runs a batch of statements in one round trip. The functions that queue sets read the results; an error of theirs
// ends the transaction.
func (t *tx) send(queue func(b *batch)) error {
	b := &batch{}
	if !t.hasBegun {
		b.Queue("begin isolation level read committed")
		// A process that stops in the middle must not keep its locks for longer than others wait for them.
		b.Queue(limitTx, fmt.Sprint(t.db.timeout.Milliseconds()), fmt.Sprint(t.db.timeout.Milliseconds()/3))
		t.guard(b)
	}
	begin := len(b.queries)
	if queue(b); len(b.queries) == begin {
		return nil
	}
	t.hasBegun = true
	if err := b.send(t.ctx, t.conn); err != nil {
		return t.explain(err)
	}
	return nil
}

// exec runs one statement, and returns how many rows it has changed.
func (t *tx) exec(sql string, args ...any) (n int64, err error) {
	err = t.send(func(b *batch) {
		b.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
			n = tag.RowsAffected()
			return nil
		})
	})
	return n, err
}

// explain returns an error as a *lostError where the connection is no more.
func (t *tx) explain(err error) error {
	if t.conn.Conn().IsClosed() {
		return &lostError{err}
	}
	return err
}

// randomID returns a number that no other process has; never 0.
func randomID() int64 { return rand.Int64N(1<<63-1) + 1 }

// commit sends the last statements of the transaction with what records that it was committed, and the commit: so much
// is known of the transaction when the answer of the server is lost. Then commit finds out over another connection
// whether the transaction was committed.
func (t *tx) commit(queue func(b *batch)) error {
	t.isDone = true
	if !t.hasBegun {
		if err := t.send(queue); err != nil {
			return err
		}
		queue = func(*batch) {}
	}
	err := t.send(func(b *batch) {
		queue(b)
		b.Queue(`insert into ravenbot.writers as w (id, last) values ($1, $2)
			on conflict (id) do update set last = excluded.last, at = now()`, t.slot, t.n)
		b.Queue("commit")
	})
	// Even an error that says so does not mean that nothing was sent: reading from a connection that was just lost
	// returns one as well (pgx v5.12.0, 2026-11).
	if lost, ok := errors.AsType[*lostError](err); ok {
		// The answer is missing, not necessarily the commit. The deadline may be what cut it off, so that finding out
		// has one of its own. Idle connections may be of no use, either.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), t.db.timeout)
		defer cancel()
		t.db.pool.Reset()
		committed, unknown := t.db.findOutcome(ctx, t.slot, t.n)
		t.db.log.Warn("connection lost during a commit", "committed", committed, "known", unknown == nil)
		switch {
		case unknown != nil:
			return &unknownError{errors.Join(lost.err, unknown)}
		case !committed:
			return err
		}
		err = nil
	}
	if err == nil {
		t.db.commits.Add(1)
	}
	return err
}

// checkViolation is the code of the server's error where a row breaks a rule of its table.
const checkViolation = "23514"

// findOutcome returns whether a transaction was committed of which no answer came. Where it was not, it
// cannot be committed any more afterwards. It waits for a transaction that is being committed, and for a
// database that restarts, until ctx ends.
func (db *DB) findOutcome(ctx context.Context, slot, n int64) (committed bool, err error) {
	for {
		// A transaction that has written n to its row breaks the rule of the table that no transaction is
		// both committed and fenced. One that has not done so yet breaks it when it tries, and fails.
		_, err = db.pool.Exec(ctx, `insert into ravenbot.writers as w (id, last, fenced) values ($1, 0, $2)
			on conflict (id) do update set fenced = excluded.fenced, at = now()`, slot, n)
		var refused *pgconn.PgError
		switch {
		case err == nil:
			return false, nil
		case errors.As(err, &refused) && refused.Code == checkViolation:
			return true, nil
		}
		if wait(ctx, maxPause) != nil {
			return false, err
		}
	}
}

// wait returns the error of ctx where that ends before a pause does.
func wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
