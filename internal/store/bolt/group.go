package bolt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"go.etcd.io/bbolt"
)

// group lets concurrent writers share a transaction. Whoever comes while none is
// being committed commits at once what is queued, its own change and those that
// came meanwhile; then it hands the next batch to the first who waits. So a lone
// writer waits for nobody, and a crowd pays for one fsync together.
type group struct {
	mu        sync.Mutex
	queue     []*change
	hasLeader bool
}

type change struct {
	fn     func(*tx) error
	err    error
	signal chan bool // true: the change is done; false: its caller leads the next batch
}

// maxBatch bounds how much one transaction may hold.
const maxBatch = 512

// update runs fn in a write transaction and returns when it is safe on disk. A
// change that fails is left out and does not harm the others of its batch, so fn
// may run more than once and must set what it returns anew each time. ctx is
// looked at before the change is queued; a queued change is not called back.
func (db *DB) update(ctx context.Context, fn func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &change{fn: fn, signal: make(chan bool, 1)}
	g := &db.group
	g.mu.Lock()
	g.queue = append(g.queue, c)
	lead := !g.hasLeader
	g.hasLeader = true
	g.mu.Unlock()
	if !lead && <-c.signal {
		return c.err
	}
	db.commit(g.takeBatch())
	g.passLead()
	<-c.signal
	return c.err
}

// takeBatch empties the queue, up to a batch.
func (g *group) takeBatch() []*change {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.queue), maxBatch)
	batch := g.queue[:n:n]
	g.queue = g.queue[n:]
	return batch
}

// passLead makes the first who waits the next leader.
func (g *group) passLead() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) == 0 {
		g.queue, g.hasLeader = nil, false
		return
	}
	g.queue[0].signal <- false
}

// commit writes a batch, again without each change that fails, and tells all.
func (db *DB) commit(batch []*change) {
	left := append([]*change(nil), batch...)
	for len(left) > 0 {
		failed := -1
		err := db.tryCommit(left, &failed)
		if failed >= 0 {
			left[failed].err = err
			left = append(left[:failed], left[failed+1:]...)
			continue
		}
		for _, c := range left {
			c.err = err
		}
		break
	}
	for _, c := range batch {
		c.signal <- true
	}
}

func (db *DB) tryCommit(changes []*change, failed *int) (err error) {
	defer catchFaults(db.path, &err)()
	err = db.bolt.Update(func(b *bbolt.Tx) error {
		t := &tx{db: db, bolt: b, opened: map[string]*bucket{}}
		for i, c := range changes {
			if err := c.fn(t); err != nil {
				*failed = i
				return err
			}
		}
		if !t.isChanged() {
			return errUnchanged
		}
		return t.writeTallies()
	})
	switch {
	case errors.Is(err, errUnchanged):
		return nil
	case err == nil:
		db.commits.Add(1)
	case *failed < 0:
		return explainFullDisk(db.path, err)
	}
	return err
}

// errUnchanged keeps a transaction that has nothing to say from being committed.
var errUnchanged = errors.New("nothing was changed")

// Commits counts the write transactions since the store was opened.
func (db *DB) Commits() uint64 { return db.commits.Load() }

// explainFullDisk says of an error for want of space on the disk of path what to do.
func explainFullDisk(path string, err error) error {
	for _, no := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, no) || strings.Contains(err.Error(), no.Error()) { // bbolt tells of some as text alone
			return &diskFullError{path, err, no}
		}
	}
	return err
}

// diskFullError is an error for want of space.
type diskFullError struct {
	path string
	err  error
	no   syscall.Errno
}

func (e *diskFullError) Error() string {
	return fmt.Sprintf("there is no space left on the disk of %s: free some, and writing goes on without a restart: %v", e.path, e.err)
}

func (e *diskFullError) Unwrap() []error { return []error{e.err, e.no} }
