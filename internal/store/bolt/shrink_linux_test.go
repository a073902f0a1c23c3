package bolt

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"ravenbot/internal/store"
)

func TestRemoveLarge_LeavesTheContentsToWhoeverElseHasThem(t *testing.T) {
	const size = 3*shrinkBy + 1
	for name, c := range map[string]struct {
		share func(t *testing.T, path string) *os.File // opens what is left; nil: nothing is
		want  int64
	}{
		"another name": {func(t *testing.T, path string) *os.File {
			if err := os.Link(path, path+".kept"); err != nil {
				t.Fatal(err)
			}
			return openForTest(t, path+".kept", os.O_RDONLY)
		}, size},
		"another reader":  {func(t *testing.T, path string) *os.File { return openForTest(t, path, os.O_RDONLY) }, size},
		"nobody, shrinks": {nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "large")
			if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
				t.Fatal(err)
			}
			var left *os.File
			if c.share != nil {
				left = c.share(t, path)
				if err := removeLarge(path); err != nil {
					t.Fatal(err)
				}
			} else {
				left = openForTest(t, path, os.O_WRONLY)
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				shrink(left, func() bool { return false })
			}
			if info, err := left.Stat(); err != nil || info.Size() != c.want {
				t.Errorf("%d bytes are left of %d, want %d (%v)", info.Size(), size, c.want, err)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the file has its name still (%v)", err)
			}
		})
	}
}

// TestOpenFile_ReplacedWhileItWaits_IsTurnedAway: a second process that waits for the lock of a file
// which is compacted must not get that of the old one.
func TestOpenFile_ReplacedWhileItWaits_IsTurnedAway(t *testing.T) {
	db := opened(t)
	fillWithSpace(t, db)
	opening := make(chan error, 1)
	atSteps(db, func(step string) error {
		if step != stepEqual {
			return nil
		}
		go func() {
			b, err := openFile(db.path, false)
			if err == nil {
				err = b.Close()
			}
			opening <- err
		}()
		for descriptorsOf(t, db.path) < 2 {
			runtime.Gosched()
		}
		return nil
	})
	if _, _, err := db.CompactOpen(t.Context()); err != nil {
		t.Fatal(err)
	}
	var inUse *store.InUseError
	if err := <-opening; !errors.As(err, &inUse) {
		t.Errorf("opening it gave %v", err)
	}
	checkWhole(t, db)
}

// descriptorsOf returns how many descriptors of a file this process has.
func descriptorsOf(t *testing.T, path string) int {
	t.Helper()
	list, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, fd := range list {
		if to, err := os.Readlink(fd); err == nil && to == path { // it may be closed meanwhile
			n++
		}
	}
	return n
}

// TestBackupFile_LeavesNoDescriptor: neither a backup nor a restore nor a salvage keeps a file open that it has read or
// written.
func TestBackupFile_LeavesNoDescriptor(t *testing.T) {
	db := opened(t)
	saveTurns(t, db, general, 0, 10, time.Now())
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "backup.db")
	if err := BackupFile(t.Context(), db.path, backup); err != nil {
		t.Fatal(err)
	}
	kept, err := Restore(t.Context(), backup, db.path, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	salvaged := filepath.Join(t.TempDir(), "salvaged.db")
	if _, err := Salvage(t.Context(), db.path, salvaged); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{db.path, backup, kept, salvaged} {
		if n := descriptorsOf(t, path); n != 0 {
			t.Errorf("%s is open %d times", path, n)
		}
	}
}

// A file that is removed is closed, too: else its room would stay in use.
func TestRemoveLarge_LeavesNoDescriptor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removeLarge(path); err != nil {
		t.Fatal(err)
	}
	if n := descriptorsOf(t, path+" (deleted)"); n != 0 {
		t.Errorf("it is open %d times", n)
	}
}

// The file that is looked at before each change is open once.
func TestOpenContents_Again_LeavesOneDescriptor(t *testing.T) {
	db := opened(t)
	want := descriptorsOf(t, db.path)
	if err := db.openContents(); err != nil {
		t.Fatal(err)
	}
	if n := descriptorsOf(t, db.path); n != want {
		t.Errorf("it is open %d times, and was %d times", n, want)
	}
}
