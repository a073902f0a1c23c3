package postgres

import (
	"testing"
	"time"
)

// A member inherits from those whose time is over when its own renewals have been in time for a while: a database
// that was away has ended the time of all.
func TestIsSteady(t *testing.T) {
	joined := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name     string
		renewals []time.Duration // after joined
		at       time.Duration
		want     bool
	}{
		{"has just joined", nil, time.Second, false},
		{"joined a while ago", []time.Duration{2 * time.Second, 4 * time.Second}, 5 * time.Second, true},
		{"is just in time", []time.Duration{2 * time.Second, 6 * time.Second}, 10 * time.Second, true},
		{"misses renewals", []time.Duration{2 * time.Second, 4 * time.Second}, 9 * time.Second, false},
		{"is back", []time.Duration{2 * time.Second, 4 * time.Second, 16 * time.Second}, 17 * time.Second, false},
		{"is back for a while", []time.Duration{2 * time.Second, 16 * time.Second, 19 * time.Second},
			21 * time.Second, true},
	} {
		m := Membership{renewed: joined, steady: joined}
		for _, after := range c.renewals {
			m.noteRenewed(joined.Add(after))
		}
		if got := m.isSteady(joined.Add(c.at)); got != c.want {
			t.Errorf("who %s is steady: %v, want %v", c.name, got, c.want)
		}
	}
	if alone := (&Membership{alone: true, renewed: joined, steady: joined}); !alone.isSteady(joined) {
		t.Error("who is alone waits for others")
	}
}

func TestIsShared_OfAMemberAlone(t *testing.T) {
	if (&DB{}).IsShared() || !(&DB{members: &Membership{}}).IsShared() {
		t.Error("a member is not shared, or another process is")
	}
}

func TestOwned_ByTheTimeSinceTheLastRenewal(t *testing.T) {
	joined := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	m := Membership{id: 1, renewed: joined}
	for after, want := range map[time.Duration]bool{0: true, 7 * time.Second: true, 8 * time.Second: false} {
		if err := m.owned(joined.Add(after)); (err == nil) != want {
			t.Errorf("after %v: %v, want that it may send: %v", after, err, want)
		}
	}
}
