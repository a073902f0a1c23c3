package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"ravenbot/internal/store"
)

// health is what is wrong with an open store. It is safe for concurrent use.
type health struct {
	mu        sync.Mutex
	writing   error     // why the last transaction failed; nil after one that succeeded
	recovered bool      // a transaction succeeded after one that failed, and that is not logged yet
	file      error     // the file at the store's path is no longer the open one
	damage    []string  // what the check found
	refuse    error     // why nothing is written any more
	checked   time.Time // when the whole file was last found to be good
	began     time.Time // when the write that is under way began; the zero time: none is
}

// Health returns what keeps the store from working, or nil. A full disk counts from the first write
// that fails, or from when Run finds it full, until a write succeeds; a disk that does not answer counts from stallAfter.
func (db *DB) Health() error {
	h := &db.health
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.file != nil:
		return h.file
	case h.writing != nil:
		return h.writing
	case h.isStalled():
		return &store.SystemError{Path: db.path,
			What: fmt.Sprintf("its disk has not answered for %v", time.Since(h.began).Round(time.Second)),
			Remedy: "check the disk, and its network connection if it has one: " +
				"the bot goes on by itself when the disk answers",
			Err: os.ErrDeadlineExceeded, Code: os.ErrDeadlineExceeded}
	case h.refuse != nil:
		return h.refuse
	case len(h.damage) > 0:
		return damagedError(db.path, describe(h.damage, 0), restoreRemedy)
	}
	return nil
}

// Owned returns nil: the lock of the file keeps other processes out as long as it is open.
func (db *DB) Owned() error { return nil }

// IsShared returns false: nobody can take over.
func (db *DB) IsShared() bool { return false }

// Clock returns "": a file has no clock.
func (db *DB) Clock() string { return "" }

// Problem returns Health in a few words that name no path, for whoever may ask; "" where nothing is
// wrong.
func (db *DB) Problem() string {
	err := db.Health()
	var system *store.SystemError
	var damaged *store.DamagedError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &system):
		return "the store cannot be written: " + system.What
	case errors.As(err, &damaged):
		return "the store is damaged"
	case errors.Is(err, errNoFile):
		return "the file of the store was removed, replaced or overwritten"
	}
	return "the store cannot be written"
}

// errNoFile is an error of checkFile.
var errNoFile = errors.New("messages are not accepted until then")

// Damage returns what the checks of the running store have found.
func (db *DB) Damage() []string {
	db.health.mu.Lock()
	defer db.health.mu.Unlock()
	return append([]string{}, db.health.damage...)
}

// Checked returns when the whole store was last read and found to be good.
func (db *DB) Checked() time.Time { return db.health.checkedAt() }

// checkedAt returns when the whole file was last found to be good.
func (h *health) checkedAt() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.checked
}

// damageFound returns an error if damage was found since the store was opened.
func (h *health) damageFound() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.damage) > 0 {
		return errors.New(describe(h.damage, 0))
	}
	return nil
}

// noteChecked records that the whole file was read.
func (h *health) noteChecked(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checked = at
}

// stallAfter is how long a write may take before its disk counts as one that does not answer.
const stallAfter = 10 * time.Second

// isStalled reports whether the write that is under way takes too long. The lock is held.
func (h *health) isStalled() bool { return !h.began.IsZero() && time.Since(h.began) > stallAfter }

// noteWriting notes that a write begins, by the timers and not by the clock, and with the zero time that it has ended.
func (h *health) noteWriting(began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = began
}

// logStalls logs that the disk does not answer, and when it answers again, until ctx ends. It takes no lock that is held
// while the disk is waited for.
func (db *DB) logStalls(ctx context.Context, log *slog.Logger) {
	ticker := time.NewTicker(stallAfter / 2)
	defer ticker.Stop()
	logged := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		db.health.mu.Lock()
		stalled := db.health.isStalled()
		db.health.mu.Unlock()
		switch {
		case stalled && !logged:
			log.Error("store cannot be written; messages are not accepted", "error", db.Health())
		case !stalled && logged:
			log.Info("disk of the store answers again")
		}
		logged = stalled
	}
}

// noteWrite keeps the outcome of a transaction.
func (h *health) noteWrite(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recovered = h.recovered || h.writing != nil && err == nil
	h.writing = err
}

// takeRecovered reports whether writing has worked again since the last call.
func (h *health) takeRecovered() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.recovered
	h.recovered = false
	return was
}

// noteFile keeps what is wrong with the file at the store's path; nil: nothing.
func (h *health) noteFile(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.file = err
}

// mayWrite returns why nothing may be written, or nil. What is written to a file without a name, or
// over wrong pages, would be lost.
func (h *health) mayWrite() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.file != nil {
		return h.file
	}
	return h.refuse
}

// noteDamaged notes the damage that an error is of, and reports whether it is of one.
func (db *DB) noteDamaged(err error) bool {
	if err == nil {
		return false
	}
	var damaged *store.DamagedError
	isDamaged := errors.As(err, &damaged)
	if isDamaged {
		db.health.noteDamage(err, nil)
	}
	return isDamaged
}

// noteDamage keeps what a check found, and why nothing may be written any more; nil: it may.
func (h *health) noteDamage(found, refuse error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var damaged *store.DamagedError
	// What is found again, by the next check or another deletion, is no further damage.
	if errors.As(found, &damaged) && len(h.damage) < maxFaults && !slices.Contains(h.damage, damaged.What) {
		h.damage = append(h.damage, damaged.What)
	}
	if refuse != nil {
		h.refuse = refuse
	}
}

// checkFile notices that the file was replaced or taken away while it is open.
func (db *DB) checkFile() error {
	info, err := os.Stat(db.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("the file of store %s was removed or moved while the bot runs: put it back, or restart the bot; %w",
			db.path, errNoFile)
	case err != nil:
		err = fmt.Errorf("the file of store %s cannot be looked at: %w", db.path, err)
	case !os.SameFile(info, db.file):
		err = fmt.Errorf("the file of store %s was replaced while the bot runs: restart the bot to use the new one; %w",
			db.path, errNoFile)
	}
	db.health.noteFile(err)
	return err
}

const (
	// watchEvery is how often the file is looked for, and writing is tried where it failed.
	watchEvery = 10 * time.Second
	// checkEvery is after how long the whole file is read again; a backup counts as well.
	checkEvery = 24 * time.Hour
	// firstCheck is how long the check waits after the start, which is busy enough.
	firstCheck = 30 * time.Second
)

// Run watches over the open store until ctx ends: whether its file is still there, whether it can be
// written again after a failure, and, in small steps, whether all of it is good.
func (db *DB) Run(ctx context.Context, log *slog.Logger) {
	db.compacted.log(log)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { db.runChecks(ctx, log) })
	wg.Go(func() { db.logStalls(ctx, log) })
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var last error
	for {
		err := db.watch(ctx)
		recovered := db.health.takeRecovered()
		switch {
		case err != nil && last == nil:
			log.Error("store cannot be written; messages are not accepted", "error", err)
		// A write of somebody else may have failed and worked again between two looks.
		case recovered && err == nil, err == nil && last != nil:
			log.Info("store can be written again")
		}
		last = err
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// watch returns what keeps the store from being written, and tries to write where that failed
// before.
func (db *DB) watch(ctx context.Context) error {
	if err := db.checkFile(); err != nil {
		return err
	}
	if err := db.checkRoom(); err != nil {
		db.health.noteWrite(err)
		return err
	}
	db.health.mu.Lock()
	failed := db.health.writing
	db.health.mu.Unlock()
	if failed == nil {
		return nil
	}
	// Who is not ready may get no messages: whether writing works again has to be tried.
	return db.update(ctx, func(tx *tx) error { tx.changed = true; return nil })
}

// minRoom is how many bytes have to be free on the disk: about what a long message takes in the store.
const minRoom = 64 << 10

// checkRoom returns an error where the disk is full, before a message finds that. Some file systems report no free space,
// or keep some for the superuser, so that it is tried.
func (db *DB) checkRoom() error {
	path := followLink(db.path)
	if space, ok := freeSpace(filepath.Dir(path)); !ok || space >= minRoom {
		return nil
	}
	err := writeBeside(path, func(f *os.File) error {
		_, err := f.Write(make([]byte, minRoom))
		return err
	}, os.Remove)
	if errors.Is(err, syscall.ENOSPC) {
		return explainSystemError(db.path, err)
	}
	return nil
}

// runChecks reads the whole store at intervals until ctx ends, since bbolt notices no flipped bits.
func (db *DB) runChecks(ctx context.Context, log *slog.Logger) {
	for {
		wait := max(firstCheck, checkEvery-db.now().Sub(db.Checked()))
		// A clock that was ahead at the last check must not put off the next one.
		timer := time.NewTimer(min(wait, checkEvery))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		// A backup may have read it all meanwhile.
		if db.now().Sub(db.Checked()) >= checkEvery-firstCheck {
			db.checkAndLog(ctx, log)
		}
	}
}

// checkAndLog reads the whole store and logs what is wrong with it.
func (db *DB) checkAndLog(ctx context.Context, log *slog.Logger) {
	began := db.now()
	faults, err := db.CheckOpen(ctx)
	switch {
	case ctx.Err() != nil:
	case len(faults) > 0:
		log.Error("store damaged", "what", describe(faults, 0), "remedy",
			"stop the bot, see what ravenbot store check says, and restore a backup or use ravenbot store salvage")
	case err != nil:
		log.Error("failed to check the store; retrying tomorrow", "error", err)
	default:
		log.Info("store checked", "took", db.now().Sub(began).Round(time.Millisecond))
		return
	}
	if ctx.Err() == nil {
		db.health.noteChecked(db.now()) // not good, but not to be read again at once
	}
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
