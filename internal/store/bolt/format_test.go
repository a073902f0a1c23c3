package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ravenbot/internal/store"
)

// Each door to a file refuses one of a later version, and says so: to that version's own records
// this one would say damage.
func TestFormat_OfALaterVersion_IsRefused(t *testing.T) {
	db := opened(t)
	if err := db.update(t.Context(), func(tx *tx) error {
		return tx.top(formatBucket).put([]byte(formatBucket), formatRecord{formatVersion + 1})
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.db")
	doors := map[string]func() error{
		"opening it as it was left": func() error { _, err := OpenRecords(db.path, time.Now); return err },
		"opening it after a check": func() error {
			if err := ForgetClosed(db.path); err != nil {
				return err
			}
			_, err := OpenRecords(db.path, time.Now)
			return err
		},
		"checking it":  func() error { _, err := Check(t.Context(), db.path); return err },
		"a backup":     func() error { return BackupFile(t.Context(), db.path, other) },
		"restoring it": func() error { _, err := Restore(t.Context(), db.path, other, time.Now()); return err },
		"compacting":   func() error { _, _, err := Compact(t.Context(), db.path, time.Now()); return err },
	}
	for _, name := range []string{"opening it as it was left", "opening it after a check", "checking it", "a backup",
		"restoring it", "compacting"} {
		var newer *store.NewerError
		if err := doors[name](); !errors.As(err, &newer) || newer.Format != formatVersion+1 ||
			!strings.Contains(err.Error(), "made by a newer ravenbot") {
			t.Errorf("%s gave %v", name, err)
		}
	}
}

func TestFormat_EachHasAMigrationAndAFixture(t *testing.T) {
	if len(migrations) != formatVersion-1 {
		t.Errorf("%d migrations lead to format %d", len(migrations), formatVersion)
	}
	for n := 1; n <= formatVersion; n++ {
		if _, err := os.Stat(filepath.Join("testdata", fmt.Sprintf("format%d.db.gz", n))); err != nil {
			t.Errorf("format %d has no file: %v", n, err)
		}
	}
}

// A full disk makes the store unhealthy until a write succeeds, which it tries by itself.
func TestHealth_AFailedWriteCountsUntilOneSucceeds(t *testing.T) {
	db := opened(t)
	for _, failure := range []error{syscall.ENOSPC, syscall.EIO} {
		db.health.noteWrite(explainSystemError(db.path, failure))
		if err := db.Health(); !errors.Is(err, failure) {
			t.Errorf("after a write that failed with %v the store says %v", failure, err)
		}
		if err := db.watch(t.Context()); err != nil {
			t.Error(err)
		}
		if err := db.Health(); err != nil {
			t.Errorf("after a write that succeeded the store says %v", err)
		}
	}
}

// What would be written to a file that is gone, or that is not the one at the path any more, is
// refused: it would be lost at the next start.
func TestWatch_NoticesThatTheFileIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(path string) error
		want   string
	}{
		"removed":  {os.Remove, "was removed or moved"},
		"moved":    {func(path string) error { return os.Rename(path, path+".old") }, "was removed or moved"},
		"replaced": {func(path string) error { return replaceByCopy(path) }, "was replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			db := opened(t)
			if err := db.watch(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.change(db.path); err != nil {
				t.Fatal(err)
			}
			if err := db.watch(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the watch says %v", err)
			}
			if err := db.Health(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the store says %v", err)
			}
			if err := db.SaveBlob(t.Context(), "lost", []byte(`1`)); err == nil {
				t.Error("a write was acknowledged")
			}
		})
	}
}

func replaceByCopy(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path+".copy", b, 0o600), os.Rename(path+".copy", path))
}

// A store whose format cannot be read is not taken for one of the newest.
func TestMigrate_FormatIsSpoiled_IsDamage(t *testing.T) {
	db := opened(t)
	if err := Spoil(db, formatBucket); err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	if err := db.migrate(t.Context(), ""); !errors.As(err, &damaged) {
		t.Errorf("%v", err)
	}
}

// A store of format 5 has all buckets, of which some may be empty, or hold more than one transaction moves.
func TestMigrate_Format5WithManyAndNoMessages_Ends(t *testing.T) {
	for _, messages := range []int{0, 3*maxMovedInOne/2 + 1} {
		db := opened(t)
		if err := db.update(t.Context(), func(tx *tx) error {
			ids := tx.top(messageIDsBucket)
			var err error
			for i := range messages {
				b, failed := ids.createNested(room(i / 100).String())
				err = errors.Join(err, failed, b.put([]byte(fmt.Sprint(i)), []byte("key")))
			}
			return errors.Join(err, tx.top(formatBucket).put([]byte(formatBucket), formatRecord{5}))
		}); err != nil {
			t.Fatal(err)
		}
		db = reopen(t, db)
		flat := 0
		if err := db.view(func(tx *tx) error {
			return tx.top(messageIDsBucket).each(func(_, v []byte) error {
				if v != nil {
					flat++
				}
				return nil
			})
		}); err != nil || flat != messages {
			t.Errorf("%d of %d ids were moved (%v)", flat, messages, err)
		}
	}
}
