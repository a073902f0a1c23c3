// Package bolt keeps the bot's records in one bbolt file, and creates and restores backups of it. It promises:
//   - Only one process at a time has the file open.
//   - A damaged file is reported and is neither opened nor replaced.
//   - A damaged record is reported by its name when it is read. All records are read in the background after an
//     unclean end, and once a day.
//   - A backup gets its name only after all of it was read and checked.
//   - A change is safe on disk when the call returns.
//   - Concurrent writers share a transaction, and a single writer waits for nobody.
//   - A read transaction ends with its call, except the transactions of a backup and of the log (log.go).
//
// It is the only importer of bbolt. It cannot notice a disk that reports a write as done and then loses it. The store
// is then in an earlier state, or has pages of one. A damaged header is reported.
package bolt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
)

// formatBucket says what the format of the file is, under its own name, and how it was closed.
const formatBucket = "format"

// DB is an open store. Its methods may be called concurrently. It has the lock of its file until
// Close.
type DB struct {
	path      string
	bolt      *bbolt.DB
	file      os.FileInfo // of the file that is open
	now       func() time.Time
	group     group
	health    health
	commits   atomic.Uint64
	closed    atomic.Bool
	isMarked  atomic.Bool // the file says that it is closed, since nothing was written yet
	compacted compaction  // at opening
	writing   sync.Mutex  // held during a commit and by Close
	mapped    int64       // bytes that the file can have before more of it is mapped; 0: no log is kept
	log       *txLog      // nil if there is none
	listsFree bool        // each commit writes the list of free pages
	maxLog    int64       // bytes of a log before the next checkpoint
	observe   func(*tx)   // for tests: called with every write transaction before it is committed
}

// Open opens the store at path, making it if none has ever been, together with its folder. After a kill it makes the
// changes in the log again. Records are read while the bot works, if the file was not closed in good order. A large file of which most is free is compacted. The errors are *store.InUseError, *store.DamagedError,
// *store.NewerError, *store.SystemError, and those of the file system. The caller closes the DB.
func Open(path string, now func() time.Time) (*DB, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the store: %w", explainSystemError(path, err))
	}
	fresh, err := isUnused(path)
	if err != nil {
		return nil, err
	}
	state := fileState{checked: now()}
	if !fresh {
		replayed, err := replayLogs(path)
		if err != nil {
			return nil, err
		}
		if state, err = inspect(path, replayed); err != nil {
			return nil, err
		}
	}
	db := newDB(path, nil, now)
	if db.bolt, db.mapped, err = openMapped(path, false); err != nil {
		return nil, err
	}
	if size, free, err := db.Size(); err == nil && isWasteful(size, free) {
		if err := db.compactClosed(); err != nil {
			return nil, err
		}
	}
	db.health.noteChecked(state.checked)
	db.isMarked.Store(state.isClosed)
	if err := db.prepare(); err != nil {
		return nil, errors.Join(err, db.bolt.Close())
	}
	return db, nil
}

// newDB returns a DB over an open file, whose buckets may be missing.
func newDB(path string, b *bbolt.DB, now func() time.Time) *DB {
	return &DB{path: path, bolt: b, now: now, maxLog: maxLog}
}

// prepare brings the file to the newest format.
func (db *DB) prepare() error {
	err := db.migrate(context.Background(), walPath(db.path))
	// The marker comes last: a first start that is cut short leaves a file without records,
	// which is damage only beside a marker.
	if err == nil {
		err = writeMarker(db.path)
	}
	if err == nil {
		db.file, err = os.Stat(db.path)
	}
	if err != nil {
		return fmt.Errorf("prepare store %s: %w", db.path, explainSystemError(db.path, err))
	}
	removeOldFiles(db.path)
	return nil
}

// closedKey is where a file that was closed in good order has a closedRecord, in the bucket of the format. The first
// write removes it.
var closedKey = []byte("closed")

// closedRecord is what a closed file says of itself.
type closedRecord struct {
	Checked time.Time `json:"checked"` // when all of it was last read
}

// Close waits for commits and readers under way, notes in the file that it was closed in good order, and closes it. A
// second call returns nil. Other methods fail afterwards.
func (db *DB) Close() error {
	if db.closed.Swap(true) {
		return nil
	}
	db.writing.Lock()
	defer db.writing.Unlock()
	// Beside a file that was put in the place of the open one the log would be of no use.
	if err := db.markClosed(); (err == nil || errors.Is(err, errNoFile)) && db.log != nil {
		_ = db.log.end() // if that fails, as on a full disk, the next start replays the log
	}
	if db.log != nil {
		_ = db.log.release() // the transactions of it only read
	}
	if err := db.bolt.Close(); err != nil {
		return fmt.Errorf("close store %s: %w", db.path, err)
	}
	return nil
}

// markClosed notes that the file was closed in good order, unless it is damaged, and has bbolt write its list of free
// pages, for which it would read the whole file when it is opened again.
func (db *DB) markClosed() (err error) {
	if err := cmp.Or(db.health.mayWrite(), db.health.damageFound()); err != nil || db.isMarked.Load() {
		return err
	}
	defer catchFaults(db.path, &err)()
	b, err := db.bolt.Begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = b.Rollback() }() // which only fails if it has ended
	t := &tx{db: db, bolt: b}
	format := t.top(formatBucket)
	if format == nil {
		return nil // a copy that is being made
	}
	if err := format.put(closedKey, closedRecord{db.Checked()}); err != nil {
		return err
	}
	db.bolt.NoSync, db.bolt.NoFreelistSync = false, false
	return b.Commit()
}

// view runs fn in a read transaction. It returns a *store.DamagedError if reading fails because
// of damage. fn must keep no key or value beyond its end: they lie in the mapped file. It may run
// while others write, and sees the store as it was when it began.
func (db *DB) view(fn func(*tx) error) (err error) {
	defer catchFaults(db.path, &err)()
	b, err := db.bolt.Begin(false)
	if err != nil {
		return err
	}
	defer func() { _ = b.Rollback() }() // which only fails if it has ended
	return fn(&tx{db: db, bolt: b})
}
