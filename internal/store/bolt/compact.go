package bolt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.etcd.io/bbolt"
)

// Compact rewrites the store at path without its free space, and returns its size before
// and after, in bytes. It repairs a store with one damaged header, and keeps the damaged
// file. It returns a *store.InUseError if a process has the store open.
func Compact(ctx context.Context, path string, now time.Time) (before, after int64, err error) {
	if err = requireStore(path); err == nil {
		_, err = replayLogs(path)
	}
	if err != nil {
		return 0, 0, err
	}
	release, err := lock(path)
	if err != nil {
		return 0, 0, err
	}
	before, after, err = compact(ctx, path, now)
	if err = errors.Join(err, release()); err != nil {
		return 0, 0, fmt.Errorf("compact store %s: %w", path, err)
	}
	return before, after, nil
}

// compact replaces the file at path by a copy without free space, and returns the size before and after. A file with
// damage that a copy does not repair is left as it is, with an error.
func compact(ctx context.Context, path string, now time.Time) (before, after int64, err error) {
	found, err := checkFile(ctx, path)
	if err != nil {
		return 0, 0, err
	}
	// A damaged header is the one fault that compacting repairs: the copy has two good ones.
	if err := found.problem(); err != nil && !found.isHeaderOnly() {
		return 0, 0, err
	}
	place := followLink(path)
	removeUnfinished(place, "")
	err = writeBeside(place, func(f *os.File) error {
		if err := compactInto(path, f.Name()); err != nil {
			return explainSystemError(path, err)
		}
		if err := upgradeCopy(ctx, path, f.Name()); err != nil {
			return err
		}
		return errors.Join(Verify(ctx, f.Name()), trim(f), copyRights(f, place))
	}, func(name string) error {
		var kept string
		info, err := os.Stat(name)
		if err == nil && found.isHeaderOnly() {
			kept, err = keepAs(place, place+".before-compact-"+now.UTC().Format(fileTimeFormat))
		}
		if err != nil {
			return err
		}
		after = info.Size()
		return errors.Join(os.Rename(name, place), writeMarker(path), keepLogs(path, kept))
	})
	return found.size, after, err
}

// trim cuts off the room behind the last page that is in use, and syncs the file. If it fails the file is of no use.
func trim(f *os.File) error {
	m, _, err := readMetas(f)
	return errors.Join(err, f.Truncate(int64(m.pages)*int64(m.pageSize)), f.Sync())
}

// compactInto copies the records of one file to another, which is empty.
func compactInto(from, to string) (err error) {
	defer catchFaults(from, &err)()
	src, err := openFile(from, true)
	if err != nil {
		return err
	}
	dst, err := openFile(to, false)
	if err != nil {
		return errors.Join(err, src.Close())
	}
	err = bbolt.Compact(dst, src, 16<<20) // in transactions of 16 MB, which bounds the memory
	return errors.Join(err, dst.Close(), src.Close())
}

// minWasted is from which size on a file is compacted when it is opened, if more than half of it is free.
const minWasted = 64 << 20

// isWasteful reports whether a file of some bytes is to be compacted.
func isWasteful(size, free int64) bool { return size > minWasted && free > size/2 }

// compaction is what came of compacting a store at its opening; the zero value: it was not compacted.
type compaction struct {
	before, after int64
	took          time.Duration
	err           error
}

// compactClosed compacts the file, and opens it again. If it cannot be compacted, as on a full disk, the bot goes on with
// the file as it is.
func (db *DB) compactClosed() error {
	if err := db.bolt.Close(); err != nil {
		return fmt.Errorf("compact store %s: %w", db.path, err)
	}
	c, began := &db.compacted, time.Now()
	c.before, c.after, c.err = Compact(context.Background(), db.path, db.now())
	c.took = time.Since(began)
	var err error
	db.bolt, db.mapped, err = openMapped(db.path, false)
	return err
}

// log logs a compaction, if there was one.
func (c compaction) log(log *slog.Logger) {
	switch {
	case c.err != nil:
		log.Warn("failed to compact the store at start; retrying at the next start", "error", c.err)
	case c.before > 0:
		log.Info("store compacted", "bytes_before", c.before, "bytes_after", c.after,
			"took", c.took.Round(time.Millisecond))
	}
}
