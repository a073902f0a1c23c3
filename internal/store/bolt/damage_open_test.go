package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/store/storetest"
)

// changeUncounted changes a store as no transaction of it does: the tallies stay what they are.
func changeUncounted(t *testing.T, db *DB, change func(tx *bbolt.Tx) error) {
	t.Helper()
	if err := db.direct(change); err != nil {
		t.Fatal(err)
	}
}

// spoilTally changes the last byte of a tally.
func spoilTally(tx *bbolt.Tx, name string) error {
	b := tx.Bucket([]byte(talliesBucket))
	v := bytes.Clone(b.Get([]byte(name)))
	v[len(v)-1] ^= 1
	return b.Put([]byte(name), v)
}

// What is wrong with the tallies of a store that was killed is found when it is opened again, although its file is not
// read as a whole then. The file is not kept open.
func TestOpen_TalliesOfAKilledStoreAreWrong_IsDamage(t *testing.T) {
	for what, c := range map[string]struct {
		change func(tx *bbolt.Tx) error
		want   string
	}{
		"a change without tallies": {func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(blobsBucket)).Put([]byte("k"), seal([]byte(`1`)))
		}, "the tallies are not those of the last change"},
		"no tallies": {func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(talliesBucket)) },
			"the tallies of its records are missing"},
		"no tally of the tallies": {func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(talliesBucket)).Delete([]byte(headKey))
		}, "the tallies are not those of the last change"},
		"a bucket is gone": {func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(blobsBucket)) },
			"the bucket " + blobsBucket + " is missing"},
		"the tally of the tallies": {func(tx *bbolt.Tx) error { return spoilTally(tx, headKey) },
			"the tally of the store"},
	} {
		t.Run(what, func(t *testing.T) {
			db := opened(t)
			changeUncounted(t, db, c.change)
			kill(t, db)
			var damaged *store.DamagedError
			for range 2 { // the second time the lock would be kept by the first
				if _, err := Open(db.path, time.Now); !errors.As(err, &damaged) || !strings.Contains(damaged.What, c.want) {
					t.Errorf("opening it gave %v, want %q", err, c.want)
				}
			}
		})
	}
}

// Each sign of damage alone keeps a file from being taken as it was left, before all of it is read.
func TestCheckTop_OneSignOfDamage_IsReported(t *testing.T) {
	for what, c := range map[string]struct {
		change func(tx *bbolt.Tx, head *tally) error // head is the tally of the tallies, with the number of the transaction
		want   string
	}{
		"none":       {func(*bbolt.Tx, *tally) error { return nil }, ""},
		"no tallies": {func(tx *bbolt.Tx, _ *tally) error { return tx.DeleteBucket([]byte(talliesBucket)) }, "no tallies"},
		"of another transaction": {func(_ *bbolt.Tx, head *tally) error { head.seq--; return nil },
			"not those of the last change"},
		"a bucket is gone": {func(tx *bbolt.Tx, _ *tally) error { return tx.DeleteBucket([]byte(blobsBucket)) },
			"the bucket " + blobsBucket + " is missing"},
		"a bucket that never was": {func(tx *bbolt.Tx, _ *tally) error {
			err := tx.DeleteBucket([]byte(blobsBucket))
			return errors.Join(err, tx.Bucket([]byte(talliesBucket)).Delete([]byte(blobsBucket)))
		}, ""},
	} {
		db := opened(t)
		changeUncounted(t, db, func(tx *bbolt.Tx) error {
			head, err := unsealTally(tx.Bucket([]byte(talliesBucket)).Get([]byte(headKey)))
			head.seq = uint64(tx.ID())
			err = errors.Join(err, c.change(tx, &head))
			if b := tx.Bucket([]byte(talliesBucket)); b != nil {
				err = errors.Join(err, b.Put([]byte(headKey), head.seal()))
			}
			return err
		})
		err := db.checkTop()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
		kill(t, db)
	}
}

// The check of an open store names each tally that is wrong, and each bucket that is.
func TestCheckOpen_TalliesAreWrong_NamesThem(t *testing.T) {
	for what, c := range map[string]struct {
		change func(tx *bbolt.Tx) error
		want   []string
	}{
		"a tally": {func(tx *bbolt.Tx) error { return spoilTally(tx, blobsBucket) },
			[]string{"the tally of the bucket tools cannot be read", "the tally of the bucket tools: its checksum is wrong"}},
		"the tally of the tallies": {func(tx *bbolt.Tx) error { return spoilTally(tx, headKey) },
			[]string{"the tally of the store cannot be read"}},
		"a bucket is gone": {func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(blobsBucket)) },
			[]string{"the bucket tools is missing, with 1 records"}},
		"a sequence": {func(tx *bbolt.Tx) error { return tx.Bucket([]byte(blobsBucket)).SetSequence(7) },
			[]string{"the bucket tools counts on from 7 instead of 0"}},
	} {
		t.Run(what, func(t *testing.T) {
			db := opened(t)
			if err := db.SaveBlob(t.Context(), "k", []byte(`1`)); err != nil {
				t.Fatal(err)
			}
			checked := db.Checked()
			changeUncounted(t, db, c.change)
			faults, err := db.CheckOpen(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !slices.Contains(faults, want) || !slices.Contains(db.Damage(), want) {
					t.Errorf("found %q, damage %q, want %q", faults, db.Damage(), want)
				}
			}
			if !db.Checked().Equal(checked) {
				t.Error("the check counts as one that has found nothing")
			}
			kill(t, db)
		})
	}
}

// Where the check finds that pages are wrong, nothing is written any more: it could be written over good records.
func TestCheckOpen_PagesAreGone_RefusesWrites(t *testing.T) {
	db := opened(t)
	saveTurns(t, db, general, 0, 700, time.Now())
	flush(t, db)
	m := imageOf(t, db.path)
	db.closeContents() // else it is known already that the file was cut
	if err := os.Truncate(db.path, 4*int64(m.meta.pageSize)); err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	faults, err := db.CheckOpen(t.Context())
	if err != nil || len(faults) == 0 || !errors.As(db.Health(), &damaged) {
		t.Fatalf("found %q (%v), health %v", faults, err, db.Health())
	}
	commits := db.Commits()
	if err := db.SaveBlob(t.Context(), "k", []byte(`1`)); !errors.As(err, &damaged) || db.Commits() != commits {
		t.Errorf("writing gave %v", err)
	}
	if _, err := db.Turns(t.Context(), general, store.Range{Newest: 1000}); !errors.As(err, &damaged) {
		t.Errorf("reading gave %v", err)
	}
	_ = db.leave() // the test is over
}

// A list of free pages that bbolt must not use is refused: it would write over the pages that the list names.
func TestReadFreelist_RefusesWhatIsWrong(t *testing.T) {
	const size = 1024
	m := meta{pageSize: size, root: 3, freelist: 2, pages: 9}
	for what, c := range map[string]struct {
		list   page
		change func(p page, m *meta)
		ok     bool
	}{
		"two pages":           {list: freelist(2, 5, 8), ok: true},
		"none":                {list: freelist(0), ok: true},
		"the first behind":    {list: freelist(1, 2), ok: true},
		"a header":            {list: freelist(1, 1)},
		"the same twice":      {list: freelist(2, 5, 5)},
		"out of order":        {list: freelist(2, 8, 5)},
		"beyond the end":      {list: freelist(1, 9)},
		"more than there are": {list: freelist(200, 5)},
		"another kind":        {list: freelist(1, 5), change: func(p page, _ *meta) { p[8] ^= 1 }},
		"another page":        {list: freelist(1, 5), change: func(p page, _ *meta) { p[0]++ }},
		"too long":            {list: freelist(1, 5), change: func(p page, _ *meta) { p[12] = 9 }},
		"cut off":             {list: freelist(1, 5), change: func(p page, _ *meta) { p[12] = 8 }},
		"in a header":         {list: freelist(1, 5), change: func(_ page, m *meta) { m.freelist = 1 }},
		"behind the end":      {list: freelist(1, 5), change: func(_ page, m *meta) { m.freelist = 9 }},
		"not written":         {list: freelist(1, 5), change: func(_ page, m *meta) { m.freelist = noFreelist }, ok: true},
	} {
		file, m := make([]byte, 4*size), m
		p := page(file[2*size:])
		copy(p, c.list)
		binary.NativeEndian.PutUint64(p, 2)
		if c.change != nil {
			c.change(p, &m)
		}
		if _, _, ok := readFreelist(bytes.NewReader(file), m); ok != c.ok {
			t.Errorf("%s: %v, want %v", what, ok, c.ok)
		}
	}
}

// A conversation that cannot be moved out of sight stays, and so does all of it where the tallies cannot be read.
func TestDeleteConversation_CannotBeMoved_StaysWhole(t *testing.T) {
	for what, spoil := range map[string]func(tx *bbolt.Tx) error{
		"a record where it goes": func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(trashName(turnsBucket))).Put([]byte(general.String()), seal([]byte(`1`)))
		},
		"the tally of its turns":   func(tx *bbolt.Tx) error { return spoilTally(tx, turnsBucket+nul+general.String()) },
		"the tally of the tallies": func(tx *bbolt.Tx) error { return spoilTally(tx, headKey) },
	} {
		t.Run(what, func(t *testing.T) {
			db := opened(t)
			saveTurns(t, db, general, 0, 3, time.Now())
			changeUncounted(t, db, spoil)
			before := dump(t, db)
			if err := db.DeleteConversation(t.Context(), general); err == nil {
				t.Error("it says that it is deleted")
			}
			if after := dump(t, db); !slices.Equal(before, after) {
				t.Errorf("%d records and buckets became %d", len(before), len(after))
			}
			kill(t, db)
		})
	}
}

// The index of quotes says of a record of it that is no list that it is damaged, and nothing is added to it.
func TestSaveTurn_IndexOfQuotesIsNoList_IsDamage(t *testing.T) {
	for _, held := range []string{`{"conversation":"web:/general","seq":1}`, `[]`, ``} {
		db := opened(t)
		if err := db.update(t.Context(), func(tx *tx) error {
			return tx.top(quotesBucket).putRaw([]byte("web/q0"), seal([]byte(held)))
		}); err != nil {
			t.Fatal(err)
		}
		before := dump(t, db)
		var damaged *store.DamagedError
		err := db.update(t.Context(), func(tx *tx) error {
			return tx.top(quotesBucket).appendTo([]byte("web/q0"), []byte(`{"seq":2}`))
		})
		if !errors.As(err, &damaged) || !strings.Contains(damaged.What, "web/q0") {
			t.Errorf("%q: %v", held, err)
		}
		if !slices.Equal(before, dump(t, db)) {
			t.Errorf("%q was changed", held)
		}
	}
}

// A file in which no header is good has no size that can be told.
func TestSize_NoHeaderIsGood_IsDamage(t *testing.T) {
	db := opened(t)
	if err := os.WriteFile(db.path, make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	if _, _, err := db.Size(); !errors.As(err, &damaged) {
		t.Errorf("its size gave %v", err)
	}
	_ = db.leave()
	r, err := Check(t.Context(), db.path)
	if r.Free != 0 || len(r.Damage) == 0 || !errors.As(err, &damaged) {
		t.Errorf("the check found %+v (%v)", r, err)
	}
}

// A store that is missing although one was made is what a check reports.
func TestCheck_FileIsMissing_IsDamage(t *testing.T) {
	db := opened(t)
	if err := errors.Join(db.Close(), os.Remove(db.path)); err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	r, err := Check(t.Context(), db.path)
	if !errors.As(err, &damaged) || !slices.Equal(r.Damage, []string{damaged.What}) {
		t.Errorf("found %q, %v", r.Damage, err)
	}
	for what, do := range map[string]func() error{
		"a backup":   func() error { return BackupFile(t.Context(), db.path, db.path+".backup") },
		"compacting": func() error { _, _, err := Compact(t.Context(), db.path, time.Now()); return err },
	} {
		if err := do(); !errors.As(err, &damaged) {
			t.Errorf("%s gave %v", what, err)
		}
	}
}

// A turn that is damaged is reported, and is deleted with what the indexes have of it where its time can be read.
func TestPrune_TurnIsDamaged_IsReportedAndDeleted(t *testing.T) {
	db := opened(t)
	began := time.Now().Add(-48 * time.Hour)
	turn := conversation.Turn{ID: "1", Of: []string{"web/1"}, Began: began}
	if err := db.SaveTurn(t.Context(), general, &turn); err != nil {
		t.Fatal(err)
	}
	// It can be read as far as its time, and not as a turn.
	if err := db.update(t.Context(), func(tx *tx) error {
		record := map[string]any{"began": began, "messages": "no list"}
		return tx.top(turnsBucket).nested(general.String()).put(seqKey(turn.Seq), record)
	}); err != nil {
		t.Fatal(err)
	}
	keep := store.Retention{Conversations: func(chat.Address) time.Duration { return time.Hour }}
	var damaged *store.DamagedError
	if _, err := db.Prune(t.Context(), keep); !errors.As(err, &damaged) {
		t.Errorf("pruning gave %v", err)
	}
	if left := dump(t, db); slices.ContainsFunc(left, func(r string) bool { return strings.Contains(r, "web/1") }) {
		t.Errorf("it has left %q", left)
	}
	if _, err := db.Prune(t.Context(), keep); err != nil {
		t.Errorf("pruning once more gave %v", err)
	}
}

// Wherever buckets of their own are expected.
func TestPrune_RecordInThePlaceOfABucket_IsReported(t *testing.T) {
	for _, top := range []string{seenBucket, messagesBucket, roomsBucket, roomFilesBucket, trashName(turnsBucket)} {
		db := opened(t)
		changeUncounted(t, db, func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(top)).Put([]byte("web:/general"), seal([]byte("{}")))
		})
		var damaged *store.DamagedError
		_, err := db.Prune(t.Context(), storetest.WeekIn("general"))
		if want := "a record is in the place of " + top; !errors.As(err, &damaged) || !strings.HasPrefix(damaged.What, want) ||
			len(db.Damage()) != 1 {
			t.Errorf("%s: pruning gave %v, damage %q", top, err, db.Damage())
		}
	}
}

// The check reads a bounded part of the store in each of its steps, in which nobody writes, and all of it in the end.
func TestCheckOpen_StepsAreSmall(t *testing.T) {
	for what, c := range map[string]struct {
		records, size int
		most          uint64 // records in a step
	}{
		"many records":  {records: 1200, size: 10, most: 500},
		"large records": {records: 12, size: 300 << 10, most: 4},
	} {
		db := opened(t)
		if err := db.update(t.Context(), func(tx *tx) error {
			var err error
			for i := range c.records {
				err = errors.Join(err, tx.top(blobsBucket).put(seqKey(uint64(i)), string(repeatX(c.size))))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		steps := &check{frames: []frame{{name: blobsBucket}}}
		var counted uint64
		for len(steps.frames) > 0 {
			before := steps.frames[0].sum.count
			if err := db.view(func(tx *tx) error { return steps.step(tx) }); err != nil {
				t.Fatal(err)
			}
			if len(steps.frames) == 0 {
				break
			}
			counted = steps.frames[0].sum.count
			if n := counted - before; n == 0 || n > c.most {
				t.Fatalf("%s: a step has read %d", what, n)
			}
		}
		if left := uint64(c.records) - counted; left > c.most || len(steps.faults) > 0 {
			t.Errorf("%s: the last step has read %d, and found %q", what, left, steps.faults)
		}
	}
}

// bbolt panics where the header leads to another page than the list of free pages.
func TestOpenFile_NoListOfFreePages_IsDamage(t *testing.T) {
	db := opened(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	m := imageOf(t, db.path)
	for _, at := range []int{0, m.meta.pageSize} {
		setFreelist(m.bytes[at+pageHeader:at+pageHeader+metaSize], m.meta.root, m.meta.pages)
	}
	m.write(db.path)
	var damaged *store.DamagedError
	if b, err := openFile(db.path, false); !errors.As(err, &damaged) {
		t.Errorf("it gave %v", err)
		if b != nil {
			b.Close()
		}
	}
}
