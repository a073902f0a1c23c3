package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// fileOperation is one thing to do with the files in a folder: raven.db, which is a store, and copy.db, a copy of it.
// The first function does it, and may be called again where it fails; the second one ends what was opened before.
type fileOperation func(t *testing.T, dir string) (do func(context.Context) error, end func() error)

// closed returns an operation on a store that no process has open.
func closed(do func(ctx context.Context, dir, path string) error) fileOperation {
	return func(_ *testing.T, dir string) (func(context.Context) error, func() error) {
		return func(ctx context.Context) error { return do(ctx, dir, filepath.Join(dir, "raven.db")) },
			func() error { return nil }
	}
}

// opening returns an operation on an open store.
func opening(do func(ctx context.Context, dir string, db *bolt.TestStore) error) fileOperation {
	return func(t *testing.T, dir string) (func(context.Context) error, func() error) {
		db := open(t, filepath.Join(dir, "raven.db"))
		return func(ctx context.Context) error { return do(ctx, dir, db) }, db.Close
	}
}

// fileOperations are those that read or write whole files.
func fileOperations() map[string]fileOperation {
	return map[string]fileOperation{
		"Open": closed(func(_ context.Context, _, path string) error {
			db, err := bolt.OpenRecords(path, time.Now)
			if err != nil {
				return err
			}
			return db.Close()
		}),
		"OpenTarget": closed(func(ctx context.Context, dir, _ string) error {
			db, err := bolt.OpenTarget(ctx, filepath.Join(dir, "target.db"), time.Now)
			if err != nil {
				return err
			}
			return errors.Join(db.Complete(ctx), db.Close())
		}),
		"Check": closed(func(ctx context.Context, _, path string) error { _, err := bolt.Check(ctx, path); return err }),
		"Verify": closed(func(ctx context.Context, dir, _ string) error {
			return bolt.Verify(ctx, filepath.Join(dir, "copy.db"))
		}),
		"BackupFile": closed(func(ctx context.Context, dir, path string) error {
			return bolt.BackupFile(ctx, path, filepath.Join(dir, "made.db"))
		}),
		"Receive": func(t *testing.T, dir string) (func(context.Context) error, func() error) {
			whole := readFile(t, filepath.Join(dir, "copy.db"))
			return func(ctx context.Context) error {
				return bolt.Receive(ctx, bytes.NewReader(whole), filepath.Join(dir, "made.db"))
			}, func() error { return nil }
		},
		"Restore": closed(func(ctx context.Context, dir, path string) error {
			_, err := bolt.Restore(ctx, filepath.Join(dir, "copy.db"), path, day)
			return err
		}),
		"Compact": closed(func(ctx context.Context, _, path string) error {
			_, _, err := bolt.Compact(ctx, path, day)
			return err
		}),
		"Salvage": closed(func(ctx context.Context, dir, path string) error {
			_, err := bolt.Salvage(ctx, path, filepath.Join(dir, "made.db"))
			return err
		}),
		"Backup": opening(func(ctx context.Context, dir string, db *bolt.TestStore) error {
			return db.Backup(ctx, filepath.Join(dir, "made.db"))
		}),
		"Copy": opening(func(ctx context.Context, dir string, db *bolt.TestStore) error {
			o := bolt.BackupOptions{Folder: dir, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
			f, err := bolt.NewBackups(db.DB, o).Copy(ctx)
			if err != nil {
				return err
			}
			return f.Close()
		}),
		"CheckOpen": opening(func(ctx context.Context, _ string, db *bolt.TestStore) error {
			_, err := db.CheckOpen(ctx)
			return err
		}),
	}
}

// failEverywhere carries out each operation on files with a failure at its first place, its second, and so on, until
// it succeeds. One that fails returns the error, leaves nothing behind, and can be tried again; the store is whole.
// fail returns the context of the n-th try, and a function that ends the failure.
func failEverywhere(t *testing.T, want error, fail func(t *testing.T, n int) (context.Context, func())) {
	f := recordsIn(t, t.TempDir())
	whole := recordsAt(t, f.path)
	for name, prepare := range fileOperations() {
		t.Run(name, func(t *testing.T) {
			// The first failures are each in another place. Behind them are those within a file, of which some do.
			for n := 0; ; n += 1 + n/16 {
				dir := f.folder(t)
				do, end := prepare(t, dir)
				before := names(t, dir)
				ctx, restore := fail(t, n)
				err := do(ctx)
				restore()
				if err == nil && bolt.HasEnded(ctx) {
					t.Errorf("place %d: it was ended and says that it is done", n)
				}
				var damaged *store.DamagedError
				if err != nil && (!errors.Is(err, want) || errors.As(err, &damaged)) {
					t.Errorf("place %d: %v", n, err)
				}
				if added := cmp.Diff(before, names(t, dir)); err != nil && added != "" {
					t.Errorf("place %d: it failed and changed the folder (-before +after):\n%s", n, added)
				}
				if err != nil {
					if err := do(t.Context()); err != nil {
						t.Errorf("place %d: tried again it gave %v", n, err)
					}
				}
				if err := end(); err != nil {
					t.Errorf("place %d: ending it gave %v", n, err)
				}
				if diff := cmp.Diff(whole, recordsAt(t, filepath.Join(dir, "raven.db"))); diff != "" {
					t.Errorf("place %d: the store has changed:\n%s", n, diff)
				}
				if err == nil || t.Failed() {
					return
				}
			}
		})
	}
}

// folder returns a folder with a copy of the store, as it was closed, and another one, copy.db.
func (f fixture) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"raven.db", "raven.db.initialized", "copy.db"} {
		from := strings.Replace(name, "copy.db", "raven.db", 1)
		text := readFile(t, filepath.Join(filepath.Dir(f.path), from))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// names returns what is in a folder, without what remembers the state of a store, a store that is still to be filled,
// and the second name that an old store has while it is replaced.
func names(t *testing.T, dir string) []string {
	t.Helper()
	return slices.DeleteFunc(strings.Fields(list(t, dir)), func(name string) bool {
		return strings.HasPrefix(name, "target.db") ||
			strings.Contains(name, ".before-restore-")
	})
}

// recordsAt returns all records of a closed store.
func recordsAt(t *testing.T, path string) map[string]string {
	t.Helper()
	db, err := bolt.OpenRecords(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	records := bolt.RawRecords(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return records
}

// Whatever the place at which the system has no file descriptor left.
func TestFiles_NoDescriptorIsLeft_FailWholeAndCanBeTriedAgain(t *testing.T) {
	failEverywhere(t, syscall.EMFILE, func(t *testing.T, n int) (context.Context, func()) {
		return t.Context(), limitFiles(t, n)
	})
}

// Whatever the place at which the context ends.
func TestFiles_ContextEnds_FailWholeAndCanBeTriedAgain(t *testing.T) {
	failEverywhere(t, context.Canceled, func(t *testing.T, n int) (context.Context, func()) {
		return bolt.EndAfter(t.Context(), n), func() {}
	})
}

// Operations on records end where their context does, and have done all or nothing.
func TestDB_ContextEnds_OperationsFailWholeOrDoAll(t *testing.T) {
	f := recordsIn(t, t.TempDir())
	for name, do := range allOperations() {
		want, err := f.run(t, name, do, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for n := 0; ; n++ {
			ctx := bolt.EndAfter(t.Context(), n)
			got, err := f.run(t, name, func(_ context.Context, db *bolt.TestStore) (any, error) { return do(ctx, db) }, nil)
			if err == nil && bolt.HasEnded(ctx) {
				t.Errorf("%s: it was ended after %d looks at its context, and says that it is done", name, n)
			}
			if err == nil {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: after %d looks at its context it did something else (-want +got):\n%s", name, n, diff)
				}
				break
			}
			if !errors.Is(err, context.Canceled) || !inSteps[name] && len(got.changes(nil)) > 0 {
				t.Errorf("%s: after %d looks at its context it changed %q: %v", name, n, got.changes(nil), err)
			}
			if t.Failed() {
				break
			}
		}
	}
}

// limitFiles leaves the process n file descriptors until restore is called.
func limitFiles(t *testing.T, n int) (restore func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = 64
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	held := map[*os.File]bool{}
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		held[f] = true
	}
	for f := range held {
		if n > 0 {
			n--
			_ = f.Close() // opened for nothing
			delete(held, f)
		}
	}
	return func() {
		for f := range held {
			_ = f.Close()
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}
}
