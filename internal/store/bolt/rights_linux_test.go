package bolt_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"ravenbot/internal/store/bolt"
)

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// TestCompactAndRestore_ByALink_ReplaceTheFileItself: the store may be on another disk than its path, and the user that
// the bot runs as another one than root, whose command this is.
func TestCompactAndRestore_ByALink_ReplaceTheFileItself(t *testing.T) {
	compact := func(path, _ string) error {
		_, _, err := bolt.Compact(t.Context(), path, day)
		return err
	}
	restore := func(path, copied string) error {
		_, err := bolt.Restore(t.Context(), copied, path, day)
		return err
	}
	for name, c := range map[string]struct {
		replace   func(path, copied string) error
		isMissing bool
	}{
		"compact":                   {replace: compact},
		"restore":                   {replace: restore},
		"restore of a missing file": {replace: restore, isMissing: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, copied := filepath.Join(dir, "raven.db"), filepath.Join(dir, "copy.db")
			if err := errors.Join(os.Mkdir(filepath.Join(dir, "disk"), 0o700), os.Symlink("disk/raven.db", path)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "disk", "raven.db")
			db := open(t, path)
			save(t, db, "a")
			if err := errors.Join(db.Backup(t.Context(), copied), db.Close(), os.Chmod(file, 0o640)); err != nil {
				t.Fatal(err)
			}
			owner := os.Getuid()
			if owner == 0 {
				owner = 65534
				if err := os.Chown(file, owner, owner); err != nil {
					t.Fatal(err)
				}
			}
			old := stat(t, file)
			if c.isMissing {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.replace(path, copied); err != nil {
				t.Fatal(err)
			}
			if got := holds(t, path, "a", "b"); got != "a" {
				t.Errorf("the store holds %q", got)
			}
			if _, err := os.Readlink(path); err != nil {
				t.Error("the link was replaced: ", err)
			}
			got := stat(t, file)
			if c.isMissing {
				return
			}
			if os.SameFile(got, old) {
				t.Error("the file was not replaced")
			}
			if uid := got.Sys().(*syscall.Stat_t).Uid; int(uid) != owner {
				t.Errorf("it belongs to %d, want %d", uid, owner)
			}
			if got.Mode().Perm() != 0o640 {
				t.Errorf("the mode is %v, want 0640", got.Mode())
			}
		})
	}
}
