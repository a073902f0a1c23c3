// Package bolt keeps the bot's records in one bbolt file. It promises that one
// process at a time has the file open, that a file which cannot be trusted is
// reported and never replaced, that every value is checked against its checksum
// when it is read, and that concurrent writers share one fsync without waiting
// for one another on purpose. No read transaction outlives the call that made
// it. It is the only importer of bbolt.
package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
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
	toolsBucket         = "tools"         // MCP server → the list of its tools
	heardBucket         = "heard"         // address → chat.Heard
	placesBucket        = "places"        // message identity → the turn that holds it
	summariesBucket     = "summaries"     // address → conversation.Summary
)

func buckets() []string {
	return []string{inboxBucket, turnsBucket, outboxBucket, doneBucket,
		feedsBucket, seenBucket, runsBucket, roomsBucket, entriesBucket, toolsBucket, subscriptionsBucket,
		heardBucket, placesBucket, summariesBucket}
}

// DB is an open store. Its methods may be called concurrently.
type DB struct {
	path  string
	bolt  *bbolt.DB
	group group
	now   func() time.Time
}

// walkLimit is the largest file of which every value is read at open.
const walkLimit = 64 << 20

// Open opens the store at path, making it where none has ever been. The errors
// are *store.InUseError, *store.DamagedError, and those of the file system.
func Open(path string, now func() time.Time) (*DB, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	fresh, err := unused(path)
	if err != nil {
		return nil, err
	}
	b, err := openFile(path)
	if err != nil {
		return nil, err
	}
	db := &DB{path: path, bolt: b, now: now}
	if err := db.prepare(fresh); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return db, nil
}

func marker(path string) string { return path + ".initialized" }

// unused reports that no store was ever made at path; an empty file is what a
// first start leaves that was cut short. A store that was made and is now missing
// or empty is damage: a new one would hide the loss.
func unused(path string) (bool, error) {
	_, err := os.Stat(marker(path))
	made := err == nil
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && made:
		return false, damaged(path, "the file is missing, although a store was made here before",
			"put the file or a backup back, or remove "+marker(path)+" to begin with an empty store")
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("open store: %w", err)
	case info.Size() == 0 && !made:
		return true, nil
	case info.Size() == 0:
		return false, damaged(path, "the file is empty",
			"put a backup in its place, or remove the file and "+marker(path)+" to begin with an empty store")
	}
	return false, nil
}

func damaged(path, what, way string) error {
	return &store.DamagedError{Path: path, What: what, Way: way}
}

const restore = "put a backup in its place, or move the file away to begin with an empty store"

func openFile(path string) (b *bbolt.DB, err error) {
	defer guard(path, &err)()
	b, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: time.Second, FreelistType: bbolt.FreelistMapType, NoStatistics: true})
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, &store.InUseError{Path: path}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("open store: %w", err)
	}
	return nil, damaged(path, err.Error(), restore)
}

// guard turns a memory fault or panic of reading a damaged file, until the
// returned function runs, into a *store.DamagedError.
func guard(path string, err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			*err = damaged(path, fmt.Sprint("reading it failed: ", r), restore)
		}
	}
}

// prepare checks the file and makes what is missing in a new one.
func (db *DB) prepare(fresh bool) error {
	if !fresh {
		if err := db.check(); err != nil {
			return err
		}
	}
	err := db.bolt.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets() {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("prepare store %s: %w", db.path, err)
	}
	if err := os.WriteFile(marker(db.path), []byte("A store was made here; see the file beside this one.\n"), 0o600); err != nil {
		return fmt.Errorf("prepare store %s: %w", db.path, err)
	}
	return nil
}

// check finds truncation and, in files that are not too large, every value
// whose checksum is wrong.
func (db *DB) check() (err error) {
	defer guard(db.path, &err)()
	info, err := os.Stat(db.path)
	if err != nil {
		return fmt.Errorf("check store: %w", err)
	}
	return db.bolt.View(func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return damaged(db.path, fmt.Sprintf("it ends after %d bytes of %d", info.Size(), tx.Size()), restore)
		}
		if tx.Bucket([]byte(inboxBucket)) == nil {
			return db.vacant(tx)
		}
		if info.Size() > walkLimit {
			return nil
		}
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error { return db.walk(b) })
	})
}

// vacant tells a store whose making was cut short from one that lost its records
// or holds somebody else's.
func (db *DB) vacant(tx *bbolt.Tx) error {
	first, _ := tx.Cursor().First()
	_, err := os.Stat(marker(db.path))
	if first != nil || err == nil {
		return damaged(db.path, "it holds no records of ravenbot", restore)
	}
	return nil
}

func (db *DB) walk(b *bbolt.Bucket) error {
	return b.ForEach(func(k, v []byte) error {
		if v == nil {
			return db.walk(b.Bucket(k))
		}
		if _, err := unseal(v); err != nil {
			return damaged(db.path, fmt.Sprintf("record %q: %v", k, err), restore)
		}
		return nil
	})
}

// Close waits for commits under way and closes the file.
func (db *DB) Close() error { return db.bolt.Close() }

// view runs fn in a read transaction, with damage turned into an error.
func (db *DB) view(fn func(*bbolt.Tx) error) (err error) {
	defer guard(db.path, &err)()
	return db.bolt.View(fn)
}
