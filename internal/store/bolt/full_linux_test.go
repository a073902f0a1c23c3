package bolt_test

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
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// smallDisk mounts a disk of its own, in bytes, for as long as the test runs.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("mode=0700,size=", size)); err != nil {
		t.Skip("skipped: a small disk cannot be mounted here: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// stuff fills a disk to its last byte.
func stuff(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for len(block) > 0 {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// writer takes messages in until it is told to stop, and remembers which were kept.
type writer struct {
	db     *bolt.TestStore
	n      int
	kept   []string
	failed []error
}

func (w *writer) write(t *testing.T) error {
	id := fmt.Sprint(w.n, "-", len(w.kept)+len(w.failed))
	m := chat.Message{ID: id, Conversation: room(w.n), Text: strings.Repeat("x", 20<<10), Time: day}
	_, err := w.db.Accept(t.Context(), store.Received{Message: m, At: day})
	if err != nil {
		w.failed = append(w.failed, err)
	} else {
		w.kept = append(w.kept, m.Key())
	}
	return err
}

// TestAFullDiskIsSurvived has writers write until the disk is full, makes room, and
// has them go on, all with the same open store.
func TestAFullDiskIsSurvived(t *testing.T) {
	dir := smallDisk(t, 32<<20)
	path, filler := filepath.Join(dir, "raven.db"), filepath.Join(dir, "filler")
	db := open(t, path)
	stuff(t, filler)
	if err := os.Truncate(filler, 29<<20); err != nil {
		t.Fatal(err)
	}
	writers := []*writer{{db: db}, {db: db, n: 1}, {db: db, n: 2}}
	together := func(do func(*writer)) {
		var wg sync.WaitGroup
		for _, w := range writers {
			wg.Go(func() { do(w) })
		}
		wg.Wait()
	}
	together(func(w *writer) {
		for len(w.failed) < 20 {
			if w.write(t) == nil {
				continue
			}
			if _, known, err := db.ConversationOf(t.Context(), w.kept[0]); err != nil || !known {
				t.Errorf("on a full disk a message was known %v (%v)", known, err)
				return
			}
		}
	})
	for _, w := range writers {
		for _, err := range w.failed {
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some") {
				t.Errorf("writing to a full disk gave %v", err)
			}
		}
	}
	if err := db.Health(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk the health of the store is %v", err)
	}
	if err := db.Backup(t.Context(), filepath.Join(dir, "copy.db")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a backup to a full disk gave %v", err)
	}
	if names := list(t, dir); !strings.HasPrefix(names, "filler raven.db raven.db.initialized") || strings.Contains(names, "copy") {
		t.Errorf("the disk holds %s", names)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	together(func(w *writer) {
		for range 50 {
			if err := w.write(t); err != nil {
				t.Errorf("writing with room again gave %v", err)
				return
			}
		}
	})
	if err := db.Health(); err != nil {
		t.Errorf("with room again the health of the store is %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, w := range writers {
		want = append(want, w.kept...)
	}
	waiting, err := open(t, path).Unanswered(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range waiting {
		got = append(got, r.Message.Key())
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages kept (-said +found):\n%s", diff)
	}
}

// onWrite is called whenever something is written.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// A disk that was full at the start is told of before anything is written, and leaves no file behind.
func TestRun_FullDisk_IsToldOfAtOnce(t *testing.T) {
	dir := smallDisk(t, 8<<20)
	filler := filepath.Join(dir, "filler")
	db := open(t, filepath.Join(dir, "raven.db"))
	stuff(t, filler)
	// The first line of the log ends Run.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db.Run(ctx, slog.New(slog.NewTextHandler(onWrite(cancel), nil)))
	if err := db.Health(); !errors.Is(err, syscall.ENOSPC) || db.Problem() == "" {
		t.Errorf("on a full disk the health of the store is %v", err)
	}
	if names := list(t, dir); names != "filler raven.db raven.db.initialized raven.db.log-0 raven.db.log-1" {
		t.Errorf("the disk holds %s", names)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := bolt.Watch(t.Context(), db); err != nil || db.Health() != nil {
		t.Errorf("with room again: %v, %v", err, db.Health())
	}
}

// What cannot be written is told as the system tells it.
func TestBackup_ToAFullDisk_SaysSo(t *testing.T) {
	dir := smallDisk(t, 1<<20)
	db := open(t, filepath.Join(t.TempDir(), "raven.db"))
	stuff(t, filepath.Join(dir, "filler"))
	if err := db.Backup(t.Context(), filepath.Join(dir, "copy.db")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	if names := list(t, dir); names != "filler" {
		t.Errorf("the disk holds %s", names)
	}
}
