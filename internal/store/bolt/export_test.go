package bolt

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store/kv"
	"ravenbot/internal/store/records"
)

// Buckets returns the names of the buckets of records.
func Buckets() (names []string) {
	for _, s := range records.Specs() {
		names = append(names, s.Name)
	}
	return names
}

// isNesting reports whether the records of a bucket are in groups.
func isNesting(name string) bool {
	return slices.ContainsFunc(records.Specs(), func(s *kv.Spec) bool { return s.Name == name && s.Grouped })
}

// Names of buckets.
const (
	turnsBucket         = "turns"
	outboxBucket        = "outbox"
	doneBucket          = "done"
	feedsBucket         = "feeds"
	seenBucket          = "seen"
	runsBucket          = "runs"
	roomsBucket         = "rooms"
	entriesBucket       = "entries"
	roomFilesBucket     = "roomfiles"
	subscriptionsBucket = "subscriptions"
	blobsBucket         = "tools"
	lastSeenBucket      = "heard"
	messageTurnsBucket  = "places"
	quotesBucket        = "quotes"
	summariesBucket     = "summaries"
	streamsBucket       = "streams"
	feedbackBucket      = "feedback"
	shownTurnsBucket    = "shown"
	settingsBucket      = "settings"
	usageBucket         = "usage"
	memoriesBucket      = "memories"
	callsBucket         = "calls"
	resultsBucket       = "results"
	approvalsBucket     = "approvals"
	itemsBucket         = "items"
	messagesBucket      = "messages"
	messageIDsBucket    = "messageids"
)

// RawRecords returns all records, by bucket and key.
func RawRecords(t *testing.T, db *TestStore) map[string]string { return rawRecords(t, db.DB) }

// OpenUnsynced opens a store that need not survive the test: nothing of it is synced, and release closes the file
// alone.
func OpenUnsynced(path string, now func() time.Time) (db *DB, release func() error, err error) {
	b, err := openFile(path, false)
	if err != nil {
		return nil, nil, err
	}
	b.NoSync = true
	return newDB(path, b, now), b.Close, nil
}

// Watch looks once for what keeps the store from being written.
func Watch(ctx context.Context, db *TestStore) error { return db.watch(ctx) }

// leave closes the file and leaves all else as it is, as a kill does.
func (db *DB) leave() error {
	db.closed.Store(true)
	var err error
	if db.log != nil {
		err = db.log.release()
	}
	return errors.Join(err, db.bolt.Close())
}

// ForgetClosed makes a store one that was not closed in good order.
func ForgetClosed(path string) error {
	b, err := openFile(path, false)
	if err != nil {
		return err
	}
	err = b.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(formatBucket)).Delete(closedKey) })
	return errors.Join(err, b.Close())
}

// Spoil changes the last byte of every record of top-level buckets, as a disk may, and nothing else.
func Spoil(db *TestStore, buckets ...string) error {
	return db.bolt.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			if err := spoilBucket(tx.Bucket([]byte(name))); err != nil {
				return err
			}
		}
		return nil
	})
}

func spoilBucket(b *bbolt.Bucket) error {
	spoiled := map[string][]byte{}
	if err := b.ForEach(func(k, v []byte) error {
		if v == nil {
			return spoilBucket(b.Bucket(k))
		}
		record := bytes.Clone(v)
		record[len(record)-1] ^= 1
		spoiled[string(k)] = record
		return nil
	}); err != nil {
		return err
	}
	for k, v := range spoiled {
		if err := b.Put([]byte(k), v); err != nil {
			return err
		}
	}
	return nil
}

// BlockRecord puts a bucket where a record is to be written, named as RawRecords does. bbolt writes no record there.
func BlockRecord(db *TestStore, name string) (bool, error) {
	path := strings.SplitN(name, nul, 2+strings.Count(nestedIn(name), nul))
	return true, db.bolt.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(path[0]))
		key := []byte(path[len(path)-1])
		if len(path) == 3 {
			var err error
			if b, err = b.CreateBucketIfNotExists([]byte(path[1])); err != nil {
				return err
			}
		}
		if b.Get(key) != nil {
			if err := b.Delete(key); err != nil {
				return err
			}
		}
		_, err := b.CreateBucket(key)
		return err
	})
}

// nestedIn returns a NUL where the records of a top-level bucket, by the name of one, are in buckets of their own.
func nestedIn(name string) string {
	top, _, _ := strings.Cut(name, nul)
	if isNesting(top) {
		return nul
	}
	return ""
}

// BlockBucket puts a record where the bucket of a record is to be made. It returns false where that is there.
func BlockBucket(db *TestStore, name string) (blocked bool, err error) {
	if nestedIn(name) == "" {
		return false, nil
	}
	path := strings.SplitN(name, nul, 3)
	err = db.bolt.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(path[0]))
		if b.Bucket([]byte(path[1])) != nil {
			return nil
		}
		blocked = true
		return b.Put([]byte(path[1]), seal(path[0], []byte(path[1]), []byte("{}")))
	})
	return blocked, err
}

// endingContext ends when it was looked at a number of times.
type endingContext struct {
	context.Context
	end  context.CancelFunc
	mu   sync.Mutex
	left int
}

// EndAfter returns a context that ends at the look that follows n others.
func EndAfter(parent context.Context, n int) context.Context {
	ctx, end := context.WithCancel(parent)
	return &endingContext{Context: ctx, end: end, left: n}
}

// HasEnded reports whether the end of a context that EndAfter returned was seen by whoever has it.
func HasEnded(ctx context.Context) bool {
	c, ok := ctx.(*endingContext)
	return ok && c.Context.Err() != nil
}

// Err ends the context when it was called often enough.
func (c *endingContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		c.end()
	}
	c.left--
	return c.Context.Err()
}

// HideTurns deletes the turns of a conversation and leaves their entries in the indexes: so it is with many turns until
// DeleteConversation has emptied what it moved away.
func HideTurns(db *TestStore, a chat.Address) error {
	return db.bolt.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(turnsBucket)).DeleteBucket([]byte(a.String())) })
}

// SetMaxLog makes a store begin another log after some bytes.
func SetMaxLog(db *TestStore, n int64) { db.maxLog = n }

// LogIDs returns the ids of the logs of a store that was killed, in order.
func LogIDs(path string) (ids []uint64, err error) {
	logs, err := findLogs(path)
	for _, l := range logs {
		ids = append(ids, l.id)
	}
	return ids, err
}

// ReplayLogs makes the changes in the logs of a store that was killed.
func ReplayLogs(path string) error {
	_, err := replayLogs(path)
	return err
}

// TestStore is a store with the records in it.
type TestStore struct {
	*DB
	*records.Store
}

// NewTestStore returns the records in an open store.
func NewTestStore(db *DB) *TestStore { return &TestStore{db, records.New(db)} }

// OpenRecords is Open with the records in the store. It makes their buckets.
func OpenRecords(path string, now func() time.Time) (*TestStore, error) {
	db, err := Open(path, now)
	if err != nil {
		return nil, err
	}
	err = db.update(context.Background(), func(t *tx) (err error) {
		for _, name := range Buckets() {
			_, failed := t.createTop(name)
			err = errors.Join(err, failed)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return NewTestStore(db), nil
}
