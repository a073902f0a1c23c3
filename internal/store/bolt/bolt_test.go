package bolt_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
	"ravenbot/internal/store/kv"
	"ravenbot/internal/testing/kvtest"
)

func open(t *testing.T, path string) *bolt.TestStore {
	t.Helper()
	db, err := bolt.OpenRecords(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestSuite(t *testing.T) {
	kvtest.Run(t, func(t *testing.T) kv.DB {
		db, err := bolt.Open(filepath.Join(t.TempDir(), "raven.db"), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	})
}

// TestSecondProcessIsTurnedAway opens the store from a process of its own.
func TestSecondProcessIsTurnedAway(t *testing.T) {
	if path := os.Getenv("RAVENBOT_TEST_OPEN"); path != "" {
		_, err := bolt.OpenRecords(path, time.Now)
		var inUse *store.InUseError
		if !errors.As(err, &inUse) || inUse.Path != path {
			t.Errorf("opening a store in use gave %v, want an InUseError naming %s", err, path)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "raven.db")
	open(t, path)
	cmd := exec.Command(os.Args[0], "-test.run=^TestSecondProcessIsTurnedAway$")
	cmd.Env = append(os.Environ(), "RAVENBOT_TEST_OPEN="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestDamageIsReportedAndTheFileLeftAlone(t *testing.T) {
	cases := []struct {
		name        string
		damage      func(path string) error
		mayBeCopied bool // some of it may be left, so that salvage is named
	}{
		{"missing", os.Remove, false},
		{"empty", func(p string) error { return os.Truncate(p, 0) }, false},
		{"truncated", func(p string) error { return os.Truncate(p, 20<<10) }, true},
		{"cut to one page", func(p string) error { return os.Truncate(p, 4096) }, true},
		{"both headers zeroed", func(p string) error { return overwrite(p, 0, make([]byte, 8<<10)) }, false},
		{"zeroed pages", func(p string) error { return overwrite(p, 16<<10, make([]byte, 160<<10)) }, true},
		{"not a store", func(p string) error {
			return os.WriteFile(p, []byte("hello, this is no database at all"), 0o600)
		}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "raven.db")
			fill(t, path)
			if err := errors.Join(bolt.ForgetClosed(path), c.damage(path)); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			db, err := bolt.OpenRecords(path, time.Now)
			var damaged *store.DamagedError
			if !errors.As(err, &damaged) {
				if err == nil {
					db.Close()
				}
				t.Fatalf("opening gave %v, want a DamagedError", err)
			}
			if strings.Contains(damaged.Remedy, "salvage") != c.mayBeCopied {
				t.Errorf("the remedy is %q", damaged.Remedy)
			}
			if after, _ := os.ReadFile(path); string(before) != string(after) {
				t.Error("the damaged file was changed")
			}
		})
	}
}

// A first start may be killed between the making of the file and its first write.
func TestAFirstStartCutShortIsTakenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raven.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.OpenRecords(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func fill(t *testing.T, path string) {
	t.Helper()
	db, err := bolt.OpenRecords(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		e := store.Entry{ID: fmt.Sprint(i), Room: "general", Text: "needle in the room " + string(make([]byte, 600))}
		if _, err := db.SaveEntry(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func overwrite(path string, at int64, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(b, at); err != nil {
		return err
	}
	return f.Close()
}

// flipValue changes one letter in every copy of a stored text.
func flipValue(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for i := 0; i+6 < len(b); i++ {
		if string(b[i:i+6]) == "needle" {
			b[i] = 'N'
		}
	}
	return os.WriteFile(path, b, 0o600)
}

func TestAStoreWhoseMakingWasCutShortIsMadeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raven.db")
	fill(t, path)
	if err := os.Remove(path + ".initialized"); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestWritersShareACommitAndAFailureHarmsNobodyElse(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "raven.db"))
	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	for i := range 200 {
		wg.Go(func() {
			m := chat.Message{ID: fmt.Sprint(i % 50), Conversation: chat.Address{Platform: "web", Channel: "general"}}
			isNew, err := db.Accept(t.Context(), store.Received{Message: m})
			if err != nil {
				t.Error(err)
			}
			if err := db.DeleteConversation(t.Context(),
				chat.Address{Platform: "web", Channel: "nowhere"}); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("deleting what is not there gave %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if isNew {
				fresh++
			}
		})
	}
	wg.Wait()
	if fresh != 50 {
		t.Errorf("%d messages counted as new, want 50", fresh)
	}
}

func BenchmarkAccept(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			db, err := bolt.OpenRecords(filepath.Join(b.TempDir(), "raven.db"), time.Now)
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := w; i < b.N; i += writers {
						m := chat.Message{ID: fmt.Sprint(i), Conversation: chat.Address{Platform: "web", Channel: "general"}}
						if _, err := db.Accept(b.Context(), store.Received{Message: m}); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
