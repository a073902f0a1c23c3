package bolt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// TestLogs_OfAnotherTimeThanTheFile opens copies for which the file and the logs were read at different times. The store
// holds all that is in the logs, or it is refused and the file is left as it was.
func TestLogs_OfAnotherTimeThanTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	db, err := bolt.OpenRecords(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	bolt.SetMaxLog(db, 20<<10)
	var files [][]byte
	var logs []logFiles
	var held [][]string
	for n := range 50 { // the pages of so small a store are soon used again
		if err := db.SaveItem(t.Context(), "test", fmt.Sprint(n%3), json.RawMessage(fmt.Sprint(n)), true); err != nil {
			t.Fatal(err)
		}
		files, logs, held = append(files, readFile(t, path)), append(logs, readLogs(t, path)), append(held, contents(t, db))
	}
	refused := 0
	for i := 0; i < len(files); i += 10 {
		for j := max(0, i-40); j < min(len(files), i+40); j += 7 {
			mixed := filepath.Join(dir, fmt.Sprintf("%d-%d.db", i, j))
			logs[j].write(t, mixed, files[i])
			copied, err := bolt.OpenRecords(mixed, time.Now)
			if damaged := (*store.DamagedError)(nil); errors.As(err, &damaged) {
				refused++
				if !bytes.Equal(files[i], readFile(t, mixed)) {
					t.Errorf("the file of change %d was changed by the logs of change %d", i, j)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(held[j], contents(t, copied)); diff != "" {
				t.Errorf("the file of change %d with the logs of change %d (-want +got):\n%s", i, j, diff)
			}
			if err := errors.Join(copied.Close(), os.Remove(mixed)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if refused == 0 {
		t.Error("no copy was refused")
	}
}

// TestClose_FileReplaced_LeavesNoLog replaces the file of an open store by a copy, which the next start uses as it is.
func TestClose_FileReplaced_LeavesNoLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := bolt.OpenRecords(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	copied := path + ".copy"
	err = db.Backup(t.Context(), copied)
	want := contents(t, db)
	err = errors.Join(err, db.SaveItem(t.Context(), "test", "later", json.RawMessage(`1`), true), os.Rename(copied, path))
	if err != nil {
		t.Fatal(err)
	}
	if bolt.Watch(t.Context(), db) == nil {
		t.Fatal("the other file was not noticed")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, reopened(t, path)); diff != "" {
		t.Errorf("the copy (-want +got):\n%s", diff)
	}
}
