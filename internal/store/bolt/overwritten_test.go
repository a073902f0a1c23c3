package bolt

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// What others do to the open file is reported, and neither reading, writing nor closing waits for ever.
func TestDB_OpenFileIsOverwritten_RefusesAndCloses(t *testing.T) {
	for name, overwrite := range map[string]func(t *testing.T, path string){
		"emptied": func(t *testing.T, path string) {
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
		},
		"cut": func(t *testing.T, path string) {
			if err := os.Truncate(path, 3*4096); err != nil {
				t.Fatal(err)
			}
		},
		"its pages are zeroed": func(t *testing.T, path string) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = f.Write(make([]byte, info.Size())); errors.Join(err, f.Close()) != nil {
				t.Fatal(err)
			}
		},
		"another store is copied onto it": func(t *testing.T, path string) {
			other := opened(t)
			saveBlob(t, other, "of the other", 10)
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(other.path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = f.Write(b); errors.Join(err, f.Close()) != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { playOverwritten(t, overwrite, false) })
		t.Run(name+" with a change that is not committed", func(t *testing.T) { playOverwritten(t, overwrite, true) })
	}
}

// playOverwritten has the file of a store overwritten, writes, reads and closes.
func playOverwritten(t *testing.T, overwrite func(t *testing.T, path string), isPending bool) {
	db := opened(t)
	db.flusher.Stop()
	saveBlob(t, db, "before", 10)
	if err := db.flush(); err != nil {
		t.Fatal(err)
	}
	if isPending {
		saveBlob(t, db, "pending", 10)
	}
	overwrite(t, db.path)
	after, err := os.ReadFile(db.path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		// What is read may be there still.
		for range 2 {
			_ = db.viewFile(func(*bbolt.Tx) error { return nil })
		}
		if err := db.SaveBlob(t.Context(), "after", []byte("x")); !errors.Is(err, errNoFile) {
			t.Errorf("writing gave %v", err)
		}
		if db.Problem() == "" {
			t.Error("the store is said to be well")
		}
		if err := db.watch(t.Context()); !errors.Is(err, errNoFile) {
			t.Errorf("the watch found %v", err)
		}
		done <- db.Close()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it does not close")
	}
	if now, err := os.ReadFile(db.path); err != nil || string(now) != string(after) {
		t.Errorf("what was put there was changed (%v)", err)
	}
	if _, err := os.Stat(stampPath(db.path)); err == nil {
		t.Error("the next start would not read the file")
	}
}

// The file may come back as it was.
func TestDB_OpenFileIsCutForAWhile_GoesOn(t *testing.T) {
	db := opened(t)
	saveBlob(t, db, "before", 10)
	if err := db.flush(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(db.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(db.path, 0); err != nil {
		t.Fatal(err)
	}
	if err := db.view(func(*tx) error { return nil }); !errors.Is(err, errNoFile) {
		t.Errorf("reading gave %v", err)
	}
	if err := os.WriteFile(db.path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := db.watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	saveBlob(t, db, "after", 10)
}

// Either header may be overwritten: both are compared.
func TestReadHeaders_AreBoth(t *testing.T) {
	db := opened(t)
	b := bytesOf(t, db.path)
	size := pageHeader + metaSize
	got, err := db.readHeaders(bytes.NewReader(b))
	if want := string(b[:size]) + string(b[os.Getpagesize():os.Getpagesize()+size]); err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
