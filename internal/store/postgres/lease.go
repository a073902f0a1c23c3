package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"ravenbot/internal/store"
)

// Times of the lease.
const (
	// leaseTime is how long a holder that does not renew keeps the others waiting.
	leaseTime  = 10 * time.Second
	renewEvery = 2 * time.Second
	retryRenew = 500 * time.Millisecond
	// ownedFor is how long after it asked for a renewal a holder begins to send something. The rest of the
	// lease is for requests under way; who takes over looks for what one that took longer has posted.
	ownedFor = 7 * time.Second
)

// The lease is one row. Writers take a key share lock on it, which lets one another and renewals pass; who takes the
// lease over takes the strongest lock, which waits until the writers of the holder before have ended.
const (
	readLease = `SELECT epoch, holder, address, expires_at > clock_timestamp() FROM ravenbot.lease`
	takeLease = `UPDATE ravenbot.lease SET epoch = epoch + 1, holder = $1, address = $2,
		expires_at = clock_timestamp() + make_interval(secs => $3) RETURNING epoch`
	renewLease = `UPDATE ravenbot.lease SET expires_at = clock_timestamp() + make_interval(secs => $2) WHERE epoch = $1`
	endLease   = `UPDATE ravenbot.lease SET expires_at = clock_timestamp() WHERE epoch = $1`
	checkLease = `SELECT 1 FROM ravenbot.lease WHERE epoch = $1 FOR KEY SHARE`
)

// lease implements store.Lease, and refuses every write of a process that does not hold it.
type lease struct {
	// pool is for the lease alone, so that a renewal does not wait behind slow statements.
	pool *pgxpool.Pool

	mu      sync.Mutex
	epoch   int64     // 0: not held
	renewed time.Time // when the last renewal that succeeded was asked for
	isLost  bool
	lost    chan struct{}
	stop    context.CancelFunc // of keep
	kept    chan struct{}      // closed when keep has returned
}

// Lease returns the right to write, which several processes share. From now on db writes only while it is held, and
// Close releases it. Call it before any other method.
func (db *DB) Lease(ctx context.Context) (store.Lease, error) {
	config := db.pool.Config()
	config.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect for the lease: %w", db.explain(err))
	}
	db.lease = &lease{pool: pool, lost: make(chan struct{})}
	db.guard = db.lease.guard
	return db.lease, nil
}

// Owned returns why this process may not act on the records now, or nil.
func (db *DB) Owned() error {
	if db.lease == nil {
		return nil
	}
	return db.lease.owned(time.Now())
}

// notOwnedError is returned where another process has the lease, or may have it.
type notOwnedError struct{ since time.Duration }

func (e notOwnedError) Error() string {
	if e.since > 0 {
		return fmt.Sprintf("the lease on the database was not renewed for %v: another replica may have taken over",
			e.since.Round(time.Second))
	}
	return "another replica holds the lease on the database"
}

// owned is Owned at an instant. A process that was paused finds that its time is over by one of two clocks: the
// monotonic one stands still while a machine sleeps, and the other one can be set back.
func (l *lease) owned(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch == 0 || l.isLost {
		return notOwnedError{}
	}
	since := max(now.Sub(l.renewed), now.Round(0).Sub(l.renewed.Round(0)))
	if since > ownedFor {
		return notOwnedError{since}
	}
	return nil
}

// guard queues what refuses a write of a process that does not hold the lease. It is part of the write's transaction,
// which keeps others from taking the lease until it has ended.
func (l *lease) guard(b *pgx.Batch) {
	l.mu.Lock()
	epoch, isLost := l.epoch, l.isLost
	l.mu.Unlock()
	if isLost || epoch == 0 {
		epoch = -1 // nobody's
	}
	b.Queue(checkLease, epoch).QueryRow(func(row pgx.Row) error {
		var ignored int
		err := row.Scan(&ignored)
		if errors.Is(err, pgx.ErrNoRows) {
			l.noteLost(epoch)
			return notOwnedError{}
		}
		return err
	})
}

// Acquire takes the lease where its time is over.
func (l *lease) Acquire(ctx context.Context, address string) (bool, store.Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTime)
	defer cancel()
	holder, isHeld, err := l.read(ctx, l.pool)
	if isHeld || err != nil {
		return false, holder, err
	}
	asked := time.Now()
	mine := store.Holder{Name: processName(), Address: address}
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		// Writers of the holder before have ended when this lock is there.
		if _, err := tx.Exec(ctx, "SELECT FROM ravenbot.lease FOR UPDATE"); err != nil {
			return err
		}
		if holder, isHeld, err = l.read(ctx, tx); isHeld || err != nil {
			return err
		}
		return tx.QueryRow(ctx, takeLease, mine.Name, mine.Address, leaseTime.Seconds()).Scan(&mine.Epoch)
	})
	if isHeld || err != nil {
		return false, holder, err
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.mu.Lock()
	l.epoch, l.renewed, l.stop, l.kept = mine.Epoch, asked, stop, make(chan struct{})
	l.mu.Unlock()
	go l.keep(keeping, mine.Epoch)
	return true, mine, nil
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// read returns who holds the lease, or held it last.
func (l *lease) read(ctx context.Context, q querier) (h store.Holder, isHeld bool, err error) {
	err = q.QueryRow(ctx, readLease).Scan(&h.Epoch, &h.Name, &h.Address, &isHeld)
	if err != nil {
		err = fmt.Errorf("read the lease: %w", err)
	}
	return h, isHeld, err
}

// processName returns the name of this process for people.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// keep renews the lease until ctx ends or another process has it. A database that does not answer is no reason to
// give up: the others cannot take the lease meanwhile either.
func (l *lease) keep(ctx context.Context, epoch int64) {
	defer close(l.kept)
	wait := renewEvery
	for {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		asked := time.Now()
		ok, err := l.renew(ctx, epoch)
		switch {
		case err != nil:
			wait = retryRenew
		case !ok:
			l.noteLost(epoch)
			return
		default:
			l.mu.Lock()
			l.renewed = asked
			l.mu.Unlock()
			wait = renewEvery
		}
	}
}

// renew returns false where another process has taken the lease.
func (l *lease) renew(ctx context.Context, epoch int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	tag, err := l.pool.Exec(ctx, renewLease, epoch, leaseTime.Seconds())
	return tag.RowsAffected() == 1, err
}

func (l *lease) noteLost(epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch == epoch && !l.isLost {
		l.isLost = true
		close(l.lost)
	}
}

// Lost is closed when another process has taken the lease.
func (l *lease) Lost() <-chan struct{} { return l.lost }

// Release lets another process take the lease at once. Nothing is written afterwards.
func (l *lease) Release(ctx context.Context) error {
	l.mu.Lock()
	epoch, stop, kept := l.epoch, l.stop, l.kept
	l.epoch = 0
	l.mu.Unlock()
	if epoch == 0 {
		return nil
	}
	stop()
	<-kept
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	if _, err := l.pool.Exec(ctx, endLease, epoch); err != nil {
		return fmt.Errorf("release the lease: %w", err)
	}
	return nil
}

// close releases the lease and closes its connections.
func (l *lease) close() error {
	err := l.Release(context.Background())
	l.pool.Close()
	return err
}
