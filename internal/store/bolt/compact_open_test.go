package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/storetest"
)

var errStop = errors.New("the test ends it here")

// dump returns every record of an open store and the sequences of its buckets, but the tallies.
func dump(t *testing.T, db *DB) []string {
	t.Helper()
	var list []string
	var visit func(name string, b *bbolt.Bucket) error
	visit = func(name string, b *bbolt.Bucket) error {
		list = append(list, fmt.Sprintf("%q counts on from %d", name, b.Sequence()))
		return b.ForEach(func(k, v []byte) error {
			if v == nil {
				return visit(name+nul+string(k), b.Bucket(k))
			}
			if name == formatBucket && string(k) == string(generationKey) {
				return nil // each commit has another one
			}
			list = append(list, fmt.Sprintf("%q %q %q", name, k, v))
			return nil
		})
	}
	if err := db.directView(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			if string(name) == talliesBucket {
				return nil
			}
			return visit(string(name), b)
		})
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// fillWithSpace fills a store with records of all kinds, and leaves free pages between them.
func fillWithSpace(t *testing.T, db *DB) {
	t.Helper()
	for i, name := range []string{"general", "keep", "gone"} {
		a := chat.Address{Platform: "web", Channel: name}
		storetest.SayEverywhere(t, db, a, "first"+name, "words of "+name, db.now())
		saveTurns(t, db, a, 10_000*(i+1), 10_000*(i+1)+400, db.now())
	}
	if err := db.DeleteConversation(t.Context(), chat.Address{Platform: "web", Channel: "gone"}); err != nil {
		t.Fatal(err)
	}
}

// changeEverything writes, replaces, moves and deletes records of all kinds.
func changeEverything(t *testing.T, db *DB, n int) {
	t.Helper()
	ctx := t.Context()
	a := chat.Address{Platform: "web", Channel: fmt.Sprint("new", n)}
	storetest.SayEverywhere(t, db, a, fmt.Sprint("at", n), fmt.Sprint("words ", n), db.now())
	storetest.SayEverywhere(t, db, general, fmt.Sprint("again", n), fmt.Sprint("words ", n), db.now())
	saveTurns(t, db, a, 100_000+1000*n, 100_000+1000*n+250, db.now())
	if n%2 == 1 {
		if err := db.DeleteConversation(ctx, chat.Address{Platform: "web", Channel: fmt.Sprint("new", n-1)}); err != nil {
			t.Fatal(err)
		}
		if err := db.DeleteConversation(ctx, general); err != nil {
			t.Fatal(err)
		}
		saveTurns(t, db, general, 200_000+n, 200_001+n, db.now())
	}
	if _, err := db.SaveMessages(ctx, messages(20+n)); err != nil {
		t.Fatal(err)
	}
	if n%3 == 1 { // more than the write-ahead log has room for
		if _, err := db.SaveRoomFile(ctx, "general", chat.File{Name: fmt.Sprint(n), Data: repeatX(walSize + n)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Prune(ctx, storetest.WeekIn("keep")); err != nil {
		t.Fatal(err)
	}
}

// atSteps has fn called at the steps of compactions; the copying counts once.
func atSteps(db *DB, fn func(step string) error) {
	copying := false
	db.reached = func(step string) error {
		if step == stepCopying && copying {
			return nil
		}
		copying = step == stepCopying
		return fn(step)
	}
}

func TestCompactOpen_WhileOthersWrite_KeepsEveryRecord(t *testing.T) {
	now := time.Now()
	db := openAt(t, func() time.Time { return now })
	fillWithSpace(t, db)
	now = now.Add(8 * 24 * time.Hour) // what was said before is over its time in "keep"
	n := 0
	var before []string
	atSteps(db, func(step string) error {
		switch step {
		case stepCopying, stepCopied, stepVerified:
			changeEverything(t, db, n)
			n++
		case stepEqual: // writers wait
			before = dump(t, db)
		}
		return nil
	})
	if _, _, err := db.CompactOpen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, dump(t, db)); diff != "" || n != 3 {
		t.Errorf("after %d rounds of changes the new file differs:\n%s", n, diff)
	}
	db.reached = nil
	changeEverything(t, db, 8)
	want := dump(t, db)
	reopened := reopen(t, db)
	if diff := cmp.Diff(want, dump(t, reopened)); diff != "" {
		t.Errorf("what was written to the new file is not there when it is opened again:\n%s", diff)
	}
	checkWhole(t, reopened)
}

func TestCompactOpen_BesideReadersAndWriters_AnswersBoth(t *testing.T) {
	db := opened(t)
	fillWithSpace(t, db)
	ctx, stop := context.WithCancel(t.Context())
	work := func(fn func(i int) error) <-chan int {
		done := make(chan int, 1)
		go func() {
			i := 0
			for ; ctx.Err() == nil; i++ {
				if err := fn(i); err != nil {
					t.Error(err)
					break
				}
			}
			done <- i
		}()
		return done
	}
	written := work(func(i int) error {
		_, err := db.Accept(t.Context(), store.Received{Message: chat.Message{ID: fmt.Sprint("w", i), Conversation: general}})
		return err
	})
	read := work(func(int) error {
		turns, err := db.Turns(t.Context(), chat.Address{Platform: "web", Channel: "keep"}, store.Range{Newest: 1000})
		if err == nil && len(turns) < 400 {
			err = fmt.Errorf("only %d turns were read", len(turns))
		}
		return err
	})
	// A backup is a reader that may outlast the old file.
	backups := work(func(int) error {
		path := db.path + ".backup"
		return errors.Join(db.Backup(t.Context(), path), os.Remove(path))
	})
	for done, tries := 0, 0; done < 3; tries++ {
		switch _, _, err := db.CompactOpen(t.Context()); {
		case err == nil:
			done++
		case !errors.Is(err, errBehind) || tries == 20: // writers on a busy disk may be faster than the copy
			t.Fatal(err)
		}
	}
	stop()
	n := <-written
	<-read
	<-backups
	waiting, err := db.Unanswered(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, r := range waiting {
		if strings.HasPrefix(r.Message.ID, "w") {
			kept++
		}
	}
	if kept != n {
		t.Errorf("%d of %d messages are there", kept, n)
	}
	checkWhole(t, db)
}

// copyFolder copies the files of a store, which is what a killed process leaves of it.
func copyFolder(t *testing.T, from string) (path string) {
	t.Helper()
	to := t.TempDir()
	files, err := filepath.Glob(from + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(file)), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(to, filepath.Base(from))
}

// TestCompactOpen_KilledAtAnyStep_LeavesTheWholeStore: a kill leaves the files as they are, and a
// power cut may undo the rename, or spoil a copy that has not got the name of the store yet.
func TestCompactOpen_KilledAtAnyStep_LeavesTheWholeStore(t *testing.T) {
	db := opened(t)
	fillWithSpace(t, db)
	type state struct {
		name, path string
		want       []string
	}
	var states []state
	keep := func(name string, change func(path string) error) {
		s := state{name, copyFolder(t, db.path), dump(t, db)}
		if err := change(s.path); err != nil {
			t.Fatal(err)
		}
		states = append(states, s)
	}
	asItIs := func(string) error { return nil }
	before := "" // the folder before the rename
	n := 0
	atSteps(db, func(step string) error {
		if step != stepEqual && step != stepRenamed {
			changeEverything(t, db, n)
			n++
		}
		keep("killed when "+step, asItIs)
		switch step {
		case stepCopying, stepCopied, stepVerified, stepEqual:
			keep("power cut when "+step+", copy cut off", func(path string) error {
				return os.Truncate(compactedPath(path), 5000)
			})
			keep("power cut when "+step+", copy without contents", func(path string) error {
				info, err := os.Stat(compactedPath(path))
				if err != nil {
					return err
				}
				return os.WriteFile(compactedPath(path), make([]byte, info.Size()), 0o600)
			})
			keep("power cut when "+step+", copy lost", func(path string) error { return os.Remove(compactedPath(path)) })
			before = states[len(states)-4].path
		case stepRenamed:
			states = append(states, state{"power cut when renamed, which is lost", copyFolder(t, before), dump(t, db)})
		}
		return nil
	})
	if _, _, err := db.CompactOpen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(states) != 4*4+1+1+1 {
		t.Errorf("%d states", len(states))
	}
	for _, s := range states {
		db, err := Open(s.path, time.Now)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if diff := cmp.Diff(s.want, dump(t, db)); diff != "" {
			t.Errorf("%s:\n%s", s.name, diff)
		}
		if _, err := os.Stat(compactedPath(s.path)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the copy is left (%v)", s.name, err)
		}
		checkWhole(t, db)
	}
}

func TestCompactOpen_FailsAtAnyStep_GoesOnWithTheOldFile(t *testing.T) {
	for _, failing := range []string{stepCopying, stepCopied, stepVerified, stepEqual} {
		t.Run(failing, func(t *testing.T) {
			db := opened(t)
			fillWithSpace(t, db)
			// With more than is copied at once the first failure is in the middle.
			large := store.Feed{URL: "large", Data: slices.Concat([]byte{'"'}, repeatX(2*copiedBytes), []byte{'"'})}
			if err := db.SaveFeeds(t.Context(), large); err != nil {
				t.Fatal(err)
			}
			atSteps(db, func(step string) error {
				if step == failing {
					return errStop
				}
				return nil
			})
			if _, _, err := db.CompactOpen(t.Context()); !errors.Is(err, errStop) {
				t.Errorf("the error is %v", err)
			}
			if _, err := os.Stat(compactedPath(db.path)); !errors.Is(err, os.ErrNotExist) || db.journal != nil {
				t.Errorf("the copy is left (%v), or its journal", err)
			}
			changeEverything(t, db, 0)
			if err := db.Health(); err != nil {
				t.Error(err)
			}
			// And the next one succeeds.
			db.reached = nil
			want := dump(t, db)
			if _, _, err := db.CompactOpen(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, dump(t, db)); diff != "" {
				t.Error(diff)
			}
			checkWhole(t, db)
		})
	}
}

// TestCompactOpen_ByALink_ReplacesTheFileItself: the store may be on another disk than its path.
func TestCompactOpen_ByALink_ReplacesTheFileItself(t *testing.T) {
	dir := t.TempDir()
	path, file := filepath.Join(dir, "raven.db"), filepath.Join(t.TempDir(), "elsewhere.db")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(file, path)); err != nil {
		t.Fatal(err)
	}
	db, err := Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	fillWithSpace(t, db)
	want := dump(t, db)
	if _, _, err := db.CompactOpen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, dump(t, db)); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is replaced: %v (%v)", info, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the rights of the file are %v (%v), want 0640", info.Mode(), err)
	}
	if err := db.checkFile(); err != nil {
		t.Error(err)
	}
	checkWhole(t, db)
}

// TestCompactOpen_OtherFileInItsPlace_LeavesIt: somebody has restored a backup under the running bot.
func TestCompactOpen_OtherFileInItsPlace_LeavesIt(t *testing.T) {
	db := opened(t)
	fillWithSpace(t, db)
	atSteps(db, func(step string) error {
		if step != stepVerified {
			return nil
		}
		return errors.Join(os.Remove(db.path), os.WriteFile(db.path, []byte("a backup"), 0o600))
	})
	if _, _, err := db.CompactOpen(t.Context()); !errors.Is(err, errNoFile) {
		t.Errorf("the error is %v", err)
	}
	if b, err := os.ReadFile(db.path); string(b) != "a backup" {
		t.Errorf("the other file is %.20q (%v)", b, err)
	}
}

// TestCompactOpen_NameNotOnTheDisk_RefusesWrites: a power cut may bring the old file back, which holds
// nothing that is written later.
func TestCompactOpen_NameNotOnTheDisk_RefusesWrites(t *testing.T) {
	db := opened(t)
	fillWithSpace(t, db)
	want := dump(t, db)
	atSteps(db, func(step string) error {
		if step == stepRenamed {
			return errStop
		}
		return nil
	})
	if _, _, err := db.CompactOpen(t.Context()); !errors.Is(err, errStop) {
		t.Errorf("the error is %v", err)
	}
	_, err := db.Accept(t.Context(), store.Received{Message: chat.Message{ID: "1", Conversation: general}})
	if !errors.Is(err, errStop) || !strings.Contains(err.Error(), "restart the bot") {
		t.Errorf("accepting a message gave %v", err)
	}
	if err := db.Health(); !errors.Is(err, errStop) {
		t.Errorf("the health is %v", err)
	}
	db = reopen(t, db)
	if diff := cmp.Diff(want, dump(t, db)); diff != "" {
		t.Error(diff)
	}
	checkWhole(t, db)
}

// TestJournal_WritersDoNotWaitForOlderChanges: what a journal holds already is not copied when more is added to it, which
// happens while writers wait.
func TestJournal_WritersDoNotWaitForOlderChanges(t *testing.T) {
	var j journal
	var want []byte
	most := uint64(0)
	for i := range 200 {
		var changes ops
		changes.add(opPut, itemsBucket, seqKey(uint64(i)), make([]byte, i*1000))
		want = append(want, changes.encoded...)
		before := allocatedBytes()
		j.add(changes)
		most = max(most, allocatedBytes()-before)
	}
	if most > 2*partSize {
		t.Errorf("adding to a journal of %d bytes allocated %d at once", len(want), most)
	}
	parts, n, err := j.take()
	var got []byte
	for _, p := range parts {
		got = append(got, p.encoded...)
	}
	if n != 200 || err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d changes, %d bytes instead of %d, %v", n, len(got), len(want), err)
	}
	if parts, n, err := j.take(); len(parts) != 0 || n != 0 || err != nil {
		t.Errorf("then %d changes in %d parts, %v", n, len(parts), err)
	}
}

// allocatedBytes returns the bytes that were allocated so far.
func allocatedBytes() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestCompactOpen_CopyThatDiffers_IsNotTaken: whatever goes wrong with following what was written.
func TestCompactOpen_CopyThatDiffers_IsNotTaken(t *testing.T) {
	for name, lose := range map[string]func(j *journal){
		"a change is missing":       func(j *journal) { j.parts = nil },
		"more than it could follow": func(j *journal) { j.size = maxJournal },
		"a write failed":            func(j *journal) { j.fail(errUncertain) },
	} {
		t.Run(name, func(t *testing.T) {
			db := opened(t)
			fillWithSpace(t, db)
			atSteps(db, func(step string) error {
				if step == stepCopied {
					saveTurns(t, db, general, 900, 910, time.Now())
					lose(db.journal)
					saveTurns(t, db, general, 910, 920, time.Now())
				}
				return nil
			})
			want := 0
			if _, _, err := db.CompactOpen(t.Context()); err == nil {
				t.Error("the copy was taken")
			}
			turns, err := db.Turns(t.Context(), general, store.Range{Newest: 10_000})
			for _, turn := range turns {
				if len(turn.ID) == 3 && turn.ID >= "900" {
					want++
				}
			}
			if err != nil || want != 20 {
				t.Errorf("%d of 20 turns are there (%v)", want, err)
			}
			checkWhole(t, db)
		})
	}
}

// wasteful returns a store of which much is free.
func wasteful(t *testing.T) *DB {
	t.Helper()
	db := opened(t)
	large := store.Feed{URL: "large", Data: slices.Concat([]byte{'"'}, repeatX(minWasted+minWasted/8), []byte{'"'})}
	for range 2 { // which frees the pages of the first
		if err := db.SaveFeeds(t.Context(), large); err != nil {
			t.Fatal(err)
		}
		flush(t, db)
		large.Data = []byte(`"small"`)
	}
	return db
}

// A store is compacted where that gives much back, and where the disk has room for the copy and for what is written
// meanwhile.
func TestIsWorthCompacting(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		size, free, space int64 // in MB
		want              bool
	}{
		"a quarter is free":          {size: 400, free: 100, space: 1000, want: true},
		"less than a quarter is":     {size: 408, free: 100, space: 1000},
		"little, and half of it":     {size: 120, free: 60, space: 1000},
		"just enough, and all of it": {size: 64, free: 64, space: 1000, want: true},
		"room for one and a half":    {size: 400, free: 100, space: 515, want: true},
		"room for less":              {size: 400, free: 100, space: 514},
	} {
		if got := isWorthCompacting(c.size*mb, c.free*mb, c.space*mb); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// What is wrong with a store must not be copied and then be all that there is.
func TestIsWasteful_DamagedStore_IsNot(t *testing.T) {
	db := wasteful(t)
	if !db.isWasteful() {
		t.Fatal("a store of which much is free is not wasteful")
	}
	db.health.noteDamage(damagedError(db.path, "a record is wrong", restoreRemedy), nil)
	if db.isWasteful() {
		t.Error("it would be compacted")
	}
}

// TestRun_EndedWhileItCompacts_WaitsForTheEnd: whoever runs a store closes it afterwards.
func TestRun_EndedWhileItCompacts_WaitsForTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := wasteful(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := false
		atSteps(db, func(step string) error {
			if step == stepCopied {
				stop()
				time.Sleep(time.Minute)
				ended = true
			}
			return nil
		})
		db.Run(ctx, slog.New(slog.DiscardHandler))
		if !ended {
			t.Error("it did not wait for the compaction")
		}
		checkWhole(t, db)
	})
}

// TestRun_MuchOfTheFileIsFree_GivesItBack after a quiet minute, and does not try again for nothing.
func TestRun_MuchOfTheFileIsFree_GivesItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := wasteful(t)
		before, _, err := db.Size()
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			db.Run(ctx, slog.New(slog.NewTextHandler(&text, nil)))
		}()
		time.Sleep(compactAgain + 3*compactEvery)
		stop()
		<-done
		after, _, err := db.Size()
		if err != nil || after > before/20 {
			t.Errorf("of %d bytes %d are left (%v):\n%s", before, after, err, &text)
		}
		if feed, found, err := db.LoadFeed(t.Context(), "large"); err != nil || !found || string(feed.Data) != `"small"` {
			t.Errorf("the record is %q, %v (%v)", feed.Data, found, err)
		}
		if n := strings.Count(text.String(), "store compacted"); n != 1 {
			t.Errorf("it was compacted %d times:\n%s", n, &text)
		}
		checkWhole(t, db)
	})
}

// runBusy runs what watches over a store to which much is written, in the bubble of a test.
func runBusy(t *testing.T, db *DB) (log *logText, end func()) {
	t.Helper()
	log, endRun := runLogged(t, db)
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(compactEvery / 2):
				db.commits.Add(quietCommits + 1)
			}
		}
	})
	return log, func() { endRun(); close(over); wg.Wait() }
}

// A store that is never quiet is compacted after a day all the same, and not before.
func TestRun_NeverQuiet_IsCompactedAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := wasteful(t)
		log, end := runBusy(t, db)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if strings.Contains(log.String(), "store compacted") {
			t.Error("it was compacted within the day")
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if !strings.Contains(log.String(), "store compacted") {
			t.Error("it was not compacted after the day")
		}
		end()
	})
}

// A minute with few writes is quiet.
func TestRun_FewWritesAMinute_IsCompactedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := wasteful(t)
		log, end := runLogged(t, db)
		time.Sleep(compactEvery / 2)
		db.commits.Add(60)
		time.Sleep(compactEvery)
		synctest.Wait()
		if !strings.Contains(log.String(), "store compacted") {
			t.Error("it was not compacted")
		}
		end()
	})
}

// A compaction that fails is told, and tried again a day later.
func TestRun_CompactionFails_IsTriedAgainADayLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := wasteful(t)
		atSteps(db, func(step string) error {
			if step == stepCopied {
				return errStop
			}
			return nil
		})
		log, end := runLogged(t, db)
		for _, c := range []struct {
			after time.Duration
			want  int
		}{{2 * time.Minute, 1}, {24*time.Hour - 2*time.Minute, 1}, {4 * time.Minute, 2}} {
			time.Sleep(c.after)
			synctest.Wait()
			if n := strings.Count(log.String(), "store not compacted, trying again later"); n != c.want {
				t.Errorf("after %v more %d failures are told, want %d", c.after, n, c.want)
			}
		}
		end()
	})
}

// What happens to the store while it is compacted ends the compaction, and the store is what it was.
func TestCompactOpen_StoreChangesMeanwhile_Fails(t *testing.T) {
	many := func(t *testing.T, db *DB, n int) error {
		return db.update(t.Context(), func(tx *tx) error {
			var err error
			for i := range n {
				err = errors.Join(err, tx.top(blobsBucket).put(seqKey(uint64(i)), 1))
			}
			return err
		})
	}
	for what, c := range map[string]struct {
		step   string
		change func(t *testing.T, db *DB) error
		want   string // in the error; "": it succeeds
	}{
		"it is closed": {stepCopied, func(_ *testing.T, db *DB) error {
			db.closed.Store(true)
			return nil
		}, "closed meanwhile"},
		"writing fails": {stepCopied, func(_ *testing.T, db *DB) error {
			db.journal.fail(errUncertain)
			return nil
		}, errUncertain.Error()},
		"pages are wrong": {stepVerified, func(_ *testing.T, db *DB) error {
			db.health.noteDamage(nil, errStop)
			return nil
		}, errStop.Error()},
		"much is written": {stepCopied, func(t *testing.T, db *DB) error { return many(t, db, 3*maxRedone) }, ""},
		"its file is gone": {stepVerified, func(_ *testing.T, db *DB) error {
			return os.Rename(db.path, db.path+".moved")
		}, "no such file"},
	} {
		t.Run(what, func(t *testing.T) {
			db := opened(t)
			fillWithSpace(t, db)
			var want []string
			atSteps(db, func(step string) error {
				if step != c.step {
					return nil
				}
				err := c.change(t, db)
				want = dump(t, db)
				return err
			})
			_, _, err := db.CompactOpen(t.Context())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("it gave %v, want %q", err, c.want)
			}
			if diff := cmp.Diff(want, dump(t, db)); diff != "" {
				t.Error(diff)
			}
			if _, err := os.Stat(compactedPath(db.path)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the copy is left (%v)", err)
			}
			db.closed.Store(false)
		})
	}
}

// A copy follows what is written until little is left, and gives up where that does not come about.
func TestFollow_EndsWhereLittleIsLeft(t *testing.T) {
	for what, c := range map[string]struct {
		written []int // changes made since the last round, by round; the last number is that of all further ones
		rounds  int
		want    error
	}{
		"nothing is written":   {[]int{0}, 1, nil},
		"as much as may wait":  {[]int{100}, 1, nil},
		"more, and then less":  {[]int{101, 101, 100}, 3, nil},
		"more in every round":  {[]int{101}, 200, errBehind},
		"more than one redone": {[]int{3 * maxRedone, 0}, 2, nil},
	} {
		db, to := opened(t), opened(t)
		flush(t, db) // else what opening has left is committed in one of the rounds, and in the journal as well
		follower := compaction{db: db, ctx: t.Context(), to: to}
		follower.setJournal(&journal{})
		rounds := 0
		// write keeps the changes of a round.
		left := 0
		write := func() {
			left = c.written[min(rounds, len(c.written)-1)]
			rounds++
			var changes ops
			for i := range left {
				changes.add(opPut, itemsBucket, seqKey(uint64(i)), seal([]byte("1")))
			}
			db.journal.add(changes)
		}
		// The first transaction of a round keeps the changes of the next.
		redone := 0
		to.observe = func(t *tx) {
			if redone == 0 {
				redone = left
				write()
			}
			redone -= t.changes.n
		}
		write()
		// The changes that are kept meanwhile are left for the next time.
		if err := follower.follow(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
		if last := c.written[len(c.written)-1]; last > 0 {
			rounds--
		}
		if rounds != c.rounds {
			t.Errorf("%s: %d rounds, want %d", what, rounds, c.rounds)
		}
	}
}

// What is copied in one transaction is bounded in bytes, and for small records in number.
func TestCopyRecord_WritesPartsOfALimitedSize(t *testing.T) {
	for what, c := range map[string]struct {
		size, want int // bytes of a record, and records in a transaction
	}{
		"large records": {400 << 10, 3},
		"small records": {1, 10_485},
	} {
		db, to := opened(t), opened(t)
		part := compaction{db: db, ctx: t.Context(), to: to}
		value := seal(repeatX(c.size))
		for n := range 2*c.want + 1 {
			r := copiedRecord{bucket: blobsBucket, key: seqKey(uint64(n)), value: value}
			if err := part.copyRecord(r); err != nil {
				t.Fatal(err)
			}
			if left := (n + 1) % c.want; len(part.batch) != left {
				t.Fatalf("%s: after %d records %d wait, want %d", what, n+1, len(part.batch), left)
			}
		}
	}
}

// TestCompaction_ChangeCannotBeMadeAgain_IsSaid: the copy is not followed any further.
func TestCompaction_ChangeCannotBeMadeAgain_IsSaid(t *testing.T) {
	c := compaction{db: opened(t), to: opened(t), ctx: t.Context()}
	if err := c.redo([]ops{{encoded: []byte{byte(opPut)}, n: 1}}); !errors.Is(err, errOps) {
		t.Errorf("it gave %v", err)
	}
}

// What cannot be copied is the error of a compaction, wherever it is met.
func TestCompaction_CopyCannotBeWritten_IsAnError(t *testing.T) {
	db := opened(t)
	if err := db.direct(func(tx *bbolt.Tx) error {
		_, err := tx.Bucket([]byte(turnsBucket)).CreateBucket([]byte(general.String()))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	copyTurns := func(c *compaction) error {
		return db.directView(func(tx *bbolt.Tx) error { return c.copyTop(turnsBucket, tx.Bucket([]byte(turnsBucket))) })
	}
	for looks, what := range []string{"the bucket", "what is in it"} {
		c := &compaction{db: db, ctx: EndAfter(t.Context(), looks), to: opened(t), size: copiedBytes}
		if err := copyTurns(c); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// A bucket stands where a record belongs, and a record where a bucket belongs.
	c := &compaction{db: db, ctx: t.Context(), to: opened(t),
		batch: []copiedRecord{{bucket: turnsBucket, key: []byte("record"), value: seal([]byte("{}"))}}}
	if err := c.to.direct(func(tx *bbolt.Tx) error {
		_, err := tx.Bucket([]byte(turnsBucket)).CreateBucket([]byte("record"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.flush(); !errors.Is(err, bolterrors.ErrIncompatibleValue) {
		t.Errorf("a bucket in the place of a record: %v", err)
	}
	to := opened(t)
	if err := to.direct(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(turnsBucket)).Put([]byte(general.String()), seal([]byte("{}")))
	}); err != nil {
		t.Fatal(err)
	}
	c = &compaction{db: db, ctx: t.Context(), to: to, size: copiedBytes}
	if err := copyTurns(c); !errors.Is(err, bolterrors.ErrIncompatibleValue) {
		t.Errorf("a record in the place of a bucket: %v", err)
	}
}

// A bucket that is moved begins a transaction of its own.
func TestFirstOps_BucketIsMoved_ComesFirst(t *testing.T) {
	var first, all ops
	first.add(opPut, blobsBucket, []byte("a"), []byte("1"))
	first.add(opDelete, blobsBucket, []byte("a"), nil)
	all = ops{encoded: bytes.Clone(first.encoded)}
	all.add(opMoveNested, turnsBucket, []byte("room"), []byte(trashName(turnsBucket)))
	all.add(opPut, blobsBucket, []byte("b"), []byte("2"))
	if n, err := firstOps(all.encoded); n != len(first.encoded) || err != nil {
		t.Errorf("%d bytes come first (%v), want the %d before the bucket that is moved", n, err, len(first.encoded))
	}
	rest := all.encoded[len(first.encoded):]
	if n, err := firstOps(rest); n != len(rest) || err != nil {
		t.Errorf("then %d bytes (%v), want %d", n, err, len(rest))
	}
}
