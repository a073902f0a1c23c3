package bolt_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

var (
	powerRoom = chat.Address{Platform: "web", Channel: "general"}
	powerTime = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

// sectorSize is what disks write as a whole.
const sectorSize = 512

// TestPowerCuts opens what a power cut can leave of each step. A commit of bbolt writes the pages, syncs, writes a header
// and syncs: up to the first sync any sectors of the pages may be on the disk, and the file may have any of its lengths in
// between; up to the second one the header may be there or not. The store must open and hold what it held before the step
// or after it, and what it held after it once the header is there.
func TestPowerCuts(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	db, err := bolt.Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	before, held := readFile(t, path), contents(t, db)
	states := 0
	for n := range 60 {
		commits := db.Commits()
		changeStore(t, db, n, random)
		if got := db.Commits() - commits; got != 1 {
			t.Fatalf("change %d took %d transactions, want 1", n, got)
		}
		after, holds := readFile(t, path), contents(t, db)
		for range 3 {
			states++
			cut := filepath.Join(dir, fmt.Sprintf("cut%d.db", states))
			image, isWhole := cutOff(before, after, random)
			if err := os.WriteFile(cut, image, 0o600); err != nil {
				t.Fatal(err)
			}
			got := reopened(t, cut)
			if diff := cmp.Diff(holds, got); diff != "" && (isWhole || !cmp.Equal(held, got)) {
				t.Errorf("a power cut in step %d, header written: %v, left neither what was before nor:\n%s", n, isWhole, diff)
			}
		}
		before, held = after, holds
	}
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
func changeStore(t *testing.T, db *bolt.DB, n int, random *rand.Rand) {
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
func contents(t *testing.T, db *bolt.DB) []string {
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

// cutOff returns a state that a power cut can leave between two images of a file, and whether the header is in it.
func cutOff(before, after []byte, random *rand.Rand) (image []byte, isWhole bool) {
	const headers = 2 * pageSize
	image = bytes.Clone(before)
	if len(after) > len(image) { // the file has grown, by whole pages
		image = append(image, make([]byte, len(after)-len(image))...)
	}
	phase := random.IntN(3)
	for at := headers; at < len(after); at += sectorSize {
		if phase > 0 || random.IntN(2) == 0 {
			copy(image[at:at+sectorSize], after[at:at+sectorSize])
		}
	}
	switch phase {
	case 0: // before the first sync
		pages := len(before)/pageSize + random.IntN((len(image)-len(before))/pageSize+1)
		return image[:pages*pageSize], false
	case 1: // after it
		return image, false
	}
	copy(image[:headers], after[:headers])
	return image, true
}

// reopened opens a store, reads it, and writes to it.
func reopened(t *testing.T, path string) []string {
	t.Helper()
	db, err := bolt.Open(path, time.Now)
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
