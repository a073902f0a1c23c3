package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/bbolt"
)

// tx is a transaction. One that writes takes several batches of changes until it is committed (see commit.go). Where a
// change fails, its batch is rolled back as a whole, so that errors of several steps may be joined. Records are written
// only through its buckets, which update the tallies; no other code of this package writes to a bucket of bbolt. It is
// used by one goroutine at a time, and not after its end. The last step of one that writes is writeTallies.
type tx struct {
	db      *DB
	bolt    *bbolt.Tx
	opened  map[string]*bucket // by name, in a write transaction; nil in one that only reads
	tallies *bbolt.Bucket      // of a write transaction, once loadTallies was called
	head    tally              // of the tallies themselves; its seq is the transaction's number
	lists   bool               // the list of free pages is written, however long it is
	// Of the batch, until it is safe:
	changes ops            // see note
	noted   bool           // something is changed
	atOnce  bool           // it is committed, and not appended to the write-ahead log
	deleted int            // records
	recount map[int]*tally // by frame of the check that runs: what changes of what it has counted
	gone    []string       // buckets that are deleted or moved, where a check runs
}

// bucket is a bucket in a transaction.
type bucket struct {
	tx      *tx
	name    string // a nested bucket: the outer name, a NUL, and its own
	bolt    *bbolt.Bucket
	delta   tally // what this transaction adds to the stored tally
	changed bool
}

// maxKey bounds the bytes of a key.
const maxKey = bbolt.MaxKeySize

// nul stands between the name of a bucket and that of one in it.
const nul = "\x00"

// headKey is where the tally of the tallies is kept.
const headKey = nul

// top returns a top-level bucket; Open created all of them.
func (t *tx) top(name string) *bucket {
	if b := t.opened[name]; b != nil {
		return b
	}
	return t.openBucket(name, t.bolt.Bucket([]byte(name)))
}

// named returns a bucket by its full name, or nil.
func (t *tx) named(name string) *bucket {
	outer, inner, isNested := strings.Cut(name, nul)
	if t.bolt.Bucket([]byte(outer)) == nil {
		return nil
	}
	b := t.top(outer)
	if isNested {
		return b.nested(inner)
	}
	return b
}

// createNamed returns a bucket by its full name, and creates it where there is none.
func (t *tx) createNamed(name string) (*bucket, error) {
	outer, inner, isNested := strings.Cut(name, nul)
	if !isNested {
		return t.top(outer), nil
	}
	return t.top(outer).createNested(inner)
}

// createTop creates a top-level bucket where there is none.
func (t *tx) createTop(name string) error {
	if t.bolt.Bucket([]byte(name)) != nil {
		return nil
	}
	b, err := t.bolt.CreateBucket([]byte(name))
	if err == nil {
		t.openBucket(name, b).changed, t.atOnce = true, true
	}
	return err
}

// createTallies writes the tallies of a file that has none, from what a scan found in it;
// nil: the file is new.
func (t *tx) createTallies(found *scan) error {
	t.atOnce = true
	if _, err := t.bolt.CreateBucketIfNotExists([]byte(talliesBucket)); err != nil {
		return err
	}
	if err := t.loadTallies(); err != nil || found == nil {
		return err
	}
	for name, found := range found.counts {
		if err := t.writeTally(name, found); err != nil {
			return err
		}
	}
	return nil
}

// openBucket wraps a bucket of bbolt. Within a write transaction there is one wrapper a
// name, since it carries the changes of the tally.
func (t *tx) openBucket(name string, b *bbolt.Bucket) *bucket {
	held := &bucket{tx: t, name: name, bolt: b}
	if t.opened != nil {
		t.opened[name] = held
	}
	return held
}

// nested returns the bucket in b under a key, or nil.
func (b *bucket) nested(key string) *bucket {
	name := b.name + nul + key
	if held := b.tx.opened[name]; held != nil {
		return held
	}
	inner := b.bolt.Bucket([]byte(key))
	if inner == nil {
		return nil
	}
	return b.tx.openBucket(name, inner)
}

// createNested returns the bucket in b under a key, and creates it where there is none.
func (b *bucket) createNested(key string) (*bucket, error) {
	if inner := b.nested(key); inner != nil {
		return inner, nil
	}
	inner, err := b.bolt.CreateBucket([]byte(key))
	if err != nil {
		return nil, err
	}
	b.count([]byte(key), nil)
	b.note(opCreateNested, []byte(key), nil)
	held := b.tx.openBucket(b.name+nul+key, inner)
	held.changed = true // an empty bucket has a tally, too
	return held, nil
}

// deleteNested removes the bucket in b under a key, which must be there.
func (b *bucket) deleteNested(key string) error {
	err := b.bolt.DeleteBucket([]byte(key))
	b.discount([]byte(key), nil)
	b.note(opDeleteNested, []byte(key), nil)
	name := b.name + nul + key
	b.tx.noteGone(name)
	delete(b.tx.opened, name)
	return errors.Join(err, b.tx.deleteTally(name))
}

// moveNested moves the bucket in b under a key to another top-level bucket, which must hold none
// under that key. It costs the same however many records the bucket has.
func (b *bucket) moveNested(key string, to *bucket) error {
	inner := b.nested(key)
	// The tally moves as well: the bucket's records count under its new name.
	kept, err := inner.expectedTally()
	if err := errors.Join(err, b.bolt.MoveBucket([]byte(key), to.bolt), b.tx.deleteTally(inner.name)); err != nil {
		return err
	}
	b.discount([]byte(key), nil)
	to.count([]byte(key), nil)
	b.note(opMoveNested, []byte(key), []byte(to.name))
	b.tx.atOnce = true // so that nothing which the transaction changed before comes before it in the log
	b.tx.noteGone(inner.name)
	delete(b.tx.opened, inner.name)
	moved := b.tx.openBucket(to.name+nul+key, to.bolt.Bucket([]byte(key)))
	// Under the new name no tally is stored yet, so that all of it is a change.
	moved.delta, moved.changed = tally{count: kept.count, sum: kept.sum}, true
	return nil
}

// eachNested calls fn with every bucket in b.
func (b *bucket) eachNested(fn func(key string, inner *bucket) error) error {
	return b.each(func(k, _ []byte) error { return fn(string(k), b.nested(string(k))) })
}

// each calls fn with every record of b, which fn must not change. It returns a
// *store.DamagedError at the end where a record is missing or unexpected.
func (b *bucket) each(fn func(k, v []byte) error) error {
	var found tally
	err := b.bolt.ForEach(func(k, v []byte) error {
		found.add(digest(k, v))
		return fn(k, v)
	})
	if err != nil {
		return err
	}
	return b.checkComplete(found)
}

// checkComplete returns a *store.DamagedError where what was found in the whole bucket is
// not what was stored.
func (b *bucket) checkComplete(found tally) error {
	kept, err := b.expectedTally()
	if err != nil {
		return err
	}
	found.seq = kept.seq // reading records does not show the sequence
	if found == kept {
		return nil
	}
	return damagedError(b.tx.db.path, describeMismatch(b.name, found, kept), restoreRemedy)
}

// expectedTally returns the tally that b must have now: the stored one and the changes of
// this transaction.
func (b *bucket) expectedTally() (tally, error) {
	t, err := b.tx.readTally(b.tx.bolt.Bucket([]byte(talliesBucket)), b.name)
	t.count, t.sum = t.count+b.delta.count, t.sum+b.delta.sum
	return t, err
}

// readTally returns the stored tally of a bucket, which is zero where there is none, or a damage error.
func (t *tx) readTally(tallies *bbolt.Bucket, name string) (tally, error) {
	v := tallies.Get([]byte(name))
	if v == nil {
		return tally{}, nil
	}
	kept, err := unsealTally(v)
	if err != nil {
		return tally{}, damagedError(t.db.path, fmt.Sprintf("the tally of %s: %v", displayName(name), err), restoreRemedy)
	}
	return kept, nil
}

// has reports whether there is a record under key; a nested bucket is none.
func (b *bucket) has(key []byte) bool { return b.bolt.Get(key) != nil }

// raw returns the stored form of the record under key, which lies in the file, or nil.
func (b *bucket) raw(key []byte) []byte { return b.bolt.Get(key) }

// get reads the record under key. It returns false where there is none.
func (b *bucket) get(key []byte, record any) (bool, error) {
	v := b.bolt.Get(key)
	if v == nil {
		return false, nil
	}
	return true, b.tx.db.decode(key, v, record)
}

// getIntact is get for who can do without the record: it returns false for one that is damaged, and notes the damage.
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
	v, err := encode(record)
	if err != nil {
		return err
	}
	return b.replace(key, b.bolt.Get(key), v)
}

// replace writes a value in its stored form over old, which is nil where there is none. A replaced record leaves the
// tally, which holds the digests of what is there.
func (b *bucket) replace(key, old, value []byte) error {
	b.note(opPut, key, value)
	return b.exchange(key, old, value)
}

// exchange is replace for a change that is noted otherwise.
func (b *bucket) exchange(key, old, value []byte) error {
	if old != nil {
		b.discount(key, old)
	}
	b.count(key, value)
	return b.bolt.Put(key, value)
}

// appendTo adds an element, as JSON, to a record that is a list, unless it is there. The list is neither decoded nor
// noted as a whole: a message that many turns quote has a long one, and each of them adds to it.
func (b *bucket) appendTo(key, element []byte) error {
	old := b.bolt.Get(key)
	if old == nil {
		b.note(opAppend, key, element)
		return b.exchange(key, nil, seal([]byte("["), element, []byte("]")))
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
	b.note(opAppend, key, element)
	return b.exchange(key, old, seal(list[:len(list)-1], []byte(","), element, []byte("]")))
}

// putRaw writes a record in its stored form under a key that is not there: the tally would else
// count it twice.
func (b *bucket) putRaw(key, value []byte) error {
	b.count(key, value)
	b.note(opPut, key, value)
	return b.bolt.Put(key, value)
}

// count adds a record to the tally, and discount removes one. value is nil for a nested bucket.
func (b *bucket) count(key, value []byte) {
	d := digest(key, value)
	b.delta.add(d)
	b.changed = true
	b.tx.noteChange(b.name, key, (*tally).add, d)
}

// discount removes a record from the tally.
func (b *bucket) discount(key, value []byte) {
	d := digest(key, value)
	b.delta.remove(d)
	b.changed = true
	b.tx.noteChange(b.name, key, (*tally).remove, d)
}

// deleteIn removes a record of a nested bucket; there may be neither.
func (t *tx) deleteIn(top, nested string, key []byte) error {
	if b := t.top(top).nested(nested); b != nil {
		return b.delete(key)
	}
	return nil
}

// delete removes the record under key; there may be none.
func (b *bucket) delete(key []byte) error {
	old := b.bolt.Get(key)
	if old == nil {
		// A damaged page may have a bucket there, which is an error: whoever deletes the first record until there is none
		// would never end.
		return b.bolt.Delete(key)
	}
	b.discount(key, old)
	b.tx.deleted++
	b.note(opDelete, key, nil)
	return b.bolt.Delete(key)
}

// nextSequence increments the bucket's sequence and returns it.
func (b *bucket) nextSequence() uint64 {
	b.raiseSequence(b.bolt.Sequence() + 1)
	return b.bolt.Sequence()
}

// raiseSequence has the bucket count on from a number, unless it is further.
func (b *bucket) raiseSequence(n uint64) {
	if n > b.bolt.Sequence() {
		b.changed = true
		b.note(opSequence, seqKey(n), nil)
		_ = b.bolt.SetSequence(n) // fails outside of a write transaction alone, where all that follows fails, too
	}
}

// cursor reads the records of a bucket in the order of their keys.
type cursor struct {
	bolt *bbolt.Cursor
	at   []byte // the key of the record that it stands at, nil where it stands at none
}

// cursor returns a cursor that stands nowhere yet. A bucket must not be changed while one moves in
// it.
func (b *bucket) cursor() *cursor { return &cursor{bolt: b.bolt.Cursor()} }

// first, next, seek, last and prev return the record that they lead to: seek to the first whose key
// is not below the one that is given. k is nil where there is none, and v for a nested bucket.
func (c *cursor) first() (k, v []byte)          { return c.standAt(c.bolt.First()) }
func (c *cursor) next() (k, v []byte)           { return c.standAt(c.bolt.Next()) }
func (c *cursor) seek(key []byte) (k, v []byte) { return c.standAt(c.bolt.Seek(key)) }

func (c *cursor) last() (k, v []byte) {
	// In a bucket whose pages a transaction has emptied Last would not return (bbolt v1.5.0, cursor.go).
	if first, _ := c.bolt.First(); first == nil {
		return c.standAt(nil, nil)
	}
	return c.standAt(c.bolt.Last())
}

func (c *cursor) prev() (k, v []byte) {
	k, v = c.bolt.Prev()
	if k == nil && c.at != nil && c.bolt.Bucket().Writable() {
		// Prev takes a page that the transaction has emptied for the beginning of the bucket (bbolt v1.5.0, cursor.go).
		first, _ := c.bolt.Bucket().Cursor().First()
		for k == nil && !bytes.Equal(first, c.at) {
			k, v = c.bolt.Prev()
		}
	}
	return c.standAt(k, v)
}

// standAt notes where the cursor stands.
func (c *cursor) standAt(k, v []byte) ([]byte, []byte) {
	c.at = k
	return k, v
}

// from returns the first record behind a key; nil: the first of all.
func (c *cursor) from(key []byte) (k, v []byte) {
	if key == nil {
		return c.first()
	}
	if k, v = c.seek(key); k != nil && bytes.Equal(k, key) {
		return c.next()
	}
	return k, v
}

// isChanged reports whether the batch has anything to make safe.
func (t *tx) isChanged() bool { return t.noted || t.atOnce }

// loadTallies reads the tallies' own tally, which has to be done before any of them is
// written.
func (t *tx) loadTallies() (err error) {
	if t.tallies == nil {
		t.tallies = t.bolt.Bucket([]byte(talliesBucket))
		t.head, err = t.readTally(t.tallies, headKey)
	}
	return err
}

// deleteTally removes the tally of a bucket that was deleted.
func (t *tx) deleteTally(name string) error {
	if err := t.loadTallies(); err != nil {
		return err
	}
	old := t.tallies.Get([]byte(name))
	if old == nil {
		return nil // the bucket was created by this very transaction
	}
	t.discountTally([]byte(name), old)
	return t.tallies.Delete([]byte(name))
}

// writeTallies writes the tallies of all changed buckets, as the last step of every write
// transaction.
func (t *tx) writeTallies() error {
	if err := t.loadTallies(); err != nil {
		return err
	}
	for name, b := range t.opened {
		if !b.changed {
			continue
		}
		next, err := b.expectedTally()
		next.seq = b.bolt.Sequence()
		if err := errors.Join(err, t.writeTally(name, next)); err != nil {
			return err
		}
	}
	// The number of the transaction ties the tallies to bbolt's header: a scan finds tallies
	// that belong to another transaction than the records.
	t.head.seq = uint64(t.bolt.ID())
	return t.tallies.Put([]byte(headKey), t.head.seal())
}

// writeTally writes one tally.
func (t *tx) writeTally(name string, next tally) error {
	key := []byte(name)
	if old := t.tallies.Get(key); old != nil {
		t.discountTally(key, old)
	}
	v := next.seal()
	d := digest(key, v)
	t.head.add(d)
	t.noteChange(talliesBucket, key, (*tally).add, d)
	return t.tallies.Put(key, v)
}

// discountTally removes a tally from that of the tallies.
func (t *tx) discountTally(key, old []byte) {
	d := digest(key, old)
	t.head.remove(d)
	t.noteChange(talliesBucket, key, (*tally).remove, d)
}
