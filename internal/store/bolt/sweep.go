package bolt

import (
	"bytes"
	"context"
	"time"
)

// Bounds of maintenance: a message that comes meanwhile waits for one transaction at most, which
// takes a few milliseconds.
const (
	maxLooked  = 1000 // records looked at in one read transaction
	maxDeleted = 200  // records deleted in one write transaction, those of indexes included
	// maxDeleteTime is for machines on which that takes longer.
	maxDeleteTime = 10 * time.Millisecond
)

// isFull reports whether a transaction that had deleted some records before a maintenance began in it
// has to leave the rest to the next one. Each deletes one at least.
func (t *tx) isFull(before int, began time.Time) bool {
	n := t.deleted - before
	return n >= maxDeleted || n > 0 && time.Since(began) > maxDeleteTime
}

// sweep looks through the records of a bucket and deletes some of them.
type sweep struct {
	top, nested string // nested is empty for the records of a top-level bucket
	// below ends the sweep: the first key that is not looked at; nil: all are.
	below []byte
	// isOld reports whether a record is to be deleted. It is asked again in the transaction that
	// deletes it.
	isOld func(tx *tx, k, v []byte) (bool, error)
	// drop deletes a record with what belongs to it; nil: the record alone is deleted.
	drop func(tx *tx, b *bucket, k, v []byte) error
	// blocked is the damage that run met, nil where there is none: a record that cannot be read, so that nobody knows
	// whether it is old, or a bucket in the place of a record.
	blocked error
}

// bucket returns the bucket that is swept, or nil where there is none.
func (s *sweep) bucket(tx *tx) *bucket {
	b := tx.top(s.top)
	if s.nested != "" {
		return b.nested(s.nested)
	}
	return b
}

// run looks in short read transactions and deletes in small write transactions. It returns how
// many records were deleted, indexes apart. Where a record cannot be read, or a bucket stands in its place, it
// notes the damage and goes on with the rest.
func (s *sweep) run(ctx context.Context, db *DB) (int, error) {
	deleted := 0
	var after []byte
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return deleted, err
		}
		var old [][]byte
		err := db.view(func(tx *tx) (err error) {
			old, after, done, err = s.look(tx, after)
			return err
		})
		if err != nil {
			return deleted, err
		}
		for len(old) > 0 {
			n, left, err := s.delete(ctx, db, old)
			if deleted += n; err != nil {
				return deleted, err
			}
			old = left
		}
	}
	return deleted, nil
}

// look returns the keys of old records behind a key, the last key that it looked at, and whether
// there are no further ones.
func (s *sweep) look(tx *tx, after []byte) (old [][]byte, last []byte, done bool, err error) {
	b := s.bucket(tx)
	if b == nil {
		return nil, nil, true, nil
	}
	c := b.cursor()
	k, v := c.from(after)
	for n := 0; ; n++ {
		if k == nil || s.below != nil && bytes.Compare(k, s.below) >= 0 {
			return old, nil, true, nil
		}
		if n == maxLooked {
			return old, last, false, nil
		}
		// Keys are copied: they lie in the file, which may move when the transaction has ended.
		last = bytes.Clone(k)
		if v == nil {
			s.blocked = tx.db.noteMisplaced("a bucket is in the place of record %q of %s", k, displayName(b.name))
		} else if isOld, err := s.isOld(tx, k, v); tx.db.noteDamaged(err) {
			s.blocked = err
		} else if err != nil {
			return nil, nil, false, err
		} else if isOld {
			old = append(old, last)
		}
		k, v = c.next()
	}
}

// delete deletes the first of the records in one transaction, as far as they are still old. It
// returns how many, and the keys that are left.
func (s *sweep) delete(ctx context.Context, db *DB, keys [][]byte) (n int, left [][]byte, err error) {
	err = db.update(ctx, func(tx *tx) error {
		n, left = 0, keys // this change may run more than once
		b := s.bucket(tx)
		if b == nil {
			left = nil
			return nil
		}
		before, began := tx.deleted, time.Now()
		for len(left) > 0 && !tx.isFull(before, began) {
			k := left[0]
			left = left[1:]
			v := b.raw(k)
			if v == nil {
				continue
			}
			isOld, err := s.isOld(tx, k, v)
			if err != nil {
				return err
			}
			if !isOld {
				continue
			}
			if s.drop == nil {
				err = b.delete(k)
			} else {
				err = s.drop(tx, b, k, v)
			}
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, left, err
}
