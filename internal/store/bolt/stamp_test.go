package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// flipByte changes a byte of a stored text, and nothing that the system knows of the file.
func flipByte(t *testing.T, path, text string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte(text))
	if at < 0 {
		t.Fatalf("%q is not in the file", text)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{b[at] ^ 1}, int64(at)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), os.Chtimes(path, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
}

// kill ends a store as a killed bot does: nothing is written any more.
func kill(t *testing.T, db *DB) {
	t.Helper()
	flush(t, db)
	if err := db.leave(); err != nil {
		t.Fatal(err)
	}
}

// flush has all that is in the write-ahead log committed.
func flush(t *testing.T, db *DB) {
	t.Helper()
	if err := db.flush(); err != nil {
		t.Fatal(err)
	}
}

// TestDamage_InAFileThatIsTrusted_IsFoundByTheCheck: a file that is as the store left it is opened
// without being read. What a disk has spoiled in it is found while the bot works, and the next time
// the store is not opened.
func TestDamage_InAFileThatIsTrusted_IsFoundByTheCheck(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *DB){
		"closed": func(t *testing.T, db *DB) {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		},
		"killed": kill,
	} {
		t.Run(name, func(t *testing.T) {
			db := opened(t)
			saveTurns(t, db, general, 0, 50, time.Now())
			if err := db.SaveBlob(t.Context(), "words", []byte(`"spoiled by a disk"`)); err != nil {
				t.Fatal(err)
			}
			end(t, db)
			flipByte(t, db.path, "spoiled by")
			db, err := Open(db.path, time.Now)
			if err != nil {
				t.Fatalf("a file that the store has just left is not trusted: %v", err)
			}
			defer db.Close()
			if err := db.Health(); err != nil {
				t.Errorf("before the check: %v", err)
			}
			faults, err := db.CheckOpen(t.Context())
			if err != nil || len(faults) != 1 || !strings.Contains(faults[0], `record "words"`) {
				t.Fatalf("the check found %q (%v)", faults, err)
			}
			var damaged *store.DamagedError
			if err := db.Health(); !errors.As(err, &damaged) || damaged.What != faults[0] {
				t.Errorf("after the check the store says %v", err)
			}
			// One wrong record does not end the rest of the service.
			if err := db.SaveBlob(t.Context(), "others", []byte(`1`)); err != nil {
				t.Error(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if again, err := Open(db.path, time.Now); !errors.As(err, &damaged) {
				again.Close()
				t.Errorf("opened again after damage was found: %v", err)
			}
		})
	}
}

func TestStamp_FitsTheFileAloneThatTheStoreLeft(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, path string, s *stamp)
		want   bool
	}{
		"as it was left":  {func(*testing.T, string, *stamp) {}, true},
		"touched":         {func(t *testing.T, path string, _ *stamp) { touch(t, path) }, false},
		"a copy":          {func(t *testing.T, path string, _ *stamp) { copyOver(t, path) }, false},
		"found damaged":   {func(_ *testing.T, _ string, s *stamp) { s.Damaged = true }, false},
		"another list":    {func(_ *testing.T, _ string, s *stamp) { s.Freelist++ }, false},
		"another header":  {func(_ *testing.T, _ string, s *stamp) { s.TxID-- }, false},
		"another size":    {func(_ *testing.T, _ string, s *stamp) { s.Size++ }, false},
		"after a crash":   {func(_ *testing.T, _ string, s *stamp) { s.Open = true }, true},
		"another boot":    {func(_ *testing.T, _ string, s *stamp) { s.Open, s.Boot = true, "before" }, false},
		"an older copy":   {func(_ *testing.T, _ string, s *stamp) { s.Open = true; s.TxID++ }, false},
		"its pages alone": {func(t *testing.T, path string, s *stamp) { s.Open = true; cutToPages(t, path, 0) }, true},
		"a page cut off":  {func(t *testing.T, path string, s *stamp) { s.Open = true; cutToPages(t, path, 1) }, false},
		"no file numbers": {func(_ *testing.T, _ string, s *stamp) { s.File = fileID{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			db := opened(t)
			saveTurns(t, db, general, 0, 10, time.Now())
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			s := readStamp(db.path)
			c.change(t, db.path, &s)
			if got := s.fits(db.path); got != c.want {
				t.Errorf("the stamp fits: %v, want %v", got, c.want)
			}
		})
	}
}

func touch(t *testing.T, path string) {
	if err := os.Chtimes(path, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
}

// cutToPages leaves nothing of a file behind its pages, and takes some bytes of the last one.
func cutToPages(t *testing.T, path string, less int64) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := readMetas(f)
	if err := errors.Join(err, f.Truncate(int64(m.pages)*int64(m.pageSize)-less), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func copyOver(t *testing.T, path string) {
	b, err := os.ReadFile(path)
	if err == nil {
		err = errors.Join(os.WriteFile(path+".copy", b, 0o600), os.Rename(path+".copy", path))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestCheckOpen_FindsRecordsThatAreMissing(t *testing.T) {
	db := opened(t)
	saveTurns(t, db, general, 0, 700, time.Now())
	err := db.direct(func(tx *bbolt.Tx) error {
		return errors.Join(tx.Bucket([]byte(turnsBucket)).Bucket([]byte(general.String())).Delete(seqKey(600)),
			tx.Bucket([]byte(messageTurnsBucket)).Delete([]byte("web/3")))
	})
	if err != nil {
		t.Fatal(err)
	}
	faults, err := db.CheckOpen(t.Context())
	if err != nil || len(faults) < 2 {
		t.Fatalf("found %q (%v)", faults, err)
	}
	all := strings.Join(faults, "\n")
	for _, want := range []string{`turns of "web:/general" holds 699 records where 700 were stored`,
		"places holds 699 records"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
}

// TestCheckOpen_BesideWriters_FindsNothing: what changes between its steps is no damage.
func TestCheckOpen_BesideWriters_FindsNothing(t *testing.T) {
	db := opened(t)
	for i := range 4 {
		saveTurns(t, db, room(i), 1000*i, 1000*i+700, time.Now())
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := range 5000 { // and no more: where writing is fast, the check would never catch up
				select {
				case <-stop:
					return
				default:
				}
				if err := changeSome(t, db, w, i); err != nil && !errors.Is(err, store.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	for range 3 {
		if faults, err := db.CheckOpen(t.Context()); err != nil || len(faults) > 0 {
			t.Errorf("found %q (%v)", faults, err)
		}
	}
	close(stop)
	wg.Wait()
	checkWhole(t, db)
}

func room(i int) chat.Address { return chat.Address{Platform: "web", Channel: fmt.Sprint("room", i)} }

// changeSome adds, replaces and deletes records, before and behind where a check is.
func changeSome(t *testing.T, db *DB, w, i int) error {
	ctx, a := t.Context(), room(i%5)
	switch i % 7 {
	case 0:
		return db.DeleteTurn(ctx, a, uint64(1+i%700))
	case 1:
		if i%35 == 1 {
			return db.DeleteConversation(ctx, a)
		}
		_, err := db.SaveMessages(ctx, []store.Message{{Conversation: a, ID: fmt.Sprint(w, i), At: time.Unix(int64(i), 0)}})
		return err
	case 2:
		return db.SaveBlob(ctx, fmt.Sprint(i%50), []byte(fmt.Sprint(i)))
	}
	return db.SaveTurn(ctx, a, &conversation.Turn{ID: fmt.Sprint(w, i), Of: []string{fmt.Sprintf("web/%d-%d", w, i)}})
}

func TestStamp_HeaderIsDamaged_DoesNotFit(t *testing.T) {
	db := opened(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := readStamp(db.path)
	s.Open = true // so that the file counts by what is in it
	f, err := os.OpenFile(db.path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	other := int64(1-s.TxID%2) * int64(os.Getpagesize()) // that of the transaction before
	if _, err := f.WriteAt([]byte{1, 2, 3}, other+40); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if s.fits(db.path) {
		t.Error("it fits")
	}
}

// What a check that has ended has counted is no work for writers.
func TestCheckOpen_Ended_WritersCountNothing(t *testing.T) {
	db := opened(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{ended, t.Context()} {
		if _, err := db.CheckOpen(ctx); !errors.Is(err, ctx.Err()) {
			t.Fatal(err)
		}
		if db.check != nil {
			t.Error("a check is under way")
		}
	}
}

// A store whose file is gone cannot say how it was left.
func TestStampOpen_FileIsGone_IsAnError(t *testing.T) {
	db := opened(t)
	if err := os.Rename(db.path, db.path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := db.stampOpen(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it returned %v", err)
	}
	if err := os.Rename(db.path+".away", db.path); err != nil {
		t.Fatal(err)
	}
}
