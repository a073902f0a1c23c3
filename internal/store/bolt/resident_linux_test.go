package bolt_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What was read of a large store does not stay in the process's memory.
func TestDB_PagesThatWereRead_AreReleased(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "raven.db"))
	text := json.RawMessage(`"` + strings.Repeat("x", 1<<19) + `"`)
	const items = 64
	for n := range items {
		if err := db.SaveItem(t.Context(), "large", fmt.Sprint(n), text, true); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Items(t.Context(), "large"); err != nil {
		t.Fatal(err)
	}
	read := mappedMiB(t)
	for n := range 32 {
		if err := db.SaveItem(t.Context(), "small", fmt.Sprint(n), json.RawMessage(`{}`), true); err != nil {
			t.Fatal(err)
		}
	}
	if now := mappedMiB(t); now > read-items/4 {
		t.Errorf("%d MiB of files were in memory after %d MiB were read, and %d MiB after 32 changes", read, items/2, now)
	}
	if all, err := db.Items(t.Context(), "large"); err != nil || len(all) != items || string(all["7"]) != string(text) {
		t.Errorf("afterwards there are %d items: %v", len(all), err)
	}
}

// mappedMiB returns how much of mapped files is in the process's memory.
func mappedMiB(t *testing.T) (mib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	if _, err := fmt.Sscan(rest, &mib); err != nil {
		t.Fatal(err)
	}
	return mib >> 10
}
