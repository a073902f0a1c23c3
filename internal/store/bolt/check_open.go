package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"ravenbot/internal/store"
)

// Bounds of a step of the check: while it runs, nobody writes.
const (
	maxCheckedRecords = 500
	maxCheckedBytes   = 1 << 20
	// restFactor is how much longer the check rests than it works: it uses a tenth of a processor.
	restFactor = 9
	minRest    = 2 * time.Millisecond
)

// check reads an open store as a whole, in small steps between which others write. It counts the
// records of a bucket from the first key on, and transactions tell it of what they change among
// those that it has counted. So at the end of a bucket its count must be the tally of the bucket.
// DB.writing guards it.
type check struct {
	frames []frame // from a top-level bucket inwards
	faults []string
}

// frame is how far a bucket was counted.
type frame struct {
	name string
	last []byte // the last key that was counted; nil: none
	sum  tally
}

// CheckOpen reads the whole store, while others use it, and returns what is wrong with it, at most
// maxFaults lines. What it finds counts in Health, and after damaged pages nothing is written any
// more. It works a tenth of the time. One check runs at a time. The error is that of ctx, or says why
// the store cannot be read.
func (db *DB) CheckOpen(ctx context.Context) ([]string, error) {
	c := &check{}
	defer db.setCheck(nil, "")
	for _, name := range append(bucketNames(), talliesBucket) {
		for db.setCheck(c, name); len(c.frames) > 0; {
			began := time.Now()
			if err := db.runStep(c); err != nil {
				return c.faults, err
			}
			rest := time.NewTimer(max(minRest, restFactor*time.Since(began)))
			select {
			case <-ctx.Done():
				rest.Stop()
				return c.faults, ctx.Err()
			case <-rest.C:
			}
		}
	}
	if len(c.faults) == 0 {
		db.health.noteChecked(db.now())
	}
	return c.faults, nil
}

// setCheck has transactions tell a check of their changes, which begins with a bucket; nil: none.
func (db *DB) setCheck(c *check, name string) {
	db.writing.Lock()
	defer db.writing.Unlock()
	if db.check = c; c != nil {
		c.frames = []frame{{name: name}}
	}
}

// runStep counts some records. Damage that it meets is noted; the error is any other one.
func (db *DB) runStep(c *check) error {
	// The pages are read ahead, since a disk may be slow and nobody writes during the step itself.
	db.writing.Lock()
	ahead := check{frames: append([]frame{}, c.frames...)}
	db.writing.Unlock()
	_ = db.view(func(tx *tx) error { return ahead.step(tx) }) // what is wrong is found again
	db.writing.Lock()
	defer db.writing.Unlock()
	known := len(c.faults)
	err := db.flushLocked()
	if err != nil {
		return err
	}
	err = db.view(func(tx *tx) error { return c.step(tx) })
	for _, what := range c.faults[known:] {
		db.health.noteDamage(damagedError(db.path, what, restoreRemedy), nil)
	}
	// Records that are wrong are faults. An error means that the pages themselves are, and whoever
	// writes by wrong pages may write over good records.
	if damaged := (*store.DamagedError)(nil); errors.As(err, &damaged) {
		c.addFault("%s", damaged.What)
		db.health.noteDamage(err, err)
		c.frames = c.frames[:len(c.frames)-1]
		return nil
	}
	return err
}

// addFault notes a fault; from maxFaults on they are left out.
func (c *check) addFault(format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

// step counts records until it has read as many as one step may.
func (c *check) step(tx *tx) error {
	records, size := 0, 0
	for len(c.frames) > 0 && records < maxCheckedRecords && size < maxCheckedBytes {
		f := &c.frames[len(c.frames)-1]
		b := tx.named(f.name)
		if b == nil { // it was deleted meanwhile
			c.frames = c.frames[:len(c.frames)-1]
			continue
		}
		n, read, err := c.countSome(f, b, maxCheckedRecords-records, maxCheckedBytes-size)
		records, size = records+n, size+read
		if err != nil {
			return err
		}
	}
	return nil
}

// countSome counts the next records of a bucket. At a bucket in it a new frame begins, and the frame
// ends with the last record.
func (c *check) countSome(f *frame, b *bucket, maxRecords, maxBytes int) (records, size int, err error) {
	cur := b.cursor()
	for k, v := cur.from(f.last); k != nil; k, v = cur.next() {
		if f.last != nil && bytes.Compare(k, f.last) <= 0 {
			return records, size, damagedError(b.tx.db.path, displayName(f.name)+" is out of order", restoreRemedy)
		}
		if f.name == talliesBucket && string(k) == headKey {
			continue
		}
		if records == maxRecords || size >= maxBytes {
			return records, size, nil
		}
		// In new memory: the frames that read ahead share the key that was there.
		f.last = append(f.last[:0:0], k...)
		f.sum.add(digest(k, v))
		records, size = records+1, size+len(v)
		if v == nil {
			c.frames = append(c.frames, frame{name: f.name + nul + string(k)})
			return records, size, nil
		}
		c.checkRecord(b.tx, f.name, k, v)
	}
	c.compareCount(f, b)
	c.frames = c.frames[:len(c.frames)-1]
	return records + 1, size, nil // an empty bucket is work as well
}

// checkRecord checks the value of a record, and of a tally also that its bucket is there.
func (c *check) checkRecord(tx *tx, name string, k, v []byte) {
	if name != talliesBucket {
		if _, err := unseal(v); err != nil {
			c.addFault("record %q of %s: %v", k, displayName(name), err)
		}
		return
	}
	kept, err := unsealTally(v)
	switch {
	case err != nil:
		c.addFault("the tally of %s: %v", displayName(string(k)), err)
	case tx.named(string(k)) == nil:
		c.addFault("%s is missing, with %d records", displayName(string(k)), kept.count)
	}
}

// compareCount compares what was counted of a bucket with its tally.
func (c *check) compareCount(f *frame, b *bucket) {
	name := f.name
	if name == talliesBucket {
		name = headKey
	}
	kept, err := b.tx.readTally(b.tx.bolt.Bucket([]byte(talliesBucket)), name)
	f.sum.seq = b.bolt.Sequence()
	if name == headKey {
		f.sum.seq = uint64(b.tx.bolt.ID())
	}
	switch {
	case err != nil:
		c.addFault("the tally of %s cannot be read", displayName(name))
	case f.sum != kept:
		c.addFault("%s", describeMismatch(name, f.sum, kept))
	}
}

// noteChange tells the check that runs, if one does, of a record that a transaction adds or removes.
func (t *tx) noteChange(name string, key []byte, change func(*tally, uint64), digest uint64) {
	c := t.db.check
	if c == nil {
		return
	}
	for i, f := range c.frames {
		if f.name == name && f.last != nil && bytes.Compare(key, f.last) <= 0 {
			if t.recount == nil {
				t.recount = map[int]*tally{}
			}
			if t.recount[i] == nil {
				t.recount[i] = &tally{}
			}
			change(t.recount[i], digest)
		}
	}
}

// noteGone tells the check that runs, if one does, that a bucket is deleted or moved.
func (t *tx) noteGone(name string) {
	if t.db.check != nil {
		t.gone = append(t.gone, name)
	}
}

// tellCheck tells the check that runs of what a transaction has changed, once it is committed.
func (t *tx) tellCheck() {
	c := t.db.check
	if c == nil {
		return
	}
	for i, d := range t.recount {
		c.frames[i].sum.count += d.count
		c.frames[i].sum.sum += d.sum
	}
	// One of the same name may take its place, and is counted from its beginning.
	for _, name := range t.gone {
		for i := range c.frames {
			if c.frames[i].name == name {
				c.frames[i] = frame{name: name}
			}
		}
	}
}
