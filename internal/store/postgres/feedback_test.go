package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/postgres/pgtest"
)

// Each look at /metrics asks for the counts: what has not changed is not read again.
func TestFeedbackCounts_NothingChanged_ReadsNoRecords(t *testing.T) {
	url := pgtest.Start(t)
	db, other := open(t, url, time.Now), open(t, url, time.Now)
	const records = 1000
	for i := range records {
		f := store.Feedback{Turn: fmt.Sprint("turn ", i), User: "U1", Good: i < 700, At: changeTime}
		if err := db.SaveFeedback(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	count := func(db *postgres.DB, want int) {
		t.Helper()
		good, bad, err := db.FeedbackCounts(t.Context())
		if err != nil || good != want || good+bad != records {
			t.Fatalf("counted %d and %d, %v, want %d of %d", good, bad, err, want, records)
		}
	}
	count(db, 700)
	count(other, 700)
	if n := testing.AllocsPerRun(5, func() { count(db, 700) }); n > records/2 {
		t.Errorf("counting again allocates %v times, want less than once for every second record", n)
	}
	// What another process changes counts here, too.
	f := store.Feedback{Turn: "turn 0", User: "U1", At: changeTime}
	if err := other.SaveFeedback(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	count(db, 699)
	count(other, 699)
}
