package bolt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/conversation"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
)

// saveBlob saves a record of some bytes.
func saveBlob(t *testing.T, db *DB, key string, size int) {
	t.Helper()
	if err := db.SaveBlob(t.Context(), key, slices.Concat([]byte{'"'}, repeatX(size), []byte{'"'})); err != nil {
		t.Fatal(err)
	}
}

// killedStore is a store that was killed with changes in the log alone, and what it held.
func killedStore(t *testing.T) (path string, held []string) {
	t.Helper()
	db, same := opened(t), opened(t)
	CommitOnlyWhenFull(db)
	for _, db := range []*DB{db, same} {
		saveBlob(t, db, "committed", 10)
		flush(t, db)
		saveBlob(t, db, "in the log", 100)
		saveBlob(t, db, "committed", 20)
	}
	held = dump(t, same)
	if err := db.leave(); err != nil {
		t.Fatal(err)
	}
	return db.path, held
}

// Whatever was changed, and however it is opened again.
func TestWAL_AfterAKill_EverythingIsThere(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	db, same := openAt(t, clock), openAt(t, clock)
	CommitOnlyWhenFull(db)
	for n := range 6 {
		for _, db := range []*DB{db, same} {
			changeEverything(t, db, n)
			saveTurns(t, db, general, 300_000+n, 300_002+n, now)
			saveBlob(t, db, fmt.Sprint("blob ", n), 100)
			if err := db.DeleteTurn(t.Context(), general, 1); err != nil {
				t.Fatal(err)
			}
		}
		want := dump(t, same)
		if !db.uncommitted.Load() {
			t.Fatal("nothing is in the log alone")
		}
		if err := db.leave(); err != nil {
			t.Fatal(err)
		}
		db = reopenAt(t, db.path, clock)
		CommitOnlyWhenFull(db)
		if diff := cmp.Diff(want, dump(t, db)); diff != "" {
			t.Fatal(diff)
		}
	}
	checkWhole(t, db)
}

// What a store that was killed goes on to write to its log is not for a copy that was made meanwhile.
func TestBackupFile_OfAKilledStore_LogIsNotForTheCopy(t *testing.T) {
	path, _ := killedStore(t)
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := BackupFile(t.Context(), path, to); err != nil {
		t.Fatal(err)
	}
	for of, want := range map[string]int{path: 2, to: 0} {
		b, err := openFile(of, true)
		if err != nil {
			t.Fatal(err)
		}
		db := newDB(of, b, time.Now)
		var generation uint64
		err = errors.Join(db.view(func(tx *tx) (err error) {
			generation, err = tx.generation()
			return err
		}), b.Close())
		entries, readErr := readWAL(path, generation)
		if err := errors.Join(err, readErr); err != nil || len(entries) != want {
			t.Errorf("%s takes %d entries of the log, %v", filepath.Base(of), len(entries), err)
		}
	}
}

// A store is not put aside without what its log holds.
func TestKeepWAL_LogCannotBeMoved_IsAnError(t *testing.T) {
	path, _ := killedStore(t)
	kept := filepath.Join(t.TempDir(), "kept.db")
	if err := os.Mkdir(walPath(kept), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := keepWAL(path, kept); err == nil {
		t.Error("no error")
	}
}

// A message that many turns quote has a long list of them: the log gets what is added to it, and a kill loses none of it.
func TestWAL_ALongList_IsNotWrittenAnew(t *testing.T) {
	db := opened(t)
	CommitOnlyWhenFull(db)
	const turns = 200
	for n := range turns {
		before := db.wal.at
		turn := &conversation.Turn{ID: fmt.Sprint(n), Of: []string{fmt.Sprint("web/", n)}, Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{{Text: "hello", Subject: "web/quoted by all"}}}}}
		if err := db.SaveTurn(t.Context(), general, turn); err != nil {
			t.Fatal(err)
		}
		if size := db.wal.at - before; size > walBlock {
			t.Fatalf("turn %d took %d bytes of the log", n, size)
		}
	}
	if err := db.leave(); err != nil {
		t.Fatal(err)
	}
	db = reopenAt(t, db.path, time.Now)
	list, err := db.TurnsQuoting(t.Context(), "web/quoted by all")
	if err != nil || len(list) != turns || len(slices.Compact(list)) != turns {
		t.Errorf("%d turns, %v", len(list), err)
	}
	checkWhole(t, db)
}

// What is copied or mended offline has what the log holds.
func TestWAL_OfflineOperations_TakeItAlong(t *testing.T) {
	other := func(t *testing.T) string { return filepath.Join(t.TempDir(), "other.db") }
	for name, do := range map[string]func(t *testing.T, path string) (string, error){
		"backup": func(t *testing.T, path string) (string, error) {
			to := other(t)
			return to, BackupFile(t.Context(), path, to)
		},
		"compact": func(t *testing.T, path string) (string, error) {
			_, _, err := Compact(t.Context(), path, time.Now())
			if _, statErr := os.Stat(walPath(path)); err == nil && statErr == nil {
				t.Error("the log is still there")
			}
			return path, err
		},
		"salvage": func(t *testing.T, path string) (string, error) {
			to := other(t)
			r, err := Salvage(t.Context(), path, to)
			if len(r.Faults) > 0 {
				t.Errorf("%+v", r)
			}
			return to, err
		},
		"restore keeps what it replaces": func(t *testing.T, path string) (string, error) {
			empty := opened(t)
			if err := empty.Close(); err != nil {
				t.Fatal(err)
			}
			return Restore(t.Context(), empty.path, path, time.Now())
		},
		"restore takes a copy with its log": func(t *testing.T, path string) (string, error) {
			to := other(t)
			_, err := Restore(t.Context(), path, to, time.Now())
			return to, err
		},
		"check": func(t *testing.T, path string) (string, error) {
			r, err := Check(t.Context(), path)
			if r.Logged != 2 {
				t.Errorf("%+v", r)
			}
			return path, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, want := killedStore(t)
			got, err := do(t, path)
			if err != nil {
				t.Fatal(err)
			}
			db := reopenAt(t, got, time.Now)
			if diff := cmp.Diff(want, dump(t, db)); diff != "" {
				t.Error(diff)
			}
			checkWhole(t, db)
		})
	}
}

// A file that is put in the place of the store gets nothing of a log that belongs to another state.
func TestWAL_OfAnotherFile_IsIgnored(t *testing.T) {
	db := opened(t)
	CommitOnlyWhenFull(db)
	saveBlob(t, db, "before", 10)
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := db.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	want := dump(t, db)
	saveBlob(t, db, "later", 10)
	saveBlob(t, db, "later still", 10)
	if err := db.leave(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(copied, db.path); err != nil {
		t.Fatal(err)
	}
	restored := reopenAt(t, db.path, time.Now)
	if diff := cmp.Diff(want, dump(t, restored)); diff != "" {
		t.Error(diff)
	}
}

// An entry that was cut off was never said to be safe. One before others was: that it is gone must not pass unnoticed.
func TestReadWAL_DamagedEntry(t *testing.T) {
	for name, c := range map[string]struct {
		entry     int
		isDamaged bool
	}{
		"the last":  {entry: 2},
		"the first": {entry: 0, isDamaged: true},
		"between":   {entry: 1, isDamaged: true},
	} {
		db := opened(t)
		CommitOnlyWhenFull(db)
		flush(t, db)
		for n := range 3 {
			saveBlob(t, db, fmt.Sprint("blob ", n), 10)
		}
		if err := db.leave(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(walPath(db.path))
		if err != nil || len(b) != 3*walBlock {
			t.Fatalf("the log has %d bytes (%v)", len(b), err)
		}
		b[c.entry*walBlock+walHeader] ^= 1
		if err := os.WriteFile(walPath(db.path), b, 0o600); err != nil {
			t.Fatal(err)
		}
		var damaged *store.DamagedError
		_, checked := Check(t.Context(), db.path)
		opened, err := Open(db.path, time.Now)
		if errors.As(err, &damaged) != c.isDamaged || errors.As(checked, &damaged) != c.isDamaged {
			t.Errorf("%s: opening gave %v, the check %v", name, err, checked)
		}
		if c.isDamaged && (damaged.Path != walPath(db.path) || !strings.Contains(damaged.Remedy, "without the last changes")) {
			t.Errorf("%s: %v", name, damaged)
		}
		if err != nil {
			continue
		}
		if v, err := opened.LoadBlob(t.Context(), "blob 1"); err != nil || v == nil {
			t.Errorf("%s: the entry before is %q (%v)", name, v, err)
		}
		if v, err := opened.LoadBlob(t.Context(), "blob 2"); err != nil || v != nil {
			t.Errorf("%s: the entry that was cut off is %q (%v)", name, v, err)
		}
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What does not fit is committed, and so is what the log cannot take.
func TestSave_CommitsWhatTheLogCannotTake(t *testing.T) {
	for name, prepare := range map[string]func(db *DB) int{
		"it is full":        func(db *DB) int { db.wal.at = walSize - walBlock; return walBlock },
		"it is too large":   func(*DB) int { return walSize },
		"it cannot be used": func(db *DB) int { _ = db.wal.f.Close(); return 10 },
	} {
		db := opened(t)
		CommitOnlyWhenFull(db)
		flush(t, db)
		saveBlob(t, db, "before", 10)
		before, err := db.header()
		if err != nil {
			t.Fatal(err)
		}
		saveBlob(t, db, "large", prepare(db))
		after, err := db.header()
		if err != nil || after.txid != before.txid+1 || db.uncommitted.Load() {
			t.Errorf("%s: commit %d after %d (%v)", name, after.txid, before.txid, err)
		}
		if err := db.leave(); err != nil {
			t.Fatal(err)
		}
		if got := reopenAt(t, db.path, time.Now); !hasBlobs(t, got, "before", "large") {
			t.Errorf("%s: something is lost", name)
		}
	}
}

func hasBlobs(t *testing.T, db *DB, keys ...string) bool {
	t.Helper()
	for _, key := range keys {
		if v, err := db.LoadBlob(t.Context(), key); err != nil || v == nil {
			t.Logf("%s: %q (%v)", key, v, err)
			return false
		}
	}
	return true
}

// Neither a commit that fails nor a change that is rolled back takes along what was said to be safe.
func TestRollBack_KeepsWhatTheLogHolds(t *testing.T) {
	db := opened(t)
	CommitOnlyWhenFull(db)
	flush(t, db)
	saveBlob(t, db, "kept", 10)
	errRefused := errors.New("refused")
	if err := db.update(t.Context(), func(tx *tx) error {
		return errors.Join(tx.top(blobsBucket).put([]byte("refused"), 1), errRefused)
	}); !errors.Is(err, errRefused) {
		t.Fatal(err)
	}
	db.observe = func(tx *tx) {
		tx.atOnce = true
		if err := tx.bolt.Bucket([]byte(talliesBucket)).Put([]byte(headKey), seal([]byte("no tally"))); err != nil {
			t.Error(err)
		}
	}
	if err := db.SaveBlob(t.Context(), "failed", []byte(`1`)); err == nil {
		t.Error("a commit that was to fail did not")
	}
	db.observe = nil
	if !hasBlobs(t, db, "kept") || hasBlobs(t, db, "refused") || hasBlobs(t, db, "failed") {
		t.Error("the store does not hold what was safe")
	}
	saveBlob(t, db, "later", 10)
	want := dump(t, db)
	if err := db.leave(); err != nil {
		t.Fatal(err)
	}
	db = reopenAt(t, db.path, time.Now)
	if diff := cmp.Diff(want, dump(t, db)); diff != "" || !hasBlobs(t, db, "kept", "later") {
		t.Error(diff)
	}
	checkWhole(t, db)
}

// What the log holds is never missing in silence: while it cannot be made again, nothing is read, written or copied.
func TestFlush_LogCannotBeMadeAgain_IsAnError(t *testing.T) {
	db := opened(t)
	CommitOnlyWhenFull(db)
	flush(t, db)
	if err := db.SaveItem(t.Context(), "kind", "name", []byte(`1`), true); err != nil {
		t.Fatal(err)
	}
	// After a change that fails, what was said to be safe is in the log alone.
	errRefused := errors.New("refused")
	if err := db.update(t.Context(), func(tx *tx) error {
		return errors.Join(tx.top(blobsBucket).put([]byte("refused"), 1), errRefused)
	}); !errors.Is(err, errRefused) {
		t.Fatal(err)
	}
	if err := os.Truncate(walPath(db.path), 0); err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	if items, err := db.Items(t.Context(), "kind"); !errors.As(err, &damaged) {
		t.Errorf("reading gave %v (%v)", items, err)
	}
	if err := db.Backup(t.Context(), filepath.Join(t.TempDir(), "backup.db")); !errors.As(err, &damaged) {
		t.Errorf("a backup gave %v", err)
	}
	if err := db.SaveItem(t.Context(), "kind", "another name", []byte(`1`), true); !errors.As(err, &damaged) {
		t.Errorf("writing gave %v", err)
	}
	if err := db.flush(); !errors.As(err, &damaged) {
		t.Errorf("committing gave %v", err)
	}
}

// A commit that failed and is in the file all the same may not be on the disk. It is made once more before the log is
// used again.
func TestFlush_CommitThatFailedIsInTheFile_IsMadeOnceMore(t *testing.T) {
	db := opened(t)
	CommitOnlyWhenFull(db)
	saveBlob(t, db, "kept", 10)
	flush(t, db)
	saveBlob(t, db, "void", 10)
	// As it is after such a commit: there is no transaction, and the log belongs to the commit before.
	db.access.Lock()
	db.rollBack()
	db.wal.generation++
	db.access.Unlock()
	before, err := db.header()
	if err != nil {
		t.Fatal(err)
	}
	if !hasBlobs(t, db, "kept") || hasBlobs(t, db, "void") {
		t.Error("the store does not hold what is in its file")
	}
	flush(t, db)
	if after, err := db.header(); err != nil || after.txid != before.txid+1 || db.uncommitted.Load() {
		t.Errorf("commit %d after %d (%v)", after.txid, before.txid, err)
	}
	saveBlob(t, db, "later", 10)
	if err := db.leave(); err != nil {
		t.Fatal(err)
	}
	if again := reopenAt(t, db.path, time.Now); !hasBlobs(t, again, "kept", "later") {
		t.Error("something is lost")
	}
}

// A log that somebody removes is made anew, and what it held is committed.
func TestCheckFile_LogIsRemoved_IsMadeAnew(t *testing.T) {
	db := opened(t)
	CommitOnlyWhenFull(db)
	flush(t, db)
	saveBlob(t, db, "before", 10)
	if err := os.Remove(walPath(db.path)); err != nil {
		t.Fatal(err)
	}
	if err := db.checkFile(); err != nil {
		t.Fatal(err)
	}
	saveBlob(t, db, "first", 10)
	saveBlob(t, db, "second", 10)
	if !db.uncommitted.Load() {
		t.Error("the log is not used")
	}
	if err := db.leave(); err != nil {
		t.Fatal(err)
	}
	if db = reopenAt(t, db.path, time.Now); !hasBlobs(t, db, "before", "first", "second") {
		t.Error("something is lost")
	}
}

// What cannot be committed is kept, and is said.
func TestCheckFile_LogCannotBeMadeAnew_IsSaid(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, db *DB){
		"the file may not be written": func(_ *testing.T, db *DB) { db.health.noteDamage(nil, errStop) },
		"a folder is in its place": func(t *testing.T, db *DB) {
			if err := os.Mkdir(walPath(db.path), 0o700); err != nil {
				t.Fatal(err)
			}
		},
	} {
		db := opened(t)
		CommitOnlyWhenFull(db)
		flush(t, db)
		saveBlob(t, db, "before", 10)
		if err := os.Remove(walPath(db.path)); err != nil {
			t.Fatal(err)
		}
		spoil(t, db)
		if err := db.checkFile(); err == nil || !errors.Is(db.Health(), err) {
			t.Errorf("%s: the error is %v, the health %v", name, err, db.Health())
		}
		if !hasBlobs(t, db, "before") {
			t.Errorf("%s: something is lost", name)
		}
	}
}

// A log is there while a store is open, and after a kill.
func TestClose_RemovesTheLog(t *testing.T) {
	db := opened(t)
	saveBlob(t, db, "before", 10)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(walPath(db.path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log is there (%v)", err)
	}
}

// What was said does not stay in the log when it is committed and nothing else is written.
func TestEmptyLog_RemovesWhatIsCommitted(t *testing.T) {
	db := opened(t)
	CommitOnlyWhenFull(db)
	flush(t, db)
	for _, isCommitted := range []bool{false, true} {
		saveBlob(t, db, fmt.Sprint("committed ", isCommitted), 10)
		if isCommitted {
			flush(t, db)
		}
		db.emptyLog()
		if info, err := os.Stat(walPath(db.path)); err != nil || (info.Size() == 0) != isCommitted {
			t.Errorf("committed %v: the log has %d bytes (%v)", isCommitted, info.Size(), err)
		}
	}
	saveBlob(t, db, "later", 10)
	if err := db.leave(); err != nil {
		t.Fatal(err)
	}
	again := reopenAt(t, db.path, time.Now)
	if !hasBlobs(t, again, "committed false", "committed true", "later") {
		t.Error("something is lost")
	}
}

// Going back through records stops nowhere because a transaction has emptied the pages between.
func TestCursor_PagesAreEmptied_GoesBackToTheFirst(t *testing.T) {
	db := opened(t)
	if err := db.update(t.Context(), func(tx *tx) error {
		for n := range 3000 {
			if err := tx.top(blobsBucket).put(seqKey(uint64(n)), n); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	flush(t, db)
	errDone := errors.New("done")
	err := db.update(t.Context(), func(tx *tx) error {
		b := tx.top(blobsBucket)
		count := func() (n int) {
			c := b.cursor()
			for k, _ := c.last(); k != nil; k, _ = c.prev() {
				n++
			}
			return n
		}
		for _, c := range []struct{ from, to, left int }{{500, 2500, 1000}, {2500, 3000, 500}, {0, 500, 0}} {
			for n := c.from; n < c.to; n++ {
				if err := b.delete(seqKey(uint64(n))); err != nil {
					return err
				}
			}
			if n := count(); n != c.left {
				t.Errorf("%d records from the last to the first, want %d", n, c.left)
			}
		}
		return errDone
	})
	if !errors.Is(err, errDone) {
		t.Error(err)
	}
}

// What is read of a log is what was written, or an error.
func TestNextOp_CutOff_IsAnError(t *testing.T) {
	var list ops
	list.add(opPut, "bucket", []byte("key"), []byte("value"))
	o, rest, err := nextOp(list.encoded)
	if err != nil || len(rest) > 0 || o.kind != opPut || o.bucket != "bucket" || !bytes.Equal(o.key, []byte("key")) ||
		!bytes.Equal(o.value, []byte("value")) {
		t.Errorf("%+v, %q, %v", o, rest, err)
	}
	for n := range len(list.encoded) {
		if _, _, err := nextOp(list.encoded[:n]); !errors.Is(err, errOps) {
			t.Errorf("%d bytes of it: %v", n, err)
		}
	}
}

// reopenAt opens the store at a path.
func reopenAt(t *testing.T, path string, now func() time.Time) *DB {
	t.Helper()
	db, err := Open(path, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// Changes that make no sense end in an error, and change nothing.
func TestRedoAll_ChangesThatCannotBeMade_AreErrors(t *testing.T) {
	db := opened(t)
	before := dump(t, db)
	for name, c := range map[string]struct {
		kind        opKind
		bucket, key string
	}{
		"unknown kind":          {99, blobsBucket, "key"},
		"unknown bucket":        {opPut, "nowhere", "key"},
		"a number is no number": {opSequence, blobsBucket, "key"},
		"no such bucket in it":  {opDeleteNested, turnsBucket, "web:/nowhere"},
		"cut off":               {opPut, blobsBucket, "key"},
	} {
		var list ops
		list.add(opPut, blobsBucket, []byte("before"), seal([]byte("1")))
		list.add(c.kind, c.bucket, []byte(c.key), nil)
		if name == "cut off" {
			list.encoded = list.encoded[:len(list.encoded)-1]
		}
		if err := db.update(t.Context(), func(tx *tx) error { return tx.redoAll(list.encoded) }); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := db.redoInSteps(t.Context(), list.encoded); err == nil {
			t.Errorf("%s, in a copy: no error", name)
		}
	}
	if diff := cmp.Diff(before, dump(t, db)); diff != "" {
		t.Error(diff)
	}
}

// TestRedoPending_CommitTookPlace_IsMadeOnceMore: where a commit failed and is in the file all the same, nothing is appended
// to the log before another one is on the disk.
func TestRedoPending_CommitTookPlace_IsMadeOnceMore(t *testing.T) {
	db := opened(t)
	flush(t, db)
	if err := db.update(t.Context(), func(tx *tx) error {
		generation, err := tx.generation()
		if err != nil {
			return err
		}
		db.wal.generation = generation - 1 // as the log has it that the commit was to replace
		db.wal.needsCommit = false
		if err := db.redoPending(tx); err != nil {
			return err
		}
		if db.wal.generation != generation || db.wal.hasRoom(0) {
			t.Errorf("the log follows commit %d, want %d, and takes more: %v", db.wal.generation, generation,
				db.wal.hasRoom(0))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestLookUp_WhileSomebodyWrites_DoesNotWait: what is in the log alone is read beside a writer that waits for the disk.
func TestLookUp_WhileSomebodyWrites_DoesNotWait(t *testing.T) {
	db := opened(t)
	if err := db.SaveBlob(t.Context(), "key", []byte(`1`)); err != nil {
		t.Fatal(err)
	}
	if !db.uncommitted.Load() {
		t.Fatal("the record is not in the log alone")
	}
	db.writing.Lock()
	read := make(chan error, 1)
	go func() {
		read <- db.lookUp(func(tx *tx) error {
			var text json.RawMessage
			found, err := tx.top(blobsBucket).get([]byte("key"), &text)
			if err == nil && (!found || string(text) != "1") {
				t.Errorf("it read %q", text)
			}
			return err
		})
	}()
	select {
	case err := <-read:
		db.writing.Unlock()
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		db.writing.Unlock()
		t.Error("it waits for the writer")
		<-read
	}
}

func TestSyncData_FileCannotBeSynced_IsAnError(t *testing.T) {
	r, w, err := os.Pipe() // a file without a disk
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := syncData(w); err == nil {
		t.Error("no error")
	}
}

// A change is safe when the disk has it: what the system takes and does not write is an error, and the file has to be
// committed next.
func TestAppend_LogCannotBeSynced_IsAnError(t *testing.T) {
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := &wal{f: f}
	if err := w.append([]byte("change")); err == nil || !w.needsCommit || w.entries > 0 {
		t.Errorf("%v, %+v", err, w)
	}
}

func TestOpenWAL_CannotBeMade_IsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raven.db")
	if err := os.Symlink(filepath.Join(t.TempDir(), "none", "log"), walPath(path)); err != nil {
		t.Fatal(err)
	}
	if w, err := openWAL(path); err == nil {
		t.Error("it was opened", w.close(false))
	}
}

// An error is explained once, however many layers it goes through.
func TestExplainSystemError_Explained_StaysAsItIs(t *testing.T) {
	explained := explainSystemError("raven.db", syscall.EROFS)
	again := fmt.Errorf("open store: %w", explained)
	if got := explainSystemError("other.db", again); got.Error() != again.Error() {
		t.Errorf("%v", got)
	}
	if err := explainSystemError("raven.db", nil); err != nil {
		t.Error(err)
	}
}

// What a kill has left in the log is in the file when the store is open: the log goes on from there.
func TestOpen_AfterAKill_CommitsWhatTheLogHolds(t *testing.T) {
	path, _ := killedStore(t)
	db := reopenAt(t, path, time.Now)
	if db.uncommitted.Load() {
		t.Error("it is in the log alone")
	}
}

// A copy without what the log holds would be older than the store: it is not made.
func TestBackupFile_LogCannotBeRead_IsAnError(t *testing.T) {
	path, _ := killedStore(t)
	if err := errors.Join(os.Rename(walPath(path), walPath(path)+".away"), os.Mkdir(walPath(path), 0o700)); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "backup.db")
	if err := BackupFile(t.Context(), path, backup); err == nil {
		t.Error("a copy was made")
	}
	if _, err := os.Stat(backup); err == nil {
		t.Error("there is a file")
	}
}
