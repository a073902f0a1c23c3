package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ravenbot/internal/store"
)

// health is what is wrong with an open store. It is safe for concurrent use.
type health struct {
	mu      sync.Mutex
	failed  error     // why the database did not answer; nil after it has
	since   time.Time // of the first failure since
	writing error     // why the last write failed, where that is so for all of them; nil after one that succeeded
	waiting error     // what commits wait for; nil after a look that found none that waits
	checked time.Time // when the database was last found to be good
}

// noteAnswer records that the database answers.
func (h *health) noteAnswer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed, h.since = nil, time.Time{}
}

// noteWrite keeps the outcome of a write transaction. An error that is about this one alone does not count.
func (h *health) noteWrite(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil || isForAll(err) {
		h.writing = err
	}
}

// noteFailure records that the database does not work, and returns for how long it has not.
func (h *health) noteFailure(err error, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed == nil {
		h.since = now
	}
	h.failed = err
	return now.Sub(h.since)
}

// noteChecked records when the database was found to be good.
func (h *health) noteChecked(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checked = now
}

// Health returns what keeps the store from working, or nil. A database that does not answer counts until it
// does, one that takes no changes until it has taken one. A member that may not write because its time was not renewed
// counts as well: an operator's lock on the table of the members keeps it from that, while the database answers.
func (db *DB) Health() error {
	db.health.mu.Lock()
	failed, writing, waiting := db.health.failed, db.health.writing, db.health.waiting
	db.health.mu.Unlock()
	return cmp.Or(failed, writing, waiting, db.Owned())
}

// Problem returns Health in a few words that name no address; "" where nothing is wrong.
func (db *DB) Problem() string {
	err := db.Health()
	var system *store.SystemError
	var notOwned notOwnedError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &system):
		return "the store cannot be used: " + system.What
	case errors.As(err, &notOwned):
		return "the store cannot be used: " + string(notOwned)
	}
	return "the store cannot be used"
}

// Damage returns nothing: checking its files is up to the server.
func (db *DB) Damage() []string { return []string{} }

// Checked returns when the database was last found to be ours, reachable and open for changes.
func (db *DB) Checked() time.Time {
	db.health.mu.Lock()
	defer db.health.mu.Unlock()
	return db.health.checked
}

const (
	// checkEvery is how often the database is looked at.
	checkEvery = 10 * time.Second
	// maxConfirm is how long a synchronous standby may take to confirm a commit: more than one that is busy or far away.
	maxConfirm = 3 * time.Second
	// writersEvery is how often rows of processes that have ended are deleted.
	writersEvery = time.Hour
)

// Run watches over the database until ctx ends: whether it answers, is open for changes, and still holds the store. It
// logs when the store can no longer be used and when it can be again, each once. It is called once.
func (db *DB) Run(ctx context.Context, log *slog.Logger) {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	var last error
	var cleaned time.Time
	var clock time.Duration // as logged
	for {
		err := db.check(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && last == nil:
			log.Error("store cannot be used; messages are not accepted", "error", err)
		case err == nil && last != nil:
			log.Info("store can be used again")
		}
		last = err
		clock = db.logClock(clock)
		if now := db.Now(); err == nil && now.Sub(cleaned) >= writersEvery {
			cleaned = now
			if err := db.deleteOldWriters(ctx); err != nil && ctx.Err() == nil {
				log.Warn("failed to delete rows of ended processes; retrying in an hour", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// check returns what keeps the store from working.
func (db *DB) check(ctx context.Context) error {
	db.leaveReplaced(ctx)
	err := db.checkServer(ctx)
	if err == nil {
		err = db.checkState(ctx)
	}
	db.health.mu.Lock()
	writing := db.health.writing
	db.health.mu.Unlock()
	if err == nil && writing != nil {
		// Who is not ready may get no messages: whether writing works again has to be tried.
		err = db.deleteOldWriters(ctx)
	}
	var waiting error
	if err == nil {
		waiting, err = db.findWaiting(ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		db.health.noteFailure(err, db.Now())
		return err
	}
	db.health.mu.Lock()
	db.health.waiting = waiting
	db.health.mu.Unlock()
	if waiting == nil {
		db.health.noteChecked(db.Now())
	}
	return waiting
}

// findWaiting returns a *store.SystemError as waiting where a commit of this user has waited for a synchronous standby for
// maxConfirm, or any does while this member was not renewed in time. The server answers reads meanwhile. A wait that is
// cut off leaves the change committed on the primary, with a warning
// (https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-SYNCHRONOUS-COMMIT).
func (db *DB) findWaiting(ctx context.Context) (waiting, err error) {
	var waits bool
	limit := maxConfirm
	if db.Owned() != nil {
		limit = 0
	}
	err = db.read(ctx, func(ctx context.Context) error {
		return db.pool.QueryRow(ctx, `select exists (select from pg_stat_activity where usename = current_user
			and wait_event = 'SyncRep' and state_change < clock_timestamp() - make_interval(secs => $1))`,
			limit.Seconds()).Scan(&waits)
	})
	if err == nil && waits {
		waiting = db.systemError("commits wait for a synchronous standby that does not confirm them",
			"start the standby, or take it out of synchronous_standby_names; the bot goes on by itself",
			errors.New("pg_stat_activity has connections that wait for SyncRep"))
	}
	return waiting, err
}

// deleteOldWriters deletes what tells of transactions whose outcome nobody can be waiting for any more.
func (db *DB) deleteOldWriters(ctx context.Context) error {
	err := db.write(ctx, func(t *tx) error {
		return t.send(func(b *batch) {
			b.Queue(`delete from ravenbot.writers where at < now() - interval '1 day'`)
			b.Queue(`delete from ravenbot.changes where at < now() - interval '1 day'`)
		})
	})
	if err != nil {
		return fmt.Errorf("delete rows of ended processes: %w", err)
	}
	return nil
}

// leaveReplaced closes the connections to a server that another one has replaced meanwhile.
func (db *DB) leaveReplaced(ctx context.Context) {
	db.servers.look(ctx)
	if !db.servers.takeLater() {
		return
	}
	db.log.Info("database server was replaced; reconnecting")
	db.pool.Reset()
	if db.members != nil {
		db.members.pool.Reset()
	}
}
