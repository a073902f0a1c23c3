package bolt

import (
	"context"
	"slices"
	"sync"
	"time"
)

// group lets concurrent writers share an entry of the write-ahead log, or a commit. The first writer becomes the leader
// and commits all queued changes at once, its own among them. Then it passes the lead to
// the first writer that queued meanwhile. So a lone writer waits for nobody, and many
// writers share one fsync. Who is patient waits for the next batch of others.
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

// releaseInterval is after how many transactions it is looked at whether the pages that they looked at are to be
// released.
const releaseInterval = 8

// readsPerRelease is the same for read transactions, of which each looks at some pages alone.
const readsPerRelease = 128

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
	// With room for a signal, since the leader signals itself, too.
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
	db.commit(g.takeBatch())
	g.passLead()
	<-c.signal
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

// tryCommit makes changes safe together. Where one of them fails nothing is changed, and failed is set to
// its index: the others can be tried without it.
func (db *DB) tryCommit(changes []*change, failed *int) (err error) {
	db.writing.Lock()
	defer db.writing.Unlock()
	if err := db.health.mayWrite(); err != nil {
		return err
	}
	defer catchFaults(db.path, &err)()
	isDone := false
	defer func() {
		// After an error or a fault, and where it holds nothing.
		if !isDone || !db.unsaved.Load() {
			db.rollBack()
		}
	}()
	t, err := db.openTx()
	if err != nil {
		return err
	}
	for i, c := range changes {
		if err := c.fn(t); err != nil {
			*failed = i // the change is to blame, not the commit
			isDone = !t.isChanged()
			return err
		}
	}
	if isDone = !t.isChanged(); isDone {
		return nil
	}
	if db.observe != nil {
		db.observe(t)
	}
	if err = db.save(t); err != nil {
		return err
	}
	isDone = true
	if db.commits.Add(1)%releaseInterval == 0 {
		db.releasePages()
	}
	return nil
}

// save makes what an open transaction has changed safe: in the write-ahead log, and where that has no room, with a
// commit.
func (db *DB) save(t *tx) error {
	if t.atOnce || !db.wal.hasRoom(len(t.changes.encoded)) || db.wal.append(t.changes.encoded) != nil {
		return db.commitOpen(t)
	}
	db.noteSaved(t)
	if !db.unsaved.Swap(true) {
		db.flusher.Reset(flushAfter)
	}
	return nil
}

// noteSaved tells whoever follows the changes of those that are safe now. What is rolled back with a change that failed
// counts in none of them.
func (db *DB) noteSaved(t *tx) {
	t.tellCheck()
	db.journal.add(t.changes)
	db.health.noteWrite(nil)
	t.forgetChanges()
}

// forgetChanges has the next batch begin.
func (t *tx) forgetChanges() {
	t.changes, t.noted, t.atOnce, t.deleted = ops{encoded: t.changes.encoded[:0]}, false, false, 0
	t.recount, t.gone = nil, nil
	if cap(t.changes.encoded) > walSize {
		t.changes.encoded = nil // a large import, say
	}
}

// flushAfter is after how long what is in the log alone is committed, at the latest.
const flushAfter = time.Second

// flush commits what is in the write-ahead log alone.
func (db *DB) flush() error {
	db.writing.Lock()
	defer db.writing.Unlock()
	return db.flushLocked()
}

// flushLocked is flush for who holds db.writing.
func (db *DB) flushLocked() (err error) {
	if !db.unsaved.Load() || db.closed.Load() {
		return nil
	}
	if err := db.health.mayWrite(); err != nil {
		return err
	}
	defer catchFaults(db.path, &err)()
	defer db.rollBack() // where it fails, or the log turns out to be committed
	t, err := db.openTx()
	if err == nil && db.unsaved.Load() {
		err = db.commitOpen(t)
	}
	return err
}

// openTx returns the transaction that the next changes belong to, and begins it where there is none. It holds what is
// in the write-ahead log.
func (db *DB) openTx() (*tx, error) {
	if db.open != nil {
		return db.open, nil
	}
	b, err := db.bolt.Load().Begin(true)
	if err != nil {
		return nil, err
	}
	db.open = &tx{db: db, bolt: b, opened: map[string]*bucket{}}
	if !db.unsaved.Load() {
		return db.open, nil
	}
	if err := db.redoWAL(db.open); err != nil {
		db.rollBack()
		return nil, err
	}
	return db.open, nil
}

// redoWAL makes the changes of the log again in a new transaction.
func (db *DB) redoWAL(t *tx) error {
	generation, err := t.generation()
	if err != nil {
		return err
	}
	if generation != db.wal.generation {
		// The commit that failed is in the file after all.
		db.wal.begin(generation)
		db.wal.broken = true
		db.unsaved.Store(false)
		return nil
	}
	n, err := t.redoLog(db.path)
	if err == nil && n != int(db.wal.entries) {
		err = damagedError(walPath(db.path), "entries of it are missing", restoreRemedy)
	}
	t.forgetChanges()
	return err
}

// commitOpen commits the open transaction.
func (db *DB) commitOpen(t *tx) error {
	err := db.writeOpen(t)
	if err != nil {
		// The file may have the transaction or not, so that a copy cannot follow any more.
		db.journal.fail(errUncertain)
		err = explainSystemError(db.path, err)
		db.health.noteWrite(err)
		if db.wal != nil {
			db.wal.broken = true
		}
		db.rollBack()
		return err
	}
	db.noteSaved(t)
	db.unsaved.Store(false)
	db.flusher.Stop()
	return nil
}

// writeOpen writes the open transaction to the file.
func (db *DB) writeOpen(t *tx) error {
	var generation uint64
	var err error
	if db.wal != nil {
		if generation, err = t.renewGeneration(); err != nil {
			return err
		}
	}
	if err := t.writeTallies(); err != nil {
		return err
	}
	db.chooseFreelist(t)
	if err := t.bolt.Commit(); err != nil {
		return err
	}
	db.open = nil
	if db.wal != nil {
		db.wal.begin(generation)
	}
	return nil
}

// rollBack ends the open transaction, if there is one. What it has of the write-ahead log is made again in the next one.
func (db *DB) rollBack() {
	if t := db.open; t != nil {
		db.open = nil
		_ = t.bolt.Rollback() // which only fails where it has ended
	}
}

// Commits returns the number of write transactions since the store was opened.
func (db *DB) Commits() uint64 { return db.commits.Load() }
