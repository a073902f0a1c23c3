package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// journal keeps what is committed while a copy of the store is made, in order, so that the copy can
// follow. It is guarded by DB.writing. A nil journal keeps nothing.
type journal struct {
	list []redo
	size int
	err  error // why the copy cannot follow
}

// redo makes a change again, in the copy.
type redo struct {
	fn   func(*tx) error
	size int
	// alone: a transaction that has changed the same bucket before must not make it.
	alone bool
}

// maxJournal bounds the bytes of a journal, which is kept in memory.
const maxJournal = 64 << 20

var (
	errBehind    = errors.New("more was written meanwhile than the copy could follow")
	errUncertain = errors.New("writing to the store failed meanwhile")
)

// add keeps the changes of a committed transaction.
func (j *journal) add(t *tx) {
	if j == nil || j.err != nil {
		return
	}
	j.list = append(j.list, t.redo...)
	for _, r := range t.redo {
		j.size += r.size
	}
	if j.size > maxJournal {
		j.fail(errBehind)
	}
}

// fail ends the journal.
func (j *journal) fail(err error) {
	if j != nil && j.err == nil {
		*j = journal{err: err}
	}
}

// take removes everything from the journal and returns it.
func (j *journal) take() ([]redo, error) {
	list := j.list
	j.list, j.size = nil, 0
	return list, j.err
}

// redoCost is about what an entry of a journal takes besides the record.
const redoCost = 200

// noteRedo keeps a change of a bucket for the copy that is made, if one is. fn gets the same bucket
// there.
func (b *bucket) noteRedo(size int, fn func(*bucket) error) {
	if b.tx.db.journal == nil {
		return
	}
	name := b.name
	b.tx.redo = append(b.tx.redo, redo{size: size + redoCost, fn: func(t *tx) error {
		b := t.named(name)
		if b == nil {
			return damagedError(t.db.path, displayName(name)+" is missing", restoreRemedy)
		}
		return fn(b)
	}})
}

// notePut is noteRedo for a record that is written.
func (b *bucket) notePut(key, value []byte) {
	if b.tx.db.journal == nil {
		return
	}
	key, value = bytes.Clone(key), bytes.Clone(value)
	b.noteRedo(len(key)+len(value), func(b *bucket) error { return b.replace(key, b.bolt.Get(key), value) })
}

// noteMove is noteRedo for a bucket that moves to another top-level bucket.
func (b *bucket) noteMove(key, to string) {
	if b.tx.db.journal == nil {
		return
	}
	b.noteRedo(len(key), func(b *bucket) error { return b.moveNested(key, b.tx.top(to)) })
	b.tx.redo[len(b.tx.redo)-1].alone = true // bbolt moves a bucket as it was before the transaction
}

// noteSequence is noteRedo for the number that a bucket counts on from.
func (b *bucket) noteSequence(n uint64) {
	b.noteRedo(0, func(b *bucket) error { b.raiseSequence(n); return nil })
}

// maxRedone is how many changes are made again in one transaction.
const maxRedone = 500

// redoAll makes changes again, in their order.
func (db *DB) redoAll(ctx context.Context, list []redo) error {
	for len(list) > 0 {
		n := 1
		// One that is alone comes first in its transaction: those behind it do no harm.
		for n < min(len(list), maxRedone) && !list[n].alone {
			n++
		}
		if err := db.update(ctx, func(tx *tx) error {
			for _, r := range list[:n] {
				if err := r.fn(tx); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return fmt.Errorf("follow what was written: %w", err)
		}
		list = list[n:]
	}
	return nil
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
