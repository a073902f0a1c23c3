package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"ravenbot/internal/store"
)

// recordKind is a kind of records and the bucket that holds them, or where that is nested, one bucket a group.
type recordKind struct {
	kind, bucket string
	isNested     bool
	// hasSeq: the bucket, or each of those in it, counts on from a number, or says something by being there.
	hasSeq bool
}

// recordKinds are the kinds of records by the buckets that hold them. Index buckets, which can be made of the
// others, are none. What an index refers to comes before it.
var recordKinds = []recordKind{
	{"waiting", inboxBucket, false, true},
	{"post", outboxBucket, false, true},
	{"done", doneBucket, false, false},
	{"stream", streamsBucket, false, false},
	{"lastSeen", lastSeenBucket, false, false},
	{"turn", turnsBucket, true, true},
	{"message", messagesBucket, true, true},
	{"messageTurn", messageTurnsBucket, false, false},
	{"quote", quotesBucket, false, false},
	{"summary", summariesBucket, false, false},
	{"call", callsBucket, false, true},
	{"result", resultsBucket, false, false},
	{"approval", approvalsBucket, false, false},
	{"feedback", feedbackBucket, false, false},
	{"shownTurn", shownTurnsBucket, false, false},
	{"feed", feedsBucket, false, false},
	{"seenItem", seenBucket, true, true},
	{"run", runsBucket, true, false},
	{"subscription", subscriptionsBucket, false, false},
	{"entry", roomsBucket, true, true},
	{"roomFile", roomFilesBucket, true, true},
	{"memory", memoriesBucket, true, true},
	{"usage", usageBucket, false, false},
	{"setting", settingsBucket, false, false},
	{"blob", blobsBucket, false, false},
	{"item", itemsBucket, true, false},
}

// Bounds of what is read in one transaction.
const (
	maxRead      = 500
	maxReadBytes = 4 << 20
)

// Records calls fn with every record, outside of any transaction: what others write meanwhile may
// be missing. It ends with the first error
// of fn, with that of ctx, or with a *store.DamagedError.
func (db *DB) Records(ctx context.Context, fn func(store.Record) error) error {
	p := &pruner{db: db, ctx: ctx, now: db.now()}
	var err error
	for _, k := range recordKinds {
		read := func(group, bucket string) error {
			return db.readBucket(ctx, store.Record{Kind: k.kind, Group: group}, bucket, k.hasSeq, fn)
		}
		if k.isNested {
			err = p.eachNested(k.bucket, func(name string) error { return read(name, k.bucket+nul+name) })
		} else {
			err = read("", k.bucket)
		}
		if err = cmp.Or(err, p.blocked); err != nil {
			return fmt.Errorf("read %s: %w", displayName(k.bucket), err)
		}
	}
	return nil
}

// readBucket calls fn with the records of a bucket, which are like r.
func (db *DB) readBucket(
	ctx context.Context,
	r store.Record,
	bucket string,
	hasSeq bool,
	fn func(store.Record) error,
) error {
	var after []byte
	for isFirst := true; ; isFirst = false {
		var list []store.Record
		err := db.view(func(tx *tx) (err error) {
			b := tx.named(bucket)
			if b == nil {
				return nil
			}
			if isFirst && hasSeq {
				r.Seq = b.bolt.Sequence()
				list = append(list, r)
				r.Seq = 0
			}
			list, after, err = db.readSome(tx, b, r, list, after)
			return err
		})
		if err != nil {
			return err
		}
		for _, found := range list {
			if err := errors.Join(ctx.Err(), fn(found)); err != nil {
				return err
			}
		}
		if after == nil {
			return nil
		}
	}
}

// readSome appends the records behind a key to list. It returns the last key that it looked at; nil: there are no
// further ones.
func (db *DB) readSome(
	tx *tx,
	b *bucket,
	r store.Record,
	list []store.Record,
	after []byte,
) ([]store.Record, []byte, error) {
	size := 0
	c := b.cursor()
	for k, v := c.from(after); k != nil; k, v = c.next() {
		if len(list) >= maxRead || size >= maxReadBytes {
			return list, after, nil
		}
		body, err := unseal(v)
		if err != nil {
			return nil, nil, damagedError(db.path, fmt.Sprintf("record %q: %v", k, err), restoreRemedy)
		}
		after = bytes.Clone(k)
		if isDangling, err := tx.isDangling(b.name, body); err != nil {
			return nil, nil, err
		} else if isDangling {
			continue
		}
		r.Key, r.Body = string(k), bytes.Clone(body)
		size += len(k) + len(v)
		list = append(list, r)
	}
	return list, nil, nil
}

// isDangling reports whether a record is the index entry of a conversation that is gone, which Prune would
// delete.
func (t *tx) isDangling(bucket string, body []byte) (isDangling bool, err error) {
	var list []store.TurnRef
	switch bucket {
	case messageTurnsBucket:
		list = make([]store.TurnRef, 1)
		err = json.Unmarshal(body, &list[0])
	case quotesBucket:
		err = json.Unmarshal(body, &list)
	default:
		return false, nil
	}
	for _, at := range list {
		name := at.Conversation.String()
		if t.top(turnsBucket).nested(name) != nil || t.top(messagesBucket).nested(name) != nil {
			return false, err
		}
	}
	return true, err
}

// incompleteFormat is the format of a file that a migration from another store has not filled yet. Older
// versions refuse it as one of a newer version.
const incompleteFormat = 1 << 30

// cutOff is what was found of such a file.
const cutOff = "a migration into it was cut off"

// errCut is returned for a file that a migration has not filled.
func errCut(path string) error {
	return damagedError(path, cutOff,
		"run ravenbot store migrate again, which begins from the start")
}

// OpenTarget opens a new or empty store to be filled with the records of another one, and one that a migration
// has begun to fill, which is emptied. It returns store.ErrExists where there is a store that holds anything.
func OpenTarget(ctx context.Context, path string, now func() time.Time) (*DB, error) {
	if fresh, err := isUnused(path); err == nil && !fresh {
		if err := checkReplaceable(path, now); err != nil {
			return nil, err
		}
		for _, file := range []string{path, walPath(path), markerPath(path)} {
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, fmt.Errorf("begin store from the start: %w", err)
			}
		}
	}
	db, err := Open(path, now)
	if err != nil {
		return nil, err
	}
	if err := db.setFormat(ctx, incompleteFormat); err != nil {
		return nil, errors.Join(fmt.Errorf("begin to fill store %s: %w", path, err), db.Close())
	}
	return db, nil
}

// checkReplaceable returns store.ErrExists if a store holds records and is not the copy of a migration that was cut off.
func checkReplaceable(path string, now func() time.Time) error {
	db, err := Open(path, now)
	if damaged, ok := errors.AsType[*store.DamagedError](err); ok && damaged.What == cutOff {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at store %s: %w", path, err)
	}
	err = db.view(func(tx *tx) error {
		for _, k := range recordKinds {
			if first, _ := tx.top(k.bucket).cursor().first(); first != nil {
				return store.ErrExists
			}
		}
		return nil
	})
	if err = errors.Join(err, db.Close()); errors.Is(err, store.ErrExists) {
		return fmt.Errorf("fill store %s: it holds records: %w", path, store.ErrExists)
	}
	return err
}

// setFormat writes the number of the file's format.
func (db *DB) setFormat(ctx context.Context, format int) error {
	return db.update(ctx, func(tx *tx) error {
		return tx.top(formatBucket).put([]byte(formatBucket), formatRecord{format})
	})
}

// Complete marks a store that OpenTarget returned as filled.
func (db *DB) Complete(ctx context.Context) error {
	if err := db.setFormat(ctx, formatVersion); err != nil {
		return fmt.Errorf("complete store %s: %w", db.path, err)
	}
	return nil
}

// AddRecords stores records of another store in one transaction, with what indexes have to say of
// them. It fails for a kind that this version does not know: a migration must leave nothing out in
// silence.
func (db *DB) AddRecords(ctx context.Context, list []store.Record) error {
	err := db.update(ctx, func(tx *tx) error {
		for _, r := range list {
			if err := tx.addRecord(r); err != nil {
				return fmt.Errorf("%s %q of %q: %w", r.Kind, r.Key, r.Group, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store records: %w", err)
	}
	return nil
}

// addRecord stores a record of another store as it is, with its indexes. A record without a body sets the sequence of
// its group, so that numbers which were given once are not given again.
func (t *tx) addRecord(r store.Record) error {
	i := slices.IndexFunc(recordKinds, func(k recordKind) bool { return k.kind == r.Kind })
	if i < 0 {
		return errors.New("this version does not know the kind")
	}
	name := recordKinds[i].bucket
	if recordKinds[i].isNested {
		name += nul + r.Group
	}
	b, err := t.createNamed(name)
	if err != nil {
		return err
	}
	if r.Body == nil {
		if r.Kind == "message" {
			_, err = t.createNamed(messageIDsBucket + nul + r.Group)
		}
		b.raiseSequence(r.Seq)
		return err
	}
	return errors.Join(b.putSealed([]byte(r.Key), seal(b.name, []byte(r.Key), r.Body)), t.index(r))
}

// index adds a record to the index bucket of its kind, where that has one.
func (t *tx) index(r store.Record) error {
	var id struct {
		ID string `json:"id"`
	}
	var bucket string
	var at any
	switch r.Kind {
	case "entry":
		var seq struct {
			Seq uint64 `json:"seq"`
		}
		if err := json.Unmarshal(r.Body, &seq); err != nil {
			return err
		}
		bucket, at = entriesBucket, seq.Seq
	case "message":
		bucket, at = messageIDsBucket, []byte(r.Key)
	default:
		return nil
	}
	if err := json.Unmarshal(r.Body, &id); err != nil {
		return err
	}
	ids, err := t.createNamed(bucket + nul + r.Group)
	if err != nil {
		return err
	}
	return ids.put([]byte(id.ID), at)
}
