package bolt_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

var (
	powerRoom = chat.Address{Platform: "web", Channel: "general"}
	powerTime = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

// sectorSize is what disks write as a whole.
const sectorSize = 512

// TestPowerCuts opens what a power cut can leave of each step. Of what was written to the file since the checkpoint from
// which the logs go on, any sectors may be on the disk; the logs are synced before a change is acknowledged. The store must
// open and hold all that was acknowledged, and nothing that was not begun.
func TestPowerCuts(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	db, err := bolt.OpenRecords(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	bolt.SetMaxLog(db, 200<<10)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	checkpoints := map[uint64][]byte{} // the file as it was when a log began, by the id of the log
	changeStore(t, db, 0, random)
	before, held := readLogs(t, path), contents(t, db)
	checkpoints[before.ids[0]] = readFile(t, path)
	states, switches := 0, 0
	for n := 1; n < 80; n++ {
		changeStore(t, db, n, random)
		holds := contents(t, db)
		after, file := readLogsAndFile(t, path)
		for _, id := range after.ids {
			if checkpoints[id] == nil {
				checkpoints[id] = file
				switches++
			}
		}
		for what, c := range map[string]struct {
			logs logFiles
			want [][]string
		}{
			"acknowledged":           {after, [][]string{holds}},
			"not in the log yet":     {before, [][]string{held}},
			"partly in the log":      {after.cut(random), [][]string{held, holds}},
			"killed while replaying": {after, [][]string{holds}},
		} {
			states++
			cut := filepath.Join(dir, fmt.Sprintf("cut%d.db", states))
			image := mixSectors(checkpoints[c.logs.ids[0]], file, random)
			c.logs.write(t, cut, image)
			if what == "killed while replaying" {
				if err := bolt.ReplayLogs(cut); err != nil {
					t.Fatal(err)
				}
				c.logs.write(t, cut, readFile(t, cut))
			}
			got := reopened(t, cut)
			if !slices.ContainsFunc(c.want, func(want []string) bool { return cmp.Equal(want, got) }) {
				t.Errorf("a power cut in step %d, %s, left:\n%s", n, what, cmp.Diff(c.want[0], got))
			}
			if err := os.Remove(cut); err != nil {
				t.Fatal(err)
			}
		}
		before, held = after, holds
	}
	if switches < 3 {
		t.Errorf("there were %d checkpoints, want some", switches)
	}
}

// logFiles are the logs of a store as they are on the disk.
type logFiles struct {
	files map[string][]byte // by the end of their names
	ids   []uint64          // of those that count, in order
}

// readLogsAndFile returns the logs and the file as they were at one time: a checkpoint in the background that begins
// another log between the two reads would make a state that no power cut leaves.
func readLogsAndFile(t *testing.T, path string) (logFiles, []byte) {
	for {
		logs, file := readLogs(t, path), readFile(t, path)
		if slices.Equal(readLogs(t, path).ids, logs.ids) {
			return logs, file
		}
	}
}

func readLogs(t *testing.T, path string) logFiles {
	t.Helper()
	l := logFiles{files: map[string][]byte{}}
	for _, end := range []string{".log-0", ".log-1"} {
		l.files[end] = readFile(t, path+end)
	}
	// The checkpoint may have been completed since: what counts is what was read.
	copied := filepath.Join(t.TempDir(), "logs")
	for end, b := range l.files {
		if err := os.WriteFile(copied+end, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if l.ids, err = bolt.LogIDs(copied); err != nil || len(l.ids) == 0 {
		t.Fatal(l.ids, err)
	}
	return l
}

// cut returns the logs without some bytes at the end of the one that was written last.
func (l logFiles) cut(random *rand.Rand) logFiles {
	files := map[string][]byte{}
	for end, b := range l.files {
		last := len(bytes.TrimRight(b, "\x00"))
		files[end] = bytes.Clone(b)
		if id := l.ids[len(l.ids)-1]; len(b) >= 12 && binary.BigEndian.Uint64(b[4:]) == id && last > 4096 {
			clear(files[end][last-random.IntN(min(last, 600)):])
		}
	}
	return logFiles{files, l.ids}
}

// write writes a file with its logs.
func (l logFiles) write(t *testing.T, path string, file []byte) {
	t.Helper()
	err := os.WriteFile(path, file, 0o600)
	for end, b := range l.files {
		err = errors.Join(err, os.WriteFile(path+end, b, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// mixSectors returns a file of which each sector is as it was or as it is.
func mixSectors(was, is []byte, random *rand.Rand) []byte {
	image := append(bytes.Clone(was), make([]byte, max(0, len(is)-len(was)))...)
	for at := 0; at < len(is); at += sectorSize {
		if random.IntN(2) == 0 {
			copy(image[at:at+sectorSize], is[at:at+sectorSize])
		}
	}
	return image
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// changeStore makes one transaction, some of them with pages that overflow and with pages that become free.
func changeStore(t *testing.T, db *bolt.TestStore, n int, random *rand.Rand) {
	t.Helper()
	ctx, id := t.Context(), fmt.Sprint(n/4)
	m := chat.Message{ID: id, Conversation: powerRoom, Text: strings.Repeat("word ", random.IntN(3000)), Time: powerTime}
	var err error
	switch n % 4 {
	case 0:
		_, err = db.Accept(ctx, store.Received{Message: m, At: powerTime})
	case 1:
		text := strings.Repeat("answer ", random.IntN(3000))
		turn := &conversation.Turn{ID: m.Key(), State: conversation.Answered, Began: powerTime,
			Messages: []llm.Message{{Role: llm.Assistant, Parts: []llm.Part{{Text: text}}}}}
		err = db.SaveAnswer(ctx, powerRoom, []string{m.Key()}, turn,
			[]store.Post{{Key: m.Key(), To: powerRoom, Message: m.Key(), At: powerTime}})
	case 2:
		err = db.SaveOutcomes(ctx, []store.Outcome{{Key: m.Key(), Ref: chat.Ref{IDs: []string{id}}, At: powerTime}}, 0)
	default:
		size := 2000
		if n%8 == 3 {
			size = 400_000
		}
		item, _ := json.Marshal(strings.Repeat("item ", random.IntN(size)))
		err = db.SaveItem(ctx, "test", fmt.Sprint(n%3), item, true)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// contents returns what the store holds of all that changeStore writes.
func contents(t *testing.T, db *bolt.TestStore) []string {
	t.Helper()
	ctx := t.Context()
	waiting, err1 := db.Unanswered(ctx)
	posts, err2 := db.PendingPosts(ctx)
	turns, err3 := db.Turns(ctx, powerRoom, store.Range{Newest: 100})
	items, err4 := db.Items(ctx, "test")
	var list []string
	for _, v := range []any{waiting, posts, turns, items, err1, err2, err3, err4} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(b))
	}
	return list
}

// reopened opens a store, reads it, and writes to it.
func reopened(t *testing.T, path string) []string {
	t.Helper()
	db, err := bolt.OpenRecords(path, time.Now)
	if err != nil {
		t.Errorf("the store does not open: %v", err)
		return nil
	}
	defer db.Close()
	got := contents(t, db)
	if err := db.SaveItem(t.Context(), "later", "1", json.RawMessage(`1`), true); err != nil {
		t.Errorf("the store cannot be written: %v", err)
	}
	return got
}
