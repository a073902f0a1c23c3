package bolt_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ravenbot/internal/store"
)

// What was read of a large store does not stay in the process's memory.
func TestDB_PagesThatOneReadLooksAt_AreReleased(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "raven.db"))
	text := json.RawMessage(`"` + strings.Repeat("x", 1<<19) + `"`)
	const items = 64
	for n := range items {
		if err := db.SaveItem(t.Context(), "large", fmt.Sprint(n), text, true); err != nil {
			t.Fatal(err)
		}
	}
	before := mappedMiB(t)
	for range 2 { // the first one commits what is in the log
		if all, err := db.Items(t.Context(), "large"); err != nil || len(all) != items || string(all["7"]) != string(text) {
			t.Fatalf("there are %d items: %v", len(all), err)
		}
	}
	if now := mappedMiB(t); now > before+items/2/2 {
		t.Errorf("%d MiB of files were in memory, and %d MiB after %d MiB were read", before, now, items/2)
	}
}

// Nor does it where nothing is written meanwhile, as while thousands of digests are listed.
func TestDB_PagesThatManyReadsLookAt_AreReleased(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "raven.db"))
	text := json.RawMessage(`"` + strings.Repeat("x", 1<<17) + `"`)
	const items = 512
	var list []store.Item
	for n := range items {
		list = append(list, store.Item{Kind: "large", Name: fmt.Sprint(n), Data: text})
	}
	if _, err := db.FinishRun(t.Context(), store.Run{Digest: "d"}, nil, nil, list...); err != nil {
		t.Fatal(err)
	}
	before := mappedMiB(t)
	for n := range items {
		if _, err := db.Item(t.Context(), "large", fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	if now := mappedMiB(t); now > before+items/8/2 {
		t.Errorf("%d MiB of files were in memory, and %d MiB after %d MiB were read", before, now, items/8)
	}
}

// mappedMiB returns how much of mapped files is in the process's memory.
func mappedMiB(t *testing.T) (mib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	// Files in memory, as in /dev/shm, count as shared memory.
	for _, field := range []string{"RssFile:", "RssShmem:"} {
		var kib int
		_, rest, _ := strings.Cut(string(status), field)
		if _, err := fmt.Sscan(rest, &kib); err != nil {
			t.Fatal(err)
		}
		mib += kib >> 10
	}
	return mib
}
