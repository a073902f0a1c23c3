package postgres

import (
	"testing"
	"time"
)

// The time of the server is known between the looks at it, also where the clock of this machine is set then: jobs must
// not begin because of it. What one look finds otherwise than the one before by its own doubt changes nothing.
func TestClock(t *testing.T) {
	start := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	// at is an instant some time after the start, at which the clock is off by another.
	at := func(after, off time.Duration) instant {
		return instant{wall: start.Add(after + off), timer: start.Add(after)}
	}
	var c clock
	// look has the server's clock, which is right, looked at for some time.
	look := func(after, off, took time.Duration) {
		c.note(at(after, off), start.Add(after+took/2), at(after+took, off))
	}
	check := func(after, off, want time.Duration) {
		t.Helper()
		if got := c.behindAt(at(after, off)); (got - want).Abs() > time.Millisecond {
			t.Errorf("after %v the clock, off by %v, is %v behind, want %v", after, off, got, want)
		}
	}
	check(0, 0, 0)
	look(0, 0, time.Millisecond)
	check(5*time.Second, 0, 0)
	check(6*time.Second, 2*time.Hour, -2*time.Hour) // it was set
	check(7*time.Second, -2*time.Hour, 2*time.Hour)
	check(8*time.Second, 5*time.Second, 0) // as a time server does
	look(10*time.Second, 2*time.Hour, time.Millisecond)
	check(15*time.Second, 2*time.Hour, -2*time.Hour)
	check(16*time.Second, 0, 0) // it was set right
	c.note(at(20*time.Second, 2*time.Hour), start.Add(20*time.Second), at(22*time.Second, 2*time.Hour))
	check(25*time.Second, 2*time.Hour, -2*time.Hour) // and not a second less
	look(30*time.Second, 2*time.Hour+time.Minute, time.Millisecond)
	check(31*time.Second, 2*time.Hour+time.Minute, -2*time.Hour-time.Minute)
	look(40*time.Second, 15*time.Second, 20*time.Second) // which may as well be right
	check(61*time.Second, 15*time.Second, 0)
	look(70*time.Second, -15*time.Second, time.Millisecond)
	check(71*time.Second, -15*time.Second, 15*time.Second)
}
