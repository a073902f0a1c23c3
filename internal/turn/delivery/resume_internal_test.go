package delivery

import (
	"fmt"
	"testing"
	"time"

	"ravenbot/internal/store"
)

// A replica that inherits work for months must not keep the keys of all of it in memory.
func TestResume_LaterWork_ForgetsWhatWasResumedLongAgo(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	s := New(Options{Now: func() time.Time { return now }})
	for n := range 5 {
		s.resume([]store.Post{{Key: fmt.Sprint("post ", n), Error: "refused"}}, nil)
		now = now.Add(40 * time.Minute)
	}
	if len(s.resumed) != 2 {
		t.Errorf("%d keys are known, want those of the last hour, 2: %v", len(s.resumed), s.resumed)
	}
}
