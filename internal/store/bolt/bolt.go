// Package bolt keeps the bot's records in one bbolt file, and makes and restores copies
// of it. It promises:
//   - One process at a time has the file open.
//   - A damaged file is reported and is neither opened nor replaced.
//   - Opening the store finds every record that is wrong, missing, outdated or unexpected.
//     Reading a record finds that it is wrong; reading a whole bucket finds that one is
//     missing.
//   - A copy gets its name only after all of it was read and checked.
//   - What is changed is appended to a write-ahead log, and is safe when a call returns.
//   - Concurrent writers share one fsync, and a lone writer waits for nobody.
//   - No read transaction outlives the call that began it.
//   - The file is compacted while it is used, and a crash meanwhile loses nothing.
//
// It is the only importer of bbolt. One kind of loss stays unnoticed: a disk that reports
// a write as done and then loses all of the last transaction, its header included. Then
// the store is in the state before that transaction. A damaged header is reported.
package bolt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"ravenbot/internal/store"
)

// The buckets. Those marked "nested" hold one bucket a key.
const (
	inboxBucket         = "inbox"         // message key → a message without an outcome
	turnsBucket         = "turns"         // nested: address → seq → conversation.Turn
	outboxBucket        = "outbox"        // post key → store.Post without an outcome, or given up
	doneBucket          = "done"          // identity of a message or post → when it was done
	feedsBucket         = "feeds"         // URL → store.Feed
	seenBucket          = "seen"          // nested: digest → item id → when it was last in a feed
	runsBucket          = "runs"          // nested: digest → due instant → store.Run
	roomsBucket         = "rooms"         // nested: room → seq → store.Entry
	entriesBucket       = "entries"       // nested: room → entry id → seq
	roomFilesBucket     = "roomfiles"     // nested: room → number → chat.File
	subscriptionsBucket = "subscriptions" // address and URL → store.Subscription
	blobsBucket         = "tools"         // what is known of an MCP server: its tools, log, pins and grants → JSON
	lastSeenBucket      = "heard"         // address → chat.Heard
	messageTurnsBucket  = "places"        // message identity → the turn that holds it
	quotesBucket        = "quotes"        // message identity → the turns that quote it
	summariesBucket     = "summaries"     // address → conversation.Summary
	streamsBucket       = "streams"       // post key → where an answer has begun to be shown
	feedbackBucket      = "feedback"      // turn and user → store.Feedback
	shownTurnsBucket    = "shown"         // platform, id of a message and address → the turn that it shows
	settingsBucket      = "settings"      // scope → a layer of settings
	usageBucket         = "usage"         // day, model, channel and user → store.Usage
	memoriesBucket      = "memories"      // nested: scope → n → store.Memory
	callsBucket         = "calls"         // seq → store.ToolCall
	resultsBucket       = "results"       // id → store.ToolResult
	approvalsBucket     = "approvals"     // turn and call → store.Approval
	itemsBucket         = "items"         // nested: kind → name → what was made through the API or in chat
	messagesBucket      = "messages"      // nested: address → time and id → store.Message
	messageIDsBucket    = "messageids"    // nested: address → message id → its key in messages
	formatBucket        = "format"        // of the file, under its own name
	talliesBucket       = "tallies"       // bucket → how many records it holds, and a hash of all
)

// bucketNames returns the names of all buckets at the top of the file, those for what is being deleted in steps
// included.
func bucketNames() []string {
	return []string{inboxBucket, turnsBucket, outboxBucket, doneBucket,
		feedsBucket, seenBucket, runsBucket, roomsBucket, entriesBucket, roomFilesBucket, blobsBucket, subscriptionsBucket,
		lastSeenBucket, messageTurnsBucket, quotesBucket, summariesBucket, streamsBucket,
		feedbackBucket, shownTurnsBucket, settingsBucket, usageBucket, memoriesBucket,
		callsBucket, resultsBucket, approvalsBucket, itemsBucket, messagesBucket, messageIDsBucket, formatBucket,
		trashName(turnsBucket), trashName(messagesBucket), trashName(messageIDsBucket)}
}

// DB is an open store. Its methods may be called concurrently. It has the lock of its file until
// Close. writing is taken before health.mu; no record is read or written with health.mu or group.mu
// held.
type DB struct {
	path  string
	bolt  atomic.Pointer[bbolt.DB] // CompactOpen replaces it
	group group
	now   func() time.Time

	health      health
	commits     atomic.Uint64
	reads       atomic.Uint64
	mapped      atomic.Int64             // bytes of files in memory when they were last released
	writing     sync.Mutex               // held while a transaction is written, in steps of a check, and while the file is replaced
	file        os.FileInfo              // of the file that is open; changed with writing held
	contents    atomic.Pointer[contents] // of that file; changed with writing held; nil: not watched
	check       *check                   // the one that runs, or nil
	journal     *journal                 // of the compaction that runs, or nil
	wal         *wal                     // nil: each change is committed at once
	access      sync.Mutex               // held while pending is used; taken after writing
	pending     *tx                      // what the log holds and the file does not, and what is being changed; nil: see pendingTx
	opsBuffer   []byte                   // for what the next pending transaction changes
	uncommitted atomic.Bool              // the log holds changes that are not committed; set with writing held
	flusher     *time.Timer              // runs flush
	retired     sync.WaitGroup           // files that were replaced and are still read

	feedback store.FeedbackTotals[tally]

	readers readers
	copies  atomic.Int32 // of the file that are being made, with a transaction of their own
	wiped   uint64       // how many commits there were when free pages were last overwritten; of Run alone

	closed  atomic.Bool
	isStuck atomic.Bool             // bbolt faulted with its locks held, see begin
	observe func(*tx)               // for tests: called with every write transaction before it is committed
	reached func(step string) error // for tests: called at each step of CompactOpen
}

// Open opens the store at path, making it where none has ever been, together with its folder. A
// file that is as the bot left it is opened without being read; any other one is read as a whole
// first, which takes seconds where it has gigabytes. The errors are *store.InUseError,
// *store.DamagedError, *store.NewerError, *store.SystemError, and those of the file system. The
// caller closes the DB.
func Open(path string, now func() time.Time) (*DB, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the store: %w", explainSystemError(path, err))
	}
	fresh, err := isUnused(path)
	if err != nil {
		return nil, err
	}
	if !fresh {
		if db, err := openTrusted(path, now); db != nil || err != nil {
			return db, err
		}
	}
	// Else the whole file is checked before bbolt opens it for writing: bbolt trusts its pages, and
	// a wrong one can make it overwrite good records.
	var found *scan
	if !fresh {
		if found, err = inspect(path); err != nil {
			return nil, err
		}
	}
	b, err := openFile(path, false)
	if err != nil {
		return nil, err
	}
	db := newDB(path, b, now)
	db.health.noteChecked(now())
	if err := db.prepare(found == nil || !found.hasTallies(), found); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return db, nil
}

// newDB returns a DB over an open file, whose buckets and tallies may be missing.
func newDB(path string, b *bbolt.DB, now func() time.Time) *DB {
	db := &DB{path: path, now: now}
	db.flusher = time.AfterFunc(flushAfter, func() { _ = db.flush() }) // health tells where it fails
	db.flusher.Stop()
	db.bolt.Store(b)
	return db
}

// openTrusted opens a file that is as the store left it, without reading all of it. It returns nil
// where it is another one, or has to be checked first.
func openTrusted(path string, now func() time.Time) (*DB, error) {
	s := readStamp(path)
	if !s.fits(path) {
		return nil, nil
	}
	b, err := openFile(path, false)
	var damaged *store.DamagedError
	switch {
	case errors.As(err, &damaged):
		return nil, nil // the check says more
	case err != nil:
		return nil, err
	}
	db := newDB(path, b, now)
	db.health.noteChecked(s.Checked)
	if err = db.checkTop(); err == nil {
		err = db.prepare(false, nil)
	}
	if err == nil {
		return db, nil
	}
	if err := b.Close(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if errors.As(err, &damaged) {
		return nil, nil
	}
	return nil, err
}

// checkTop returns a *store.DamagedError where the tallies are not of the last transaction, or a
// top-level bucket is missing.
func (db *DB) checkTop() error {
	return db.view(func(tx *tx) error {
		tallies := tx.bolt.Bucket([]byte(talliesBucket))
		if tallies == nil {
			return damagedError(db.path, "it has no tallies", restoreRemedy)
		}
		head, err := tx.readTally(tallies, headKey)
		if err == nil && head.seq != uint64(tx.bolt.ID()) {
			err = damagedError(db.path, "the tallies are not those of the last change", restoreRemedy)
		}
		if format, formatErr := tx.format(); err == nil {
			err = cmp.Or(formatErr, checkFormat(db.path, format))
		}
		for _, name := range bucketNames() {
			if err == nil && tx.named(name) == nil && tallies.Get([]byte(name)) != nil {
				err = damagedError(db.path, displayName(name)+" is missing", restoreRemedy)
			}
		}
		return err
	})
}

// The marker file beside the store says that a store was made here, and that it has
// tallies. Without it a lost file would look like a first start.
const (
	markerMade    = "A store was made here; see the file beside this one.\n"
	markerTallied = "Its records are counted.\n"
)

// markerPath returns the path of the marker file of a store.
func markerPath(path string) string { return path + ".initialized" }

// readMarker returns what the marker of a store says. A marker that cannot be read counts as none.
func readMarker(path string) (made, tallied bool) {
	text, err := os.ReadFile(markerPath(path))
	return err == nil, strings.Contains(string(text), markerTallied)
}

// writeMarker makes the marker, or replaces one of the first versions, which knew no tallies.
func writeMarker(path string) error {
	if _, tallied := readMarker(path); tallied {
		return nil
	}
	return os.WriteFile(markerPath(path), []byte(markerMade+markerTallied), 0o600)
}

// isUnused reports whether no store was ever made at path. An empty file without a marker
// is left by a first start that was cut short. A store that was made and is now missing
// or empty is a *store.DamagedError: a new one would hide the loss.
func isUnused(path string) (bool, error) {
	made, _ := readMarker(path)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && made:
		return false, damagedError(path, "the file is missing, although a store was made here before",
			"put the file or a backup back, or remove "+markerPath(path)+" to begin with an empty store")
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("open store: %w", explainSystemError(path, err))
	case info.Size() == 0 && !made:
		return true, nil
	case info.Size() == 0:
		return false, damagedError(path, "the file is empty",
			"put a backup in its place, or remove the file and "+markerPath(path)+" to begin with an empty store")
	}
	return false, nil
}

// damagedError returns a *store.DamagedError: what was found, and what the operator can do about
// it.
func damagedError(path, what, way string) error {
	return &store.DamagedError{Path: path, What: what, Remedy: way}
}

const (
	replaceRemedy = "put a backup in its place, or move the file away to begin with an empty store"
	restoreRemedy = replaceRemedy + "; ravenbot store salvage copies what can still be read of it"
	compactRemedy = "ravenbot store compact makes it whole again, perhaps without the last changes; " +
		"or put a backup in its place"
)

// openFile opens the file with bbolt, which locks it: exclusively, or with readOnly against writers
// alone. It waits a second for the lock. It returns a *store.InUseError where another process keeps
// it or has replaced the file meanwhile, a *store.DamagedError where bbolt does not know the file
// for its own, and a *store.SystemError where the system refuses.
func openFile(path string, readOnly bool) (b *bbolt.DB, err error) {
	defer catchFaults(path, &err)()
	var opened *os.File
	o := &bbolt.Options{
		ReadOnly:     readOnly,
		Timeout:      time.Second, // for the file lock: a process that ends may need a moment
		FreelistType: bbolt.FreelistMapType,
		// Else bbolt writes a missing list in a transaction of its own, which has no tallies. Whether
		// ours write one is for chooseFreelist.
		NoFreelistSync: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
			opened, err = os.OpenFile(name, flag, mode)
			return opened, err
		},
	}
	if !readOnly {
		if err := listFreePages(path); err != nil {
			return nil, err
		}
		o.InitialMmapSize = mapSize(path)
	}
	b, err = bbolt.Open(path, 0o600, o)
	if errors.Is(err, syscall.ENOMEM) && o.InitialMmapSize > 0 {
		o.InitialMmapSize = 0 // the address space is limited
		b, err = bbolt.Open(path, 0o600, o)
	}
	switch {
	case err == nil && !isFileAt(opened, path):
		// The process that had the lock has replaced the file by another one, which it has locked.
		return nil, errors.Join(&store.InUseError{Path: path}, b.Close())
	case err == nil:
		b.AllocSize = allocSize
		return b, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, &store.InUseError{Path: path, Process: lockHolder(path)}
	case isFormatError(err):
		return nil, damagedError(path, err.Error(), restoreRemedy)
	}
	// Not the store's fault: the file may be whole, so no backup is suggested.
	return nil, fmt.Errorf("open store: %w", explainSystemError(path, err))
}

// allocSize is by how much the file grows at once. bbolt's own 16 MB are for small maps alone.
const allocSize = 1 << 20

// mappedAhead is how many bytes behind the end of the file are mapped, which takes addresses and no
// memory. A file that outgrows its map is mapped again, and each writer waits until all who read,
// such as a backup, have ended.
const mappedAhead int64 = 4 << 30

// mapSize returns how much of a file, which may not be there yet, bbolt maps when it opens it; 0: as
// much as there is.
func mapSize(path string) int {
	if strconv.IntSize < 64 || runtime.GOOS == "windows" { // where a map enlarges the file
		return 0
	}
	var size int64
	if info, err := os.Stat(path); err == nil {
		size = info.Size()
	}
	return int(size + mappedAhead)
}

// isFileAt reports whether an open file is the one at a path.
func isFileAt(f *os.File, path string) bool {
	a, err1 := f.Stat()
	b, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// formatErrors are what bbolt says of a file that is no database of it.
var formatErrors = []error{bolterrors.ErrInvalid, bolterrors.ErrVersionMismatch, bolterrors.ErrChecksum}

// lock keeps other processes from writing to the file at path until release is called. A file that
// bbolt refuses to open, or that is not there, needs no lock: no process can open it as a store. It
// returns a *store.InUseError where a process has the store open.
func lock(path string) (release func() error, err error) {
	b, err := openFile(path, true)
	var broken *store.DamagedError
	switch {
	case err == nil:
		return b.Close, nil
	case errors.As(err, &broken), errors.Is(err, fs.ErrNotExist):
		return func() error { return nil }, nil
	}
	return nil, err
}

// catchFaults turns a memory fault or a panic into a *store.DamagedError in err. The
// caller defers the returned function. bbolt reads the file through mmap, so a damaged
// or truncated file shows as a fault.
func catchFaults(path string, err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			*err = damagedError(path, fmt.Sprint("reading it failed: ", r), restoreRemedy)
		}
	}
}

// prepare creates the buckets that the file lacks, and the tallies of what a scan has found where it
// is new (found is nil) or an old version wrote it without them. Then it records that it is open.
func (db *DB) prepare(createTallies bool, found *scan) error {
	// What a compaction that was cut short has left. Nobody else makes one: this process has the lock.
	_ = os.Remove(compactedPath(db.path))
	var err error
	if db.wal, err = openWAL(db.path); err != nil {
		return fmt.Errorf("prepare store %s: %w", db.path, err)
	}
	if err = db.openContents(); err == nil {
		err = db.redoAfterKill()
	}
	if err == nil {
		err = db.createBuckets(createTallies, found)
	}
	if err == nil {
		err = db.update(context.Background(), (*tx).migrate)
	}
	// The marker comes last: a first start that is cut short leaves a file without records,
	// which is damage only beside a marker.
	if err == nil {
		err = writeMarker(db.path)
	}
	if err == nil {
		db.file, err = os.Stat(db.path)
	}
	if err == nil {
		err = db.stampOpen()
	}
	if err != nil {
		_ = db.wal.close(false)
		db.closeContents()
		return fmt.Errorf("prepare store %s: %w", db.path, explainSystemError(db.path, err))
	}
	return nil
}

// createBuckets creates the top-level buckets that the file lacks.
func (db *DB) createBuckets(createTallies bool, found *scan) error {
	return db.update(context.Background(), func(tx *tx) error {
		if createTallies {
			if err := tx.createTallies(found); err != nil {
				return err
			}
		}
		for _, name := range bucketNames() {
			if err := tx.createTop(name); err != nil {
				return err
			}
		}
		return nil
	})
}

// inspect checks the whole file at path while no other process can write to it. It
// returns a *store.DamagedError where the file cannot be trusted.
func inspect(path string) (*scan, error) {
	release, err := lock(path)
	if err != nil {
		return nil, err
	}
	s, err := scanFile(context.Background(), path)
	if err = errors.Join(err, release()); err != nil {
		return nil, fmt.Errorf("check store: %w", explainSystemError(path, err))
	}
	return s, s.damageError(path)
}

// damageError returns a *store.DamagedError where the store cannot be trusted, else nil.
func (s *scan) damageError(path string) error {
	marked, tallied := readMarker(path)
	// First, since an older version takes for damage what it does not know.
	if err := checkFormat(path, s.format); err != nil {
		return err
	}
	switch {
	// The other header is whole, but one transaction older. Using it in silence could lose a
	// message or send a post twice, so the operator decides.
	case s.isHeaderOnly():
		return damagedError(path, s.describeFaults(), compactRemedy)
	case len(s.faults) > 0 && s.goodHeaders == 0: // salvage finds nothing without one
		return damagedError(path, s.describeFaults(), replaceRemedy)
	case len(s.faults) > 0:
		return damagedError(path, s.describeFaults(), restoreRemedy)
	// Buckets of somebody else's file, or none where a store was made.
	case !s.hasInbox && (s.hasBuckets || marked):
		return damagedError(path, "it holds no records of ravenbot", restoreRemedy)
	case !s.hasTallies() && tallied:
		return damagedError(path, "the tallies of its records are missing", restoreRemedy)
	}
	return nil
}

// Close waits for commits and readers under way, closes the file, and records how it was left, so
// that Open need not read it. A second call returns nil. Other methods fail afterwards.
func (db *DB) Close() error {
	isSaved := db.uncommitted.Load() && db.flush() == nil // where it fails the log has what is not committed
	if db.closed.Swap(true) {
		return nil
	}
	db.flusher.Stop()
	if isSaved {
		// Both headers lead to all records then: a disk that damages one of them loses nothing.
		_ = db.update(context.Background(), func(tx *tx) error { tx.atOnce = true; return nil })
	}
	_ = db.writeFreelist() // where the disk is full, the next start finds them
	// The lock keeps CompactOpen from replacing the file meanwhile.
	db.writing.Lock()
	db.access.Lock()
	db.rollBackDamaged()
	db.access.Unlock()
	isOurs := db.checkContents() == nil
	db.closeContents()
	var err error
	if !db.isStuck.Load() { // closing would wait for ever; the end of the process frees the file
		err = db.bolt.Load().Close()
	}
	err = errors.Join(err, db.wal.close(!db.uncommitted.Load()))
	db.writing.Unlock()
	db.retired.Wait()
	if err != nil {
		return fmt.Errorf("close store %s: %w", db.path, err)
	}
	if !isOurs {
		_ = os.Remove(stampPath(db.path)) // the next start has to read what is there
		return nil
	}
	return db.stampClosed()
}

// maxListedFree is up to how many free pages their list is written with each transaction, as bbolt
// does by default: with 300,000 of them that took 100 ms of processor time a message (measured
// 2026-11-22). A long list is written when the store is closed or nothing is written for a while. Where
// the bot was killed at work with many free pages, listFreePages finds them.
const maxListedFree = 1024

// chooseFreelist decides whether the transaction writes the list of free pages.
func (db *DB) chooseFreelist(t *tx) {
	s := t.bolt.DB().Stats()
	t.bolt.DB().NoFreelistSync = !t.lists && s.FreePageN+s.PendingPageN > maxListedFree
}

// writeFreelist has the list of free pages written where it is not.
func (db *DB) writeFreelist() error {
	if m, err := db.header(); err != nil || m.freelist != noFreelist {
		return err
	}
	return db.update(context.Background(), func(tx *tx) error {
		tx.lists, tx.atOnce = true, true
		return nil
	})
}

// header returns the header in effect of the open file.
func (db *DB) header() (m meta, err error) {
	f, err := os.Open(db.path)
	if err != nil {
		return meta{}, fmt.Errorf("look at store: %w", err)
	}
	defer f.Close()
	m, _, err = readMetas(f)
	return m, err
}

// view runs fn in a read transaction. It returns a *store.DamagedError where reading fails because
// of damage. fn must keep no key or value beyond its end: they lie in the mapped file. It may run
// while others write, and sees the store as it was when it began, since what the write-ahead log holds is committed
// first.
func (db *DB) view(fn func(*tx) error) (err error) {
	if db.uncommitted.Load() && db.flush() != nil {
		if found, err := db.readPending(fn); found {
			return err
		}
	}
	began := time.Now()
	err = db.viewFile(func(b *bbolt.Tx) error { return fn(&tx{db: db, bolt: b}) })
	if time.Since(began) > longReading || db.reads.Add(1)%readsPerRelease == 0 {
		db.releasePages()
	}
	return err
}

// lookUp is view for few records: what the write-ahead log holds is read where it is, and nobody writes meanwhile. What
// is being appended to the log may be seen: whatever is written because of it comes behind it.
func (db *DB) lookUp(fn func(*tx) error) error {
	if db.uncommitted.Load() {
		if found, err := db.readPending(fn); found {
			return err
		}
	}
	return db.view(fn)
}

// readPending runs fn in the pending transaction. It returns false where there is none, since all is committed.
func (db *DB) readPending(fn func(*tx) error) (found bool, err error) {
	db.access.Lock()
	if db.pending == nil && db.uncommitted.Load() {
		// It was rolled back. Who begins it again uses the log, which writing guards.
		db.access.Unlock()
		db.writing.Lock()
		defer db.writing.Unlock()
		db.access.Lock()
	}
	defer db.access.Unlock()
	if db.pending == nil && !db.uncommitted.Load() {
		return false, nil
	}
	defer catchFaults(db.path, &err)()
	t, err := db.pendingTx()
	if err != nil {
		return true, err
	}
	return true, fn(t)
}

// viewFile is view for what bbolt has to read itself.
func (db *DB) viewFile(fn func(*bbolt.Tx) error) (err error) {
	defer catchFaults(db.path, &err)()
	for {
		b := db.bolt.Load()
		if err := db.checkLength(); err != nil {
			return err
		}
		err := db.readers.count(func() error { return db.readIn(b, fn) })
		// The file was replaced before the transaction could begin.
		if errors.Is(err, bolterrors.ErrDatabaseNotOpen) && db.bolt.Load() != b {
			continue
		}
		return err
	}
}

// readIn runs fn in a read transaction of b.
func (db *DB) readIn(b *bbolt.DB, fn func(*bbolt.Tx) error) error {
	t, err := db.begin(b, false)
	if err != nil {
		return err
	}
	defer func() { _ = t.Rollback() }() // which only fails where it has ended
	return fn(t)
}
