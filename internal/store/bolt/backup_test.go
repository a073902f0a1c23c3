package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

func save(t *testing.T, db *bolt.TestStore, url string) {
	t.Helper()
	if err := db.SaveFeeds(t.Context(), store.Feed{URL: url, Data: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
}

// holds tells which of the feeds the store at path has.
func holds(t *testing.T, path string, urls ...string) string {
	t.Helper()
	db := open(t, path)
	defer db.Close()
	var has []string
	for _, url := range urls {
		_, found, err := db.LoadFeed(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if found {
			has = append(has, url)
		}
	}
	return strings.Join(has, " ")
}

func TestABackupIsWholeAndReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "raven.db"))
	save(t, db, "a")
	copied := filepath.Join(dir, "folder", "copy.db")
	if err := db.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	save(t, db, "b")
	if err := db.Backup(t.Context(), copied); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second backup to the same file gave %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Backup(cancelled, copied+"2"); !errors.Is(err, context.Canceled) {
		t.Errorf("a backup that nobody waits for gave %v", err)
	}
	if names := list(t, filepath.Dir(copied)); names != "copy.db" {
		t.Errorf("the folder holds %s", names)
	}
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy is %v (%v), want it closed to others", info.Mode(), err)
	}
	if got := holds(t, copied, "a", "b"); got != "a" {
		t.Errorf("the copy holds %q", got)
	}
}

func list(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestRestoreKeepsWhatItReplaces(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"a whole store":   func(string) error { return nil },
		"a damaged store": func(p string) error { return os.Truncate(p, 10000) },
		"a missing store": os.Remove,
		"no store": func(p string) error {
			return errors.Join(os.Remove(p), os.Remove(p+".initialized"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, copied := filepath.Join(dir, "raven.db"), filepath.Join(dir, "copy.db")
			db := open(t, path)
			save(t, db, "a")
			if err := errors.Join(db.Backup(t.Context(), copied), db.SaveFeeds(t.Context(), store.Feed{URL: "b"}), db.Close(),
				spoil(path)); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			kept, err := bolt.Restore(t.Context(), copied, path, day)
			if err != nil {
				t.Fatal(err)
			}
			if after, _ := os.ReadFile(kept); !bytes.Equal(before, after) || (kept == "") != (before == nil) {
				t.Errorf("kept %q with %d bytes of %d", kept, len(after), len(before))
			}
			if got := holds(t, path, "a", "b"); got != "a" {
				t.Errorf("the restored store holds %q", got)
			}
		})
	}
}

// What a restore that was killed has left takes the room of a whole store. The next one removes it, and nothing else.
func TestRestore_AfterOneThatWasKilled_RemovesItsFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "raven.db")
	db := open(t, path)
	save(t, db, "a")
	// Somebody may restore such a file, too, if it is whole.
	source, left := filepath.Join(dir, ".raven.db-17"), filepath.Join(dir, ".raven.db-4295967296")
	others := []string{source, filepath.Join(dir, ".raven.db-notes"), filepath.Join(dir, ".raven.db.stamp-1"),
		filepath.Join(dir, "raven.db-1")}
	if err := errors.Join(db.Backup(t.Context(), source), db.Close(), os.WriteFile(left, []byte("half"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, other := range others[1:] {
		if err := os.WriteFile(other, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bolt.Restore(t.Context(), source, path, day); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of the restore that was killed: %v", err)
	}
	for _, other := range others {
		if _, err := os.Stat(other); err != nil {
			t.Errorf("another file: %v", err)
		}
	}
	if got := holds(t, path, "a"); got != "a" {
		t.Errorf("the restored store holds %q", got)
	}
}

// So does compacting.
func TestCompact_AfterOneThatWasKilled_RemovesItsFile(t *testing.T) {
	dir := t.TempDir()
	path, left := filepath.Join(dir, "raven.db"), filepath.Join(dir, ".raven.db-4295967296")
	if err := errors.Join(open(t, path).Close(), os.WriteFile(left, []byte("half"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := bolt.Compact(t.Context(), path, day); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of the one that was killed: %v", err)
	}
}

// Nothing is copied from under a process that has the store open, nor written over it.
func TestStoreInUse_OfflineOperations_AreRefused(t *testing.T) {
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "raven.db"), filepath.Join(dir, "copy.db")
	db := open(t, path)
	if err := db.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	before := list(t, dir)
	var wg sync.WaitGroup // each of them waits for the store
	for name, do := range map[string]func() error{
		"backing up": func() error { return bolt.BackupFile(t.Context(), path, filepath.Join(dir, "other.db")) },
		"checking":   func() error { _, err := bolt.Check(t.Context(), path); return err },
		"compacting": func() error { _, _, err := bolt.Compact(t.Context(), path, day); return err },
		"restoring":  func() error { _, err := bolt.Restore(t.Context(), copied, path, day); return err },
	} {
		wg.Go(func() {
			var inUse *store.InUseError
			if err := do(); !errors.As(err, &inUse) {
				t.Errorf("%s gave %v", name, err)
			}
		})
	}
	wg.Wait()
	if after := list(t, dir); after != before {
		t.Errorf("the folder holds %s, and held %s", after, before)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestRestoreRefuses(t *testing.T) {
	dir := t.TempDir()
	path, copied, broken := filepath.Join(dir, "raven.db"), filepath.Join(dir, "copy.db"), filepath.Join(dir, "broken.db")
	db := open(t, path)
	save(t, db, "a")
	if err := errors.Join(db.Backup(t.Context(), copied), db.Backup(t.Context(), broken),
		os.Truncate(broken, 9000)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before := list(t, dir)
	var damaged *store.DamagedError
	if _, err := bolt.Restore(t.Context(), broken, path, day); !errors.As(err, &damaged) || damaged.Path != broken {
		t.Errorf("restoring a damaged copy gave %v", err)
	}
	if _, err := bolt.Restore(t.Context(), path, path, day); err == nil ||
		!strings.Contains(err.Error(), "the store itself") {
		t.Errorf("restoring the store from itself gave %v", err)
	}
	if _, err := bolt.Restore(t.Context(), filepath.Join(dir, "nothing.db"), path, day); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("restoring from nothing gave %v", err)
	}
	if after := list(t, dir); after != before {
		t.Errorf("the folder holds %s, and held %s", after, before)
	}
}

func TestCompactGivesSpaceBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raven.db")
	fill(t, path)
	db := open(t, path)
	for i := range 100 { // enough that the few pages bbolt keeps free do not count
		save(t, db, fmt.Sprint(i))
	}
	if err := db.DeleteRoom(t.Context(), "general"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before, after, err := bolt.Compact(t.Context(), path, day)
	if err != nil || after >= before/2 {
		t.Errorf("it has %d bytes of %d (%v)", after, before, err)
	}
	if names := list(t, filepath.Dir(path)); names != "raven.db raven.db.initialized" {
		t.Errorf("the folder holds %s", names)
	}
	if got := holds(t, path, "0", "99", "100"); got != "0 99" {
		t.Errorf("the compacted store holds %q", got)
	}
	r, err := bolt.Check(t.Context(), path)
	if err != nil || r.Bytes != after || r.Free > after/2 || len(r.Damage) > 0 {
		t.Errorf("the report is %+v (%v)", r, err)
	}
}

func TestCompactMendsAHeader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raven.db")
	fill(t, path)
	if err := overwrite(path, 4096+40, []byte{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	if _, err := bolt.OpenRecords(path, time.Now); !errors.As(err, &damaged) ||
		!strings.Contains(damaged.Remedy, "ravenbot store compact") {
		t.Fatalf("opening gave %v, want a DamagedError that names the way back", err)
	}
	if _, _, err := bolt.Compact(t.Context(), path, day); err != nil {
		t.Fatal(err)
	}
	entries, err := open(t, path).Entries(t.Context(), "general", 0, 1000)
	if err != nil || len(entries) < 199 {
		t.Errorf("%d entries are left (%v)", len(entries), err)
	}
	if names := list(t, filepath.Dir(path)); !strings.Contains(names, "raven.db.before-compact-20260506-120000") {
		t.Errorf("the folder holds %s", names)
	}
}

func TestCheckTellsWhatTheStoreHolds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raven.db")
	if _, err := bolt.Check(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("checking nothing gave %v", err)
	}
	fill(t, path)
	r, err := bolt.Check(t.Context(), path)
	if err != nil || r.Bytes == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, c := range r.Items {
		want := map[string]bolt.Count{"rooms": {Name: "rooms", Records: 200, Parts: 1},
			"entries": {Name: "entries", Records: 200, Parts: 1},
			"format":  {Name: "format", Records: 2}}[c.Name]
		if want.Name = c.Name; c != want {
			t.Errorf("%+v, want %+v", c, want)
		}
	}
	if err := flipValue(path); err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	if r, err = bolt.Check(t.Context(), path); !errors.As(err, &damaged) || len(r.Damage) < 10 || len(r.Items) < 10 {
		t.Errorf("of a damaged store: %+v, %v", r, err)
	}
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestBackupsAreMadeAndRotated(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "raven.db"))
	save(t, db, "a")
	folder := filepath.Join(dir, "backups")
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // the first try fails by this
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		b := bolt.NewBackups(db.DB, bolt.BackupOptions{Folder: folder, Every: 24 * time.Hour, Keep: 2,
			Log: slog.New(slog.NewTextHandler(log, nil)), Now: time.Now})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { b.Run(ctx); close(ended) }()
		later := func(d time.Duration) store.BackupStatus {
			time.Sleep(d)
			synctest.Wait()
			return b.Status()
		}
		if s := later(59 * time.Second); s.Error != "" || s.File != "" {
			t.Errorf("before the first is due: %+v", s)
		}
		if s := later(2 * time.Second); s.Error == "" || s.Failed.IsZero() || !strings.Contains(log.String(), "remedy=") {
			t.Errorf("after a failure: %+v\n%s", s, log)
		}
		if err := os.Remove(folder); err != nil {
			t.Error(err)
		}
		s := later(time.Hour)
		if s.Error != "" || s.File != "ravenbot-20000101-010100.db" || s.Bytes == 0 {
			t.Errorf("after the second try: %+v", s)
		}
		stranger := filepath.Join(folder, "ravenbot-holiday.db")
		if err := os.WriteFile(stranger, nil, 0o600); err != nil {
			t.Error(err)
		}
		later(72 * time.Hour)
		if names := list(t, folder); names != "ravenbot-20000103-010100.db ravenbot-20000104-010100.db ravenbot-holiday.db" {
			t.Errorf("kept: %s", names)
		}
		cancel()
		<-ended
		// A bot that starts soon after waits for the rest of the day.
		ctx, cancel = context.WithCancel(t.Context())
		ended = make(chan struct{})
		go func() { b.Run(ctx); close(ended) }()
		if s := later(22 * time.Hour); s.File != "ravenbot-20000104-010100.db" {
			t.Errorf("a bot started again has made %s", s.File)
		}
		if s := later(3 * time.Hour); s.File != "ravenbot-20000105-010100.db" {
			t.Errorf("a day after the last: %s", s.File)
		}
		cancel()
		<-ended
	})
}

// Backups are named to the second. Of two that are asked for at once the second one waits for its own.
func TestBackups_TwoInOneSecond_BothAreMade(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "raven.db"))
	save(t, db, "a")
	folder := filepath.Join(dir, "backups")
	synctest.Test(t, func(t *testing.T) {
		b := bolt.NewBackups(db.DB, bolt.BackupOptions{Folder: folder, Keep: 9, Log: slog.New(slog.DiscardHandler), Now: time.Now})
		for range 3 {
			if err := b.Make(t.Context()); err != nil {
				t.Error(err)
			}
		}
		want := "ravenbot-20000101-000000.db ravenbot-20000101-000001.db ravenbot-20000101-000002.db"
		if names := list(t, folder); names != want || b.Status().Error != "" {
			t.Errorf("made: %s, %+v", names, b.Status())
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.Make(over); !errors.Is(err, context.Canceled) || b.Status().Error != "" {
			t.Errorf("at the end of the program: %v, %+v", err, b.Status())
		}
	})
}

// A backup that somebody asked for and that failed is tried again within an hour, and its error is gone then.
func TestBackups_OneByHandFails_IsTriedAgainInAnHour(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "raven.db"))
	save(t, db, "a")
	folder := filepath.Join(dir, "backups")
	synctest.Test(t, func(t *testing.T) {
		b := bolt.NewBackups(db.DB, bolt.BackupOptions{Folder: folder, Every: 24 * time.Hour, Keep: 2,
			Log: slog.New(slog.DiscardHandler), Now: time.Now})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { b.Run(ctx); close(ended) }()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if err := errors.Join(os.RemoveAll(folder), os.WriteFile(folder, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := b.Make(ctx); err == nil || b.Status().Error == "" {
			t.Errorf("a file in place of the folder: %v, %+v", err, b.Status())
		}
		if err := os.Remove(folder); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour + time.Minute)
		synctest.Wait()
		if s := b.Status(); s.Error != "" || s.File != "ravenbot-20000101-010200.db" {
			t.Errorf("an hour later: %+v", s)
		}
		cancel()
		<-ended
	})
}

// Backups with names from the future were made while the clock was ahead, or it is behind now. A new backup stays, and
// counts as the newest.
func TestBackups_NamesFromTheFuture_GiveWayToNewBackups(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "raven.db"))
	save(t, db, "a")
	folder := filepath.Join(dir, "backups")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ravenbot-20360101-000000.db", "ravenbot-20360102-000000.db"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		b := bolt.NewBackups(db.DB, bolt.BackupOptions{Folder: folder, Every: 24 * time.Hour, Keep: 2,
			Log: slog.New(slog.DiscardHandler), Now: time.Now})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { b.Run(ctx); close(ended) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if names := list(t, folder); names != "ravenbot-20000101-000100.db ravenbot-20360102-000000.db" {
			t.Errorf("after the first backup: %s", names)
		}
		if s := b.Status(); s.File != "ravenbot-20000101-000100.db" {
			t.Errorf("the newest is %s", s.File)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if names := list(t, folder); names != "ravenbot-20000101-000100.db ravenbot-20000102-000100.db" {
			t.Errorf("after the second backup: %s", names)
		}
		cancel()
		<-ended
	})
}

func TestADamagedStoreNamesTheNewestGoodBackup(t *testing.T) {
	dir := t.TempDir()
	path, folder := filepath.Join(dir, "raven.db"), filepath.Join(dir, "backups")
	db := open(t, path)
	for _, name := range []string{"ravenbot-20260101-000000.db", "ravenbot-20260102-000000.db",
		"ravenbot-20260103-000000.db"} {
		if err := db.Backup(t.Context(), filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(db.Close(), os.Truncate(path, 8000),
		os.Truncate(filepath.Join(folder, "ravenbot-20260103-000000.db"), 8000)); err != nil {
		t.Fatal(err)
	}
	_, err := bolt.OpenRecords(path, time.Now)
	want := "ravenbot restore " + filepath.Join(folder, "ravenbot-20260102-000000.db")
	if got := bolt.SuggestBackup(t.Context(), folder, err).Error(); !strings.Contains(got, want) {
		t.Errorf("%s\nwant in it %s", got, want)
	}
	if got := bolt.SuggestBackup(t.Context(), dir, err); got != err {
		t.Errorf("without backups: %v", got)
	}
}
