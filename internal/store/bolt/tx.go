package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// tx is a transaction of bbolt. One that writes takes the changes of several writers (see group.go). If one of them fails
// it is rolled back as a whole, so that errors of several steps may be joined. It is used by one goroutine at a time, and
// not after its end.
type tx struct {
	db      *DB
	bolt    *bbolt.Tx
	changed bool               // there is something to commit
	size    int64              // of the file, as far as it is used
	logs    bool               // changes are kept for the log
	changes []byte             // as redo reads them
	buckets map[string]*bucket // by their full names, that kv methods have used
}

// note records that there is a change to commit.
func (t *tx) note(op byte, name string, key, value []byte) {
	t.changed = true
	if !t.logs {
		return
	}
	t.changes = append(t.changes, op)
	for _, part := range [][]byte{[]byte(name), key, value} {
		t.changes = append(binary.AppendUvarint(t.changes, uint64(len(part))), part...)
	}
}

// deleteTop deletes a top-level bucket; there may be none.
func (t *tx) deleteTop(name string) error {
	if t.bolt.Bucket([]byte(name)) == nil {
		return nil
	}
	t.note(opDeleteNested, "", []byte(name), nil)
	return t.bolt.DeleteBucket([]byte(name))
}

// deleteNested deletes the bucket in b under a key; there may be none.
func (b *bucket) deleteNested(key string) error {
	if b.bolt.Bucket([]byte(key)) == nil {
		return nil
	}
	b.tx.note(opDeleteNested, b.name, []byte(key), nil)
	return b.bolt.DeleteBucket([]byte(key))
}

// bucket is a bucket in a transaction.
type bucket struct {
	tx   *tx
	name string // a nested bucket: the outer name, a NUL, and its own
	bolt *bbolt.Bucket
}

// nul stands between the name of a bucket and that of one in it.
const nul = "\x00"

// displayName returns a bucket's name for people.
func displayName(name string) string {
	if outer, inner, nested := strings.Cut(name, nul); nested {
		return fmt.Sprintf("%s of %q", outer, inner)
	}
	return "the bucket " + name
}

// top returns a top-level bucket, or nil.
func (t *tx) top(name string) *bucket {
	b := t.bolt.Bucket([]byte(name))
	if b == nil {
		return nil
	}
	return &bucket{t, name, b}
}

// createTop returns a top-level bucket, and creates it if there is none.
func (t *tx) createTop(name string) (*bucket, error) {
	if b := t.top(name); b != nil {
		return b, nil
	}
	b, err := t.bolt.CreateBucket([]byte(name))
	if err != nil {
		return nil, err
	}
	t.changed = true
	return &bucket{t, name, b}, nil
}

// named returns a bucket by its full name, or nil.
func (t *tx) named(name string) *bucket {
	outer, inner, isNested := strings.Cut(name, nul)
	b := t.top(outer)
	if b != nil && isNested {
		return b.nested(inner)
	}
	return b
}

// createNamed returns a bucket by its full name, and creates it if there is none.
func (t *tx) createNamed(name string) (*bucket, error) {
	outer, inner, isNested := strings.Cut(name, nul)
	b, err := t.createTop(outer)
	if err != nil || !isNested {
		return b, err
	}
	return b.createNested(inner)
}

// nested returns the bucket in b under a key, or nil.
func (b *bucket) nested(key string) *bucket {
	inner := b.bolt.Bucket([]byte(key))
	if inner == nil {
		return nil
	}
	return &bucket{b.tx, b.name + nul + key, inner}
}

// createNested returns the bucket in b under a key, and creates it if there is none.
func (b *bucket) createNested(key string) (*bucket, error) {
	if inner := b.nested(key); inner != nil {
		return inner, nil
	}
	inner, err := b.bolt.CreateBucket([]byte(key))
	if err != nil {
		return nil, err
	}
	b.tx.changed = true
	return &bucket{b.tx, b.name + nul + key, inner}, nil
}

// each calls fn with every record of b, which fn must not change.
func (b *bucket) each(fn func(k, v []byte) error) error {
	return b.bolt.ForEach(func(k, v []byte) error { return fn(b.verified(k, v)) })
}

// verified returns a record as it is, or with wrongSum as its value if its checksum is wrong.
func (b *bucket) verified(k, v []byte) ([]byte, []byte) {
	if v != nil && errors.Is(verify(b.name, k, v), errChecksum) {
		return k, wrongSum
	}
	return k, v
}

// has reports whether there is a record under key; a nested bucket is none.
func (b *bucket) has(key []byte) bool { return b.bolt.Get(key) != nil }

// raw returns the stored form of the record under key, which lies in the file, or nil.
func (b *bucket) raw(key []byte) []byte {
	_, v := b.verified(key, b.bolt.Get(key))
	return v
}

// get reads the record under key. It returns false if there is none.
func (b *bucket) get(key []byte, record any) (bool, error) {
	v := b.raw(key)
	if v == nil {
		return false, nil
	}
	return true, b.tx.db.decode(key, v, record)
}

// put writes a record under key, in the place of one that is there. An unchanged record is written,
// too.
func (b *bucket) put(key []byte, record any) error {
	v, err := encodeBehind(make([]byte, headerSize), record)
	if err != nil {
		return err
	}
	return b.putSealed(key, writeHeader(b.name, key, v))
}

// putSealed is put for a record in its stored form.
func (b *bucket) putSealed(key, value []byte) error {
	b.tx.note(opPut, b.name, key, value)
	return b.bolt.Put(key, value)
}

// delete removes the record under key; there may be none. It returns an error if there is a bucket, which only damage
// can put there: a caller that deletes the first record until there is none would never end.
func (b *bucket) delete(key []byte) error {
	if b.bolt.Get(key) != nil {
		b.tx.note(opDelete, b.name, key, nil)
	}
	err := b.bolt.Delete(key)
	if errors.Is(err, bolterrors.ErrIncompatibleValue) {
		return b.damaged(key, errors.New("a bucket is in its place"))
	}
	return err
}

// raiseSequence makes the bucket count on from a number, unless it is further.
func (b *bucket) raiseSequence(n uint64) error {
	if n <= b.bolt.Sequence() {
		return nil
	}
	b.tx.note(opSequence, b.name, binary.BigEndian.AppendUint64(nil, n), nil)
	return b.bolt.SetSequence(n)
}

// cursor reads the records of a bucket in the order of their keys.
type cursor struct {
	in   *bucket
	bolt *bbolt.Cursor
}

// cursor returns a cursor that stands nowhere yet. A bucket must not be changed while one moves in
// it.
func (b *bucket) cursor() *cursor { return &cursor{b, b.bolt.Cursor()} }

// first, next and seek return the record that they lead to: seek to the first whose key
// is not below the given one. k is nil if there is none, and v for a nested bucket.
func (c *cursor) first() (k, v []byte)          { return c.in.verified(c.bolt.First()) }
func (c *cursor) next() (k, v []byte)           { return c.in.verified(c.bolt.Next()) }
func (c *cursor) seek(key []byte) (k, v []byte) { return c.in.verified(c.bolt.Seek(key)) }

// from returns the first record behind a key, or the first of all if the key is nil.
func (c *cursor) from(key []byte) (k, v []byte) {
	if key == nil {
		return c.first()
	}
	if k, v = c.seek(key); k != nil && bytes.Equal(k, key) {
		return c.next()
	}
	return k, v
}
