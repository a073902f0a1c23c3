package bolt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/store"
)

// An open store is compacted by copying its records to a new file, in small steps and from a read
// transaction, while others write. What they write is kept in a journal and made again in the copy,
// until little is left. Then the rest is made again and the file renamed, while writers wait. Until
// the rename is on the disk the old file is the store, and it is whole; from then on the new one is,
// which holds the same records. Nothing is written in between, so that a crash may leave either.

// compactedPath is where the copy is made: beside the file itself, also where the path of the store is
// a link to it. What a crash has left there is removed.
func compactedPath(path string) string { return followLink(path) + ".compacted" }

// followLink returns the path of the file that a path leads to, which may be missing.
func followLink(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	target, err := os.Readlink(path)
	switch {
	case err != nil:
		return path
	case filepath.IsAbs(target):
		return target
	}
	return filepath.Join(filepath.Dir(path), target)
}

const (
	// copiedBytes is about how many bytes are copied in one transaction. Its pages are synced, and
	// disks make the fsyncs of others wait for that.
	copiedBytes = 1 << 20
	// copyRest is how much longer copying rests than it works.
	copyRest = 2
	// maxLeft is how many changes are made again while writers wait, which takes a few milliseconds.
	maxLeft = 100
	// maxRounds bounds how often a copy follows what was written: with many writers it may not get near.
	maxRounds = 200
	// copyFill is how full pages are that are copied in order: the rest is for changes.
	copyFill = 0.9
)

// The steps of a compaction.
const (
	stepCopying  = "copying"  // a part of it is in the copy, and its read transaction is open
	stepCopied   = "copied"   // what the read transaction held is in the copy
	stepVerified = "verified" // the whole copy was read
	stepEqual    = "equal"    // the copy holds all, and writers wait
	stepRenamed  = "renamed"  // it has the name of the store
	stepReplaced = "replaced" // writers go on in it; the stamp is of the old file
)

// CompactOpen rewrites the store without its free space while others use it, and returns its size
// before and after, in bytes. Where it fails the store goes on as it was; it fails where the copy
// cannot keep up with what is written, where it is not equal in the end, and where writing fails
// meanwhile. The disk needs room for both files. It must not be called while another one runs.
func (db *DB) CompactOpen(ctx context.Context) (before, after int64, err error) {
	c := compaction{db: db, ctx: ctx}
	if before, _, err = db.Size(); err == nil {
		err = c.run()
	}
	if err == nil {
		after, _, err = db.Size()
	}
	if err != nil {
		return before, 0, fmt.Errorf("compact store %s while it is open: %w", db.path, err)
	}
	return before, after, nil
}

// compaction is one run of CompactOpen.
type compaction struct {
	db  *DB
	ctx context.Context
	to  *DB // the copy
	// batch is what flush copies next, and size its bytes.
	batch   []copiedRecord
	size    int
	renamed bool
}

// copiedRecord is a record, or with value nil a nested bucket.
type copiedRecord struct {
	bucket     string
	key, value []byte
	seq        uint64 // of the bucket
}

// reach tells a test of a step, and fails where it wants that.
func (c *compaction) reach(step string) error {
	if c.db.reached == nil {
		return nil
	}
	return c.db.reached(step)
}

// run makes a compact copy beside the store and replaces the store by it. Where it fails before the replacement the
// copy is removed and the store is what it was.
func (c *compaction) run() error {
	path := compactedPath(c.db.path)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	b, err := openFile(path, false)
	if err != nil {
		return err
	}
	c.to = newDB(path, b, c.db.now)
	err = c.copyAndReplace()
	// From the rename on the copy is the store, even where a later step fails.
	if !c.renamed {
		c.setJournal(nil)
		return errors.Join(err, b.Close(), removeLarge(path))
	}
	return cmp.Or(err, c.reach(stepReplaced), c.db.stampOpen())
}

// setJournal has what is committed from now on kept in a journal; nil: no longer.
func (c *compaction) setJournal(j *journal) {
	c.db.writing.Lock()
	defer c.db.writing.Unlock()
	c.db.journal = j
}

// copyAndReplace carries out the steps of a compaction. Writers go on until the last one: what they change is in the
// journal, which follow applies to the copy.
func (c *compaction) copyAndReplace() error {
	for _, step := range []func() error{
		c.copyAll,
		func() error { return c.reach(stepCopied) },
		c.follow,
		// It is read as a whole, as each backup is: what is wrong with it must not become the store.
		func() error { return Verify(c.ctx, c.to.path) },
		func() error { return c.reach(stepVerified) },
		c.follow,
		c.replace,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// copyAll copies all records as of the instant at which the journal begins.
func (c *compaction) copyAll() (err error) {
	defer catchFaults(c.db.path, &err)()
	held, err := c.db.beginCopy(&journal{})
	if err != nil {
		return err
	}
	defer c.db.endCopy(held)
	if err := c.to.update(c.ctx, func(to *tx) error { return to.createTallies(nil) }); err != nil {
		return err
	}
	err = held.ForEach(func(name []byte, b *bbolt.Bucket) error {
		if string(name) == talliesBucket {
			return nil // the tallies of the copy are those of what is written to it
		}
		return c.copyTop(string(name), b)
	})
	if err != nil {
		return err
	}
	return c.flush()
}

// copyTop copies a top-level bucket with those in it.
func (c *compaction) copyTop(name string, b *bbolt.Bucket) error {
	if err := c.to.update(c.ctx, func(to *tx) error {
		if err := to.createTop(name); err != nil {
			return err
		}
		to.top(name).raiseSequence(b.Sequence())
		return nil
	}); err != nil {
		return err
	}
	return b.ForEach(func(k, v []byte) error {
		if v != nil {
			return c.copyRecord(copiedRecord{bucket: name, key: k, value: v})
		}
		inner := b.Bucket(k)
		if err := c.copyRecord(copiedRecord{bucket: name, key: k, seq: inner.Sequence()}); err != nil {
			return err
		}
		nested := name + nul + string(k)
		return inner.ForEach(func(k, v []byte) error {
			return c.copyRecord(copiedRecord{bucket: nested, key: k, value: v})
		})
	})
}

// copyRecord has a record copied with others. Keys and values lie in the file as long as the read
// transaction lasts.
func (c *compaction) copyRecord(r copiedRecord) error {
	c.batch = append(c.batch, r)
	if c.size += len(r.key) + len(r.value); c.size < copiedBytes && len(c.batch) < copiedBytes/100 {
		return nil
	}
	return c.flush()
}

// flush copies the records that were collected, and rests.
func (c *compaction) flush() error {
	began := time.Now()
	err := c.to.update(c.ctx, func(to *tx) error {
		for _, r := range c.batch {
			b := to.named(r.bucket)
			b.bolt.FillPercent = copyFill
			if r.value != nil {
				if err := b.putRaw(r.key, r.value); err != nil {
					return err
				}
				continue
			}
			inner, err := b.createNested(string(r.key))
			if err != nil {
				return err
			}
			inner.raiseSequence(r.seq)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.batch, c.size = c.batch[:0], 0
	if err := c.reach(stepCopying); err != nil {
		return err
	}
	return sleep(c.ctx, copyRest*time.Since(began))
}

// sleep waits, or returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// follow makes what was written meanwhile again in the copy, until little is left. It returns
// errBehind where that does not come about within maxRounds.
func (c *compaction) follow() error {
	for range maxRounds {
		c.db.writing.Lock()
		changes, n, err := c.db.journal.take()
		c.db.writing.Unlock()
		if err != nil {
			return err
		}
		if err := c.redo(changes); err != nil || n <= maxLeft {
			return err
		}
	}
	return errBehind
}

// redo makes changes again in the copy.
func (c *compaction) redo(changes []ops) error {
	for _, part := range changes {
		if err := c.to.redoInSteps(c.ctx, part.encoded); err != nil {
			return err
		}
	}
	return nil
}

// replace makes the copy the file of the store, while writers wait. Its order matters: the copy is
// on the disk and equal before it gets the name, and nobody writes to either before the name is on
// the disk. An error before the rename leaves the old file in use; one after it leaves the store
// without writing.
func (c *compaction) replace() error {
	db := c.db
	db.writing.Lock()
	defer db.writing.Unlock()
	if db.closed.Load() {
		return errors.New("it was closed meanwhile")
	}
	err := cmp.Or(db.health.mayWrite(), db.flushLocked())
	changes, n, lost := db.journal.take()
	if err = cmp.Or(err, lost); err != nil {
		return err
	}
	// follow leaves up to maxLeft, and writers have gone on since.
	if n > 2*maxLeft {
		return errBehind
	}
	// All of the copy is on the disk when its last transaction is.
	for _, step := range []func() error{
		func() error { return c.redo(changes) },
		func() error { return db.compareWith(c.to) },
		func() error { return c.reach(stepEqual) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	path := followLink(db.path)
	oldFile, newInfo, err := c.rename(path)
	if err != nil {
		return err
	}
	c.renamed = true
	if err = cmp.Or(c.reach(stepRenamed), store.SyncFolder(filepath.Dir(path))); err != nil {
		// Which of the two files a power cut would leave is not known. They hold the same, as long as
		// nothing more is written.
		err = fmt.Errorf("the compacted file may not be on the disk under its name, restart the bot: %w", err)
		db.health.noteDamage(nil, err)
	}
	old := db.bolt.Swap(c.to.bolt.Load())
	db.file, db.journal = newInfo, nil
	err = cmp.Or(err, db.openContents())
	db.health.noteChecked(db.now())
	// Those who read the old file may end. Then its space is given back; it has no name any more, and
	// closing it tells nothing that could be lost.
	db.retired.Go(func() {
		_ = old.Close()
		shrink(oldFile, db.closed.Load)
		_ = oldFile.Close()
	})
	return err
}

// rename gives the copy the name of the store. It returns the old file, which is open, and what the
// system says of the new one.
func (c *compaction) rename(path string) (old *os.File, info os.FileInfo, err error) {
	if old, err = os.OpenFile(path, os.O_WRONLY, 0); err != nil {
		return nil, nil, err
	}
	was, err := old.Stat()
	if err == nil && !os.SameFile(was, c.db.file) {
		err = errNoFile // somebody has put another one there, which must not be lost
	}
	if err == nil {
		err = os.Chmod(c.to.path, was.Mode().Perm()) // which may have been changed by hand
	}
	if err == nil {
		info, err = os.Stat(c.to.path)
	}
	if err == nil {
		err = os.Rename(c.to.path, path)
	}
	if err != nil {
		return nil, nil, errors.Join(err, old.Close())
	}
	return old, info, nil
}

// When a store is compacted by itself.
const (
	// compactEvery is after how long the free space is looked at. A store is compacted when 1/wastedPart
	// of its file is free, and at least minWasted: bbolt writes a message to single free pages all over
	// the file, which costs the system up to twice as much processor time (measured 2026-11-22).
	compactEvery = time.Minute
	wastedPart   = 4
	minWasted    = 64 << 20
	// quietCommits is how many transactions a minute may have that is quiet; after maxBusy without
	// one the store is compacted all the same.
	quietCommits = 60
	maxBusy      = 24 * time.Hour
	// compactAgain is how long it is waited for the next one, whether this one succeeds or fails.
	compactAgain = 24 * time.Hour
)

// runCompaction compacts the store when much of it is free, at most once a day.
func (db *DB) runCompaction(ctx context.Context, log *slog.Logger) {
	commits := db.Commits()
	var wasteful time.Time // since when
	for sleep(ctx, compactEvery) == nil {
		n := db.Commits()
		isQuiet := n-commits <= quietCommits
		commits = n
		if !db.isWasteful() {
			wasteful = time.Time{}
			continue
		}
		if wasteful.IsZero() {
			wasteful = db.now()
		}
		if !isQuiet && db.now().Sub(wasteful) < maxBusy {
			continue
		}
		began := db.now()
		before, after, err := db.CompactOpen(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Warn("store not compacted, trying again later", "error", err, "after", compactAgain)
		default:
			log.Info("store compacted", "bytes_before", before, "bytes_after", after,
				"took", db.now().Sub(began).Round(time.Millisecond))
		}
		_ = sleep(ctx, compactAgain) // where ctx ends, the loop does
		commits, wasteful = db.Commits(), time.Time{}
	}
}

// isWasteful reports whether the store is to be compacted: one that may be damaged is left as it is.
func (db *DB) isWasteful() bool {
	size, free, err := db.Size()
	space, ok := freeSpace(filepath.Dir(followLink(db.path)))
	return err == nil && ok && !db.health.isDamaged() && isWorthCompacting(size, free, space)
}

// isWorthCompacting reports whether much of a file of some bytes is free, and the disk has room for a copy of the rest.
func isWorthCompacting(size, free, space int64) bool {
	// A copy may take more than the records do, and the bot goes on writing.
	return free >= minWasted && free >= size/wastedPart && space > (size-free)*3/2+minWasted
}
