package postgres

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// lostError wraps the error of a connection that could not be made, or was lost before anything was
// committed.
type lostError struct{ err error }

// lostError, unknownError and conflictError have the text of what they wrap.
func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// unknownError wraps the error of a commit of which it could not be found out whether it took place.
type unknownError struct{ err error }

func (e *unknownError) Error() string { return e.err.Error() }
func (e *unknownError) Unwrap() error { return e.err }

// conflictError wraps an error by which another process kept this one from doing something, and that will
// pass.
type conflictError struct{ err error }

func (e *conflictError) Error() string { return e.err.Error() }
func (e *conflictError) Unwrap() error { return e.err }

// Bounds of repeating.
const (
	minPause = 5 * time.Millisecond
	maxPause = 500 * time.Millisecond
	// maxConflicts is far more than writers of one row meet; more of them would be a fault of ours.
	maxConflicts = 50
	// patience is how long a call waits for a database that does not answer. A restart takes about a second.
	// Where the database has been away for longer, calls fail at the first try.
	patience = 5 * time.Second
)

// retry runs an operation until it is done, its error will not pass, or it has taken too long. Conflicts of
// transactions pass, and so does a database that restarts. The operation has to set its results anew each time it runs.
// Errors are those of explain.
func (db *DB) retry(ctx context.Context, timeout time.Duration, operation func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pause := minPause
	var reason error // why the server could not be reached
	for conflicts := 0; ; {
		err := operation(ctx)
		if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
			reason = err
		} else if errors.Is(err, context.DeadlineExceeded) {
			// The deadline has cut off this attempt, and does not say what it waited for.
			if why := cmp.Or(db.lookups.unanswered(), reason); why != nil {
				err = &lostError{why}
			}
		}
		switch {
		case err == nil:
			db.health.noteAnswer()
			return nil
		case ctx.Err() == nil && isConflict(err) && conflicts < maxConflicts:
			conflicts++
		case isLost(err):
			away := db.health.noteFailure(db.explain(err), db.Now())
			// Connections that were idle while the server restarted are all of no use. A server that has no connection
			// left, or no longer accepts the user, still serves those that there are, and would not replace them.
			if !isRefusal(err) && !isCode(err, "53300") {
				db.pool.Reset()
			}
			if isRefusal(err) || away > patience {
				return db.explain(err)
			}
		case errors.Is(ctx.Err(), context.Canceled) && isCode(err, cancelled):
			return ctx.Err() // of the caller, who waits no longer: the server is not slow
		default:
			if isCode(err, readOnly) {
				db.pool.Reset() // another server may be the primary by now, which new connections find
			}
			return db.explain(err)
		}
		// Those who met in a conflict must not meet again at the same time.
		if wait(ctx, pause/2+rand.N(pause)) != nil {
			return db.explain(err)
		}
		pause = min(2*pause, maxPause)
	}
}

// isConflict reports whether transactions kept one another from being committed: serialization failures
// and deadlocks. The server has rolled this one back.
func isConflict(err error) bool {
	var known *conflictError
	return errors.As(err, &known) || isCode(err, "40001", "40P01")
}

// isLost reports whether the database did not answer, and nothing was committed.
func isLost(err error) bool {
	var lost *lostError
	return errors.As(err, &lost)
}

// read runs an operation that changes nothing. It is run again where the connection is lost.
func (db *DB) read(ctx context.Context, operation func(context.Context) error) error {
	return db.readWithin(ctx, db.timeout, operation)
}

// readWithin is read with a deadline of its own.
func (db *DB) readWithin(ctx context.Context, timeout time.Duration, operation func(context.Context) error) error {
	return db.retry(ctx, timeout, func(ctx context.Context) error {
		err := operation(ctx)
		if err != nil && isOfConnection(err) {
			return &lostError{err}
		}
		return err
	})
}

// isOfConnection reports whether an error is one of reaching the server, and not the server's answer or
// one of reading it.
func isOfConnection(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return isPassing(refused.Code)
	}
	if isUntrusted(err) {
		return false
	}
	var network net.Error
	var replaced *replacedError
	var unfit *unfitError
	return errors.As(err, &network) || errors.As(err, &replaced) || errors.As(err, &unfit) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}

// isPassing reports whether the server refuses everybody for a while: it ends, is starting, or has too
// many connections; or it has ended a connection that was idle.
func isPassing(code string) bool {
	return slices.Contains([]string{"57P01", "57P02", "57P03", idleEnded, "53300"}, code)
}

// isRefusal reports whether the server answered that it will not have this bot: its user, password or
// database are wrong.
func isRefusal(err error) bool {
	var connecting *pgconn.ConnectError
	var refused *pgconn.PgError
	return errors.As(err, &connecting) && errors.As(err, &refused) && !isPassing(refused.Code)
}

// query runs a query, and reads its rows with read.
func (db *DB) query(ctx context.Context, sql string, args []any, read func(pgx.Rows) error) error {
	rows, _ := db.pool.Query(ctx, sql, args...) // rows has the error as well
	return read(rows)
}

// each returns what scans each row into scans and then calls fn. The values of the last row stay there.
func each(scans []any, fn func() error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, scans, fn)
		return err
	}
}
