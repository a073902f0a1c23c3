package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/store/kv"
)

// A collection is a bucket at the top of the file, with one bucket in it for each group if it has groups. Buckets are made
// when something is put in them. Their sequences are the numbers of groups.

// View runs fn in a read transaction.
func (db *DB) View(_ context.Context, fn func(kv.Tx) error) error {
	return db.view(func(t *tx) error { return fn(t) })
}

// Update runs fn in a write transaction, which it may share with other callers. One transaction runs at a time, so that
// scopes need nothing.
func (db *DB) Update(ctx context.Context, w kv.Write, fn func(kv.Tx) error) error {
	return db.updateWithin(ctx, w.Patience, func(t *tx) error { return fn(t) })
}

// Now returns the time by the clock of this machine.
func (db *DB) Now() time.Time { return db.now() }

// NoteDamage reports whether err is one of damage, which then counts in Health.
func (db *DB) NoteDamage(err error) bool { return db.noteDamaged(err) }

// find returns the bucket of a group, or nil.
func (t *tx) find(s *kv.Spec, group string) *bucket {
	name := bucketName(s, group)
	b, known := t.buckets[name]
	if !known {
		b = t.named(name)
		t.remember(name, b)
	}
	return b
}

// create returns the bucket of a group, and creates it if there is none.
func (t *tx) create(s *kv.Spec, group string) (*bucket, error) {
	if b := t.find(s, group); b != nil {
		return b, nil
	}
	name := bucketName(s, group)
	b, err := t.createNamed(name)
	if err == nil {
		t.remember(name, b)
	}
	return b, err
}

func (t *tx) remember(name string, b *bucket) {
	if t.buckets == nil {
		t.buckets = map[string]*bucket{}
	}
	t.buckets[name] = b
}

// bucketName returns the full name of the bucket of a group.
func bucketName(s *kv.Spec, group string) string {
	if s.Grouped {
		return s.Name + nul + group
	}
	return s.Name
}

// Get returns the value of a record, or nil. It lies in the mapped file.
func (t *tx) Get(s *kv.Spec, group, key string) ([]byte, error) {
	b := t.find(s, group)
	if b == nil {
		return nil, nil
	}
	v := b.bolt.Get([]byte(key))
	if v == nil {
		return nil, nil
	}
	return b.open([]byte(key), v)
}

// open returns the body of a record in its stored form, or a *store.DamagedError.
func (b *bucket) open(key, v []byte) ([]byte, error) {
	if err := verify(b.name, key, v); err != nil {
		return nil, b.damaged(key, err)
	}
	return v[headerSize:], nil
}

// damaged returns err as a *store.DamagedError of a record.
func (b *bucket) damaged(key []byte, err error) error {
	return damagedError(b.tx.db.path, fmt.Sprintf("record %q of %s: %v", key, displayName(b.name), err), restoreRemedy)
}

// Damaged returns err as a *store.DamagedError that names a record.
func (t *tx) Damaged(s *kv.Spec, group, key string, err error) error {
	b := &bucket{tx: t, name: bucketName(s, group)}
	return b.damaged([]byte(key), err)
}

// Put stores a value.
func (t *tx) Put(s *kv.Spec, group, key string, value []byte) error {
	if len(key) > kv.MaxKey || len(group) > kv.MaxKey {
		return fmt.Errorf("a key of %d bytes is too long for %s", max(len(key), len(group)), s.Name)
	}
	b, err := t.create(s, group)
	if err != nil {
		return err
	}
	return b.putSealed([]byte(key), seal(b.name, []byte(key), value))
}

// Delete deletes a record, and the bucket of a group that no longer exists.
func (t *tx) Delete(s *kv.Spec, group, key string) error {
	b := t.find(s, group)
	if b == nil {
		return nil
	}
	if err := b.delete([]byte(key)); err != nil || !s.Grouped || !b.isOver() {
		return err
	}
	return t.DeleteGroup(s, group)
}

// isOver reports whether a bucket has neither records nor a number.
func (b *bucket) isOver() bool {
	k, _ := b.bolt.Cursor().First()
	return k == nil && b.bolt.Sequence() == 0
}

// DeleteGroup deletes the bucket of a group; there may be none.
func (t *tx) DeleteGroup(s *kv.Spec, group string) error {
	delete(t.buckets, bucketName(s, group))
	if !s.Grouped {
		return t.deleteTop(s.Name)
	}
	if top := t.top(s.Name); top != nil {
		return top.deleteNested(group)
	}
	return nil
}

// Scan calls visit with the records of a range.
func (t *tx) Scan(s *kv.Spec, r kv.Range, visit func(kv.Entry) error) error {
	b := t.find(s, r.Group)
	if b == nil {
		return nil
	}
	c := b.bolt.Cursor()
	k, v := seekFirst(c, r)
	next, isBehind := c.Next, func(k []byte) bool { return r.To != "" && string(k) >= r.To }
	if r.Reverse {
		next, isBehind = c.Prev, func(k []byte) bool { return string(k) < r.From }
	}
	for n := 0; k != nil && !isBehind(k); k, v = next() {
		e := b.entry(s, r, k, v)
		if e.Err == nil && !r.Before.IsZero() && s.At != nil {
			at, err := s.At(v[headerSize:])
			if err != nil {
				e.Err = b.damaged(k, err)
			} else if !at.Before(r.Before) {
				continue
			}
		}
		if err := visit(e); errors.Is(err, kv.ErrStop) {
			return nil
		} else if err != nil {
			return err
		}
		if n++; n == r.Limit {
			return nil
		}
	}
	return nil
}

// seekFirst returns the first record of a range in its direction.
func seekFirst(c *bbolt.Cursor, r kv.Range) (k, v []byte) {
	if !r.Reverse {
		return c.Seek([]byte(r.From))
	}
	if r.To == "" {
		return c.Last()
	}
	if k, _ := c.Seek([]byte(r.To)); k == nil {
		return c.Last()
	}
	return c.Prev()
}

// entry returns a record that was found. With KeysOnly its value is not read.
func (b *bucket) entry(s *kv.Spec, r kv.Range, k, v []byte) kv.Entry {
	e := kv.Entry{Key: string(k)}
	switch {
	case v == nil:
		e.Err = b.damaged(k, errors.New("a bucket is in its place"))
	case r.KeysOnly:
		e.Sum = digest(k, v)
	default:
		if e.Value, e.Err = b.open(k, v); e.Err == nil {
			e.Sum = digest(k, v)
		}
	}
	return e
}

// Count returns the number of records of a group.
func (t *tx) Count(s *kv.Spec, group string) (n int, err error) {
	b := t.find(s, group)
	if b == nil {
		return 0, nil
	}
	return n, b.bolt.ForEach(func([]byte, []byte) error { n++; return nil })
}

// Groups calls visit with the names of groups. It returns a *store.DamagedError, once it has visited all, if a record is in
// the place of a group.
func (t *tx) Groups(s *kv.Spec, from, prefix string, visit func(group string) error) error {
	top := t.top(s.Name)
	if top == nil {
		return nil
	}
	var misplaced error
	c := top.bolt.Cursor()
	for k, v := c.Seek([]byte(max(from, prefix))); k != nil && bytes.HasPrefix(k, []byte(prefix)); k, v = c.Next() {
		if v != nil {
			misplaced = damagedError(t.db.path, fmt.Sprintf("a record is in the place of %s", displayName(s.Name+nul+string(k))),
				restoreRemedy)
			continue
		}
		group := string(k)
		if b := t.find(s, group); b == nil || b.isOver() {
			continue
		}
		if err := visit(group); errors.Is(err, kv.ErrStop) {
			break
		} else if err != nil {
			return err
		}
	}
	return misplaced
}

// Next adds 1 to the number of a group and returns it.
func (t *tx) Next(s *kv.Spec, group string) (uint64, error) {
	b, err := t.create(s, group)
	if err != nil {
		return 0, err
	}
	err = b.raiseSequence(b.bolt.Sequence() + 1)
	return b.bolt.Sequence(), err
}

// Raise sets the number of a group to n if it is below.
func (t *tx) Raise(s *kv.Spec, group string, n uint64) error {
	b, err := t.create(s, group)
	if err != nil {
		return err
	}
	return b.raiseSequence(n)
}

// Number returns the number of a group.
func (t *tx) Number(s *kv.Spec, group string) (uint64, error) {
	if b := t.find(s, group); b != nil {
		return b.bolt.Sequence(), nil
	}
	return 0, nil
}

// Prefetch does nothing: reading costs no round trip.
func (t *tx) Prefetch(...kv.Ref) error { return nil }

var _ kv.Engine = (*DB)(nil)
