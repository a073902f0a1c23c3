package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// What is wrong with a store is said in words that name no path, the most urgent first.
func TestProblem_NamesNoPath(t *testing.T) {
	full := &store.SystemError{What: "the disk is full"}
	for want, set := range map[string]func(h *health){
		"": func(*health) {},
		"the store cannot be written: the disk is full":              func(h *health) { h.writing = full },
		"the store cannot be written":                                func(h *health) { h.writing = errors.New("write /secret: odd") },
		"the store is damaged":                                       func(h *health) { h.damage = []string{"a record is wrong"} },
		"the file of the store was removed, replaced or overwritten": func(h *health) { h.file, h.writing = errNoFile, full },
		"the store cannot be written: it is read-only": func(h *health) {
			h.refuse = &store.SystemError{What: "it is read-only"}
		},
	} {
		db := opened(t)
		db.health.mu.Lock()
		set(&db.health)
		db.health.mu.Unlock()
		if got := db.Problem(); got != want || (db.Health() == nil) != (want == "") {
			t.Errorf("it says %q, want %q", got, want)
		}
		if damage := db.Damage(); (len(damage) == 1) != (want == "the store is damaged") {
			t.Errorf("%q: the damage is %q", want, damage)
		}
	}
}

// A record says whether it can be trusted before anything is read from it.
func TestVerify_RefusesWhatCannotBeTrusted(t *testing.T) {
	key := []byte("key")
	good, older := seal("bucket", key, []byte("words")), []byte{1, 0, 0, 0, 0, 'w'}
	binary.BigEndian.PutUint32(older[1:], checksum([]byte("w")))
	newer, flipped := bytes.Clone(good), bytes.Clone(good)
	newer[0]++
	flipped[len(flipped)-1] ^= 1
	for name, c := range map[string]struct {
		record []byte
		want   string // in the error
	}{
		"good":                  {good, ""},
		"empty body":            {seal("bucket", key), ""},
		"of before format 5":    {older, ""},
		"under another key":     {seal("bucket", []byte("kez"), []byte("words")), "checksum"},
		"of another bucket":     {seal("bucker", key, []byte("words")), "checksum"},
		"nothing":               {nil, "too short"},
		"shorter than a header": {good[:headerSize-1], "too short"},
		"another format":        {newer, "its format 3 is not known"},
		"another byte":          {flipped, "checksum"},
		"found to be wrong":     {wrongSum, "checksum"},
	} {
		if err := verify("bucket", key, c.record); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if body, err := unseal(good); string(body) != "words" || err != nil {
		t.Errorf("unsealed %q, %v", body, err)
	}
}

// A store that cannot be read ends a check: trying again at once would change nothing.
func TestCheckOpen_StoreIsClosed_Ends(t *testing.T) {
	db := opened(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if faults, err := db.CheckOpen(t.Context()); err == nil || len(faults) > 0 {
		t.Errorf("found %v, %v", faults, err)
	}
}

// What a kill leaves of a copy goes with the next one.
func TestCopy_RemovesWhatAKillLeft(t *testing.T) {
	db, folder := opened(t), t.TempDir()
	copies := NewBackups(db.DB, BackupOptions{Folder: folder, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	for _, name := range []string{"..ravenbot-copy.db-20261123T000000Z-1", ".ravenbot-copy.db-20261123T000000Z"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("cut"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := copies.Copy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// A backup that comes over a connection is checked as a whole before it has its name, and replaces nothing.
func TestReceive_ChecksBeforeItNames(t *testing.T) {
	db, folder := opened(t), t.TempDir()
	if err := db.SaveBlob(t.Context(), "words", []byte(`"hello"`)); err != nil {
		t.Fatal(err)
	}
	copies := NewBackups(db.DB, BackupOptions{Folder: folder, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	f, err := copies.Copy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	whole, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("the copy left %v, %v", left, err)
	}
	path := filepath.Join(folder, "received.db")
	for name, sent := range map[string][]byte{
		"cut":     whole[:len(whole)/2],
		"nothing": nil,
		"spoiled": bytes.Replace(whole, []byte("hello"), []byte("hallo"), 1),
	} {
		if err := Receive(t.Context(), bytes.NewReader(sent), path); err == nil {
			t.Errorf("%s: it was taken", name)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
			t.Errorf("%s: it left %v, %v", name, left, err)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Receive(over, bytes.NewReader(whole), path); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the request: %v", err)
	}
	if err := Receive(t.Context(), bytes.NewReader(whole), path); err != nil {
		t.Fatal(err)
	}
	if err := Receive(t.Context(), bytes.NewReader(whole), path); err == nil {
		t.Error("a second backup took the place of the first")
	}
	there, err := OpenRecords(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if raw, err := there.LoadBlob(t.Context(), "words"); string(raw) != `"hello"` || err != nil {
		t.Errorf("the backup has %s, %v", raw, err)
	}
}

// The places that something was read in last come first.
func TestLastSeen_NewestFirst(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	now := noon
	db, err := OpenRecords(filepath.Join(t.TempDir(), "raven.db"), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for n, minutes := range []int{2, 5, 1, 4} {
		now = noon.Add(time.Duration(minutes) * time.Minute)
		m := chat.Message{ID: fmt.Sprint(n), Conversation: room(n), Reach: chat.Addressed, Time: now}
		if _, err := db.Accept(t.Context(), store.Received{Message: m, At: now}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := db.LastSeen(t.Context(), "web", noon.Add(2*time.Minute))
	if err != nil || len(got) != 3 || got[0].Conversation != room(1) || got[2].Conversation != room(0) {
		t.Errorf("listed %+v, %v", got, err)
	}
}

// Listing begins behind the newest call where before is larger than any.
func TestToolCalls_BeforeANumberThatIsNotReached(t *testing.T) {
	db := opened(t)
	calls := []store.ToolCall{{ID: "1", Tool: "look"}, {ID: "2", Tool: "pay"}, {ID: "3", Tool: "look"}}
	err := db.SaveCalls(t.Context(), calls)
	if err != nil {
		t.Fatal(err)
	}
	isLook := func(c store.ToolCall) bool { return c.Tool == "look" }
	for name, c := range map[string]struct {
		before uint64
		n      int
		match  func(store.ToolCall) bool
		want   string
	}{
		"all":            {0, 9, nil, "321"},
		"far beyond":     {99, 9, nil, "321"},
		"right behind":   {4, 9, nil, "321"},
		"in the middle":  {3, 9, nil, "21"},
		"the first":      {1, 9, nil, ""},
		"few":            {0, 1, nil, "3"},
		"those that fit": {99, 9, isLook, "31"},
	} {
		list, err := db.ToolCalls(t.Context(), c.before, c.n, c.match)
		got := ""
		for _, one := range list {
			got += one.ID
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}

// A file that is written beside an open store is synced after each maxUnsynced bytes, and not before.
func TestSteadyWriter_SyncsAfterSomeBytes(t *testing.T) {
	f := openForTest(t, os.DevNull, os.O_WRONLY) // which takes every byte, and cannot be synced
	for range 2 {
		w := &steadyWriter{ctx: t.Context(), f: f}
		for _, c := range []struct {
			bytes int
			syncs bool
		}{{maxUnsynced - 1, false}, {1, true}, {maxUnsynced - 1, false}, {maxUnsynced, true}} {
			n, err := w.Write(make([]byte, c.bytes))
			if n != c.bytes || errors.Is(err, syscall.EINVAL) != c.syncs {
				t.Errorf("%d bytes: wrote %d, %v, want that it syncs: %v", c.bytes, n, err, c.syncs)
			}
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := (&steadyWriter{ctx: ended, f: f}).Write([]byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
}

// A file with a damaged header is not replaced where it cannot be kept.
func TestCompact_DamagedFileCannotBeKept_IsLeftAsItIs(t *testing.T) {
	db, now := opened(t), time.Now()
	saveBlob(t, db, "blob", 10)
	kill(t, db)
	removeLogs(db.path) // which would mend the header
	damaged := bytesOf(t, db.path)
	damaged[pageHeader+40] ^= 1
	if err := os.WriteFile(db.path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	base := db.path + ".before-compact-" + now.UTC().Format(fileTimeFormat)
	for i := range 100 {
		name := base
		if i > 0 {
			name = fmt.Sprint(base, "-", i)
		}
		if err := os.WriteFile(name, []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := Compact(t.Context(), db.path, now); !errors.Is(err, os.ErrExist) {
		t.Errorf("it returned %v", err)
	}
	if !bytes.Equal(bytesOf(t, db.path), damaged) {
		t.Error("the file was changed")
	}
}

func openForTest(t *testing.T, path string, flag int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
