package bolt

import (
	"cmp"
	"time"

	"go.etcd.io/bbolt"
)

// Changes that are safe in the write-ahead log stay in one open transaction of bbolt, the pending one, until it is
// committed. Short reads see what it holds (lookUp), and all others have it committed first (view).

// tryCommit makes changes safe together. Where one of them fails nothing is changed, and failed is set to
// its index: the others can be tried without it.
func (db *DB) tryCommit(changes []*change, failed *int) (err error) {
	db.writing.Lock()
	defer db.writing.Unlock()
	if err := cmp.Or(db.health.mayWrite(), db.checkContents()); err != nil {
		return err
	}
	defer catchFaults(db.path, &err)()
	db.access.Lock()
	defer db.access.Unlock()
	isDone := false
	defer func() {
		// After an error or a fault, and where it holds nothing.
		if !isDone || !db.uncommitted.Load() {
			db.rollBack()
		}
	}()
	t, err := db.pendingTx()
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
	db.commits.Add(1)
	return nil
}

// save makes what the pending transaction has changed safe: in the write-ahead log, and where that has no room, with a
// commit.
func (db *DB) save(t *tx) error {
	if t.atOnce || !db.wal.hasRoom(len(t.changes.encoded)) || db.appendToLog(t) != nil {
		return db.commitPending(t)
	}
	db.noteSaved(t)
	if !db.uncommitted.Swap(true) {
		db.flusher.Reset(flushAfter)
	}
	return nil
}

// appendToLog appends what the pending transaction has changed to the write-ahead log. Others read what is pending while
// the disk is waited for.
func (db *DB) appendToLog(t *tx) error {
	db.access.Unlock()
	defer db.access.Lock()
	return db.wal.append(t.changes.encoded)
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
	t.db.opsBuffer = t.changes.encoded
}

// flushAfter is after how long what is in the log alone is committed, at the latest.
const flushAfter = 200 * time.Millisecond

// flush commits what is in the write-ahead log alone.
func (db *DB) flush() error {
	db.writing.Lock()
	defer db.writing.Unlock()
	return db.flushLocked()
}

// emptyLog removes what the write-ahead log holds where all of it is committed: what was deleted since is to be gone
// from there, too. Appending to an empty file takes the disk longer, so this is for a store to which nothing is written.
func (db *DB) emptyLog() {
	db.writing.Lock()
	defer db.writing.Unlock()
	if db.wal != nil && !db.uncommitted.Load() && !db.closed.Load() {
		_ = db.wal.f.Truncate(0) // where it fails, the log is void all the same
	}
}

// flushLocked is flush for who holds db.writing.
func (db *DB) flushLocked() (err error) {
	if !db.uncommitted.Load() || db.closed.Load() {
		return nil
	}
	if err := cmp.Or(db.health.mayWrite(), db.checkContents()); err != nil {
		return err
	}
	db.access.Lock()
	defer db.access.Unlock()
	defer catchFaults(db.path, &err)()
	defer db.rollBack() // where it fails
	t, err := db.pendingTx()
	if err != nil {
		return err
	}
	return db.commitPending(t)
}

// beginCopy begins a read transaction that holds all that was written, and has what is written from then on kept in a
// journal; nil: in none. The write-ahead log gets nothing that follows this state of the file, so that a copy of it never
// gets what was written later.
func (db *DB) beginCopy(j *journal) (*bbolt.Tx, error) {
	db.writing.Lock()
	defer db.writing.Unlock()
	if err := db.flushLocked(); err != nil {
		return nil, err
	}
	held, err := db.begin(db.bolt.Load(), false)
	if err != nil {
		return nil, err
	}
	db.copies.Add(1)
	if db.wal != nil {
		db.wal.needsCommit = true
	}
	if j != nil {
		db.journal = j
	}
	return held, nil
}

// endCopy ends the transaction of a copy.
func (db *DB) endCopy(held *bbolt.Tx) {
	_ = held.Rollback() // which only fails where it has ended
	db.copies.Add(-1)
}

// pendingTx returns the transaction that the next changes belong to, and begins it where there is none. It holds what is
// in the write-ahead log.
func (db *DB) pendingTx() (*tx, error) {
	if db.pending != nil {
		return db.pending, nil
	}
	b, err := db.begin(db.bolt.Load(), true)
	if err != nil {
		return nil, err
	}
	db.pending = &tx{db: db, bolt: b, opened: map[string]*bucket{}, changes: ops{encoded: db.opsBuffer}}
	if !db.uncommitted.Load() {
		return db.pending, nil
	}
	if err := db.redoPending(db.pending); err != nil {
		db.rollBack()
		return nil, err
	}
	return db.pending, nil
}

// redoPending makes the changes of the log again in a new transaction, which becomes the pending one.
func (db *DB) redoPending(t *tx) error {
	generation, err := t.generation()
	if err != nil {
		return err
	}
	if generation != db.wal.generation {
		// The commit that failed is in the file after all, but may not be on the disk: it is made once more, and the log
		// is left alone until then.
		db.wal.begin(generation)
		db.wal.needsCommit = true
		return nil
	}
	n, err := t.redoLog(db.path)
	if err == nil && n != int(db.wal.entries) {
		err = damagedError(walPath(db.path), "entries of it are missing", restoreRemedy)
	}
	t.forgetChanges()
	return err
}

// commitPending commits the pending transaction. Where it fails, whoever calls it rolls the transaction back.
func (db *DB) commitPending(t *tx) error {
	err := db.writePending(t)
	if err != nil {
		// The file may have the transaction or not, so that a copy cannot follow any more.
		db.journal.fail(errUncertain)
		err = explainSystemError(db.path, err)
		db.health.noteWrite(err)
		if db.wal != nil {
			db.wal.needsCommit = true
		}
		return err
	}
	db.noteSaved(t)
	db.uncommitted.Store(false)
	db.flusher.Stop()
	db.releasePages()
	return nil
}

// writePending writes the pending transaction to the file.
func (db *DB) writePending(t *tx) error {
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
	err = t.bolt.Commit()
	db.noteContents() // after an error the file may have the transaction or not
	if err != nil {
		return err
	}
	db.pending = nil
	if db.wal != nil {
		db.wal.begin(generation)
	}
	return nil
}

// rollBack ends the pending transaction, if there is one. What it has of the write-ahead log is made again in the next one.
func (db *DB) rollBack() {
	if t := db.pending; t != nil {
		db.pending = nil
		hasEnded := false
		defer func() {
			if !hasEnded { // bbolt has panicked, with the lock of writers held
				db.isStuck.Store(true)
			}
		}()
		_ = t.bolt.Rollback() // which only fails where it has ended
		hasEnded = true
	}
}

// rollBackDamaged is rollBack for a file that may have been overwritten, which bbolt reads to do it.
func (db *DB) rollBackDamaged() {
	var err error
	defer catchFaults(db.path, &err)() // the file is looked at all the same
	db.rollBack()
}
