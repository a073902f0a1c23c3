package bolt

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/storetest"
)

// holds reports whether a text is anywhere in the file of a store or in its log.
func holds(t *testing.T, db *DB, text string) bool {
	t.Helper()
	for _, path := range []string{db.path, walPath(db.path)} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(text)) {
			return true
		}
	}
	return false
}

// saveMessages stores n messages of a time, of which each is a page of its own.
func saveMessages(t *testing.T, db *DB, n int, text string, at time.Time) {
	t.Helper()
	var list []store.Message
	for i := range n {
		list = append(list, store.Message{Conversation: general, ID: text + strconv.Itoa(i), At: at.Add(time.Duration(i)),
			Text: strings.Repeat(text+" ", 300)})
	}
	if _, err := db.SaveMessages(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

// What was deleted is in the file no more, and what is kept still is.
func TestPrune_WhatIsDeleted_IsNotInTheFile(t *testing.T) {
	db := opened(t)
	saveMessages(t, db, 100, "forgotten", time.Now().Add(-30*24*time.Hour))
	saveMessages(t, db, 100, "kept", time.Now())
	if !holds(t, db, "forgotten") {
		t.Fatal("it was never there")
	}
	if _, err := db.Prune(t.Context(), storetest.WeekIn(general.Channel)); err != nil {
		t.Fatal(err)
	}
	if holds(t, db, "forgotten") {
		t.Error("it is still in the file or the log")
	}
	list, _, err := db.Messages(t.Context(), general, "", 1000)
	if err != nil || len(list) != 100 {
		t.Errorf("%d messages are left: %v", len(list), err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(t.Context(), db.path); err != nil {
		t.Errorf("%v: %v", r.Damage, err)
	}
}

// Whoever reads sees the pages that were free later.
func TestWipeFree_SomebodyReads_WaitsForThem(t *testing.T) {
	db := opened(t)
	saveMessages(t, db, 50, "read", time.Now())
	err := db.view(func(tx *tx) error {
		if err := db.DeleteConversation(t.Context(), general); err != nil {
			return err
		}
		w := wipe{db: db}
		if isBusy, err := w.step(); !isBusy || err != nil {
			t.Errorf("with a reader: busy %v, %v", isBusy, err)
		}
		n := 0
		return tx.bolt.Bucket([]byte(messagesBucket)).Bucket([]byte(general.String())).ForEach(func(k, v []byte) error {
			if n++; !bytes.Contains(v, []byte("read read")) {
				t.Errorf("record %d was overwritten", n)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	held, err := db.beginCopy(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := wipe{db: db}
	if isBusy, err := w.step(); !isBusy || err != nil {
		t.Errorf("with a copy: busy %v, %v", isBusy, err)
	}
	db.endCopy(held)
	err = db.wipeFree(t.Context(), maxWiped)
	db.emptyLog()
	if err != nil || holds(t, db, "read read") {
		t.Errorf("what was read is still there: %v", err)
	}
}

// Where one header is damaged the other one leads to whole pages.
func TestWipeFree_NewestHeaderIsLost_TheOlderOneIsWhole(t *testing.T) {
	db := opened(t)
	for i := range 20 {
		saveMessages(t, db, 20, "m"+strconv.Itoa(i), time.Now())
		if err := db.flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.DeleteConversation(t.Context(), general); err != nil {
		t.Fatal(err)
	}
	if err := db.wipeFree(t.Context(), maxWiped); err != nil {
		t.Fatal(err)
	}
	m := imageOf(t, db.path)
	kill(t, db)
	newest := int64(m.meta.txid % 2)
	f, err := os.OpenFile(db.path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte{0xff, 0xff, 0xff}, newest*int64(m.meta.pageSize)+pageHeader+20)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := scanFile(t.Context(), db.path)
	if err != nil || !s.isHeaderOnly() {
		t.Errorf("found %q: %v", s.faults, err)
	}
}

// Others write and read meanwhile, and nothing of theirs is overwritten.
func TestWipeFree_OthersWriteAndRead_LosesNothing(t *testing.T) {
	db := opened(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			key := strconv.Itoa(n)
			for i := 0; ctx.Err() == nil; i++ {
				want := `"` + strings.Repeat(strconv.Itoa(i%10), 100+997*(i%20)) + `"`
				if err := db.SaveBlob(t.Context(), key, []byte(want)); err != nil {
					t.Error(err)
					return
				}
				if got, err := db.LoadBlob(t.Context(), key); err != nil || string(got) != want {
					t.Errorf("blob %s has %d bytes, want %d: %v", key, len(got), len(want), err)
					return
				}
			}
		})
	}
	for ctx.Err() == nil {
		if err := db.wipeFree(t.Context(), maxWiped); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(t.Context(), db.path); err != nil {
		t.Errorf("%v: %v", r.Damage, err)
	}
}

func TestWipeFree_MoreFreePagesThanWanted_AreLeft(t *testing.T) {
	db := opened(t)
	saveMessages(t, db, 50, "forgotten", time.Now())
	if err := db.DeleteConversation(t.Context(), general); err != nil {
		t.Fatal(err)
	}
	if err := db.flush(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		maxFree int
		isLeft  bool
	}{{0, true}, {maxWiped, false}} {
		err := db.wipeFree(t.Context(), c.maxFree)
		db.emptyLog()
		if left := holds(t, db, "forgotten"); err != nil || left != c.isLeft {
			t.Errorf("with up to %d free pages: it is in the file: %v, want %v; %v", c.maxFree, left, c.isLeft, err)
		}
	}
}

// What people have deleted goes when nothing is written for a while.
func TestRun_NothingIsWritten_OverwritesFreePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := opened(t)
		_, end := runLogged(t, db)
		defer end()
		saveMessages(t, db, 50, "forgotten", time.Now())
		if err := db.DeleteConversation(t.Context(), general); err != nil {
			t.Fatal(err)
		}
		watched(4)
		if holds(t, db, "forgotten") {
			t.Error("it is still in the file or the log")
		}
	})
}

// TestWipe_PageCannotBeReadOrWritten_IsSaid: else the same page would be tried without end.
func TestWipe_PageCannotBeReadOrWritten_IsSaid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 3*4096), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, flag := range map[string]int{"read": os.O_WRONLY, "written": os.O_RDONLY} {
		f, err := os.OpenFile(path, flag, 0)
		if err != nil {
			t.Fatal(err)
		}
		w := wipe{pages: []uint64{1, 2}}
		if err := w.overwrite(f, 4096); err == nil || w.isEnd {
			t.Errorf("a page that cannot be %s gave %v, and is the last: %v", name, err, w.isEnd)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What another file holds is never overwritten, and the pages that were found are not looked for again while nothing
// changes.
func TestWipe_AnotherFileIsInTheStoresPlace_IsAnError(t *testing.T) {
	db := opened(t)
	saveMessages(t, db, 50, "forgotten", time.Now())
	if err := db.DeleteConversation(t.Context(), general); err != nil {
		t.Fatal(err)
	}
	w := wipe{db: db}
	for !w.isEnd {
		if _, err := w.step(); err != nil {
			t.Fatal(err)
		}
	}
	found := w.txid
	w.upto, w.isEnd = 0, false
	if _, err := w.step(); err != nil || w.txid != found || imageOf(t, db.path).meta.txid != found {
		t.Errorf("the pages of transaction %d were looked for once more, as of %d: %v", found, w.txid, err)
	}
	away := db.path + ".away"
	if err := os.Rename(db.path, away); err != nil {
		t.Fatal(err)
	}
	if _, err := w.step(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	other := bytes.Repeat([]byte("other"), 1<<18)
	if err := os.WriteFile(db.path, other, 0o600); err != nil {
		t.Fatal(err)
	}
	w.upto = 0
	if _, err := w.step(); !errors.Is(err, errNoFile) || !bytes.Equal(bytesOf(t, db.path), other) {
		t.Errorf("with another file: %v", err)
	}
	if err := os.Rename(away, db.path); err != nil {
		t.Fatal(err)
	}
}

// Where the file cannot be written nothing is overwritten, and it is said.
func TestWipe_NothingMayBeWritten_IsAnError(t *testing.T) {
	refused := errors.New("refused")
	db := opened(t)
	saveMessages(t, db, 50, "forgotten", time.Now())
	if err := db.DeleteConversation(t.Context(), general); err != nil {
		t.Fatal(err)
	}
	db.health.noteDamage(nil, refused)
	w := wipe{db: db}
	if isBusy, err := w.step(); isBusy || !errors.Is(err, refused) || w.isEnd {
		t.Errorf("busy %v, at its end %v: %v", isBusy, w.isEnd, err)
	}
	if err := db.wipeFree(t.Context(), maxWiped); !errors.Is(err, refused) {
		t.Errorf("it returned %v", err)
	}
	empty, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if old := db.contents.Swap(&contents{f: empty}); old != nil {
		t.Cleanup(func() { old.f.Close() })
	}
	if _, err := w.step(); !errors.Is(err, errNoHeader) {
		t.Errorf("a file without headers gave %v", err)
	}
}
