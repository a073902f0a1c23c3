package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/store"
)

// A store that was closed in good order is not read when it is opened, and remembers when it was last checked. One that
// was killed is checked soon.
func TestOpen_AfterAnEnd_KnowsHowItWas(t *testing.T) {
	now := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		end     func(t *testing.T, db *TestStore)
		checked time.Time
	}{
		"closed": {func(t *testing.T, db *TestStore) {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}, now},
		"killed": {kill, time.Time{}},
		"closed with damage": {func(t *testing.T, db *TestStore) {
			db.health.noteDamage(damagedError(db.path, "a record is wrong", restoreRemedy), nil)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}, time.Time{}},
	} {
		db := openAt(t, func() time.Time { return now })
		saveTurns(t, db, general, 0, 500, now)
		if err := db.DeleteConversation(t.Context(), general); err != nil {
			t.Fatal(err)
		}
		saveBlob(t, db, "kept", 10)
		_, free, err := db.Size()
		if err != nil {
			t.Fatal(err)
		}
		c.end(t, db)
		again, err := OpenRecords(db.path, func() time.Time { return now.Add(time.Hour) })
		if err != nil {
			t.Fatal(err)
		}
		if !again.Checked().Equal(c.checked) {
			t.Errorf("%s: it was checked at %v, want %v", name, again.Checked(), c.checked)
		}
		if _, got, err := again.Size(); err != nil || got < free/2 {
			t.Errorf("%s: %d bytes are free, were %d (%v)", name, got, free, err)
		}
		checkWhole(t, again)
	}
}

// A damaged record is named when it is read and by a check, whatever the end was before; all others can be read.
func TestOpen_RecordIsDamaged_IsNamed(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *TestStore){
		"closed": func(t *testing.T, db *TestStore) {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		},
		"killed": kill,
	} {
		t.Run(name, func(t *testing.T) {
			db := opened(t)
			for _, key := range []string{"good", "spoiled"} {
				if err := db.SaveBlob(t.Context(), key, []byte(`"words of `+key+`"`)); err != nil {
					t.Fatal(err)
				}
			}
			saveBlob(t, db, "large", 10_000)
			db = reopen(t, db) // so that no log has them
			saveBlob(t, db, "other", 10)
			end(t, db)
			flipByte(t, db.path, "words of spoiled")
			db, err := OpenRecords(db.path, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var damaged *store.DamagedError
			if _, err := db.LoadBlob(t.Context(), "spoiled"); !errors.As(err, &damaged) ||
				!strings.Contains(damaged.What, `"spoiled"`) {
				t.Errorf("reading it gave %v", err)
			}
			if _, err := db.LoadBlob(t.Context(), "good"); err != nil {
				t.Error(err)
			}
			want := `record "spoiled" of the bucket tools: its checksum is wrong`
			faults, err := db.CheckOpen(t.Context())
			if err != nil || !slices.Equal(faults, []string{want}) || !slices.Equal(db.Damage(), []string{want}) {
				t.Errorf("the check found %q (%v), the damage is %q", faults, err, db.Damage())
			}
		})
	}
}

// A record that has got the key of another one is no record.
func TestOpen_KeyIsDamaged_IsNamed(t *testing.T) {
	db := opened(t)
	for _, key := range []string{"key of a", "key of c"} {
		saveBlob(t, db, key, 10)
	}
	saveBlob(t, db, "large", 10_000)
	db = reopen(t, db) // so that no log has them
	saveBlob(t, db, "other", 10)
	kill(t, db)
	b := bytes.ReplaceAll(bytesOf(t, db.path), []byte("key of a"), []byte("key of b"))
	if err := os.WriteFile(db.path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := OpenRecords(db.path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var damaged *store.DamagedError
	if _, err := db.LoadBlob(t.Context(), "key of b"); !errors.As(err, &damaged) {
		t.Errorf("reading it gave %v", err)
	}
	if faults, err := db.CheckOpen(t.Context()); err != nil || len(faults) != 1 {
		t.Errorf("the check found %q (%v)", faults, err)
	}
}

// Whatever bit is flipped of those that say where records are, a file is damaged or has the same records: bbolt would
// fault, loop or write over other records.
func TestReadFile_AnyBitOfAPageIsFlipped_IsNoticed(t *testing.T) {
	db := opened(t)
	for i := range 60 {
		saveBlob(t, db, "blob"+string(rune('A'+i)), 200)
	}
	kill(t, db)
	whole := bytesOf(t, db.path)
	type version struct{ count, sum uint64 }
	read := func(b []byte) (*fileReader, version) {
		t.Helper()
		var found version
		r := &fileReader{ctx: t.Context(), path: db.path, f: bytes.NewReader(b), size: int64(len(b))}
		r.visit = func(record storedRecord) error {
			if err := verify(record.bucket, record.key, record.value); record.key != nil && err != nil {
				r.addFault("record %q: %v", record.key, err)
			}
			found.count++
			found.sum += digest(append([]byte(record.bucket), record.key...), record.value)
			return nil
		}
		if err := r.readAll(); err != nil {
			t.Fatal(err)
		}
		return r, found
	}
	r, want := read(whole)
	if len(r.faults) > 0 || want.count < 60 {
		t.Fatalf("the whole file has %d records and faults %q", want.count, r.faults)
	}
	size := r.meta.pageSize
	for id := uint64(2); id < r.meta.pages; id++ {
		if r.used[id/64]&(1<<(id%64)) == 0 {
			continue
		}
		for bit := range 8 * (pageHeader + 3*elementSize) {
			b := bytes.Clone(whole)
			b[int(id)*size+bit/8] ^= 1 << (bit % 8)
			if r, got := read(b); len(r.faults) == 0 && got != want {
				t.Errorf("bit %d of page %d: %d records of %d, and no fault", bit, id, got.count, want.count)
			}
		}
	}
}

// Pages that lead to one another are a fault.
func TestReadFile_TreeLeadsToItself_IsNoticed(t *testing.T) {
	db := opened(t)
	saveTurns(t, db, general, 0, 300, time.Now())
	kill(t, db)
	removeLogs(db.path)
	b := bytesOf(t, db.path)
	m, _, err := readMetas(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for at := 2 * m.pageSize; at < int(m.pages)*m.pageSize; at += m.pageSize {
		if p := page(b[at:]); p.kind() == branchPage && p.id() == uint64(at/m.pageSize) {
			binary.NativeEndian.PutUint64(b[at+pageHeader+8:], p.id())
			changed++
		}
	}
	if err := os.WriteFile(db.path, b, 0o600); err != nil || changed == 0 {
		t.Fatal(changed, err)
	}
	var damaged *store.DamagedError
	if _, err := OpenRecords(db.path, time.Now); !errors.As(err, &damaged) || !strings.Contains(damaged.What, "is in two places") {
		t.Errorf("opening it gave %v", err)
	}
}

// A large file of which most is free is compacted when it is opened, and nothing of it is lost.
func TestOpen_MostIsFree_IsCompacted(t *testing.T) {
	db := opened(t)
	saveBlob(t, db, "large", minWasted)
	saveBlob(t, db, "kept", 10)
	saveBlob(t, db, "large", 10)
	saveBlob(t, db, "other", 10)
	before := dump(t, db)
	db = reopen(t, db)
	size, _, err := db.Size()
	if err != nil || size > minWasted/8 || db.compacted.err != nil || db.compacted.before < minWasted {
		t.Errorf("it has %d bytes (%v), %+v", size, err, db.compacted)
	}
	if after := dump(t, db); !slices.Equal(before, after) {
		t.Errorf("%d records became %d", len(before), len(after))
	}
	var log bytes.Buffer
	db.compacted.log(slog.New(slog.NewTextHandler(&log, nil)))
	compaction{err: errStop}.log(slog.New(slog.NewTextHandler(&log, nil)))
	if text := log.String(); !strings.Contains(text, "store compacted") || !strings.Contains(text, "failed to compact the store") {
		t.Errorf("logged %s", text)
	}
	checkWhole(t, db)
	for _, c := range []struct {
		size, free int64
		want       bool
	}{{minWasted, minWasted, false}, {minWasted + 2, minWasted/2 + 2, true}, {minWasted + 2, minWasted / 2, false}} {
		if got := isWasteful(c.size, c.free); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestDefect_OpenOfADamagedFile_EndsTheProcess: bbolt v1.5.0 looks for free pages in a goroutine of its own (DB.freepages),
// so that no caller can recover from what it meets there. When this fails, inspect need not read the pages.
func TestDefect_OpenOfADamagedFile_EndsTheProcess(t *testing.T) {
	if path := os.Getenv("RAVENBOT_TEST_DEFECT"); path != "" {
		b, err := openFile(path, false)
		t.Log("it was opened, or not:", b != nil, err)
		return
	}
	db := opened(t)
	saveTurns(t, db, general, 0, 300, time.Now())
	kill(t, db)
	removeLogs(db.path)
	b := bytesOf(t, db.path)
	for at := 2 * 4096; at+4096 <= len(b); at += 4096 {
		if p := page(b[at:]); p.kind() == branchPage && p.id() == uint64(at/4096) {
			binary.NativeEndian.PutUint64(b[at+pageHeader+8:], p.id()-1) // another page than its own
			clear(b[at-4096 : at])
		}
	}
	if err := os.WriteFile(db.path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "RAVENBOT_TEST_DEFECT="+db.path)
	if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("recursivelyCheckBucket")) {
		t.Errorf("bbolt has opened it (%v): inspect is not needed any more\n%s", err, out)
	}
	var damaged *store.DamagedError
	if _, err := OpenRecords(db.path, time.Now); !errors.As(err, &damaged) {
		t.Errorf("opening it gave %v", err)
	}
}

// The check reads a bounded part of the store in each of its steps, and all of it in the end.
func TestCheckSome_StepsAreSmall(t *testing.T) {
	for what, c := range map[string]struct{ records, size, most int }{
		"many records":  {1200, 10, maxCheckedRecords},
		"large records": {12, 300 << 10, 4},
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
		var after []byte
		steps := 0
		for done := false; !done; steps++ {
			last := after
			if err := db.view(func(tx *tx) (err error) {
				_, _, after, done, err = checkSome(tx, blobsBucket, after)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			first := 0
			if last != nil {
				first = int(binary.BigEndian.Uint64(last)) + 1
			}
			if n := int(binary.BigEndian.Uint64(after)) + 1 - first; n == 0 || n > c.most {
				t.Errorf("%s: a step has read %d", what, n)
			}
		}
		if got := int(binary.BigEndian.Uint64(after)) + 1; got != c.records || steps < 3 {
			t.Errorf("%s: %d steps have read %d records", what, steps, got)
		}
	}
}

// A write-ahead log of an older version is applied as far as it is whole, only to the state of the file that it belongs
// to, and once.
func TestReadLog_TakesWhatIsWhole(t *testing.T) {
	entry := func(generation uint64, number uint32, size int) []byte {
		b := make([]byte, (walHeader+size+walBlock-1)/walBlock*walBlock)
		binary.BigEndian.PutUint64(b[4:], generation)
		binary.BigEndian.PutUint32(b[12:], number)
		binary.BigEndian.PutUint32(b[16:], uint32(size))
		for i := range size {
			b[walHeader+i] = byte(number)
		}
		binary.BigEndian.PutUint32(b, checksum(b[4:walHeader+size]))
		return b
	}
	torn := entry(7, 1, 5000)
	torn[100] ^= 1
	for name, c := range map[string]struct {
		log       []byte
		want      int // bytes
		isDamaged bool
	}{
		"nothing":                 {nil, 0, false},
		"two entries":             {slices.Concat(entry(7, 0, 100), entry(7, 1, 5000)), 5100, false},
		"of another commit":       {entry(8, 0, 100), 0, false},
		"the next is older":       {slices.Concat(entry(7, 0, 100), entry(6, 1, 100)), 100, false},
		"the last one is torn":    {slices.Concat(entry(7, 0, 100), torn), 100, false},
		"one before the last one": {slices.Concat(entry(7, 0, 100), torn, entry(7, 2, 10)), 100, true},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, c.log, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readLog(path, 7)
		if damaged := (*store.DamagedError)(nil); errors.As(err, &damaged) != c.isDamaged || err == nil && len(got) != c.want {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// Each kind of change in a log is made again, and what is no change is an error.
func TestRedo_MakesEachKindOfChange(t *testing.T) {
	change := func(kind byte, parts ...string) []byte {
		b := []byte{kind}
		for _, p := range parts {
			b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
		}
		return b
	}
	db := opened(t)
	nested := turnsBucket + nul + "a"
	element := `{"seq":1}`
	log := slices.Concat(
		change(opCreateNested, turnsBucket, "a", ""), change(opPut, nested, "k", string(seal(nested, []byte("k"), []byte("1")))),
		change(opPut, nested, "gone", "x"), change(opDelete, nested, "gone", ""),
		change(opSequence, nested, string(seqKey(9)), ""), change(opAppend, quotesBucket, "q", element),
		change(opAppend, quotesBucket, "q", element), change(opCreateNested, turnsBucket, "b", ""),
		change(opMoveNested, turnsBucket, "b", trashPrefix+turnsBucket), change(opCreateNested, turnsBucket, "c", ""),
		change(opDeleteNested, turnsBucket, "c", ""))
	if err := db.update(t.Context(), func(tx *tx) (err error) {
		for rest := log; err == nil && len(rest) > 0; {
			rest, err = tx.redo(rest)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.view(func(tx *tx) error {
		turns := tx.top(turnsBucket)
		a := turns.nested("a")
		list, err := unseal(tx.top(quotesBucket).raw([]byte("q")))
		if err != nil || string(list) != "["+element+"]" || turns.nested("b") != nil || turns.nested("c") != nil ||
			a == nil || !a.has([]byte("k")) || a.has([]byte("gone")) || a.bolt.Sequence() != 9 {
			t.Errorf("it holds %q (%v)", dump(t, db), err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"an unknown kind": change(8, turnsBucket, "a", ""),
		"a short number":  change(opSequence, nested, "1", ""),
		"cut off":         change(opPut, nested, "k", "value")[:9],
	} {
		if err := db.update(t.Context(), func(tx *tx) error { _, err := tx.redo(b); return err }); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}

// After a fault in a commit nothing is written any more, and the store can be closed.
func TestCommit_PagesAreDamaged_RefusesWrites(t *testing.T) {
	db := opened(t)
	saveTurns(t, db, general, 0, 700, time.Now())
	if err := os.Truncate(db.path, 4*4096); err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	for n := range 10 {
		turn := uint64(rand.IntN(700))
		if err := db.DeleteTurn(t.Context(), general, turn); !errors.As(err, &damaged) {
			t.Errorf("write %d gave %v", n, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// A write that takes an error of bbolt is told to its writer and to Health, until one succeeds.
func TestUpdate_CommitFails_IsNotedUntilOneSucceeds(t *testing.T) {
	db := opened(t)
	db.observe = func(tx *tx) { _ = tx.bolt.Rollback() }
	commits := db.Commits()
	failed := db.SaveBlob(t.Context(), "key", []byte(`1`))
	if health := db.Health(); health == nil || !errors.Is(failed, health) || db.Commits() != commits {
		t.Errorf("the write gave %v, and the health of the store is %v", failed, health)
	}
	db.observe = nil
	if err := db.SaveBlob(t.Context(), "key", []byte(`2`)); err != nil || db.Health() != nil {
		t.Errorf("the next write gave %v, and the health of the store is %v", err, db.Health())
	}
	checkWhole(t, db)
}
