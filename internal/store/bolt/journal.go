package bolt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// opKind is what a change does to a bucket.
type opKind byte

// The kinds of changes. They are in the write-ahead log: a kind keeps its number and its meaning.
const (
	opPut          opKind = 1 // writes a value in its stored form under a key
	opDelete       opKind = 2 // removes the record under a key
	opCreateNested opKind = 3 // creates the bucket under a key where there is none
	opDeleteNested opKind = 4 // removes the bucket under a key
	opMoveNested   opKind = 5 // moves the bucket under a key to the top-level bucket that the value names
	opSequence     opKind = 6 // has the bucket count on from the number that the key is
	opAppend       opKind = 7 // adds the value to the list under a key, unless it is there
)

// op is a change of one bucket, which can be made again: in a copy of the store, or after a crash.
type op struct {
	kind       opKind
	bucket     string
	key, value []byte
}

// ops are changes in the order in which they were made, encoded: of each the kind, and its bucket, key and value with
// their lengths before them.
type ops struct {
	encoded []byte
	n       int
}

// add appends a change.
func (o *ops) add(kind opKind, bucket string, key, value []byte) {
	o.n++
	o.encoded = append(o.encoded, byte(kind))
	o.encoded = binary.AppendUvarint(o.encoded, uint64(len(bucket)))
	o.encoded = append(o.encoded, bucket...)
	o.encoded = binary.AppendUvarint(o.encoded, uint64(len(key)))
	o.encoded = append(o.encoded, key...)
	o.encoded = binary.AppendUvarint(o.encoded, uint64(len(value)))
	o.encoded = append(o.encoded, value...)
}

// errOps says that encoded changes cannot be read.
var errOps = errors.New("a change in it cannot be read")

// nextOp reads the first of some encoded changes, and returns the rest. Key and value share the memory of b.
func nextOp(b []byte) (o op, rest []byte, err error) {
	if len(b) == 0 {
		return op{}, nil, errOps
	}
	o.kind, rest = opKind(b[0]), b[1:]
	var name []byte
	for _, part := range []*[]byte{&name, &o.key, &o.value} {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return op{}, nil, errOps
		}
		*part, rest = rest[n:n+int(size):n+int(size)], rest[n+int(size):]
	}
	o.bucket = string(name)
	return o, rest, nil
}

// redo makes a change again. Key and value must stay as they are until the transaction ends.
func (t *tx) redo(o op) error {
	b := t.named(o.bucket)
	if b == nil {
		return damagedError(t.db.path, displayName(o.bucket)+" is missing", restoreRemedy)
	}
	switch o.kind {
	case opPut:
		return b.replace(o.key, b.bolt.Get(o.key), o.value)
	case opAppend:
		return b.appendTo(o.key, o.value)
	case opDelete:
		return b.delete(o.key)
	case opCreateNested:
		_, err := b.createNested(string(o.key))
		return err
	case opDeleteNested:
		return b.deleteNested(string(o.key))
	case opMoveNested:
		return b.moveNested(string(o.key), t.top(string(o.value)))
	case opSequence:
		if len(o.key) == 8 {
			b.raiseSequence(binary.BigEndian.Uint64(o.key))
			return nil
		}
	}
	return errOps
}

// redoAll makes encoded changes again, all of them in one transaction.
func (t *tx) redoAll(encoded []byte) error {
	for len(encoded) > 0 {
		o, rest, err := nextOp(encoded)
		if err == nil {
			err = t.redo(o)
		}
		if err != nil {
			return err
		}
		encoded = rest
	}
	return nil
}

// note keeps a change of the bucket for the write-ahead log, and for the copy that is made, if one is: both are of an
// open store alone.
func (b *bucket) note(kind opKind, key, value []byte) {
	switch db := b.tx.db; {
	case db.wal == nil:
	case db.journal == nil && len(value) > walSize:
		b.tx.atOnce = true // a copy of it in memory would be for nothing
	default:
		b.tx.changes.add(kind, b.name, key, value)
	}
	b.tx.noted = true
}

// journal keeps what is committed while a copy of the store is made, in order, so that the copy can
// follow. It is guarded by DB.writing. A nil journal keeps nothing.
type journal struct {
	parts []ops // in order, of about partSize bytes each: a list that grew as one would be copied while writers wait
	size  int   // bytes of all parts
	err   error // why the copy cannot follow
}

// Sizes of a journal, which is kept in memory.
const (
	maxJournal = 64 << 20
	partSize   = 1 << 20
)

var (
	errBehind    = errors.New("more was written meanwhile than the copy could follow")
	errUncertain = errors.New("writing to the store failed meanwhile")
)

// add keeps the changes of a committed transaction.
func (j *journal) add(changes ops) {
	if j == nil || j.err != nil {
		return
	}
	more, last := len(changes.encoded), len(j.parts)-1
	if last < 0 || len(j.parts[last].encoded)+more > cap(j.parts[last].encoded) {
		j.parts = append(j.parts, ops{encoded: make([]byte, 0, max(partSize, more))})
		last++
	}
	p := &j.parts[last]
	p.encoded, p.n = append(p.encoded, changes.encoded...), p.n+changes.n
	if j.size += more; j.size > maxJournal {
		j.fail(errBehind)
	}
}

// fail ends the journal.
func (j *journal) fail(err error) {
	if j != nil && j.err == nil {
		*j = journal{err: err}
	}
}

// take removes everything from the journal and returns it, with the number of changes.
func (j *journal) take() (parts []ops, n int, err error) {
	parts = j.parts
	j.parts, j.size = nil, 0
	for _, p := range parts {
		n += p.n
	}
	return parts, n, j.err
}

// maxRedone is how many changes are made again in one transaction.
const maxRedone = 500

// redoInSteps makes encoded changes again, in their order, in transactions of up to maxRedone changes.
func (db *DB) redoInSteps(ctx context.Context, encoded []byte) error {
	for len(encoded) > 0 {
		n, err := firstOps(encoded)
		if err == nil {
			err = db.update(ctx, func(tx *tx) error { return tx.redoAll(encoded[:n]) })
		}
		if err != nil {
			return fmt.Errorf("follow what was written: %w", err)
		}
		encoded = encoded[n:]
	}
	return nil
}

// firstOps returns how many bytes of encoded changes can be made again in one transaction. A bucket that is moved comes
// first: bbolt moves it as it was before the transaction.
func firstOps(encoded []byte) (int, error) {
	rest := encoded
	for n := 0; len(rest) > 0 && n < maxRedone; n++ {
		o, after, err := nextOp(rest)
		if err != nil {
			return 0, err
		}
		if n > 0 && o.kind == opMoveNested {
			break
		}
		rest = after
	}
	return len(encoded) - len(rest), nil
}

// compareWith returns an error where another store does not hold exactly the same records: the tally
// of all tallies is that of all records.
func (db *DB) compareWith(other *DB) error {
	var heads [2]tally
	for i, d := range []*DB{db, other} {
		if err := d.view(func(tx *tx) (err error) {
			heads[i], err = tx.readTally(tx.bolt.Bucket([]byte(talliesBucket)), headKey)
			return err
		}); err != nil {
			return err
		}
		heads[i].seq = 0 // the number of the transaction
	}
	if heads[0] != heads[1] {
		return errors.New("the copy does not hold the same records")
	}
	return nil
}
