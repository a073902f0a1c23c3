package bolt_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// A healthy store that the system keeps from working is not called damaged, and the error says what
// helps: a backup would not.
func TestOpen_WhatTheSystemForbids_IsNoDamage(t *testing.T) {
	for name, c := range map[string]struct {
		hinder func(t *testing.T, path string) string // returns the path to open
		code   syscall.Errno
		remedy string
	}{
		"a file system that is read-only": {func(t *testing.T, path string) string {
			dir := smallDisk(t, 32<<20)
			to := filepath.Join(dir, "raven.db")
			moveStore(t, path, to)
			if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
			return to
		}, syscall.EROFS, "mount it for writing"},
		"a folder in its place": {func(t *testing.T, path string) string {
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
				t.Fatal(err)
			}
			return path
		}, syscall.EISDIR, "name a file"},
		"a file for a folder": {func(_ *testing.T, path string) string {
			return filepath.Join(path, "raven.db")
		}, syscall.ENOTDIR, "correct store"},
		"no file descriptors": {func(t *testing.T, path string) string {
			t.Cleanup(limitFiles(t, 0))
			return path
		}, syscall.EMFILE, "LimitNOFILE"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "raven.db")
			fill(t, path)
			db, err := bolt.OpenRecords(c.hinder(t, path), time.Now)
			if err == nil {
				db.Close()
			}
			var damaged *store.DamagedError
			var system *store.SystemError
			if errors.As(err, &damaged) || !errors.As(err, &system) || !errors.Is(err, c.code) ||
				!strings.Contains(err.Error(), c.remedy) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func moveStore(t *testing.T, from, to string) {
	t.Helper()
	for _, ext := range []string{"", ".initialized"} {
		b, err := os.ReadFile(from + ext)
		if err == nil {
			err = os.WriteFile(to+ext, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestOpen_LittleAddressSpace_MapsLess opens and fills a store in a process that cannot map far ahead
// of its file.
func TestOpen_LittleAddressSpace_MapsLess(t *testing.T) {
	if path := os.Getenv("RAVENBOT_TEST_NARROW"); path != "" {
		db := open(t, path)
		save(t, db, "kept")
		return
	}
	path := filepath.Join(t.TempDir(), "raven.db")
	cmd := exec.Command("sh", "-c", `ulimit -v 3500000 && exec "$0" -test.run='^TestOpen_LittleAddressSpace_MapsLess$'`,
		os.Args[0])
	cmd.Env = append(os.Environ(), "RAVENBOT_TEST_NARROW="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := holds(t, path, "kept"); got != "kept" {
		t.Errorf("the store holds %q", got)
	}
}
