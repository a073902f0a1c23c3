package replica

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A replica that cannot be reached is named once a minute, and one that was killed a moment ago is not.
func TestReach_ReplicaIsNotReached_NamesItAfterATakeover(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	r := newReach(slog.New(slog.NewTextHandler(&out, nil)), func() time.Time { return now })
	for range 90 {
		r.note("10.0.0.5:8080", errors.New("i/o timeout"))
		if now = now.Add(time.Second); out.Len() > 0 && now.Second() < 20 && now.Minute() == 0 {
			t.Fatalf("logged after %d s: %s", now.Second(), out.String())
		}
	}
	if n := strings.Count(out.String(), "cannot be reached"); n != 2 || !strings.Contains(out.String(), "10.0.0.5:8080") {
		t.Errorf("logged %d times in 90 s: %s", n, out.String())
	}
	out.Reset()
	r.note("10.0.0.5:8080", nil)
	if !strings.Contains(out.String(), "reached again") {
		t.Errorf("reached again: %q", out.String())
	}
	out.Reset()
	r.note("10.0.0.5:8080", nil)
	r.note("10.0.0.5:8080", errors.New("refused"))
	now = now.Add(time.Hour)
	r.note("10.0.0.5:8080", errors.New("refused")) // another replica's by now
	if out.Len() > 0 {
		t.Errorf("two failures in an hour are logged: %s", out.String())
	}
}
