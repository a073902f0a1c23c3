package bolt_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// Each look at /metrics asks for the counts: what has not changed is not read again.
func TestFeedbackCounts_NothingChanged_ReadsNoRecords(t *testing.T) {
	db, err := bolt.OpenRecords(filepath.Join(t.TempDir(), "store.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	const records = 1000
	for i := range records {
		f := store.Feedback{Turn: fmt.Sprint("turn ", i), User: "U1", Good: i < 700, At: day}
		if err := db.SaveFeedback(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	count := func(db *bolt.TestStore, want int) {
		t.Helper()
		good, bad, err := db.FeedbackCounts(t.Context())
		if err != nil || good != want || good+bad != records {
			t.Fatalf("counted %d and %d, %v, want %d of %d", good, bad, err, want, records)
		}
	}
	count(db, 700)
	if n := testing.AllocsPerRun(5, func() { count(db, 700) }); n > 2*records {
		t.Errorf("counting again allocates %v times, want at most twice for each record", n)
	}
}
