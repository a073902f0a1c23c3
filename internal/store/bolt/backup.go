package bolt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

// Backup copies the store to path, which must not exist yet: to a file beside it
// first, which is synced and read as a whole before it gets its name. Writers are
// not kept waiting for the disk of the copy longer than the copying takes.
func (db *DB) Backup(ctx context.Context, path string) error {
	err := createFile(path, func(f *os.File) error {
		if err := db.copyTo(ctx, f); err != nil {
			return explainFullDisk(path, err)
		}
		return Verify(ctx, f.Name())
	})
	if err != nil {
		return fmt.Errorf("back up store %s to %s: %w", db.path, path, err)
	}
	return nil
}

// BackupFile is Backup of the store at path that nobody has open; else it gives a
// *store.InUseError.
func BackupFile(ctx context.Context, path, to string) error {
	if err := requireStore(path); err != nil {
		return err
	}
	release, err := lock(path)
	if err != nil {
		return err
	}
	err = createFile(to, func(f *os.File) error { return copyFile(ctx, path, f) })
	if err = errors.Join(err, release()); err != nil {
		return fmt.Errorf("back up store %s to %s: %w", path, to, err)
	}
	return nil
}

// Receive writes a copy of a store that comes from elsewhere to path, which must not
// exist yet, once it was read as a whole.
func Receive(ctx context.Context, r io.Reader, path string) error {
	err := createFile(path, func(f *os.File) error {
		if _, err := io.Copy(contextWriter{ctx, f}, r); err != nil {
			return explainFullDisk(path, err)
		}
		return errors.Join(f.Sync(), Verify(ctx, f.Name()))
	})
	if err != nil {
		return fmt.Errorf("write the backup %s: %w", path, err)
	}
	return nil
}

func (db *DB) copyTo(ctx context.Context, f *os.File) (err error) {
	defer catchFaults(db.path, &err)()
	if err := db.bolt.View(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(contextWriter{ctx, f})
		return err
	}); err != nil {
		return cmp.Or(ctx.Err(), err) // bbolt tells of the first as text alone
	}
	return f.Sync()
}

// contextWriter is a writer until ctx ends.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c contextWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// createFile makes a file at path that is either whole or not there, and replaces none:
// fill writes a file of another name in the same folder, and syncs it.
func createFile(path string, fill func(*os.File) error) error {
	if _, err := os.Lstat(path); err == nil {
		return fs.ErrExist
	}
	return writeBeside(path, fill, func(name string) error {
		err := os.Link(name, path) // unlike a rename this replaces nothing
		if err == nil || errors.Is(err, fs.ErrExist) {
			return errors.Join(err, os.Remove(name))
		}
		return os.Rename(name, path) // a file system without hard links
	})
}

// writeBeside has fill write a temporary file in the folder of path, and take make it what
// it is to be; where either fails nothing is left.
func writeBeside(path string, fill func(*os.File) error, take func(name string) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	err = fill(f)
	if err = errors.Join(err, f.Close()); err == nil {
		err = take(f.Name())
	}
	if err != nil {
		_ = os.Remove(f.Name()) // or it is gone
		return err
	}
	return syncFolder(dir)
}

// syncFolder makes names in a folder safe on disk, where the system can do that.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = f.Sync() // not every file system knows it for folders
	return f.Close()
}

// Verify reads the whole of a copy of a store that nobody writes to, such as a
// backup. A *store.DamagedError says that it is not one, or not whole.
func Verify(ctx context.Context, path string) error {
	s, err := scanFile(ctx, path)
	if err != nil {
		return fmt.Errorf("check %s: %w", path, err)
	}
	if !s.hasInbox && len(s.faults) == 0 {
		s.addFault("it holds no records of ravenbot")
	}
	if len(s.faults) > 0 {
		return damagedError(path, s.describeFaults(), "take another copy")
	}
	return nil
}

// Restore puts a copy of a store in the place of the one at path, which may be
// damaged or missing and is kept under another name, which is returned. The copy is
// checked first and must not change meanwhile. A *store.InUseError says that
// somebody has the present store open.
func Restore(ctx context.Context, file, path string, now time.Time) (kept string, err error) {
	release, err := lock(path)
	if err != nil {
		return "", err
	}
	if err := refuseSameFile(file, path); err != nil {
		return "", errors.Join(err, release())
	}
	err = writeBeside(path, func(f *os.File) error {
		if err := copyFile(ctx, file, f); err != nil {
			return err
		}
		return finishCopy(ctx, f.Name())
	}, func(name string) (err error) {
		if kept, err = keepAs(path, path+".before-restore-"+now.UTC().Format(fileTimeFormat)); err != nil {
			return err
		}
		return errors.Join(os.Rename(name, path), writeMarker(path))
	})
	if err = errors.Join(err, release()); err != nil {
		return kept, fmt.Errorf("restore store %s from %s: %w", path, file, err)
	}
	return kept, nil
}

// fileTimeFormat is how instants are written in names of files, in UTC.
const fileTimeFormat = "20060102-150405"

// refuseSameFile refuses a file that is the store itself.
func refuseSameFile(file, path string) error {
	a, err := os.Stat(file)
	if err != nil {
		return err
	}
	if b, err := os.Stat(path); err == nil && os.SameFile(a, b) {
		return fmt.Errorf("%s is the store itself, not a copy of it", file)
	}
	return nil
}

// copyFile copies a store that nobody writes to, and that must be whole.
func copyFile(ctx context.Context, from string, to *os.File) error {
	if err := Verify(ctx, from); err != nil {
		return err
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(contextWriter{ctx, to}, f); err != nil {
		return explainFullDisk(to.Name(), err)
	}
	return to.Sync()
}

// keepAs gives the file at path another name beside its own, so that there is one at
// path at all times; "" says that there was none.
func keepAs(path, name string) (string, error) {
	base := name
	err := os.Link(path, name)
	for i := 2; errors.Is(err, fs.ErrExist) && i < 100; i++ { // one of the same second
		name = fmt.Sprint(base, "-", i)
		err = os.Link(path, name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = os.Rename(path, name) // a file system without hard links
	}
	return name, err
}

// finishCopy makes a new file, which nobody else knows of, a store of this version, and
// checks it.
func finishCopy(ctx context.Context, path string) error {
	found, err := scanFile(ctx, path)
	if err != nil {
		return err
	}
	b, err := openFile(path, false)
	if err != nil {
		return err
	}
	db := &DB{path: path, bolt: b}
	err = db.update(ctx, func(tx *tx) error {
		if !found.hasTallies() {
			return tx.createTallies(found)
		}
		return tx.loadTallies() // the tallies are written again, as of this transaction
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return Verify(ctx, path)
}

// Compact writes the store at path anew without the space that is free in it, and
// gives its size before and after, in bytes. It makes a store whole of which one
// header is damaged; that file is kept. A *store.InUseError says that somebody has
// the store open.
func Compact(ctx context.Context, path string, now time.Time) (before, after int64, err error) {
	if err := requireStore(path); err != nil {
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

func compact(ctx context.Context, path string, now time.Time) (before, after int64, err error) {
	s, err := scanFile(ctx, path)
	if err != nil {
		return 0, 0, err
	}
	if err := s.damageError(path); err != nil && !s.isHeaderOnly() {
		return 0, 0, err
	}
	err = writeBeside(path, func(f *os.File) error {
		if err := compactInto(path, f.Name()); err != nil {
			return explainFullDisk(path, err)
		}
		return finishCopy(ctx, f.Name())
	}, func(name string) error {
		info, err := os.Stat(name)
		if err == nil && s.isHeaderOnly() {
			_, err = keepAs(path, path+".before-compact-"+now.UTC().Format(fileTimeFormat))
		}
		if err != nil {
			return err
		}
		after = info.Size()
		return errors.Join(os.Rename(name, path), writeMarker(path))
	})
	return s.size, after, err
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
	dst.AllocSize = 1 << 20 // no more room at the end than that
	err = bbolt.Compact(dst, src, 16<<20)
	return errors.Join(err, dst.Close(), src.Close())
}
