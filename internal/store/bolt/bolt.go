// Package bolt keeps the bot's records in one bbolt file, and makes and restores copies
// of it. It promises:
//   - One process at a time has the file open.
//   - A damaged file is reported and is neither opened nor replaced.
//   - A damaged record is reported by its name when it is read. After an unclean end, and once a day, all of them are read
//     in the background.
//   - A copy gets its name only after all of it was read and checked.
//   - What is changed is safe on disk when a call returns.
//   - Concurrent writers share a transaction, and a lone writer waits for nobody.
//   - No read transaction but the one of a backup outlives the call that began it.
//
// It is the only importer of bbolt. One kind of loss stays unnoticed: a disk that reports a write as done and then loses
// it. Then the store is in an earlier state, or has pages of one. A damaged header is reported.
package bolt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

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
	formatBucket        = "format"        // of the file, under its own name, and how it was closed
)

// bucketNames returns the names of all buckets at the top of the file.
func bucketNames() []string {
	return []string{inboxBucket, turnsBucket, outboxBucket, doneBucket,
		feedsBucket, seenBucket, runsBucket, roomsBucket, entriesBucket, roomFilesBucket, blobsBucket, subscriptionsBucket,
		lastSeenBucket, messageTurnsBucket, quotesBucket, summariesBucket, streamsBucket,
		feedbackBucket, shownTurnsBucket, settingsBucket, usageBucket, memoriesBucket,
		callsBucket, resultsBucket, approvalsBucket, itemsBucket, messagesBucket, messageIDsBucket, formatBucket}
}

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
	feedback  store.FeedbackTotals[version]
	observe   func(*tx) // for tests: called with every write transaction before it is committed
}

// Open opens the store at path, making it if none has ever been, together with its folder. A file that was closed in
// good order is opened without being read; after a kill all of its pages are read first, and its records while the bot
// works. A large file of which most is free is compacted. The errors are *store.InUseError, *store.DamagedError,
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
		if state, err = inspect(path); err != nil {
			return nil, err
		}
	}
	b, err := openFile(path, false)
	if err != nil {
		return nil, err
	}
	db := newDB(path, b, now)
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
	return &DB{path: path, bolt: b, now: now}
}

// prepare brings the file to the newest format.
func (db *DB) prepare() error {
	err := db.update(context.Background(), func(tx *tx) error { return tx.migrate(walPath(db.path)) })
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
	_ = db.markClosed() // if that fails, as on a full disk, the next start reads the file
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
	if t.named(formatBucket) == nil {
		return nil // a copy that is being made
	}
	if err := t.top(formatBucket).put(closedKey, closedRecord{db.Checked()}); err != nil {
		return err
	}
	db.bolt.NoFreelistSync = false
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
