// Package bolt keeps the bot's records in one bbolt file, and makes and takes back
// copies of it. It promises that one process at a time has the file open; that a file
// which cannot be trusted is reported, and never opened nor replaced; that a record
// which is wrong, missing, back from the past or too many is noticed when the store is
// opened, a wrong one also when it is read, a missing one when all of its bucket are;
// that a copy has its name only when it was read as a whole; and that concurrent
// writers share one fsync without waiting for one another on purpose. No read
// transaction outlives the call that made it. It is the only importer of bbolt.
//
// What a disk says it wrote and did not is noticed unless all of the last change is
// gone, the header that told of it included: then the store is that of the change
// before. A header that is damaged is never taken for that.
package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
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
	subscriptionsBucket = "subscriptions" // address and URL → store.Subscription
	blobsBucket         = "tools"         // what is known of an MCP server: its tools, log, pins and grants → JSON
	lastSeenBucket      = "heard"         // address → chat.Heard
	messageTurnsBucket  = "places"        // message identity → the turn that holds it
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
	talliesBucket       = "tallies"       // bucket → how many records it holds, and a hash of all
)

func bucketNames() []string {
	return []string{inboxBucket, turnsBucket, outboxBucket, doneBucket,
		feedsBucket, seenBucket, runsBucket, roomsBucket, entriesBucket, blobsBucket, subscriptionsBucket,
		lastSeenBucket, messageTurnsBucket, summariesBucket, streamsBucket,
		feedbackBucket, shownTurnsBucket, settingsBucket, usageBucket, memoriesBucket,
		callsBucket, resultsBucket, approvalsBucket, itemsBucket}
}

// DB is an open store. Its methods may be called concurrently.
type DB struct {
	path  string
	bolt  *bbolt.DB
	group group
	now   func() time.Time

	commits atomic.Uint64
}

// Open opens the store at path, making it where none has ever been. The errors
// are *store.InUseError, *store.DamagedError, and those of the file system.
func Open(path string, now func() time.Time) (*DB, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	fresh, err := isUnused(path)
	if err != nil {
		return nil, err
	}
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
	db := &DB{path: path, bolt: b, now: now}
	if err := db.prepare(found); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return db, nil
}

// The marker beside the store says that one was made, and that it has tallies.
const (
	markerMade    = "A store was made here; see the file beside this one.\n"
	markerTallied = "Its records are counted.\n"
)

func markerPath(path string) string { return path + ".initialized" }

func readMarker(path string) (made, tallied bool) {
	text, err := os.ReadFile(markerPath(path))
	return err == nil, strings.Contains(string(text), markerTallied)
}

func writeMarker(path string) error {
	if _, tallied := readMarker(path); tallied {
		return nil
	}
	return os.WriteFile(markerPath(path), []byte(markerMade+markerTallied), 0o600)
}

// isUnused reports that no store was ever made at path; an empty file is what a
// first start leaves that was cut short. A store that was made and is now missing
// or empty is damage: a new one would hide the loss.
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
		return false, fmt.Errorf("open store: %w", err)
	case info.Size() == 0 && !made:
		return true, nil
	case info.Size() == 0:
		return false, damagedError(path, "the file is empty",
			"put a backup in its place, or remove the file and "+markerPath(path)+" to begin with an empty store")
	}
	return false, nil
}

func damagedError(path, what, way string) error {
	return &store.DamagedError{Path: path, What: what, Remedy: way}
}

const (
	restoreRemedy = "put a backup in its place, or move the file away to begin with an empty store"
	compactRemedy = "ravenbot store compact makes it whole again, perhaps without the last change; or put a backup in its place"
)

// openFile opens the file with bbolt, which locks it: for all others, or where it is
// only read for writers alone.
func openFile(path string, readOnly bool) (b *bbolt.DB, err error) {
	defer catchFaults(path, &err)()
	b, err = bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: readOnly,
		Timeout: time.Second, FreelistType: bbolt.FreelistMapType, NoStatistics: true})
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, &store.InUseError{Path: path}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("open store: %w", err)
	}
	return nil, damagedError(path, err.Error(), restoreRemedy)
}

// lock keeps others from writing to the file at path. What is damaged so badly that
// bbolt does not open it, no store opens: then there is nothing to keep out.
func lock(path string) (release func() error, err error) {
	b, err := openFile(path, true)
	var broken *store.DamagedError
	switch {
	case err == nil:
		return b.Close, nil
	case errors.As(err, &broken):
		return func() error { return nil }, nil
	}
	return nil, err
}

// catchFaults turns a memory fault or panic of reading a damaged file, until the
// returned function runs, into a *store.DamagedError.
func catchFaults(path string, err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			*err = damagedError(path, fmt.Sprint("reading it failed: ", r), restoreRemedy)
		}
	}
}

// prepare makes what is missing in the file, and the tallies of one that is older
// than they are.
func (db *DB) prepare(found *scan) error {
	err := db.update(context.Background(), func(tx *tx) error {
		if found == nil || !found.hasTallies() {
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
	if err == nil {
		err = writeMarker(db.path)
	}
	if err != nil {
		return fmt.Errorf("prepare store %s: %w", db.path, err)
	}
	return nil
}

// inspect reads the whole file at path, before bbolt trusts it, while nobody else
// can write to it.
func inspect(path string) (*scan, error) {
	release, err := lock(path)
	if err != nil {
		return nil, err
	}
	s, err := scanFile(context.Background(), path)
	if err = errors.Join(err, release()); err != nil {
		return nil, fmt.Errorf("check store: %w", err)
	}
	return s, s.damageError(path)
}

// damageError says whether a store can be trusted.
func (s *scan) damageError(path string) error {
	marked, tallied := readMarker(path)
	switch {
	case s.isHeaderOnly():
		return damagedError(path, s.describeFaults(), compactRemedy)
	case len(s.faults) > 0:
		return damagedError(path, s.describeFaults(), restoreRemedy)
	case !s.hasInbox && (s.hasBuckets || marked):
		return damagedError(path, "it holds no records of ravenbot", restoreRemedy)
	case !s.hasTallies() && tallied:
		return damagedError(path, "the tallies of its records are missing", restoreRemedy)
	}
	return nil
}

// Close waits for commits under way and closes the file.
func (db *DB) Close() error { return db.bolt.Close() }

// view runs fn in a read transaction, with damage turned into an error.
func (db *DB) view(fn func(*tx) error) (err error) {
	defer catchFaults(db.path, &err)()
	return db.bolt.View(func(b *bbolt.Tx) error { return fn(&tx{db: db, bolt: b}) })
}
