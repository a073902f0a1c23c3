package bolt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	bolterrors "go.etcd.io/bbolt/errors"

	"ravenbot/internal/store"
)

// group lets concurrent writers share a transaction. The first writer becomes the leader and commits all queued changes
// at once, its own among them. Then it passes the lead to the first writer that queued meanwhile. So a lone writer waits
// for nobody, and many writers share one commit. A patient writer waits for the next batch of others.
type group struct {
	// mu guards the fields below. It is not held while a transaction is written.
	mu        sync.Mutex
	queue     []*change
	patient   []*change
	hasLeader bool // a writer commits now, and will pass the lead on
}

// change is what one writer wants to do within a transaction that it may share with others.
type change struct {
	fn     func(*tx) error
	err    error
	signal chan bool // true: the change is done; false: its writer leads the next batch
}

// maxBatch bounds how many changes one transaction may hold, and so how long the first of them
// waits.
const maxBatch = 512

// update runs fn in a write transaction and returns when what it has changed is safe on disk. A change
// that fails is left out and the rest of its batch is run again. So fn may run more than
// once, and must set every result each time. ctx is checked before the change is queued;
// a queued change is not cancelled.
func (db *DB) update(ctx context.Context, fn func(*tx) error) error {
	return db.updateWithin(ctx, 0, fn)
}

// updateWithin is update for a change that waits a while for others to share a transaction with.
func (db *DB) updateWithin(ctx context.Context, patience time.Duration, fn func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// With room for a signal, since the leader signals itself, too, and does not receive that.
	c := &change{fn: fn, signal: make(chan bool, 1)}
	g := &db.group
	if patience > 0 && g.awaitOthers(c, patience) {
		return c.err
	}
	g.mu.Lock()
	g.queue = append(g.queue, c)
	lead := !g.hasLeader
	g.hasLeader = true
	g.mu.Unlock()
	// A follower waits until its change is done, or until it becomes the leader: then its
	// change is the first of the queue and part of the batch below.
	if !lead && <-c.signal {
		return c.err
	}
	db.commit(g.takeBatch()) // c is the first of it
	g.passLead()
	return c.err
}

// awaitOthers waits for a batch of others, and reports whether one took a change along and is done.
func (g *group) awaitOthers(c *change, patience time.Duration) bool {
	g.mu.Lock()
	g.patient = append(g.patient, c)
	g.mu.Unlock()
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case <-c.signal:
		return true
	case <-over.C:
	}
	g.mu.Lock()
	waiting := len(g.patient)
	g.patient = slices.DeleteFunc(g.patient, func(other *change) bool { return other == c })
	isLeft := len(g.patient) < waiting
	g.mu.Unlock()
	if isLeft {
		return false
	}
	<-c.signal // it is in a batch that is being committed
	return true
}

// takeBatch removes the next batch from the queue and returns it, with what waits for one behind it.
func (g *group) takeBatch() []*change {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.queue), maxBatch)
	batch := append(g.queue[:n:n], g.patient...)
	g.queue, g.patient = g.queue[n:], nil
	return batch
}

// passLead makes the first waiting writer the leader, or none where nobody waits.
func (g *group) passLead() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) == 0 {
		g.queue, g.hasLeader = nil, false
		return
	}
	g.queue[0].signal <- false
}

// commit writes a batch and signals every writer of it. A change that fails is removed, and the
// rest is tried again. Where the commit itself fails all of them get its error, and none is tried
// again: whether the disk has the transaction is not known.
func (db *DB) commit(batch []*change) {
	db.health.noteWriting(time.Now())
	defer db.health.noteWriting(time.Time{})
	left := append([]*change(nil), batch...)
	for len(left) > 0 {
		failed := -1
		err := db.tryCommit(left, &failed)
		// A failed change rolls back the whole transaction, so the others have to run again.
		if failed >= 0 {
			left[failed].err = err
			left = append(left[:failed], left[failed+1:]...)
			continue
		}
		for _, c := range left {
			c.err = err
		}
		break
	}
	for _, c := range batch {
		c.signal <- true
	}
}

// tryCommit carries out changes in one transaction. If one of them fails nothing is changed, and failed is set to its
// index: the others can be tried without it.
func (db *DB) tryCommit(changes []*change, failed *int) (err error) {
	if err := db.health.mayWrite(); err != nil {
		return err
	}
	db.writing.Lock()
	defer db.writing.Unlock()
	if db.closed.Load() {
		return bolterrors.ErrDatabaseNotOpen
	}
	defer catchFaults(db.path, &err)()
	b, err := db.bolt.Begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = b.Rollback() }() // which only fails if it has ended
	t := &tx{db: db, bolt: b, size: b.Size(), logs: db.log != nil}
	for i, c := range changes {
		*failed = i // also if it meets a damaged page
		if err := c.fn(t); err != nil {
			return err
		}
	}
	*failed = -1
	if !t.changed {
		return nil
	}
	if db.observe != nil {
		db.observe(t)
	}
	if db.isMarked.Load() {
		if err := t.top(formatBucket).delete(closedKey); err != nil {
			return err
		}
	}
	if err = db.commitTx(t); err == nil {
		db.isMarked.Store(false)
	}
	return err
}

// commitTx commits a transaction and notes how that went. After a fault, which damaged pages cause, nothing is written
// any more.
func (db *DB) commitTx(t *tx) (err error) {
	func() {
		defer catchFaults(db.path, &err)()
		err = db.commitAndLog(t)
	}()
	if damaged := (*store.DamagedError)(nil); errors.As(err, &damaged) {
		db.health.noteDamage(err, err)
		return err
	}
	err = explainSystemError(db.path, err)
	db.health.noteWrite(err)
	if err == nil && db.commits.Add(1)%commitsPerRelease == 0 {
		db.releasePages()
	}
	return err
}

// commitAndLog commits a transaction, which is on disk then: by the log, or if there is none by a sync of the file.
func (db *DB) commitAndLog(t *tx) error {
	l := db.log
	if l == nil {
		// The list of free pages is written for the checkpoint with which a log begins.
		begins := db.mapped > 0 && t.size+2*maxAhead < db.mapped
		db.bolt.NoSync, db.bolt.NoFreelistSync = false, !begins && !db.listsFree
		if err := t.bolt.Commit(); err != nil {
			return err
		}
		if begins {
			db.log, _ = db.startLog() // without a log the next commit is synced as well
		}
		return nil
	}
	if err := l.finishSwitch(l.isFull()); err != nil {
		return db.endLog(err)
	}
	isFull := l.isFull()
	db.bolt.NoSync, db.bolt.NoFreelistSync = true, !isFull
	hasRoom := t.size+maxAhead < db.mapped
	if err := t.bolt.Commit(); err != nil {
		return err
	}
	err := l.append(t.changes)
	if err == nil && isFull {
		err = l.switchFile()
	}
	if err != nil || !hasRoom {
		return db.endLog(nil)
	}
	return nil
}

// endLog syncs the file and goes on without a log. If that fails nothing is written any more: a log that stays would bring
// back a state whose pages were overwritten.
func (db *DB) endLog(err error) error {
	l := db.log
	if err == nil {
		err = l.end()
	}
	if err != nil {
		err = fmt.Errorf("sync the store: %w; restart the bot", explainSystemError(db.path, err))
		db.health.noteDamage(nil, err)
		return err
	}
	db.log = nil
	return nil
}

// Commits returns the number of write transactions since the store was opened.
func (db *DB) Commits() uint64 { return db.commits.Load() }
