package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/bbolt"
)

// tx is a transaction of bbolt. One that writes takes the changes of several writers (see group.go). If one of them fails
// it is rolled back as a whole, so that errors of several steps may be joined. It is used by one goroutine at a time, and
// not after its end.
type tx struct {
	db      *DB
	bolt    *bbolt.Tx
	changed bool // there is something to commit
	deleted int  // records
}

// bucket is a bucket in a transaction.
type bucket struct {
	tx   *tx
	name string // a nested bucket: the outer name, a NUL, and its own
	bolt *bbolt.Bucket
}

// maxKey bounds the bytes of a key.
const maxKey = bbolt.MaxKeySize

// nul stands between the name of a bucket and that of one in it.
const nul = "\x00"

// displayName returns a bucket's name for people.
func displayName(name string) string {
	if outer, inner, nested := strings.Cut(name, nul); nested {
		return fmt.Sprintf("%s of %q", outer, inner)
	}
	return "the bucket " + name
}

// top returns a top-level bucket; Open created all of them.
func (t *tx) top(name string) *bucket { return &bucket{t, name, t.bolt.Bucket([]byte(name))} }

// named returns a bucket by its full name, or nil.
func (t *tx) named(name string) *bucket {
	outer, inner, isNested := strings.Cut(name, nul)
	b := t.top(outer)
	switch {
	case b.bolt == nil:
		return nil
	case isNested:
		return b.nested(inner)
	}
	return b
}

// createNamed returns a bucket by its full name, and creates it if there is none.
func (t *tx) createNamed(name string) (*bucket, error) {
	outer, inner, isNested := strings.Cut(name, nul)
	if !isNested {
		return t.top(outer), nil
	}
	return t.top(outer).createNested(inner)
}

// createTop creates the top-level buckets that the file lacks.
func (t *tx) createTop() error {
	for _, name := range bucketNames() {
		if t.bolt.Bucket([]byte(name)) != nil {
			continue
		}
		if _, err := t.bolt.CreateBucket([]byte(name)); err != nil {
			return fmt.Errorf("create the bucket %s: %w", name, err)
		}
		t.changed = true
	}
	return nil
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

// deleteNested removes the bucket in b under a key, which must be there.
func (b *bucket) deleteNested(key string) error {
	b.tx.changed = true
	return b.bolt.DeleteBucket([]byte(key))
}

// eachNested calls fn with every bucket in b.
func (b *bucket) eachNested(fn func(key string, inner *bucket) error) error {
	return b.each(func(k, _ []byte) error { return fn(string(k), b.nested(string(k))) })
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

// getIntact is get for callers that can do without the record: it returns false for a damaged one, and notes the damage.
func (b *bucket) getIntact(key []byte, record any) (bool, error) {
	found, err := b.get(key, record)
	if b.tx.db.noteDamaged(err) {
		return false, nil
	}
	return found, err
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
	b.tx.changed = true
	return b.bolt.Put(key, value)
}

// appendTo adds an element, as JSON, to a record that is a list, unless it is there. The list is not decoded: a message
// that many turns quote has a long one, and each of them adds to it.
func (b *bucket) appendTo(key, element []byte) error {
	old := b.raw(key)
	if old == nil {
		return b.putSealed(key, seal(b.name, key, []byte("["), element, []byte("]")))
	}
	list, err := unseal(old)
	if err == nil && !bytes.HasSuffix(list, []byte("}]")) {
		err = errors.New("it is no list")
	}
	if err != nil {
		return damagedError(b.tx.db.path, fmt.Sprintf("record %q: %v", key, err), restoreRemedy)
	}
	if bytes.Contains(list, element) {
		return nil
	}
	return b.putSealed(key, seal(b.name, key, list[:len(list)-1], []byte(","), element, []byte("]")))
}

// deleteIn removes a record of a nested bucket; there may be neither.
func (t *tx) deleteIn(top, nested string, key []byte) error {
	if b := t.top(top).nested(nested); b != nil {
		return b.delete(key)
	}
	return nil
}

// delete removes the record under key; there may be none. It returns an error if there is a bucket, which only damage
// can put there: a caller that deletes the first record until there is none would never end.
func (b *bucket) delete(key []byte) error {
	if b.bolt.Get(key) != nil {
		b.tx.changed = true
		b.tx.deleted++
	}
	return b.bolt.Delete(key)
}

// nextSequence increments the bucket's sequence and returns it.
func (b *bucket) nextSequence() uint64 {
	b.raiseSequence(b.bolt.Sequence() + 1)
	return b.bolt.Sequence()
}

// raiseSequence makes the bucket count on from a number, unless it is further.
func (b *bucket) raiseSequence(n uint64) {
	if n > b.bolt.Sequence() {
		b.tx.changed = true
		_ = b.bolt.SetSequence(n) // fails only outside of a write transaction, in which all that follows fails, too
	}
}

// version is a state of a bucket: how many records it holds, and the sum of their digests.
type version struct{ count, sum uint64 }

// version returns the present state of the bucket. It decodes no record.
func (b *bucket) version() (v version, err error) {
	err = b.bolt.ForEach(func(key, value []byte) error {
		v.count, v.sum = v.count+1, v.sum+digest(key, value)
		return nil
	})
	return v, err
}

// count returns the number of records.
func (b *bucket) count() (n int, err error) {
	err = b.bolt.ForEach(func([]byte, []byte) error { n++; return nil })
	return n, err
}

// cursor reads the records of a bucket in the order of their keys.
type cursor struct {
	in   *bucket
	bolt *bbolt.Cursor
}

// cursor returns a cursor that stands nowhere yet. A bucket must not be changed while one moves in
// it.
func (b *bucket) cursor() *cursor { return &cursor{b, b.bolt.Cursor()} }

// first, next, seek, last and prev return the record that they lead to: seek to the first whose key
// is not below the given one. k is nil if there is none, and v for a nested bucket.
func (c *cursor) first() (k, v []byte)          { return c.in.verified(c.bolt.First()) }
func (c *cursor) next() (k, v []byte)           { return c.in.verified(c.bolt.Next()) }
func (c *cursor) seek(key []byte) (k, v []byte) { return c.in.verified(c.bolt.Seek(key)) }
func (c *cursor) last() (k, v []byte)           { return c.in.verified(c.bolt.Last()) }
func (c *cursor) prev() (k, v []byte)           { return c.in.verified(c.bolt.Prev()) }

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
