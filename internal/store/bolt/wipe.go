package bolt

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// bbolt leaves what was deleted in the file until its pages are used again, which may be never. So free pages are
// overwritten with zeros.
//
// A page may be overwritten where neither of the two headers leads to it: a disk that damages the newer one loses no
// more than the last change then. Nor may a transaction that still runs see it: those that began before the list of
// free pages was made are waited for, and nobody commits meanwhile.

const (
	// maxWipeTime is how long writers wait for a part of it, and how long it waits for them behind each part.
	maxWipeTime = 5 * time.Millisecond
	// wipeRest is how long it waits where others read, and wipeTries is how often, before it is left to the next time.
	wipeRest  = 20 * time.Millisecond
	wipeTries = 100
	// maxQuietFree is up to how many free pages are looked through whenever nothing is written for a while. More are by
	// Prune alone: they are read from the disk. More than maxWiped are left to the compaction: to write a list of so many
	// takes tens of milliseconds, in which nobody else writes.
	maxQuietFree = 64 << 20 / 4096
	maxWiped     = 256 << 20 / 4096
)

// wipe is the way through the free pages.
type wipe struct {
	db    *DB
	txid  uint64   // of the state of the file that pages are of
	pages []uint64 // sorted
	upto  uint64   // the last page that was looked at
	isEnd bool
}

// wipeFree overwrites what free pages hold, in small steps, where there are up to maxFree of them. Where others read all
// the time, or the file is being copied, some are left to the next time.
func (db *DB) wipeFree(ctx context.Context, maxFree int) error {
	stats := db.bolt.Load().Stats()
	w := wipe{db: db, isEnd: stats.FreePageN+stats.PendingPageN > maxFree}
	for tries := 0; !w.isEnd && tries < wipeTries; {
		isBusy, err := w.step()
		if err != nil {
			return fmt.Errorf("overwrite free pages: %w", err)
		}
		pause := maxWipeTime
		if isBusy {
			tries, pause = tries+1, wipeRest
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// step overwrites some pages. It returns true where somebody reads who may see them.
func (w *wipe) step() (isBusy bool, err error) {
	db := w.db
	db.writing.Lock()
	defer db.writing.Unlock()
	c := db.contents.Load()
	if c == nil || db.closed.Load() {
		w.isEnd = true
		return false, nil
	}
	m, _, err := readMetas(c.f)
	if err != nil {
		return false, err
	}
	if w.pages == nil || m.txid != w.txid || db.uncommitted.Load() {
		if isBusy, err = w.list(); isBusy || err != nil {
			return isBusy, err
		}
	}
	f, err := os.OpenFile(db.path, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !os.SameFile(info, db.file) {
		return false, cmp.Or(err, errNoFile)
	}
	return false, w.overwrite(f, m.pageSize)
}

// list finds the pages that neither header leads to, and waits for those who may see them. db.writing is held.
func (w *wipe) list() (isBusy bool, err error) {
	db := w.db
	if db.copies.Load() > 0 {
		return true, nil
	}
	// What the first commit frees is used by the header before it.
	before, err := db.commitListed()
	if err != nil {
		return false, err
	}
	after, err := db.commitListed()
	if err != nil {
		return false, err
	}
	w.pages = slices.DeleteFunc(after, func(id uint64) bool {
		_, found := slices.BinarySearch(before, id)
		return !found
	})
	m, _, err := readMetas(db.contents.Load().f)
	w.txid = m.txid
	if err == nil && !db.readers.awaitOlder() {
		w.pages = nil
		return true, nil
	}
	return false, err
}

// overwrite overwrites the pages behind the last one, as many as there is time for.
func (w *wipe) overwrite(f *os.File, size int) error {
	began := time.Now()
	page, zeros := make([]byte, size), make([]byte, size)
	from, found := slices.BinarySearch(w.pages, w.upto)
	if found {
		from++
	}
	for _, id := range w.pages[from:] {
		if time.Since(began) > maxWipeTime {
			return nil
		}
		at := int64(id) * int64(size)
		if _, err := f.ReadAt(page, at); err != nil && err != io.EOF {
			return err
		}
		if !slices.Equal(page, zeros) {
			if _, err := f.WriteAt(zeros, at); err != nil {
				return err
			}
		}
		w.upto = id
	}
	w.isEnd = true
	return nil
}

// commitListed commits what is pending, or nothing, and returns the free pages as the file lists them. db.writing is
// held.
func (db *DB) commitListed() (free []uint64, err error) {
	if err := cmp.Or(db.health.mayWrite(), db.checkContents()); err != nil {
		return nil, err
	}
	defer catchFaults(db.path, &err)()
	db.access.Lock()
	defer db.access.Unlock()
	defer db.rollBack() // where it fails
	t, err := db.pendingTx()
	if err != nil {
		return nil, err
	}
	t.lists = true
	if err := db.commitPending(t); err != nil {
		return nil, err
	}
	f := db.contents.Load().f
	m, _, err := readMetas(f)
	if err != nil {
		return nil, err
	}
	free, _, ok := readFreelist(f, m)
	if !ok {
		return nil, damagedError(db.path, "the list of free pages is wrong", restoreRemedy)
	}
	return free, nil
}

// readers counts the read transactions, so that those can be waited for that began before an instant. Two counters take
// turns: whoever begins after the turn cannot keep it waiting.
type readers struct {
	turn   atomic.Uint32
	counts [2]atomic.Int64
}

// count runs a transaction, and counts it from before its beginning on.
func (r *readers) count(view func() error) error {
	n := &r.counts[r.turn.Load()&1]
	n.Add(1)
	defer n.Add(-1) // after a fault, too
	return view()
}

// awaitOlder waits for a few milliseconds until all that began before it have ended, and reports whether they have.
func (r *readers) awaitOlder() bool {
	now := r.turn.Load() & 1
	// What began before the last turn.
	if r.counts[1-now].Load() > 0 {
		return false
	}
	r.turn.Store(1 - now)
	for began := time.Now(); r.counts[now].Load() > 0; {
		if time.Since(began) > maxWipeTime {
			return false
		}
		time.Sleep(100 * time.Microsecond)
	}
	return true
}
