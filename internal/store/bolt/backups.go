package bolt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/store"
)

// BackupOptions configure Backups.
type BackupOptions struct {
	Folder string        // where backups are kept; it is created
	Every  time.Duration // 0: none are made
	Keep   int           // how many; less than 1 counts as 1
	Log    *slog.Logger
	Now    func() time.Time
}

// Backups makes verified copies of a store at intervals and keeps the newest ones. A copy
// that fails replaces none. It is safe for concurrent use.
type Backups struct {
	db *DB
	o  BackupOptions

	making  sync.Mutex    // held while a copy is made
	failure chan struct{} // has a value after a failed backup, for Run

	mu     sync.Mutex
	failed time.Time
	err    error // of the last try
}

// NewBackups returns the backups of a store. It makes none; Run and Copy do.
func NewBackups(db *DB, o BackupOptions) *Backups {
	return &Backups{db: db, o: o, failure: make(chan struct{}, 1)}
}

const (
	// firstBackup is how long an overdue backup waits after the start, which is busy enough.
	firstBackup = time.Minute
	// retryBackup bounds the time until a failed backup is tried again.
	retryBackup = time.Hour
)

// Run makes backups until ctx ends; with an interval of 0 it returns at once. A backup that fails
// is logged, shown by Status, and tried again after an hour at most, whoever asked for it.
func (b *Backups) Run(ctx context.Context) {
	if b.o.Every <= 0 {
		return
	}
	// The interval counts from the newest backup, also across restarts. One from the future
	// (the clock was set back) does not count.
	due := b.o.Now().Add(firstBackup)
	if newest, ok := b.newest(); ok {
		if next := newest.time.Add(b.o.Every); next.After(due) && !newest.time.After(b.o.Now()) {
			due = next
		}
	}
	for {
		wait := time.NewTimer(due.Sub(b.o.Now()))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-b.failure:
			wait.Stop()
			if retry := b.o.Now().Add(min(b.o.Every, retryBackup)); retry.Before(due) {
				due = retry
			}
			continue
		case <-wait.C:
		}
		due = b.o.Now().Add(b.o.Every)
		_ = b.Make(ctx) // has logged its error, and sends on failure
	}
}

// Make makes one backup, and then removes the oldest ones above the number to keep.
func (b *Backups) Make(ctx context.Context) error {
	b.making.Lock()
	defer b.making.Unlock()
	b.removeLeftovers() // under the lock: no other copy is being written now
	began, err := b.waitForName(ctx)
	if err != nil {
		return err
	}
	path := filepath.Join(b.o.Folder, backupName(began))
	err = b.db.Backup(ctx, path)
	if ctx.Err() != nil {
		return err // cut off by the end of the program: no failure
	}
	b.mu.Lock()
	b.err, b.failed = err, began
	b.mu.Unlock()
	if err != nil {
		select {
		case b.failure <- struct{}{}:
		default:
		}
		remedy := "see that " + b.o.Folder + " can be written to and has room; the backups in it are kept"
		if damaged := (*store.DamagedError)(nil); errors.As(err, &damaged) {
			remedy = "stop the bot, see what ravenbot store check says, and restore a backup; those there are are kept"
		}
		b.o.Log.Error("backup failed", "file", path, "error", err, "remedy", remedy)
		return err
	}
	b.o.Log.Info("backup made", "file", path, "took", b.o.Now().Sub(began))
	for _, old := range b.surplus() {
		if err := os.Remove(old.path); err != nil {
			b.o.Log.Warn("failed to remove an old backup", "file", old.path, "error", err)
		}
	}
	return nil
}

// waitForName returns now, or the next second after which no backup is named, once it has come. A backup that was made
// earlier in the same second may lack the newest changes, so that it does not count as this one.
func (b *Backups) waitForName(ctx context.Context) (time.Time, error) {
	at := b.o.Now()
	for {
		if _, err := os.Lstat(filepath.Join(b.o.Folder, backupName(at))); err != nil {
			break
		}
		at = at.Truncate(time.Second).Add(time.Second)
	}
	select {
	case <-ctx.Done():
		return at, ctx.Err()
	case <-time.After(at.Sub(b.o.Now())):
		return at, nil
	}
}

// Copy returns an open, verified copy of the store, which is deleted when the caller closes it. It
// waits for a backup that is being made. The copy is made in the folder of the backups, which needs
// the room.
func (b *Backups) Copy(ctx context.Context) (*os.File, error) {
	b.making.Lock()
	defer b.making.Unlock()
	b.removeLeftovers()
	path := filepath.Join(b.o.Folder, ".ravenbot-copy.db-"+b.o.Now().UTC().Format(fileTimeFormat))
	if err := b.db.Backup(ctx, path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the copy of store %s: %w", b.db.path, err)
	}
	_ = os.Remove(path) // where an open file cannot be removed, the next copy does it
	return f, nil
}

// removeLeftovers removes the temporary files of backups that were cut short.
func (b *Backups) removeLeftovers() {
	// A file that is being written has a dot before its name, and that of a copy has one already.
	for _, pattern := range []string{".ravenbot-*.db-*", "..ravenbot-*.db-*"} {
		left, _ := filepath.Glob(filepath.Join(b.o.Folder, pattern)) // fails for bad patterns only
		for _, path := range left {
			_ = os.Remove(path) // tried again the next time
		}
	}
}

// surplus returns the backups above the number to keep, which are the oldest. One always stays.
func (b *Backups) surplus() []backupFile {
	list := listBackups(b.o.Folder, b.o.Now())
	return list[min(len(list), max(b.o.Keep, 1)):]
}

// newest returns the newest backup in the folder; false: there is none.
func (b *Backups) newest() (backupFile, bool) {
	list := listBackups(b.o.Folder, b.o.Now())
	if len(list) == 0 {
		return backupFile{}, false
	}
	return list[0], true
}

// List returns all backups in the folder, newest first.
func (b *Backups) List() []store.BackupStatus {
	var list []store.BackupStatus
	for _, f := range listBackups(b.o.Folder, b.o.Now()) {
		s := store.BackupStatus{Folder: b.o.Folder, File: filepath.Base(f.path), Time: f.time}
		if info, err := os.Stat(f.path); err == nil {
			s.Bytes = info.Size()
		}
		list = append(list, s)
	}
	return list
}

// Status returns the state of the newest backup in the folder, whoever made it.
func (b *Backups) Status() store.BackupStatus {
	s := store.BackupStatus{Folder: b.o.Folder}
	if list := b.List(); len(list) > 0 {
		s = list[0]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		s.Error, s.Failed = b.err.Error(), b.failed
	}
	return s
}

// backupName returns the file name of a backup that was begun at a time. Names sort by it.
func backupName(t time.Time) string { return "ravenbot-" + t.UTC().Format(fileTimeFormat) + ".db" }

// backupFile is a backup with the time in its name.
type backupFile struct {
	path string
	time time.Time
}

// listBackups returns the backups in a folder, newest first. Those from the future were made while the clock was ahead,
// or it is behind now: they come last, so that no backup that is made now is removed as older than they are. Other
// files are ignored.
func listBackups(folder string, now time.Time) []backupFile {
	var list []backupFile
	entries, _ := os.ReadDir(folder) // an unreadable folder counts as empty
	for _, e := range entries {
		text := strings.TrimSuffix(strings.TrimPrefix(e.Name(), "ravenbot-"), ".db")
		if t, err := time.Parse(fileTimeFormat, text); err == nil && e.Name() == backupName(t) {
			list = append(list, backupFile{filepath.Join(folder, e.Name()), t})
		}
	}
	slices.SortFunc(list, func(a, b backupFile) int { return b.time.Compare(a.time) })
	future := max(0, slices.IndexFunc(list, func(f backupFile) bool { return !f.time.After(now) }))
	return slices.Concat(list[future:], list[:future])
}

// SuggestBackup returns a *store.DamagedError whose remedy names the newest intact backup
// in a folder and how to restore it. Any other error, and one without such a backup, is
// returned unchanged.
func SuggestBackup(ctx context.Context, folder string, err error) error {
	var d *store.DamagedError
	if !errors.As(err, &d) {
		return err
	}
	for _, b := range listBackups(folder, time.Now()) {
		if Verify(ctx, b.path) == nil {
			way := fmt.Sprintf("`ravenbot restore %s` goes back to %s and keeps the damaged file; or %s",
				b.path, b.time.Format(time.RFC3339), d.Remedy)
			return damagedError(d.Path, d.What, way)
		}
	}
	return err
}
